"""Schedules fire when due, once if they missed several times, and go on after a restart."""

import pytest

from jetstream.schema.times import parse_rfc3339, rfc3339
from jetstream.stream import cron
from jetstream.stream.stream import Stream

from .builders import NOW, SECOND, a_stream, one, text_of

AT = parse_rfc3339("2026-11-15T21:36:33.185Z")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("@at 2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z"),
        ("@every 1s", "2026-11-15T21:36:34Z"),
        ("@every 1m30s", "2026-11-15T21:38:03Z"),
        ("* * * * * *", "2026-11-15T21:36:34Z"),
        ("0 0 12 * JAN MON", "2027-01-04T12:00:00Z"),
        ("*/5 1-3 1,2 ? * sun-tue", "2026-11-16T01:01:00Z"),
        ("0 0 0 13 * fri", "2026-11-20T00:00:00Z"),
        ("5/10 * * * * *", "2026-11-15T21:36:35Z"),
        ("@daily", "2026-11-16T00:00:00Z"),
        ("@weekly", "2026-11-22T00:00:00Z"),
    ],
)
def test_the_next_time(pattern: str, expected: str) -> None:
    assert rfc3339(cron.parse(pattern).next_after(AT)) == expected


@pytest.mark.parametrize(
    "pattern",
    ["", "@foo", "@at 2030-01-01", "@every 500ms", "* * * * *", "60 0 0 * * *", "0 0 0 31 2 *"],
)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError):
        cron.parse(pattern)


def test_time_zones_and_the_hour_that_does_not_exist() -> None:
    paris = cron.find_zone("Europe/Paris")
    nightly = cron.parse("0 30 2 * * *", paris)
    before = parse_rfc3339("2026-03-27T20:00:00Z")
    first = nightly.next_after(before)
    assert rfc3339(first) == "2026-03-28T01:30:00Z"
    # On the 29th clocks go from 2:00 to 3:00: there is no half past two.
    assert rfc3339(nightly.next_after(first)) == "2026-03-30T00:30:00Z"
    with pytest.raises(ValueError):
        cron.find_zone("Nope/X")
    with pytest.raises(ValueError):
        cron.parse("@every 1s", paris)


def scheduled(**more: str) -> Stream:
    stream = a_stream(allow_msg_schedules=True, allow_msg_ttl=True)
    headers = {"Nats-Schedule": "@every 10s", "Nats-Schedule-Target": "a.t", "X": "y", **more}
    assert one(stream, "a.plan", headers, b"body") == 1
    return stream


def test_a_schedule_publishes_to_its_target() -> None:
    stream = scheduled(**{"Nats-Schedule-TTL": "60"})
    assert stream.next_deadline() == NOW + 10 * SECOND
    stream.expire(NOW + 10 * SECOND)
    made = text_of(stream, 2)
    assert made is not None
    subject, headers, payload = made
    assert (subject, payload) == ("a.t", b"body")
    then = rfc3339(NOW + 20 * SECOND)
    assert headers == (
        "NATS/1.0\r\nX: y\r\nNats-Scheduler: a.plan\r\n"
        f"Nats-Schedule-Next: {then}\r\nNats-TTL: 60\r\n\r\n"
    )


def test_missed_repetitions_fire_once() -> None:
    stream = scheduled()
    stream.expire(NOW + 95 * SECOND)
    assert stream.state().messages == 2
    assert stream.schedules.next_due() == NOW + 105 * SECOND


def test_at_fires_once_and_removes_itself() -> None:
    stream = scheduled(**{"Nats-Schedule": "@at 2020-01-01T00:00:00Z"})
    assert stream.next_deadline() == NOW
    stream.expire(NOW)
    assert list(stream.store.next_seqs(1, 9)) == [2]
    assert stream.schedules.next_due() == 0


def test_one_schedule_per_subject_and_it_can_be_cancelled() -> None:
    stream = scheduled()
    again = {"Nats-Schedule": "@every 20s", "Nats-Schedule-Target": "a.t"}
    one(stream, "a.plan", again)
    assert stream.schedules.next_due() == NOW + 20 * SECOND
    one(stream, "a.c", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "a.plan"})
    assert stream.store.last_for(b"a.plan") == 0
    stream.expire(NOW + 100 * SECOND)
    assert stream.store.last_for(b"a.t") == 0


def test_a_restart_goes_on_where_the_last_one_stopped() -> None:
    stream = scheduled()
    stream.expire(NOW + 10 * SECOND)
    again = Stream(stream.config, stream.store)
    again.recover(NOW + 12 * SECOND)
    assert again.schedules.next_due() == NOW + 20 * SECOND


def test_the_source_of_a_schedule_gives_body_and_headers() -> None:
    stream = scheduled(**{"Nats-Schedule-Source": "a.src"})
    one(stream, "a.src", {"Q": "r", "Nats-Msg-Id": "m"}, b"from there")
    stream.expire(NOW + 10 * SECOND)
    made = text_of(stream, 3)
    assert made is not None
    assert made[2] == b"from there"
    assert made[1].startswith("NATS/1.0\r\nQ: r\r\nNats-Scheduler: a.plan\r\n")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Nats-Schedule": "x", "Nats-Schedule-Target": "a.t"}, 10189),
        ({"Nats-Schedule": "@daily"}, 10190),
        ({"Nats-Schedule": "@daily", "Nats-Schedule-Target": "a.1"}, 10190),
        ({"Nats-Schedule": "@daily", "Nats-Schedule-Target": "b.t"}, 10190),
        ({"Nats-Schedule": "@daily", "Nats-Schedule-Target": "a.t", "Nats-Rollup": "all"}, 10192),
        ({"Nats-Schedule-Next": "purge"}, 10212),
    ],
)
def test_wrong_schedules_are_refused(headers: dict[str, str], code: int) -> None:
    assert one(a_stream(allow_msg_schedules=True), "a.1", headers) == code
    if "Nats-Schedule" in headers:
        assert one(a_stream(), "a.1", headers) == 10188
