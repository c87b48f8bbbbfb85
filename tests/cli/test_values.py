"""Durations, sizes, times, start policies, headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.cli.values import (
    SECOND,
    parse_bytes,
    parse_duration,
    parse_header,
    parse_moment,
    parse_pair,
    parse_start,
    parse_time,
    split_subjects,
)
from jetstream.schema.times import go_duration

DAY = 86_400 * SECOND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-1", -1),
        ("10s", 10 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1d", DAY),
        ("2W", 14 * DAY),
        ("1M", 30 * DAY),
        ("1y", 365 * DAY),
        ("1.5s", 1_500_000_000),
        ("250ms", 250_000_000),
        ("7µs", 7_000),
    ],
)
def test_a_duration_is_a_sum_of_numbers_with_units(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


@given(st.integers(min_value=0, max_value=10**15))
def test_what_go_prints_is_understood(value: int) -> None:
    assert parse_duration(go_duration(value)) == value


@pytest.mark.parametrize("text", ["", "h", "5", "1x", "1h-2m", "one day"])
def test_a_wrong_duration_is_refused_with_the_units(text: str) -> None:
    with pytest.raises(ValueError, match="ns, us, ms"):
        parse_duration(text)


def test_a_wrong_duration_names_the_character() -> None:
    with pytest.raises(ValueError, match="character 3"):
        parse_duration("1hx")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("128", 128),
        ("1k", 1024),
        ("10GB", 10 * 2**30),
        ("10 GiB", 10 * 2**30),
        ("1.5KB", 1536),
        ("2tib", 2 * 2**40),
        ("-5", -1),
        ("-1GB", -1),
    ],
)
def test_sizes_are_powers_of_1024_and_anything_negative_is_unlimited(
    text: str, expected: int
) -> None:
    assert parse_bytes(text) == expected


def test_a_wrong_size_says_what_would_be_right() -> None:
    with pytest.raises(ValueError, match="512MB"):
        parse_bytes("ten")


def test_times_are_rfc3339_or_local() -> None:
    assert parse_time("1970-01-01T00:00:10Z") == 10 * SECOND
    assert parse_time("1970-01-02T00:00:00+02:00") == 22 * 3600 * SECOND
    assert parse_time("2026-01-31 12:00:00") % SECOND == 0
    with pytest.raises(ValueError, match="local time"):
        parse_time("tomorrow")


def test_a_moment_is_a_time_or_a_duration_from_now() -> None:
    assert parse_moment("10s", 5 * SECOND) == 15 * SECOND
    assert parse_moment("1970-01-01T00:00:10Z", 5) == 10 * SECOND


def test_start_policies() -> None:
    now = 100 * SECOND
    assert parse_start("all", now).fields() == {"deliver_policy": "all"}
    assert parse_start("next", now).fields() == {"deliver_policy": "new"}
    assert parse_start("subject", now).policy == "last_per_subject"
    assert parse_start("42", now).fields() == {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": 42,
    }
    assert parse_start("40s", now).fields() == {
        "deliver_policy": "by_start_time",
        "opt_start_time": "1970-01-01T00:01:00Z",
    }
    with pytest.raises(ValueError, match="invalid start"):
        parse_start("someday", now)


def test_headers_and_metadata() -> None:
    assert parse_header("Nats-Msg-Id: a:b ") == ("Nats-Msg-Id", "a:b")
    assert parse_pair("a=b:c") == ("a", "b:c")
    assert parse_pair("jsx.dead_letter.stream:DEAD") == ("jsx.dead_letter.stream", "DEAD")
    for parse in (parse_header, parse_pair):
        with pytest.raises(ValueError, match="use"):
            parse("nothing")


def test_subject_lists_may_be_given_either_way() -> None:
    assert split_subjects(("a.b, c", "d")) == ["a.b", "c", "d"]
    assert split_subjects("foo bar") == ["foo", "bar"]
