"""`{{Count}}` and friends."""

import re
import time

from jetstream.cli.templates import Template


def test_counters_and_times_are_filled_in() -> None:
    assert Template("US Order #  {{Count}}").render(3) == "US Order #  3"
    assert Template("{{ Cnt }}-{{.Count}}").render(9) == "9-9"
    stamp = Template("{{TimeStamp}}").render(1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", stamp)
    assert re.fullmatch(r"\d{1,2}:\d\d[AP]M", Template("{{Time}}").render(1))
    assert abs(int(Template("{{Unix}}").render(1)) - time.time()) < 5
    assert len(Template("{{UnixNano}}").render(1)) == 19


def test_random_things_keep_to_their_bounds() -> None:
    for _ in range(50):
        assert 3 <= len(Template("{{Random 3 5}}").render(1)) <= 5
        assert int(Template("{{Int 5 7}}").render(1)) in (5, 6, 7)
        assert Template("{{Pick eu us}}").render(1) in ("eu", "us")
    assert Template("{{ID}}").render(1) != Template("{{ID}}").render(1)
    assert '"order":4' in Template("{{JSON}}").render(4)


def test_the_request_is_at_hand_in_answers() -> None:
    assert Template("you said {{Request}}").render(1, b"hi") == "you said hi"


def test_what_is_no_function_stays_as_it_is() -> None:
    template = Template('{{Nope}} {"a": {"b": 1}} {{Count}} {{Random x y}}')
    assert template.render(1) == '{{Nope}} {"a": {"b": 1}} 1 {{Random x y}}'
    assert template.unknown == ["{{Nope}}", "{{Random x y}}"]
    assert Template("plain").is_plain
