"""Opening a stream's log: what is on disk back into memory, and an honest account of what is not.

Segments are read oldest first. A sealed one is taken in from its footer; one without a good footer
is read record by record. Every sequence has to be accounted for by a message, a skip, a removal or
the flag of a compacted segment; what is not, was lost, and is reported as an exact range. Behind a
damaged record reading resumes at the next good one. Files that are not ours are set aside.
"""

from typing import TYPE_CHECKING

import msgspec

from jetstream.store import _record, upkeep
from jetstream.store._crc import crc32c
from jetstream.store._replay import BAD, MORE, find_good, load, scan
from jetstream.store._segment import Segment
from jetstream.store.record import (
    HEAD,
    NEVER,
    Kind,
    evicted_of,
    pack_ranges,
    padded,
    ranges_of,
    segment_seed,
)
from jetstream.store.segment import (
    COMPACTED,
    FOOTER_MAGIC,
    HEADER_SEARCH_BYTES,
    Footer,
    read_footer,
    unpack_header,
)

if TYPE_CHECKING:
    from jetstream.store.files import File
    from jetstream.store.log import FileStore

CHUNK = 4 << 20
CHECKED_AT_ONCE = 32 << 20
"""Sealed segments up to this many bytes are checked before the stream opens, larger logs after."""
NO_SEQ = (1 << 64) - 1
CLOSED = "closed"
QUARANTINE = "quarantine"


def recover(store: "FileStore") -> None:
    """Fill an empty store from its directory."""
    store.disk.make_directory(store.directory)
    firsts = _segment_names(store)
    reached = _drop_unreadable_end(store, firsts)
    for i, first_seq in enumerate(firsts):
        next_first = firsts[i + 1] if i + 1 < len(firsts) else NO_SEQ
        _Opening(store, first_seq, next_first).run()
    if reached > store.last_seq:
        note_lost_tail(store, reached, 0)
    _account_for_the_front(store)
    _compare_with_closed(store)
    if sum(segment.end for segment in store.unchecked) <= CHECKED_AT_ONCE:
        for segment in store.unchecked:
            for _ in upkeep.check_segment(store, segment):
                pass
        store.unchecked.clear()
    lost = store.lost()
    if lost is not None:
        store.report.append(f"{store.directory}: {lost.count} messages lost: {lost.ranges[:20]}")


def _segment_names(store: "FileStore") -> list[int]:
    firsts = []
    for name in store.disk.list(store.directory):
        stem, _, ending = name.rpartition(".")
        if ending == "seg" and len(stem) == 20 and stem.isdigit():
            firsts.append(int(stem))
        elif ending == "tmp":
            store.disk.remove(f"{store.directory}/{name}")
        elif name not in (CLOSED, QUARANTINE):
            quarantine(store, name, "not a file of this store")
    return sorted(firsts)


def _drop_unreadable_end(store: "FileStore", firsts: list[int]) -> int:
    """Set aside newest files in which nothing can be read; returns a sequence they had reached.

    A torn beginning looks like this, and the segment before is then the one to go on with. If the
    file is not empty a message may have been in it, and its sequence must not be used again.
    """
    reached = 0
    while firsts:
        first_seq = firsts[-1]
        file = store.disk.open(f"{store.directory}/{first_seq:020d}.seg")
        if unpack_header(file.read(0, HEADER_SEARCH_BYTES)) is not None:
            break
        data = file.read(0, file.size())
        probe = Segment(first_seq, 0, 0, segment_seed(store.identity.uid, first_seq))
        if find_good(probe, data, 0, 0) >= 0:
            break
        file.close()
        quarantine(store, f"{first_seq:020d}.seg", "nothing in it can be read")
        if data.strip(b"\0"):
            reached = max(reached, first_seq)
        firsts.pop()
    return reached


def quarantine(store: "FileStore", name: str, why: str) -> None:
    """Set a file aside; nothing we do not understand is ever deleted."""
    aside = f"{store.directory}/{QUARANTINE}"
    store.disk.make_directory(aside)
    taken = set(store.disk.list(aside))
    to = name
    while to in taken:
        to += "_"
    store.disk.rename(f"{store.directory}/{name}", f"{aside}/{to}")
    store.disk.sync_directory(aside)
    store.disk.sync_directory(store.directory)
    store.report.append(f"{store.directory}/{name}: set aside, {why}")


