"""What happens to a delivery that nobody acknowledged in time, or that was refused.

A delivery waits in the pending table until its time is over (ack_wait, or the back-off step of its
delivery count). Then it is queued and goes out again before anything new, or it is given up
because it was delivered max_deliver times. A NAK queues it at once, or when its delay is over.
"""

import heapq
from collections import deque
from typing import Final

from jetstream.consumer._pending import PendingTable
from jetstream.schema.consumer import ConsumerConfig

NO_WAIT: Final = 1 << 61


def waits_of(config: ConsumerConfig) -> list[int]:
    """How long a delivery may stay out, by its delivery count; the last one for all further."""
    if config.backoff:
        return [max(wait, 1) for wait in config.backoff]
    # Without acks, or with acks by flow control, nothing comes again by the clock.
    return [config.ack_wait or NO_WAIT]


def is_over(deliveries: int, max_deliver: int) -> bool:
    """max_deliver counts deliveries, not redeliveries: 1 means once, -1 means we never give up."""
    return 0 < max_deliver <= deliveries


class Redelivery:
    """The order in which deliveries go out again."""

    __slots__ = ("_delayed", "_queue", "_table")

    def __init__(self, table: PendingTable) -> None:
        self._table = table
        self._queue: deque[int] = deque()
        self._delayed: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """How many are due. Settled ones are dropped on the way."""
        while self._queue and not self._table.is_queued(self._queue[0]):
            self._queue.popleft()
        return len(self._queue)

    def expire(self, now: int) -> list[int]:
        """Those whose time is over now; they are queued."""
        due: list[int] = []
        while self._delayed and self._delayed[0][0] <= now:
            at, seq = heapq.heappop(self._delayed)
            if self._table.is_delayed_until(seq, at):
                self._table.queue(seq)
                due.append(seq)
        due.extend(self._table.expire(now))
        self._queue.extend(due)
        return due

    def next_deadline(self) -> int:
        """When the next one is due; 0 if none waits."""
        while self._delayed and not self._table.is_delayed_until(
            self._delayed[0][1], self._delayed[0][0]
        ):
            heapq.heappop(self._delayed)
        waiting = self._table.next_due()
        if waiting >= NO_WAIT:
            waiting = 0
        if not self._delayed:
            return waiting
        return min(waiting, self._delayed[0][0]) if waiting else self._delayed[0][0]

    def now(self, seq: int) -> None:
        """Again as soon as somebody wants it."""
        if self._table.queue(seq):
            self._queue.append(seq)

    def at(self, seq: int, due: int) -> None:
        """Again, but not before `due`."""
        if self._table.delay(seq, due):
            heapq.heappush(self._delayed, (due, seq))

    def restored(self, seq: int, due: int) -> None:
        """It was delayed, or queued, when the state was written."""
        heapq.heappush(self._delayed, (due, seq))

    def take(self) -> int:
        """The next one that is due, 0 if there is none."""
        while self._queue:
            seq = self._queue.popleft()
            if self._table.is_queued(seq):
                return seq
        return 0

    def put_back(self, seq: int) -> None:
        """Nobody could take it after all."""
        self._queue.appendleft(seq)

    def clear(self) -> None:
        self._queue.clear()
        self._delayed.clear()
