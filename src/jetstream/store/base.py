"""What a stream may ask of its store: reading (`StreamView`) and writing (`StreamStore`).

Two stores keep this promise, `FileStore` (log.py) and `MemoryStore` (memory.py); both stand on the
same kernel, so they differ only in where the bytes are and in how `bytes` is counted.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from jetstream.store._subjects import Filter
from jetstream.store.record import NEVER

if TYPE_CHECKING:
    from jetstream.wire._parser import Batch

Raw = bytes
"""`bytes` under a name that the property `StreamView.bytes` does not hide."""

__all__ = ["NEVER", "Filter", "LostData", "StoredMessage", "StreamStore", "StreamView"]


class StoredMessage(Struct, frozen=True, gc=False):
    """A message as it was stored; `headers` is the whole NATS/1.0 block or empty."""

    seq: int
    subject: bytes
    headers: bytes
    payload: bytes
    time_ns: int


class LostData(Struct, frozen=True):
    """What damage took: exact sequence ranges (both ends included) and the bytes found damaged."""

    ranges: list[tuple[int, int]]
    bytes: int = 0

    @property
    def count(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def seqs(self, limit: int = 100_000) -> list[int]:
        """The sequences one by one, at most `limit` of them."""
        found: list[int] = []
        for first, last in self.ranges:
            found.extend(range(first, min(last, first + limit - len(found) - 1) + 1))
            if len(found) >= limit:
                break
        return found


class StreamView(Protocol):
    """Reading. Sequences count from 1; 0 stands for "none" everywhere."""

    @property
    def first_seq(self) -> int:
        """0 when never used, last_seq + 1 when everything was removed."""

    @property
    def last_seq(self) -> int: ...
    @property
    def msgs(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def first_ts(self) -> int:
        """Unix ns of the first message, 0 when there is none."""

    @property
    def last_ts(self) -> int: ...
    @property
    def num_subjects(self) -> int: ...
    @property
    def num_deleted(self) -> int: ...
    @property
    def synced_seq(self) -> int:
        """Everything up to here is on disk."""

    @property
    def trouble(self) -> str | None:
        """Why nothing can be stored at the moment; None when all is well."""

    def get(self, seq: int) -> StoredMessage | None:
        """None: absent. A damaged record counts as absent and shows up in `lost()`."""

    def exists(self, seq: int) -> bool: ...
    def subject_of(self, seq: int) -> Raw | None:
        """The subject of a message without reading its record; None: absent."""

    def time_of(self, seq: int) -> int: ...
    def last_for(self, subject: Raw) -> int: ...
    def oldest_for(self, subject: Raw) -> int: ...
    def prev_for(self, subject: Raw, seq: int) -> int: ...
    def subject_state(self, subject: Raw) -> tuple[int, int, int]:
        """count, first, last; zeros when there is none."""

    def filter(self, subjects: Sequence[Raw]) -> Filter:
        """A compiled filter; no subjects = everything. Stays valid while new subjects appear."""

    def next_seqs(self, start: int, limit: int, filter: Filter | None = None) -> "array[int]":
        """Existing sequences >= start, ascending."""

    def count_from(self, start: int, filter: Filter | None = None) -> int: ...
    def last_seqs(self, filter: Filter | None, up_to_seq: int = 0, limit: int = 0) -> "array[int]":
        """The last message of each matching subject (not above `up_to_seq`), ascending."""

    def last_match(self, filter: Filter | None, before: int = 0) -> int: ...
    def seq_at_time(self, time_ns: int) -> int:
        """The first sequence with time >= t, last_seq + 1 if there is none."""

    def subjects(self, filter: Filter | None = None) -> Iterator[tuple[Raw, int]]:
        """(subject, messages), sorted by subject."""

    def deleted(self, limit: int = 0) -> list[int]: ...
    def lost(self) -> LostData | None: ...
    def sizes(self, seqs: "array[int]") -> "array[int]":
        """Headers + payload + subject Raw of each; 0 for an absent one."""


class StreamStore(StreamView, Protocol):
    """Writing. Everything here runs on the loop thread, except `sync`."""

    def append_run(self, batch: "Batch", start: int, stop: int, now: int) -> int: ...
    def append(
        self,
        subject: Raw,
        headers: Raw,
        payload: Raw,
        now: int,
        *,
        seq: int = 0,
        expires_at: int = 0,
    ) -> int: ...
    def skip(self, n: int, now: int) -> int: ...
    def remove(self, seq: int, erase: bool = False) -> bool: ...
    def remove_many(self, seqs: "array[int]") -> int: ...
    def truncate_front(self, first_seq: int) -> int: ...
    def purge(self, *, filter: Filter | None = None, seq: int = 0, keep: int = 0) -> int: ...
    def take_evicted(self) -> "array[int]": ...
    def set_limits(self, *, max_msgs_per_subject: int) -> None: ...
    def expired(self, now: int, max_age: int, limit: int) -> "array[int]": ...
    def next_expiry(self, max_age: int) -> int: ...
    def write(self) -> bool: ...
    def sync(self) -> None: ...
    def mark_synced(self, seq: int) -> None: ...
    def update_config(self, config_json: Raw) -> None: ...
    def work(self, budget_ns: int) -> bool: ...
    def close(self) -> None: ...
    def destroy(self) -> None: ...
