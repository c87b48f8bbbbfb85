"""Numbers as people read them: sizes, durations, ages, times."""

import time
from datetime import datetime

from jetstream.schema.times import ZERO_TIME, parse_rfc3339

SECOND = 1_000_000_000
_IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SI = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def number(value: int | float) -> str:
    """1234567 as 1,234,567."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def size(value: int, base: int = 1024) -> str:
    """Bytes in the largest unit that keeps a digit before the point.

    >>> size(0), size(1536), size(10 * 1024**3), size(103 * 10**9, base=1000)
    ('0 B', '1.5 KiB', '10 GiB', '103 GB')
    """
    units = _IEC if base == 1024 else _SI
    if abs(value) < base:
        return f"{value} B"
    scaled, power = float(value), 0
    while abs(scaled) >= base and power < len(units) - 1:
        scaled /= base
        power += 1
    shown = f"{scaled:.1f}" if scaled < 10 else f"{scaled:.0f}"
    return f"{shown} {units[power]}"


def limit_size(value: int) -> str:
    return "unlimited" if value < 0 else size(value)


def limit(value: int) -> str:
    return "unlimited" if value < 0 else number(value)


def duration(value_ns: int) -> str:
    """`1d2h3m4s`; below a minute with two decimals, below a second in the fitting unit.

    >>> duration(86_400 * SECOND), duration(3_100_000_000), duration(1_500_000)
    ('1d0h0m0s', '3.10s', '1.5ms')
    """
    if value_ns < 0:
        return "-" + duration(-value_ns)
    if value_ns == 0:
        return "0s"
    if value_ns < SECOND:
        for unit, scale in (("ms", 1_000_000), ("µs", 1_000)):
            if value_ns >= scale:
                return f"{value_ns / scale:.3g}{unit}"
        return f"{value_ns}ns"
    if value_ns < 60 * SECOND:
        return f"{value_ns / SECOND:.2f}s"
    seconds = value_ns // SECOND
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    years, days = divmod(days, 365)
    if years:
        return f"{years}y{days}d{hours}h{minutes}m{seconds}s"
    if days:
        return f"{days}d{hours}h{minutes}m{seconds}s"
    return f"{hours}h{minutes}m{seconds}s" if hours else f"{minutes}m{seconds}s"


def limit_duration(value_ns: int) -> str:
    return "unlimited" if value_ns <= 0 else duration(value_ns)


def is_zero_time(text: str | None) -> bool:
    return not text or text == ZERO_TIME


def local_time(when: int | str | None) -> str:
    """Unix nanoseconds or RFC 3339 text as local `YYYY-MM-DD HH:MM:SS`; `never` for no time."""
    at = to_ns(when)
    return datetime.fromtimestamp(at / SECOND).strftime("%Y-%m-%d %H:%M:%S") if at else "never"


def precise_time(when: int | str | None) -> str:
    """As `local_time`, with milliseconds."""
    at = to_ns(when)
    if not at:
        return "never"
    return f"{local_time(at)}.{at % SECOND // 1_000_000:03d}"


def age(when: int | str | None, now_ns: int | None = None) -> str:
    """How long ago."""
    at = to_ns(when)
    if not at:
        return "never"
    return duration(max((now_ns or time.time_ns()) - at, 0))


def to_ns(when: int | str | None) -> int:
    if when is None or isinstance(when, int):
        return when or 0
    return 0 if is_zero_time(when) else parse_rfc3339(when)


def rate(count: float, seconds: float) -> str:
    return number(int(count / seconds)) if seconds > 0 else number(int(count))


def plural(count: int, noun: str) -> str:
    return f"{number(count)} {noun}" if count == 1 else f"{number(count)} {noun}s"
