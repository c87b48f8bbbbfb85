"""Times and durations keep every nanosecond and look like Go's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.schema.times import ZERO_TIME, go_duration, parse_go_duration, parse_rfc3339, rfc3339


def test_trailing_zeros_of_the_fraction_are_dropped() -> None:
    assert rfc3339(1_731_705_600_123_000_000) == "2024-11-15T21:20:00.123Z"
    assert rfc3339(1_731_705_600_000_000_000) == "2024-11-15T21:20:00Z"
    assert rfc3339(0) == rfc3339(None) == ZERO_TIME


def test_an_offset_is_folded_into_utc() -> None:
    assert parse_rfc3339("2024-11-15T23:20:00.5+02:00") == 1_731_705_600_500_000_000
    assert parse_rfc3339(ZERO_TIME) == 0


@pytest.mark.parametrize("text", ["", "2024-11-15", "2024-11-15T21:20:00", "2024-13-15T21:20:00Z"])
def test_what_is_not_rfc3339_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rfc3339(text)


@given(st.integers(1, 2**62))
def test_times_survive_the_round_trip(time_ns: int) -> None:
    assert parse_rfc3339(rfc3339(time_ns)) == time_ns


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0s"),
        (60_000_000_000, "1m0s"),
        (1_500_000_000, "1.5s"),
        (100_000_000, "100ms"),
        (1_500, "1.5µs"),
        (7, "7ns"),
        (3_600_000_000_000, "1h0m0s"),
        (-2_000_000_000, "-2s"),
    ],
)
def test_durations_print_as_go_prints_them(duration: int, text: str) -> None:
    assert go_duration(duration) == text
    assert parse_go_duration(text) == duration


@given(st.integers(-(2**62), 2**62))
def test_durations_survive_the_round_trip(duration: int) -> None:
    assert parse_go_duration(go_duration(duration)) == duration


@pytest.mark.parametrize("text", ["", "1", "abc", "1d", "s", "1h-2m"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_go_duration(text)
