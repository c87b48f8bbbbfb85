"""Times and durations as they travel: RFC 3339 text and Go duration text.

Inside, a time is integer unix nanoseconds and 0 means "never"; on the wire "never" is the zero time
of Go, the first instant of year 1. Datetime objects stop at microseconds, so the nanoseconds are
carried beside them as digits.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

ZERO_TIME: Final = "0001-01-01T00:00:00Z"

_SECOND: Final = 1_000_000_000
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?([Zz]|[+-]\d\d:\d\d)"
)
_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DURATION: Final = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+")
_DURATION_PART: Final = re.compile(r"(\d*)\.?(\d*)(ns|us|µs|μs|ms|s|m|h)")


def rfc3339(time_ns: int | None) -> str:
    """Up to nine decimals without trailing zeros, always UTC; 0 and None are the zero time."""
    if not time_ns:
        return ZERO_TIME
    seconds, nanos = divmod(time_ns, _SECOND)
    text = _to_the_second(seconds)
    if nanos:
        return f"{text}.{nanos:09d}".rstrip("0") + "Z"
    return text + "Z"


@lru_cache(maxsize=256)
def _to_the_second(seconds: int) -> str:
    # Messages come in many per second: the calendar is asked once for all of them.
    stamp = datetime.fromtimestamp(seconds, UTC)
    return stamp.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")


def parse_rfc3339(text: str) -> int:
    """Unix nanoseconds, 0 for the zero time; ValueError when it is not RFC 3339."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"not an RFC 3339 time: {text!r}")
    *parts, fraction, zone = found.groups()
    year, month, day, hour, minute, second = map(int, parts)
    stamp = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    nanos = int((fraction or "0")[:9].ljust(9, "0"))
    offset = 0
    if zone not in "Zz":
        offset = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        if zone[0] == "-":
            offset = -offset
    if year == 1 and month == 1 and day == 1 and not (hour or minute or second or nanos or offset):
        return 0
    since_epoch = stamp - datetime(1970, 1, 1, tzinfo=UTC)
    return (since_epoch.days * 86_400 + since_epoch.seconds - offset) * _SECOND + nanos


def go_duration(duration_ns: int) -> str:
    """The text Go prints for a duration: `1m0s`, `1.5s`, `100ms`, `0s`."""
    if duration_ns == 0:
        return "0s"
    sign, left = ("-", -duration_ns) if duration_ns < 0 else ("", duration_ns)
    if left < _SECOND:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if left >= size:
                return f"{sign}{_decimal(left, size)}{unit}"
    minutes, rest = divmod(left, 60 * _SECOND)
    text = f"{_decimal(rest, _SECOND)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
    return sign + text


def parse_go_duration(text: str) -> int:
    """Nanoseconds of `1h30m`, `1.5s`, `-2ms`; ValueError when it is not a duration."""
    if text in ("0", "+0", "-0"):
        return 0
    if not _DURATION.fullmatch(text):
        raise ValueError(f'time: invalid duration "{text}"')
    total = 0
    for whole, fraction, unit in _DURATION_PART.findall(text):
        size = _UNITS[unit]
        total += int(whole or 0) * size
        if fraction:
            total += int(fraction) * size // 10 ** len(fraction)
    if total > 2**63 - 1:
        raise ValueError(f'time: invalid duration "{text}"')
    return -total if text.startswith("-") else total


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    if not rest:
        return str(whole)
    digits = len(str(size)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
