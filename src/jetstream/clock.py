"""The only source of time and chance.

Middle rooms take `now` as an argument; the doors hold a `Clock`. `now()` is what we store and show
(unix nanoseconds), `monotonic()` is what deadlines are measured on (nanoseconds from some start).
"""

import random
import time
from typing import Protocol

NANOSECOND = 1
MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


class Clock(Protocol):
    """Where a door gets its time from."""

    def now(self) -> int:
        """Wall time in unix nanoseconds: for what we store and show."""

    def monotonic(self) -> int:
        """Nanoseconds that never go back: for deadlines."""


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    def now(self) -> int:
        return time.time_ns()

    def monotonic(self) -> int:
        return time.monotonic_ns()


class Random:
    """Ids, jitter and choices; seeded in tests."""

    _LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

    def __init__(self, seed: int | None = None) -> None:
        self._random: random.Random = random.SystemRandom() if seed is None else random.Random(seed)

    def token(self, length: int) -> str:
        """Letters and digits, as used in inboxes and short names."""
        return "".join(self._random.choices(self._LETTERS, k=length))

    def nuid(self) -> str:
        """A 22-character unique id."""
        return self.token(22)

    def random(self) -> float:
        return self._random.random()

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def bytes(self, length: int) -> bytes:
        return self._random.randbytes(length)