class _Opening:
    """One segment being taken in."""

    def __init__(self, store: "FileStore", first_seq: int, next_first: int) -> None:
        self.store = store
        self.first_seq = first_seq
        self.next_first = next_first
        self.path = f"{store.directory}/{first_seq:020d}.seg"
        self.file: File = store.disk.open(self.path)
        self.size = self.file.size()
        self.compacted = False
        self.damaged_bytes = 0
        self.has_footer = False
        self.has_header = False
        self.tail_lost = 0

    def run(self) -> None:
        store = self.store
        found = unpack_header(self.file.read(0, min(self.size, HEADER_SEARCH_BYTES)))
        start = 0
        self.has_header = found is not None
        if found is None:
            store.report.append(f"{self.path}: header unreadable, looking for records")
            self.damaged_bytes = 1
        else:
            header, start = found
            if header.identity.uid != store.identity.uid or header.first_seq != self.first_seq:
                self.file.close()
                quarantine(store, self.path.rpartition("/")[2], "belongs to another stream")
                return
            self.compacted = bool(header.flags & COMPACTED)
            if header.config_version > store.config_version:
                store.config, store.config_version = header.config, header.config_version
            store._set_limit(header.max_msgs_per_subject)
            self._account_before(header.last_seq)
            if header.last_ts > store.last_ts:
                store._advance(store.last_seq, header.last_ts)
        before = store.last_seq
        if not store.segments and store.last_seq < self.first_seq - 1:
            store._advance(self.first_seq - 1, 0)
        segment = Segment(
            self.first_seq, start, start, segment_seed(store.identity.uid, self.first_seq)
        )
        segment.path, segment.file, segment.extra = self.path, self.file, "named"
        segment.allocated = self.size
        self.segment = segment
        footer = read_footer(self.file)
        store.segments.append(segment)
        if footer is not None:
            self._take_footer(footer)
        else:
            self._scan()
        if segment.live == 0 and store.last_seq == before and store.last_seq >= self.first_seq:
            # A crash came between a compaction and the removal of what it replaced.
            store.segments.remove(segment)
            self.file.close()
            store.disk.remove(self.path)

    def _account_before(self, last_seq: int) -> None:
        """What the segments before this one should have reached."""
        store = self.store
        if store.segments and last_seq > store.last_seq:
            store._note_lost(store.last_seq + 1, last_seq, 0)
            store._advance(last_seq, 0)

    # ── sealed ───────────────────────────────────────────────────────────────────────────────

    def _take_footer(self, footer: Footer) -> None:
        segment, store = self.segment, self.store
        segment.start = footer.data_start
        segment.resume(footer.data_end)
        segment.min_time, segment.max_time = footer.min_time, footer.max_time
        load(
            store,
            segment,
            footer.lengths,
            footer.length_width,
            footer.subjects,
            footer.subject_width,
            footer.seqs,
            footer.name_lengths,
            footer.name_bytes,
            self._control_at,
            self._expiry_at,
        )
        segment.last_seq = footer.last_seq
        segment.listed = footer.messages
        segment.sealed = True
        if footer.last_seq > store.last_seq or footer.max_time > store.last_ts:
            store._advance(max(footer.last_seq, store.last_seq), footer.max_time)
        store.unchecked.append(segment)

    def _read(self, offset: int) -> tuple[int, int, int, bytes, bytes, bytes, int, int] | None:
        length = int.from_bytes(self.file.read(offset + 4, 4), "little")
        if not HEAD <= length <= self.size:
            return None
        data = self.file.read(offset, padded(length))
        return _record.unpack(data, self.segment.seed, self.first_seq)

    def _control_at(self, offset: int) -> None:
        record = self._read(offset)
        if record is not None:
            kind, seq, time_ns, _, _, body, _, _ = record
            self._control(kind, seq, time_ns, body)

    def _expiry_at(self, offset: int, seq: int) -> None:
        record = self._read(offset)
        if record is not None and record[6] != NEVER:
            self.store._expect(record[6], seq)

    # ── not sealed, or its footer is damaged ─────────────────────────────────────────────────

    def _scan(self) -> None:
        segment, at, chunk = self.segment, self.segment.start, CHUNK
        while at < self.size:
            data = self.file.read(at, chunk)
            after, why = scan(
                self.store, segment, data, at, self.next_first, self._control, self._gap
            )
            if why == MORE and after > at:
                at, chunk = after, CHUNK
                self.damaged_bytes = 0
            elif why == MORE and at + len(data) < self.size:
                chunk *= 2
            else:
                at = after
                resumed = self._resume(at)
                if resumed < 0:
                    break
                at = resumed
        self._end_of_scan(at)

    def _resume(self, at: int) -> int:
        """Find the next good record behind something that is none; -1 if there is no more."""
        rest = self.file.read(at, self.size - at)
        edge = -(-at // 8) * 8 - at
        if FOOTER_MAGIC in (rest[edge : edge + 8], rest[edge + 8 : edge + 16]):
            self.has_footer = True
            self.store.report.append(f"{self.path}: footer damaged, every record was read")
            return -1
        if not rest.strip(b"\0"):
            return -1
        found = find_good(self.segment, rest, 0, self.store.last_seq)
        if found < 0:
            self.damaged_bytes = len(rest.rstrip(b"\0"))
            return -1
        self.damaged_bytes = found
        self.segment.note_damage(found)
        return at + found

    def _gap(self, first: int, last: int) -> None:
        """Sequences nobody accounts for. Without damage a compacted segment may have such gaps."""
        if self.damaged_bytes or not self.compacted:
            self.store._note_lost(first, last, self.damaged_bytes)
            self.damaged_bytes = 0

    def _end_of_scan(self, at: int) -> None:
        segment, store = self.segment, self.store
        if at == 0:
            self._nothing_readable()
            return
        segment.resume(at)
        segment.checked = True
        segment.last_seq = max(store.last_seq, segment.first_seq - 1)
        if self.next_first != NO_SEQ or self.has_footer:
            store.unsealed.append(segment)
            return
        if self.damaged_bytes:
            self._clear_tail(at)
        if not self.has_header:
            data = self.file.read(segment.start, segment.end - segment.start)
            segment = upkeep.fresh_copy(store, segment, data, segment.start, self.first_seq)
            self.file.close()
            store.segments[-1] = segment
        store._resume_active(segment)
        if self.tail_lost:
            note_lost_tail(store, store.last_seq + self.tail_lost, self.damaged_bytes)

    def _nothing_readable(self) -> None:
        """Neither header nor a record: a torn beginning, or damaged from end to end."""
        store = self.store
        store.segments.remove(self.segment)
        self.file.close()
        quarantine(store, self.path.rpartition("/")[2], "nothing in it can be read")

    def _clear_tail(self, at: int) -> None:
        """The end of the newest segment is torn or damaged: count what it held, then blank it.

        After a power cut these are messages nobody was told about; after damage they may be more.
        The two cannot be told apart, so they are reported, and their sequences are not used again.
        """
        rest = self.file.read(at, self.size - at)
        self.tail_lost = count_messages(rest)
        self.file.write(at, bytes(len(rest)))
        self.file.sync()

    # ── records that are not messages ────────────────────────────────────────────────────────

    def _control(self, kind: int, seq: int, time_ns: int, body: bytes) -> None:
        store = self.store
        if kind == Kind.TOMBSTONE:
            ranges = ranges_of(body)
            if len(body) % 16:
                upkeep.erase_again(store, ranges)
            store._forget_ranges(ranges)
            for first, last in ranges:
                store._was_removed(first, last)
        elif kind == Kind.TRUNCATE:
            floor = int.from_bytes(body, "little")
            store._forget_below(floor)
            store._was_removed(0, floor - 1)
            store._floor_written = max(store._floor_written, floor)
        elif kind in (Kind.SKIP, Kind.LOST):
            for first, last in ranges_of(body):
                if last > store.last_seq:
                    if kind == Kind.LOST:
                        store._note_lost(first, last, 0)
                    store._advance(last, time_ns)
        elif kind == Kind.CONFIG:
            version = int.from_bytes(body[:8], "little")
            if version > store.config_version:
                store.config, store.config_version = body[8:], version
        elif kind == Kind.EVICTED:
            evicted = evicted_of(body)
            store._forget_many(evicted)
            if store.lost_ranges:
                for seq in evicted:
                    store._was_removed(seq, seq)


def note_lost_tail(store: "FileStore", last_seq: int, size: int) -> None:
    """Sequences at the end that may have been given out and are gone: never use them again."""
    first = store.last_seq + 1
    store._control(Kind.LOST, pack_ranges([(first, last_seq)]))
    store._note_lost(first, last_seq, size)
    store._advance(last_seq, 0)


def count_messages(rest: bytes) -> int:
    """How many messages a torn tail seems to have held; at least one unless it says otherwise."""
    at = messages = 0
    while at + HEAD <= len(rest):
        length = int.from_bytes(rest[at + 4 : at + 8], "little")
        kind = rest[at + 12]
        if not HEAD <= length <= len(rest) - at or not Kind.MESSAGE <= kind <= Kind.EVICTED:
            break
        messages += kind == Kind.MESSAGE
        at += padded(length)
    if at == 0:
        messages = 1
    return messages


# ── a proper end ─────────────────────────────────────────────────────────────────────────────


def note_closed(store: "FileStore") -> None:
    """Write down how far the log reached, so that a file cut short later is noticed."""
    text = msgspec.json.encode({"last_seq": store.last_seq})
    line = text + b" %08x\n" % crc32c(text)
    store.disk.replace(f"{store.directory}/{CLOSED}", line)


def _account_for_the_front(store: "FileStore") -> None:
    """Files go from the front only after the floor was written: else the first ones are missing."""
    if store.segments:
        oldest, floor = store.segments[0].first_seq, max(store._floor_written, 1)
        if floor < oldest:
            store._note_lost(floor, oldest - 1, 0)


def _compare_with_closed(store: "FileStore") -> None:
    path = f"{store.directory}/{CLOSED}"
    if not store.disk.exists(path):
        return
    text, _, checksum = store.disk.read(path).strip().rpartition(b" ")
    if checksum != b"%08x" % crc32c(text):
        store.report.append(f"{path}: damaged, ignored")
        return
    last_seq = msgspec.json.decode(text, type=dict[str, int])["last_seq"]
    if last_seq > store.last_seq:
        note_lost_tail(store, last_seq, 0)


__all__ = ["BAD", "note_closed", "quarantine", "recover"]
