"""One heap for all deadlines: of streams, of consumers, of anything that wants to be called again.

Nobody owns a timer. Whoever has a deadline registers it under a key; a new deadline of the same key
replaces the old one (the stale entry is passed over when it comes up).
"""

import heapq
from collections.abc import Callable, Hashable


class Timers:
    """Deadlines by key; the earliest first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Hashable]] = []
        self._due: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._count = 0

    def set(self, key: Hashable, deadline_ns: int, callback: Callable[[], None]) -> None:
        """Call back at this time; 0 takes the deadline away."""
        held = self._due.get(key)
        if deadline_ns <= 0:
            if held is not None:
                del self._due[key]
            return
        if held is not None and held[0] == deadline_ns:
            return
        self._due[key] = (deadline_ns, callback)
        self._count += 1
        heapq.heappush(self._heap, (deadline_ns, self._count, key))

    def drop(self, key: Hashable) -> None:
        self._due.pop(key, None)

    def next_deadline(self) -> int:
        """The earliest deadline, 0 if there is none."""
        heap = self._heap
        while heap:
            deadline_ns, _, key = heap[0]
            held = self._due.get(key)
            if held is not None and held[0] == deadline_ns:
                return deadline_ns
            heapq.heappop(heap)
        return 0

    def take_due(self, now: int) -> list[Callable[[], None]]:
        """Everything whose time has come, earliest first."""
        due: list[Callable[[], None]] = []
        while True:
            deadline_ns = self.next_deadline()
            if not deadline_ns or deadline_ns > now:
                return due
            _, _, key = heapq.heappop(self._heap)
            due.append(self._due.pop(key)[1])

    def __len__(self) -> int:
        return len(self._due)
