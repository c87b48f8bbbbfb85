"""What a log does for itself between messages, in slices: each job is a generator.

    erase     overwrite what was removed for good, once its tombstone is on disk
    remove    files whose messages are all gone, once the floor is on disk
    seal      a full segment gets its footer
    check     every record of a sealed segment is read back after a restart
    compact   segments that are mostly dead are written anew, small neighbours become one

A job yields after about a millisecond of work; `FileStore.work` gives it more when there is time.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from jetstream.store._crc import crc32c
from jetstream.store._replay import (
    append_control,
    check,
    columns,
    copy_live,
    listed,
    place_of,
    relocate,
)
from jetstream.store._segment import Segment
from jetstream.store.record import (
    HEAD,
    Flags,
    Kind,
    evicted_of,
    pack_evicted,
    pack_ranges,
    padded,
    ranges_of,
    segment_seed,
)
from jetstream.store.segment import (
    COMPACTED,
    HEADER_SEARCH_BYTES,
    Header,
    pack_footer,
    pack_header,
    read_footer,
    unpack_header,
)

if TYPE_CHECKING:
    from jetstream.store.log import FileStore

SLICE = 1 << 20
SMALL = 256 << 10
"""Two sealed neighbours below this become one file."""


class Erasure(Struct):
    """A record to overwrite when its tombstone, which ends at `tomb_end`, is on disk."""

    seq: int
    segment: Segment
    offset: int
    tomb: Segment
    tomb_end: int


def next_job(store: "FileStore") -> Iterator[None] | None:
    """The most urgent thing to do, if any."""
    if any(_is_due(each) for each in store.erasures):
        return _once(erase_due, store)
    if any(segment is None or segment.synced >= end for segment, end, _ in store.doomed):
        return remove_doomed(store)
    for segment in store.unsealed:
        if _can_seal(store, segment):
            return seal(store, segment)
    if store.unchecked:
        return check_segment(store, store.unchecked.pop(0))
    run = _worth_compacting(store)
    return compact(store, run) if run else None


def _once(work: "object", store: "FileStore") -> Iterator[None]:
    assert callable(work)
    work(store)
    yield


# ── erase ────────────────────────────────────────────────────────────────────────────────────


def place(store: "FileStore", seq: int) -> tuple[Segment, int]:
    return store._segment_of(seq), place_of(store, seq)


def erase_again(store: "FileStore", ranges: list[tuple[int, int]]) -> None:
    """A tombstone that asks for erasure was read at start: make sure it happened."""
    for first, last in ranges:
        for seq in range(first, last + 1):
            if store.exists(seq):
                segment, offset = place(store, seq)
                store.erasures.append(Erasure(seq, segment, offset, segment, 0))


def _is_due(erasure: Erasure) -> bool:
    on_disk = erasure.tomb.synced >= erasure.tomb_end
    return on_disk and erasure.segment.written > erasure.offset


def erase_due(store: "FileStore") -> None:
    """Overwrite headers and payload with zeros; the record stays whole and says it was erased."""
    due = [each for each in store.erasures if _is_due(each)]
    if due and store.shared is not None:
        store.shared.wipe()  # the bytes are in there as well
    touched = []
    for each in due:
        segment, file = each.segment, store._file_of(each.segment)
        length = int.from_bytes(file.read(each.offset + 4, 4), "little")
        raw = bytearray(file.read(each.offset, padded(length)))
        if len(raw) < HEAD or int.from_bytes(raw[8:12], "little") != each.seq & 0xFFFFFFFF:
            continue
        subject_len = int.from_bytes(raw[14:16], "little")
        body = HEAD + (4 if raw[13] & Flags.WITH_HEADERS else 0)
        body += (8 if raw[13] & Flags.WITH_EXPIRY else 0) + subject_len
        raw[body:] = bytes(len(raw) - body)
        raw[13] |= Flags.ERASED
        raw[:4] = crc32c(raw[4:], segment.seed).to_bytes(4, "little")
        file.write(each.offset, raw)
        touched.append(file)
    for file in touched:
        file.sync()
    store._drop_windows()
    store.erasures = [each for each in store.erasures if each not in due]


# ── remove, seal, check ──────────────────────────────────────────────────────────────────────


def remove_doomed(store: "FileStore") -> Iterator[None]:
    for each in list(store.doomed):
        segment, end, path = each
        if segment is None or segment.synced >= end:
            store.doomed.remove(each)
            if store.disk.exists(path):
                store.settle(path)
                store.disk.remove(path)
            yield


def remove_at_once(store: "FileStore") -> None:
    """The disk refuses writes, perhaps because it is full: files of removed messages go first.

    Their floor is not on disk yet. If the machine stops before it is, the next start reports the
    removed messages as lost, which is better than a disk that stays full.
    """
    for _, _, path in store.doomed:
        if store.disk.exists(path):
            store.disk.remove(path)
    store.doomed.clear()


def _can_seal(store: "FileStore", segment: Segment) -> bool:
    # The next segment's name has to be on disk first: else a torn footer could end the log.
    active = store.active
    later = active is None or active.extra == "named"
    waiting = any(each.segment is segment for each in store.erasures)
    return (
        later and not waiting and segment.synced >= segment.end and segment.written >= segment.end
    )


def seal(store: "FileStore", segment: Segment) -> Iterator[None]:
    """Write the footer and cut the file to its length."""
    file = store._file_of(segment)
    footer = yield from _footer_of(store, segment, placed=True)
    at = -(-segment.end // 8) * 8
    file.write(segment.end, bytes(at - segment.end) + footer)
    file.truncate(at + len(footer))
    file.sync()
    segment.sealed = True
    segment.release()
    segment.forget_records()
    if segment in store.unsealed:
        store.unsealed.remove(segment)
    yield


def _footer_of(
    store: "FileStore", segment: Segment, *, placed: bool
) -> Generator[None, None, bytes]:
    lengths, subjects, seqs, table, records, messages = columns(store, segment, placed)
    segment.listed = messages
    yield
    footer = yield from pack_footer(
        (segment.first_seq, segment.last_seq),
        (segment.min_time, segment.max_time),
        (segment.start, segment.end),
        lengths,
        subjects,
        seqs,
        table,
        records,
        messages,
    )
    return footer


def check_segment(store: "FileStore", segment: Segment) -> Iterator[None]:
    """Read every record back; what is damaged is reported now, not when somebody asks for it."""
    seq, size = segment.first_seq, SLICE
    while seq:
        seq = store.next_seq(seq)
        if not seq or seq > segment.last_seq or segment not in store.segments:
            break
        at = place_of(store, seq)
        data = store._file_of(segment).read(at, min(size, segment.end - at))
        after, damaged = check(store, segment, data, at, seq)
        for each in damaged:
            store._lose_damaged(each)
        if after == seq and not damaged:
            if len(data) < size:
                store._lose_damaged(seq)  # the file ends inside the record
                after = seq + 1
            size *= 2
        else:
            size = SLICE
        seq = after
        yield
    segment.checked = True


# ── compact ──────────────────────────────────────────────────────────────────────────────────


def _worth_compacting(store: "FileStore") -> list[Segment]:
    """A sealed segment that is mostly dead, or small neighbours."""
    busy = {id(each.segment) for each in store.erasures}
    run: list[Segment] = []
    for segment in store.segments:
        if not segment.sealed or id(segment) in busy or segment in store.unchecked:
            run = []
            continue
        used = segment.end - segment.start
        if used > 4096 and segment.live_bytes * 2 < used and segment.extra != "squeezed":
            return [segment]
        if segment.live_bytes < SMALL and segment.end < 2 * SMALL:
            run.append(segment)
            if len(run) >= 2:
                return run
        else:
            run = []
    return []


def compact(store: "FileStore", run: list[Segment]) -> Iterator[None]:
    """Write what still exists of a run of segments into one file that takes the first one's name.

    The new file is complete and synced before it is renamed over the old one; if the power goes
    before the others are removed, they repeat sequences the new file has and are passed over.
    """
    first = run[0]
    found = unpack_header(store._file_of(first).read(0, HEADER_SEARCH_BYTES))
    limit = found[0].max_msgs_per_subject if found else store.max_msgs_per_subject
    before = found[0].last_seq if found else first.first_seq - 1
    head = pack_header(
        Header(
            store.identity,
            first.first_seq,
            store.config,
            store.config_version,
            limit,
            last_ts=found[0].last_ts if found else 0,
            flags=COMPACTED,
            last_seq=before,
        )
    )
    target = Segment(
        first.first_seq, len(head), 1 << 62, segment_seed(store.identity.uid, first.first_seq)
    )
    target.path = first.path + ".tmp"
    target.file = store.disk.open(target.path, create=True)
    target.file.truncate(0)
    target.file.write(0, head)
    for source in run:
        yield from _copy(store, source, target, run)
    last_seq = run[-1].last_seq
    if last_seq > target.last_seq:
        body = pack_ranges([(target.last_seq + 1, last_seq)])
        append_control(target, Kind.SKIP, target.last_seq + 1, run[-1].max_time, body)
    target.last_seq = last_seq
    _flush(target)
    footer = yield from _footer_of(store, target, placed=False)
    at = -(-target.end // 8) * 8
    target.file.write(target.end, bytes(at - target.end) + footer)
    target.file.sync()
    yield
    if any(source not in store.segments or source.extra is False for source in run):
        target.file.close()  # purged meanwhile
        store.disk.remove(target.path)
        return
    _swap(store, run, target)
    store.disk.sync_directory(store.directory)
    for source in run[1:]:
        store.disk.remove(source.path)
    yield


def _copy(
    store: "FileStore", source: Segment, target: Segment, run: list[Segment]
) -> Iterator[None]:
    oldest, start = store.segments[0].first_seq, run[0].first_seq

    def keep(kind: int, body: bytes) -> bytes | None:
        # Only what may still be physically there, in an older file, needs its tombstone.
        if kind == Kind.TOMBSTONE:
            needed = [each for each in ranges_of(body) if each[0] < start and each[1] >= oldest]
            return pack_ranges(needed) if needed else None
        if kind == Kind.EVICTED:
            still = still_there(store, [seq for seq in evicted_of(body) if oldest <= seq < start])
            return pack_evicted(still) if still else None
        if kind == Kind.TRUNCATE:
            return body if int.from_bytes(body, "little") >= oldest else None
        if kind == Kind.SKIP:
            return None
        return body

    at, size = source.start, SLICE
    file = store._file_of(source)
    while at < source.end:
        data = file.read(at, min(size, source.end - at))
        after = copy_live(store, source, target, data, at, keep)
        if after == at:
            if at + len(data) >= source.end:
                break  # damaged up to its end
            size *= 2
            continue
        at, size = after, SLICE
        if target.end - target.written >= SLICE:
            _flush(target)
        yield


def still_there(store: "FileStore", seqs: list[int]) -> list[int]:
    """Removed sequences whose records older files still list as existing."""
    kept: list[int] = []
    rest = sorted(seqs)
    for segment in store.segments:
        here = [seq for seq in rest if segment.first_seq <= seq <= segment.last_seq]
        if here and segment.sealed:
            footer = read_footer(store._file_of(segment))
            if footer is not None:
                here = listed(
                    footer.first_seq,
                    footer.last_seq,
                    footer.subjects,
                    footer.subject_width,
                    footer.seqs,
                    here,
                )
        kept += here
    return kept


def _flush(target: Segment) -> None:
    if target.end > target.written:
        target.file.write(target.written, target.bytes_from(target.written))
        target.file.sync()
        target.written = target.synced = target.end


def _swap(store: "FileStore", run: list[Segment], target: Segment) -> None:
    at = store.segments.index(run[0])
    final = run[0].path
    for source in run:
        store.settle(source.path)
    store.disk.rename(target.path, final)
    target.path = final
    store.segments[at : at + len(run)] = [target]
    relocate(store, target)
    target.sealed = target.checked = True
    target.extra = "squeezed" if target.end - target.start > 2 * target.live_bytes else "named"
    target.release()
    target.forget_records()
    for source in run:
        store._drop_windows(source)
        if source.file is not None:
            source.file.close()


# ── after a failed sync ──────────────────────────────────────────────────────────────────────


def rewrite_unsynced(store: "FileStore") -> None:
    """Put every record that is not surely on disk into a fresh file and sync it.

    The old file keeps what was synced; its newer bytes may or may not be on disk and are passed
    over at the next start, because the new file begins with the first of their sequences.
    """
    for segment in list(store.segments):
        if segment.synced >= segment.end and segment.extra == "named":
            continue
        if segment.kept_from > segment.synced:
            raise OSError(5, "what was not synced is no longer in memory; restart the server")
        _rewrite(store, segment)
    store._unwritten.clear()
    store.disk.sync_directory(store.directory)


def _rewrite(store: "FileStore", segment: Segment) -> None:
    whole = segment.synced == segment.start or segment.extra != "named"
    cut = segment.start if whole else segment.synced
    data = bytes(segment.bytes_from(cut))
    first_seq = segment.first_seq
    if not whole:
        first_seq = _first_message(data, segment) or store.last_seq + 1
    target = fresh_copy(store, segment, data, cut, first_seq)
    at = store.segments.index(segment)
    if whole:
        store.segments[at] = target
        if segment.file is not None:
            segment.file.close()
    else:
        segment.live -= target.live
        segment.live_bytes -= target.live_bytes
        segment.last_seq = first_seq - 1
        segment.cut_back(cut)
        store.segments.insert(at + 1, target)
    if store.active is segment:
        store.active = target
        if not whole:
            store.unsealed.append(segment)
    elif segment in store.unsealed:
        i = store.unsealed.index(segment)
        store.unsealed[i : i + 1] = [target] if whole else [segment, target]
    store._drop_found()


def fresh_copy(
    store: "FileStore", segment: Segment, data: bytes, at: int, first_seq: int
) -> Segment:
    """A new file with what exists in `data`, which stands at offset `at` of a segment."""
    head = pack_header(
        Header(
            store.identity,
            first_seq,
            store.config,
            store.config_version,
            store.max_msgs_per_subject,
            store.last_ts,
            flags=COMPACTED,  # removed messages are not copied
            last_seq=first_seq - 1,
        )
    )
    seed = segment_seed(store.identity.uid, first_seq)
    target = Segment(first_seq, len(head), max(segment.limit, len(head) + SLICE), seed)
    target.path = f"{store.directory}/{first_seq:020d}.seg"
    beside = target.path + ".tmp"
    target.file = store.disk.open(beside, create=True)
    target.file.truncate(0)
    target.file.write(0, head)
    copy_live(store, segment, target, data, at, lambda kind, body: body)
    _flush(target)
    target.file.sync()
    if store.disk.exists(target.path):
        store.settle(target.path)
    store.disk.rename(beside, target.path)
    store.disk.sync_directory(store.directory)
    target.allocated = target.file.size()
    target.extra = "named"
    target.checked = True
    target.last_seq = segment.last_seq
    relocate(store, target)
    return target


def _first_message(data: bytes, segment: Segment) -> int:
    at = 0
    while at + HEAD <= len(data):
        if data[at + 12] == Kind.MESSAGE:
            low = int.from_bytes(data[at + 8 : at + 12], "little")
            return segment.first_seq + ((low - segment.first_seq) & 0xFFFFFFFF)
        at += padded(int.from_bytes(data[at + 4 : at + 8], "little"))
    return 0
