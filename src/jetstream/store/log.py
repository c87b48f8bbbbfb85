"""A stream's log in files: what it promises is in `base.py`, the bytes in docs/store-format.md.

Appending goes to memory and never touches the disk; `write` hands everything to the OS on the loop
thread, `sync` waits for the disk on any thread, `mark_synced` tells the result. When the disk
refuses, `trouble` says why and nothing more is taken in:

    no space, read-only …   what is not written stays in memory; the next `write` tries again
    sync failed             what was written since the last good sync may be gone although the OS
                            calls it clean; it is still in memory and goes into a new file (`heal`)

Opening is in `recovery.py`; sealing, checking, compaction and erasing are jobs in `upkeep.py`.
"""

import errno
import os
import struct
import time
from array import array
from collections.abc import Iterator
from typing import Protocol

from jetstream.errors import StoreError
from jetstream.store import recovery, upkeep
from jetstream.store._log import LogBase
from jetstream.store._segment import Segment
from jetstream.store._subjects import Filter
from jetstream.store.files import Disk, File
from jetstream.store.record import Kind, pack_ranges, segment_seed
from jetstream.store.segment import Header, Identity, pack_header
from jetstream.store.shared_journal import Change, SharedJournal

SEGMENT_BYTES_MIN = 4 << 20
SEGMENT_BYTES_MAX = 64 << 20
REPORT_LINES_MAX = 1_000
IDLE_BYTES_MAX = 64 << 10
ALLOCATE_MIN = 64 << 10
ALLOCATE_MAX = 4 << 20
ZEROED_STEP = 256 << 10
ZEROED_WRITE_MAX = 16 << 10
"""A log that is written in pieces up to this size gets new space filled with zeros, not only
reserved: overwriting needs no metadata at sync, which is what a lone publisher waits for."""

NAMED = "named"
"""In `Segment.extra`: the file's name is on disk. Before: its header, not yet written, or None."""

_U64 = struct.Struct("<Q")


class Home(Protocol):
    """The directory around a log, with the stream's metadata (vault.py)."""

    def config_changed(self, config: bytes, version: int) -> None: ...
    def destroy(self) -> None: ...


