"""When a schedule fires next: `@at`, `@every`, six-field cron and the `@daily` family.

    second minute hour day-of-month month day-of-week

A field is `*`, `?`, a number or name, a range, a list, each with an optional step. When both day
fields are restricted, either of them matching is enough. Wall times are those of the schedule's
time zone; a wall time that daylight saving skips does not fire that day.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from jetstream.schema.times import parse_go_duration, parse_rfc3339

SECOND: Final = 1_000_000_000
# Patterns that do not fire within five years are refused (such as the 31st of February).
HORIZON_DAYS: Final = 5 * 366

_MONTHS: Final = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_SHORTHANDS: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_PART: Final = re.compile(r"(\*|\?|\w+(?:-\w+)?)(?:/(\d+))?")


class At(Struct, frozen=True):
    """Once."""

    time_ns: int

    def next_after(self, time_ns: int) -> int:
        return self.time_ns if self.time_ns > time_ns else 0


class Every(Struct, frozen=True):
    """Again and again, on whole seconds."""

    interval_ns: int

    def next_after(self, time_ns: int) -> int:
        return time_ns - time_ns % SECOND + self.interval_ns


class Cron:
    """Wall-clock patterns."""

    __slots__ = (
        "_dom",
        "_dow",
        "_either_day",
        "_hours",
        "_minutes",
        "_months",
        "_seconds",
        "_zone",
    )

    def __init__(self, fields: list[str], zone: tzinfo) -> None:
        if len(fields) != 6:
            raise ValueError("a cron pattern has six fields")
        self._seconds, _ = _field(fields[0], 0, 59)
        self._minutes, _ = _field(fields[1], 0, 59)
        self._hours, _ = _field(fields[2], 0, 23)
        self._dom, any_dom = _field(fields[3], 1, 31)
        self._months, _ = _field(fields[4], 1, 12, _MONTHS, 1)
        self._dow, any_dow = _field(fields[5], 0, 6, _DAYS, 0)
        self._either_day = not any_dom and not any_dow
        self._zone = zone

    def next_after(self, time_ns: int) -> int:
        start = datetime.fromtimestamp(time_ns // SECOND + 1, UTC).astimezone(self._zone)
        day = start.replace(hour=0, minute=0, second=0, tzinfo=None, fold=0)
        earliest = start.replace(tzinfo=None)
        for _ in range(HORIZON_DAYS):
            if day.month in self._months and self._day_fits(day):
                found = self._in_day(day, earliest, time_ns)
                if found:
                    return found
            day += timedelta(days=1)
        return 0

    def _day_fits(self, day: datetime) -> bool:
        dom = day.day in self._dom
        dow = (day.weekday() + 1) % 7 in self._dow
        return (dom or dow) if self._either_day else (dom and dow)

    def _in_day(self, day: datetime, earliest: datetime, after_ns: int) -> int:
        for hour in self._hours:
            if day + timedelta(hours=hour + 2) < earliest:
                continue
            for minute in self._minutes:
                for second in self._seconds:
                    wall = day.replace(hour=hour, minute=minute, second=second)
                    moment = self._instant(wall)
                    if moment > after_ns:
                        return moment
        return 0

    def _instant(self, wall: datetime) -> int:
        aware = wall.replace(tzinfo=self._zone)
        seconds = int(aware.timestamp())
        if datetime.fromtimestamp(seconds, self._zone).replace(tzinfo=None) != wall:
            return 0
        return seconds * SECOND


Schedule = At | Every | Cron


def parse(pattern: str, zone: tzinfo | None = None) -> Schedule:
    """Read a `Nats-Schedule` value; ValueError when it is none or never fires."""
    kind, _, rest = pattern.partition(" ")
    if kind in ("@at", "@every"):
        if zone is not None:
            raise ValueError("a time zone goes with cron patterns only")
        if kind == "@at":
            return At(parse_rfc3339(rest))
        interval = parse_go_duration(rest)
        if interval < SECOND:
            raise ValueError("too often")
        return Every(interval // SECOND * SECOND)
    if pattern.startswith("@"):
        pattern = _SHORTHANDS.get(pattern, "")
    cron = Cron(pattern.split(), zone or UTC)
    if not cron.next_after(0):
        raise ValueError("never fires")
    return cron


def find_zone(name: str) -> tzinfo:
    """A time zone by its IANA name; ValueError when there is none."""
    if name == "Local":
        zone = datetime.now(UTC).astimezone().tzinfo
        assert zone is not None
        return zone
    if not name:
        raise ValueError("no time zone")
    try:
        return ZoneInfo(name)
    except (KeyError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _field(
    text: str, low: int, high: int, names: list[str] | None = None, first: int = 0
) -> tuple[list[int], bool]:
    """Sorted values and whether the field leaves everything open."""
    values: set[int] = set()
    open_ = False
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"bad field {text!r}")
        span, step_text = found.groups()
        step = int(step_text) if step_text else 1
        if step == 0:
            raise ValueError("a step of zero")
        if span in "*?":
            begin, end = low, high
            open_ = open_ or step == 1
        else:
            left, dash, right = span.partition("-")
            begin = _value(left, names, first)
            end = _value(right, names, first) if dash else (high if step_text else begin)
        if not low <= begin <= end <= high:
            raise ValueError(f"out of range {part!r}")
        values.update(range(begin, end + 1, step))
    return sorted(values), open_


def _value(text: str, names: list[str] | None, first: int) -> int:
    if names and text.lower() in names:
        return names.index(text.lower()) + first
    if not text.isdigit():
        raise ValueError(f"not a number: {text!r}")
    return int(text)
