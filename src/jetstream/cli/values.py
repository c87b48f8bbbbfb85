"""What people write as values: durations, sizes, times, start policies, headers.

Each kind is a plain function (`ValueError` names what is wrong and what would be right) and, for
click, a parameter type. Inside everything is integers: nanoseconds and bytes.
"""

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from jetstream.schema.times import parse_rfc3339, rfc3339

SECOND = 1_000_000_000
_DAY = 86_400 * SECOND
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": _DAY,
    "D": _DAY,
    "w": 7 * _DAY,
    "W": 7 * _DAY,
    "M": 30 * _DAY,
    "y": 365 * _DAY,
    "Y": 365 * _DAY,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|[smhdDwWMyY])")
_SIZE = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?\s*", re.IGNORECASE)
_POWERS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION_HELP = "use numbers with ns, us, ms, s, m, h, d, w, M or y, for example 1h30m or 7d"
_SIZE_HELP = "use a number of bytes, or one with K, M, G or T, for example 512MB or 10GiB"


def parse_duration(text: str) -> int:
    """Nanoseconds of `1h30m`, `7d`, `0`; `-1` stays -1 and means unlimited.

    >>> parse_duration("1d12h") // SECOND, parse_duration("1.5s"), parse_duration("-1")
    (129600, 1500000000, -1)
    """
    text = text.strip()
    if text in ("0", "-1"):
        return int(text)
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    total = at = 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            where = at + len(text) - len(rest) + 1
            raise ValueError(f"invalid duration {text!r} at character {where}: {_DURATION_HELP}")
        whole, _, fraction = part[1].partition(".")
        size = _UNITS[part[2]]
        total += int(whole or 0) * size
        if fraction:
            total += int(fraction) * size // 10 ** len(fraction)
        at = part.end()
    if not rest:
        raise ValueError(f"invalid duration {text!r}: {_DURATION_HELP}")
    if total > 2**63 - 1:
        raise ValueError(f"duration {text!r} is longer than 292 years")
    return sign * total


def parse_bytes(text: str) -> int:
    """Bytes of `128`, `10MB`, `1.5 GiB` (all powers of 1024); anything negative is -1, unlimited.

    >>> parse_bytes("10GB"), parse_bytes("1k"), parse_bytes("-7")
    (10737418240, 1024, -1)
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"invalid size {text!r}: {_SIZE_HELP}")
    number, power, _ = found.groups()
    value = float(number) if "." in number else int(number)
    if value < 0:
        return -1
    return int(value * _POWERS[power.lower()])


def parse_time(text: str) -> int:
    """Unix nanoseconds of RFC 3339 or local `YYYY-MM-DD HH:MM:SS`."""
    text = text.strip()
    try:
        return parse_rfc3339(text)
    except ValueError:
        pass
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"):
        try:
            local = datetime.strptime(text, form).astimezone()
        except ValueError:
            continue
        return int(local.astimezone(UTC).timestamp()) * SECOND
    raise ValueError(
        f"invalid time {text!r}: use 2026-01-31T12:00:00Z or 2026-01-31 12:00:00 (local time)"
    )


def parse_moment(text: str, now_ns: int) -> int:
    """A time, or a duration counted from now."""
    try:
        return now_ns + parse_duration(text)
    except ValueError:
        return parse_time(text)


class Start(NamedTuple):
    """A deliver policy as the wire says it."""

    policy: str
    sequence: int = 0
    time_ns: int = 0

    def fields(self) -> dict[str, Any]:
        made: dict[str, Any] = {"deliver_policy": self.policy}
        if self.sequence:
            made["opt_start_seq"] = self.sequence
        if self.time_ns:
            made["opt_start_time"] = rfc3339(self.time_ns)
        return made


def parse_start(text: str, now_ns: int) -> Start:
    """`all`, `new`, `last`, `subject`, a sequence, a duration ago, or a time."""
    word = text.strip().lower()
    named = {
        "all": "all",
        "1": "all",
        "new": "new",
        "next": "new",
        "last": "last",
        "subject": "last_per_subject",
        "last_per_subject": "last_per_subject",
    }
    if word in named:
        return Start(named[word])
    if word.isdigit():
        return Start("by_start_sequence", sequence=int(word))
    try:
        return Start("by_start_time", time_ns=now_ns - abs(parse_duration(text)))
    except ValueError:
        pass
    try:
        return Start("by_start_time", time_ns=parse_time(text))
    except ValueError:
        raise ValueError(
            f"invalid start {text!r}: use all, new, last, subject, a sequence, "
            "a duration such as 1h, or a time"
        ) from None


def parse_header(text: str) -> tuple[str, str]:
    """`Name:value`; blanks around the value do not count."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ValueError(f"invalid header {text!r}: use Name:value")
    return name.strip(), value.strip()


def parse_pair(text: str) -> tuple[str, str]:
    """Metadata: `key:value` or `key=value`, whichever separator comes first."""
    found = re.match(r"([^:=]+)[:=](.*)", text, re.DOTALL)
    if found is None:
        raise ValueError(f"invalid metadata {text!r}: use key:value or key=value")
    return found[1].strip(), found[2].strip()


def split_subjects(values: tuple[str, ...] | list[str] | str) -> list[str]:
    """Subjects given one by one, or several in one value between commas or blanks."""
    texts = [values] if isinstance(values, str) else list(values)
    return [subject for text in texts for subject in re.split(r"[,\s]+", text) if subject]


class _Parsed(click.ParamType[Any]):
    """A click type around one of the functions above."""

    def __init__(self, name: str, parse: Any) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = _Parsed("duration", parse_duration)
BYTES = _Parsed("size", parse_bytes)
TIME = _Parsed("time", parse_time)
HEADER = _Parsed("name:value", parse_header)
PAIR = _Parsed("key:value", parse_pair)
