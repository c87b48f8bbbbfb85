"""replay_policy original: messages go out with the gaps they were stored with.

Only what was there when the replay began is delayed; whoever has caught up gets new messages at
once.
"""

from array import array

from jetstream.store.base import StreamView


class Replay:
    """When the next message of the past is due."""

    __slots__ = ("_last_at", "_last_stamp", "_until", "_view", "next_at")

    def __init__(self, view: StreamView) -> None:
        self._view = view
        self._until = view.last_seq
        self._last_at = 0
        self._last_stamp = 0
        self.next_at = 0

    def due(self, seqs: "array[int]", now: int) -> int:
        """How many of these, in order, may go out now."""
        self.next_at = 0
        for count, seq in enumerate(seqs):
            if seq > self._until:
                return len(seqs)
            stamp = self._view.time_of(seq)
            if self._last_at:
                at = self._last_at + max(stamp - self._last_stamp, 0)
                if at > now:
                    self.next_at = at
                    return count
                self._last_at = at
            else:
                self._last_at = now
            self._last_stamp = stamp
        return len(seqs)
