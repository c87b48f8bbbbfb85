"""The same log without a disk: what a stream with `storage: memory` keeps.

Segments are pieces of memory; nothing is checksummed, nothing survives the process, and what is
appended counts as synced at once.
"""

import time
from array import array
from collections.abc import Iterator

from jetstream.store._log import LogBase
from jetstream.store._replay import squeeze
from jetstream.store._segment import Segment
from jetstream.store._subjects import Filter

SEGMENT_BYTES_MIN = 64 << 10
SEGMENT_BYTES_MAX = 16 << 20


class MemoryStore(LogBase):
    """The messages of one stream in memory."""

    def __init__(self, *, max_msgs_per_subject: int = -1, first_seq: int = 0) -> None:
        self._set_in_memory()
        self.set_limits(max_msgs_per_subject=max_msgs_per_subject)
        self._job: Iterator[None] | None = None
        self._removed_since_work = False
        if first_seq > 1:
            self.truncate_front(first_seq)

    @property
    def synced_seq(self) -> int:
        return self.last_seq

    def _roll(self, first_seq: int) -> None:
        total = sum(segment.end for segment in self.segments[-8:])
        size = min(max(total // 2, SEGMENT_BYTES_MIN), SEGMENT_BYTES_MAX)
        segment = Segment(first_seq, 8, size)
        segment.whole = True
        self.segments.append(segment)
        self.active = segment

    def skip(self, n: int, now: int) -> int:
        self._advance(self.last_seq + n, now)
        return self.last_seq

    def set_limits(self, *, max_msgs_per_subject: int) -> None:
        self._apply_limit(max_msgs_per_subject if max_msgs_per_subject > 0 else -1)

    def update_config(self, config_json: bytes) -> None:
        """Memory streams keep no copy of their configuration."""

    def remove(self, seq: int, erase: bool = False) -> bool:
        self._removed_since_work = True
        return self._forget_many((seq,)) == 1

    def remove_many(self, seqs: "array[int]") -> int:
        self._removed_since_work = True
        gone: int = self._forget_many(seqs)
        return gone

    def truncate_front(self, first_seq: int) -> int:
        gone: int = self._forget_below(first_seq)
        while len(self.segments) > 1 and self.segments[0].live == 0:
            self.segments.pop(0)
        if self.msgs == 0:
            self.segments.clear()
            self.active = None
        return gone

    def purge(self, *, filter: Filter | None = None, seq: int = 0, keep: int = 0) -> int:
        if filter is None or filter.everything:
            if keep > 0:
                if keep >= self.msgs:
                    return 0
                return self.truncate_front(self.next_seqs(1, self.msgs - keep + 1)[-1])
            return self.truncate_front(seq or self.last_seq + 1)
        total = self.count_from(1, filter)
        going = self.next_seqs(1, max(total - keep, 0), filter)
        if seq:
            going = array("Q", [each for each in going if each < seq])
        return self.remove_many(going)

    def write(self) -> bool:
        return False

    def sync(self) -> None:
        """There is no disk to wait for."""

    def mark_synced(self, seq: int) -> None:
        """Always synced."""

    def work(self, budget_ns: int) -> bool:
        """Give back the memory of removed messages, a segment at a time."""
        deadline = time.monotonic_ns() + budget_ns
        for segment in list(self.segments):
            if segment is self.active:
                continue
            if segment.live == 0:
                self.segments.remove(segment)
                self._drop_found()
            elif segment.live_bytes * 2 < segment.end:
                squeeze(self, segment)
            if time.monotonic_ns() >= deadline:
                return True
        return False

    def close(self) -> None:
        """Nothing to write."""

    def destroy(self) -> None:
        self.truncate_front(self.last_seq + 1)