class FileStore(LogBase):
    """The messages of one stream in a directory of segments."""

    def __init__(
        self,
        directory: str,
        disk: Disk,
        identity: Identity,
        config: bytes = b"{}",
        config_version: int = 0,
        *,
        max_msgs_per_subject: int | None = None,
        first_seq: int = 0,
        home: "Home | None" = None,
        shared: SharedJournal | None = None,
    ) -> None:
        self.home = home
        self.shared = shared
        self._heads: dict[Segment, bytes] = {}
        self._in_journal: list[tuple[int, dict[Segment, int]]] = []
        self.directory = directory
        self.disk = disk
        self.identity = identity
        self.config = config
        self.config_version = config_version
        self.synced_seq = 0
        self.segment_bytes_min = SEGMENT_BYTES_MIN
        self.segment_bytes_max = SEGMENT_BYTES_MAX
        self.closed = False
        self._unwritten: list[Segment] = []
        self._dirty: dict[Segment, int] = {}
        self._names_dirty = False
        self._suspect = False
        self._floor_pending = 0
        self._floor_written = 0
        self.doomed: list[tuple[Segment | None, int, str]] = []
        self.erasures: list[upkeep.Erasure] = []
        self.unsealed: list[Segment] = []
        self.unchecked: list[Segment] = []
        self._job: Iterator[None] | None = None
        self._end_seen = 0
        self.report: list[str] = []
        recovery.recover(self)
        self.synced_seq = self.last_seq
        # The headers know a limit too, but not whether it is still the stream's.
        # Should a record that named evictions be gone, the limit names the same messages again.
        self.set_limits(max_msgs_per_subject=max_msgs_per_subject or -1)
        if first_seq > 1 and self.last_seq == 0:
            self.truncate_front(first_seq)

    # ── taking in ────────────────────────────────────────────────────────────────────────────

    def append(
        self,
        subject: bytes,
        headers: bytes,
        payload: bytes,
        now: int,
        *,
        seq: int = 0,
        expires_at: int = 0,
    ) -> int:
        if seq > self.last_seq + 1:
            if self.trouble is not None:
                raise StoreError(self.trouble)
            # Every missing sequence is accounted for, so that one without a reason means damage.
            self.skip(seq - self.last_seq - 1, now)
        return super().append(subject, headers, payload, now, seq=seq, expires_at=expires_at)

    def skip(self, n: int, now: int) -> int:
        """Give out `n` sequences that hold nothing; returns the last of them."""
        self._accepting()
        first = self.last_seq + 1
        self._control(Kind.SKIP, pack_ranges([(first, first + n - 1)]))
        self._advance(first + n - 1, now)
        return self.last_seq

    def update_config(self, config_json: bytes) -> None:
        self.config = config_json
        self.config_version += 1
        self._control(Kind.CONFIG, _U64.pack(self.config_version) + config_json)
        if self.home is not None:
            self.home.config_changed(config_json, self.config_version)

    def set_limits(self, *, max_msgs_per_subject: int) -> None:
        """A new max_msgs_per_subject; what is over it goes at once."""
        self._apply_limit(max_msgs_per_subject if max_msgs_per_subject > 0 else -1)

    # ── taking out ───────────────────────────────────────────────────────────────────────────

    def remove(self, seq: int, erase: bool = False) -> bool:
        if not self.exists(seq):
            return False
        self._removing()
        place = upkeep.place(self, seq) if erase else None
        self._forget_many((seq,))
        self._bury([(seq, seq)], erase=erase)
        if place is not None:
            self.erasures.append(upkeep.Erasure(seq, *place, self.active, self.active.end))
        return True

    def remove_many(self, seqs: "array[int]") -> int:
        self._removing()
        gone, ranges = self._forget_to_ranges(seqs)
        if gone:
            self._bury(ranges)
        return gone

    def _bury(self, ranges: list[tuple[int, int]], *, erase: bool = False) -> None:
        """Tombstones, written twice: one damaged record must not bring a message back."""
        for at in range(0, len(ranges), 4096):
            body = pack_ranges(ranges[at : at + 4096]) + (b"erase\0\0\0" if erase else b"")
            self._control(Kind.TOMBSTONE, body)
            self._control(Kind.TOMBSTONE, body)

    def truncate_front(self, first_seq: int) -> int:
        self._removing()
        if first_seq <= self.first_seq and first_seq <= self.last_seq:
            return 0
        if first_seq > self.last_seq + 1:
            self._floor_pending = first_seq
            self._write_floor()  # before the jump: its record stands at the old end
        gone = self._forget_below(first_seq)
        if gone:
            # Only the newest floor matters: it is written once, with the next write.
            self._floor_pending = first_seq
            self._doom_below()
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

    def _write_floor(self) -> None:
        floor, self._floor_pending = self._floor_pending, 0
        if floor > self._floor_written:
            self._control(Kind.TRUNCATE, _U64.pack(floor))
            self._floor_written = floor

    def _doom_below(self) -> None:
        """Segments with nothing above the floor go, once the floor itself is on disk."""
        while (
            len(self.segments) > 1
            and self.segments[0] is not self.active
            and self.segments[1].first_seq <= self.first_seq
            and self.segments[0].live == 0
        ):
            gone = self.segments.pop(0)
            self._write_floor()
            self._discard(gone)
        active = self.active
        if active is not None and self.msgs == 0 and active.end > self.segment_bytes_min:
            active.limit = active.start  # the next record begins a new one, so this can go too

    def _discard(self, segment: Segment) -> None:
        self._drop_windows(segment)
        for queue in (self._unwritten, self.unsealed, self.unchecked):
            if segment in queue:
                queue.remove(segment)
        self._dirty.pop(segment, None)
        self.erasures = [each for each in self.erasures if each.segment is not segment]
        if segment.path:
            self.doomed.append((self.active, self.active.end, segment.path))

    def _removing(self) -> None:
        """Refused only while nobody knows what is on disk: a full disk needs it most."""
        if self._suspect:
            raise StoreError(self.trouble or "an earlier sync failed")

    def _accepting(self) -> None:
        if self.trouble is not None:
            raise StoreError(self.trouble)

    # ── segments ─────────────────────────────────────────────────────────────────────────────

    def _roll(self, first_seq: int) -> None:
        size = self._segment_size()
        if self.active is not None and self.active.first_seq == first_seq:
            self.active.limit += size  # no sequence used yet, so there is no name for a next one
            return
        head = pack_header(
            Header(
                self.identity,
                first_seq,
                self.config,
                self.config_version,
                self.max_msgs_per_subject,
                self.last_ts,
                last_seq=self.last_seq,
            )
        )
        segment = Segment(
            first_seq, len(head), len(head) + size, segment_seed(self.identity.uid, first_seq)
        )
        segment.path = f"{self.directory}/{first_seq:020d}.seg"
        segment.extra = head
        segment.checked = True
        active = self.active
        if active is not None and not active.sealed:
            self.unsealed.append(active)
            if active.end > active.written and active not in self._unwritten:
                self._unwritten.append(active)
        self.segments.append(segment)
        self._unwritten.append(segment)
        self.active = segment

    def _segment_size(self) -> int:
        total = sum(segment.end for segment in self.segments[-64:])
        return min(max(total // 2, self.segment_bytes_min), self.segment_bytes_max)

    def _resume_active(self, segment: Segment) -> None:
        """Go on filling the newest segment after a restart."""
        segment.limit = segment.start + self._segment_size()
        self.active = segment

    def _file_of(self, segment: Segment) -> File:
        if segment.file is None:
            segment.file = self.disk.open(segment.path)
        file: File = segment.file
        return file

    # ── to the disk ──────────────────────────────────────────────────────────────────────────

    def write(self) -> bool:
        """Hand what is new to the OS. StoreError when it does not take it; nothing is lost then."""
        if self._suspect:
            self._heal()
        self._say_evicted()
        if self._floor_pending:
            self._write_floor()
        active = self.active
        if active is None or (active.end == active.written and not self._unwritten):
            self.trouble = None
            return False
        try:
            for segment in self._unwritten:
                self._write_segment(segment)
            self._write_segment(active)
        except OSError as error:
            self.trouble = f"cannot write {self.directory}: {error.strerror or error}"
            if error.errno == errno.EIO:
                self._suspect = True
            raise StoreError(self.trouble) from error
        self._unwritten.clear()
        self.trouble = None
        return True

    def _write_segment(self, segment: Segment) -> None:
        if segment.file is None:
            segment.file = self.disk.open(segment.path, create=True)
        if isinstance(segment.extra, bytes):
            self._names_dirty = True
            segment.allocated = segment.file.size()
            self._allocate(segment, len(segment.extra))
            segment.file.write(0, segment.extra)
            self._heads[segment] = segment.extra
            segment.extra = None
            self._dirty[segment] = segment.start
        if segment.end == segment.written:
            return
        self._allocate(segment, segment.end)
        segment.file.write(segment.written, segment.bytes_from(segment.written))
        segment.written = segment.end
        self._dirty[segment] = segment.end

    def _allocate(self, segment: Segment, need: int) -> None:
        if need <= segment.allocated:
            return
        small = segment.end - segment.written <= ZEROED_WRITE_MAX
        step = min(max(segment.end // 4, ALLOCATE_MIN), ZEROED_STEP if small else ALLOCATE_MAX)
        size = min(need + step, max(segment.limit, need))
        try:
            segment.file.allocate(size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            size = need  # no room for a reserve; perhaps for the records themselves
            segment.file.allocate(size)
        if small and size > need:
            segment.file.write(need, bytes(size - need))
        segment.allocated = size

    def sync(self) -> None:
        """Wait until everything written before this call is on disk. Safe in a worker thread."""
        dirty, self._dirty = self._dirty, {}
        names, self._names_dirty = self._names_dirty, False
        if self._suspect:
            raise StoreError(self.trouble or "an earlier sync failed")
        try:
            for segment in dirty:
                segment.file.sync()
            if names:
                self.disk.sync_directory(self.directory)
                for segment in dirty:
                    segment.extra = NAMED
                    self._heads.pop(segment, None)
        except OSError as error:
            self._suspect = True
            self._names_dirty |= names
            self.trouble = f"cannot sync {self.directory}: {error.strerror or error}"
            raise StoreError(self.trouble) from error
        for segment, upto in dirty.items():
            segment.synced = max(segment.synced, upto)

    def mark_synced(self, seq: int) -> None:
        self.synced_seq = max(self.synced_seq, min(seq, self.last_seq))
        while self._in_journal and self._in_journal[0][0] <= seq:
            for segment, upto in self._in_journal.pop(0)[1].items():
                segment.synced = max(segment.synced, upto)
                segment.extra = NAMED
                self._heads.pop(segment, None)
                if self._dirty.get(segment, upto + 1) <= upto:
                    del self._dirty[segment]

    def take_unsynced(self) -> list[Change]:
        """What was written and is not yet on disk, for the shared journal; loop thread.

        Instead of `sync`: hand it to the journal, sync that, and call `mark_synced`. Until then, or
        when the journal fails, `sync` still does it the other way.
        """
        taken: dict[Segment, int] = {}
        changes: list[Change] = []
        earlier = self._in_journal[-1][1] if self._in_journal else {}
        for segment, upto in self._dirty.items():
            path = self._shared_path(segment.path)
            head = self._heads.get(segment)
            if head is not None and segment not in earlier:
                changes.append((path, 0, head))
            start = max(segment.synced, earlier.get(segment, 0))
            if upto > start:
                data = bytes(segment.bytes_from(start)[: upto - start])
                changes.append((path, start, data))
            taken[segment] = upto
        if taken:
            self._in_journal.append((self.last_seq, {**earlier, **taken}))
        return changes

    def _shared_path(self, path: str) -> str:
        assert self.shared is not None
        return path[len(self.shared.root) + 1 :]

    def settle(self, path: str) -> None:
        """Before a file changes or goes: the shared journal must not bring its old bytes back."""
        if self.shared is not None:
            self.shared.settle(self._shared_path(path))

    def _heal(self) -> None:
        """After a failed sync: put what is not surely on disk into a new file, and sync that."""
        try:
            upkeep.rewrite_unsynced(self)
        except OSError as error:
            self.trouble = f"cannot write {self.directory}: {error.strerror or error}"
            raise StoreError(self.trouble) from error
        self._suspect = False
        self.trouble = None
        self._dirty.clear()

    # ── background ───────────────────────────────────────────────────────────────────────────

    def work(self, budget_ns: int) -> bool:
        """One slice of upkeep; True = there is more to do."""
        deadline = time.monotonic_ns() + budget_ns
        if self.trouble is not None:
            try:
                if not self._suspect:
                    upkeep.remove_at_once(self)
                self.write()
            except (StoreError, OSError):
                return False
        while True:
            if self._job is None:
                self._job = upkeep.next_job(self)
                if self._job is None:
                    self._rest()
                    return False
            try:
                next(self._job)
            except StopIteration:
                self._job = None
            except (OSError, StoreError) as error:
                self._job = None
                if len(self.report) < REPORT_LINES_MAX:
                    self.report.append(f"upkeep: {error}")
                return False
            if time.monotonic_ns() >= deadline:
                return True

    def _rest(self) -> None:
        """Nothing written since the last time: give buffers back, a thousand streams add up."""
        active = self.active
        if active is None:
            return
        if active.end == self._end_seen and active.memory_bytes > IDLE_BYTES_MAX:
            active.release()
            self._drop_windows()
        self._end_seen = active.end

    def close(self) -> None:
        """Everything to the disk, and a note that this was a proper end."""
        if self.closed:
            return
        self.closed = True
        try:
            self.write()
            self.sync()
            upkeep.erase_due(self)
            self._give_back_reserve()
            recovery.note_closed(self)
        finally:
            for segment in self.segments:
                if segment.file is not None:
                    segment.file.close()
                    segment.file = None
            self._drop_windows()

    def _give_back_reserve(self) -> None:
        active = self.active
        if active is not None and active.file is not None and active.allocated > active.end:
            active.file.truncate(active.end)
            active.file.sync()
            active.allocated = active.end

    def abandon(self) -> None:
        """Let go without writing anything, as a crash would; for tests and failed starts."""
        self.closed = True
        for segment in self.segments:
            if segment.file is not None:
                segment.file.close()
                segment.file = None

    def destroy(self) -> None:
        """Remove the stream's bytes for good."""
        self.abandon()
        if self.home is not None:
            self.home.destroy()
        elif self.disk.exists(self.directory):
            self.disk.remove_tree(self.directory)
            self.disk.sync_directory(os.path.dirname(self.directory))  # noqa: PTH120
