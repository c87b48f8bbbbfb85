"""How long a message stays: counts, bytes and age; interest of consumers.

Work that may be large (a stream whose limit was lowered, a night's worth of expired messages) is
done in slices: every function here removes at most `SLICE` messages per call and says if more is
left.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from jetstream.schema.stream import StreamConfig
from jetstream.store.base import StreamStore
from jetstream.subjects.match import is_subset, matches

SLICE: Final = 10_000
CACHE_SUBJECTS_MAX: Final = 50_000

# What a stored message costs besides subject, headers and payload; more with headers on disk.
FILE_OVERHEAD: Final = 30
FILE_HEADERS_OVERHEAD: Final = 4
MEMORY_OVERHEAD: Final = 16


def message_size(storage: str, subject: bytes, headers: bytes, payload: bytes) -> int:
    """What this message will add to `bytes`."""
    size = len(subject) + len(headers) + len(payload)
    if storage == "memory":
        return size + MEMORY_OVERHEAD
    return size + FILE_OVERHEAD + (FILE_HEADERS_OVERHEAD if headers else 0)


def is_over(store: StreamStore, config: StreamConfig) -> bool:
    """Does the stream hold more than its limits allow?"""
    return 0 < config.max_msgs < store.msgs or (
        0 < config.max_bytes < store.bytes and store.msgs > 0
    )


def enforce_limits(store: StreamStore, config: StreamConfig, evicted: "array[int]") -> None:
    """Remove the oldest until max_msgs and max_bytes hold; what went is added to `evicted`.

    At most about `SLICE` go in one call: a stream whose limit was lowered shrinks step by step.
    """
    if 0 < config.max_msgs < store.msgs:
        _drop_oldest(store, min(store.msgs - config.max_msgs, SLICE), evicted)
    if config.max_bytes > 0:
        most = len(evicted) + SLICE
        while store.bytes > config.max_bytes and store.msgs and len(evicted) < most:
            seqs = store.next_seqs(store.first_seq, 256)
            # A message must go if all before it do not free enough even when counted generously.
            over = store.bytes - config.max_bytes
            needed = 0
            for size in store.sizes(seqs):
                needed += 1
                over -= size + FILE_OVERHEAD + FILE_HEADERS_OVERHEAD
                if over <= 0:
                    break
            _drop_oldest(store, max(needed, 1), evicted)


def _drop_oldest(store: StreamStore, count: int, evicted: "array[int]") -> None:
    seqs = store.next_seqs(store.first_seq, count)
    if seqs:
        evicted.extend(seqs)
        store.truncate_front(seqs[-1] + 1)


class Interest:
    """Which subjects some consumer of an interest stream still wants."""

    __slots__ = ("_cache", "_patterns", "everything")

    def __init__(self) -> None:
        self._patterns: list[bytes] = []
        self._cache: dict[bytes, bool] = {}
        self.everything = False

    def set(self, filters: Iterable[Sequence[bytes]], subjects: Sequence[str]) -> None:
        """One entry per consumer: its filters, none meaning everything."""
        self._cache.clear()
        self._patterns = []
        self.everything = False
        for patterns in filters:
            if not patterns:
                self.everything = True
            self._patterns += patterns
        if not self.everything and subjects:
            self.everything = all(
                any(is_subset(subject.encode(), pattern) for pattern in self._patterns)
                for subject in subjects
            )

    def wants(self, subject: bytes) -> bool:
        if self.everything:
            return True
        known = self._cache.get(subject)
        if known is None:
            known = any(matches(pattern, subject) for pattern in self._patterns)
            if len(self._cache) >= CACHE_SUBJECTS_MAX:
                self._cache.clear()
            self._cache[subject] = known
        return known
