"""A clock that tests turn.

    clock = ManualClock()
    server = LocalServer(clock=clock)
    clock.advance(seconds=30)        # ack waits, TTLs and schedules that became due fire now

A frozen clock stands still between advances; one that is not frozen goes with real time and jumps
when told, which suits tests that also wait for ordinary timeouts.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class ManualClock:
    """Time as the test wants it. Servers given this clock are told of every advance."""

    def __init__(self, start: datetime | int | None = None, *, frozen: bool = True) -> None:
        if isinstance(start, datetime):
            start = int(start.timestamp() * 1_000_000_000)
        self._frozen = frozen
        self._start_ns = time.time_ns() if start is None else start
        self._real_start_ns = time.monotonic_ns()
        self._ahead_ns = 0
        self.on_advance: list[Callable[[], None]] = []

    def now(self) -> int:
        """Wall time in unix nanoseconds."""
        return self._start_ns + self.monotonic()

    def monotonic(self) -> int:
        """Nanoseconds since the clock was made."""
        if self._frozen:
            return self._ahead_ns
        return self._ahead_ns + time.monotonic_ns() - self._real_start_ns

    def advance(self, duration: timedelta | float | None = None, *, seconds: float = 0.0) -> None:
        """Let time pass, and tell everybody who keeps deadlines by this clock."""
        if isinstance(duration, timedelta):
            seconds += duration.total_seconds()
        elif duration is not None:
            seconds += duration
        if seconds < 0:
            raise ValueError("time does not go back; use set_back() for the wall clock")
        self._ahead_ns += round(seconds * 1e9)
        for told in list(self.on_advance):
            told()

    def set_back(self, seconds: float) -> None:
        """Somebody corrected the wall clock: `now()` goes back, `monotonic()` does not."""
        self._start_ns -= round(seconds * 1e9)

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.now() / 1e9, UTC)

    def __repr__(self) -> str:
        return f"<ManualClock {self.time.isoformat()}>"
