# cython: language_level=3
"""Segments back into the index after a restart, and the columns of a footer out of it.

`scan` reads records one after the other and checks every checksum; `load` trusts a footer whose
checksum is right; `check` compares the records of a segment with the index afterwards. `find_good`
looks for the next good record behind a damaged one: at every multiple of four.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memmove, memset

from jetstream.store._index cimport HAS_EXPIRY, HAS_HEADERS, SIZE_MASK, Slot
from jetstream.store._log cimport LogBase
from jetstream.store._record cimport (
    ALIGN, ERASED, HEAD, MESSAGE, WITH_EXPIRY, WITH_HEADERS, Record, decode, encode, padded,
)
from jetstream.store._segment cimport CONTROL_BIT, WORD_BITS, Segment

MORE, ZERO, BAD, DONE = range(4)


def scan(LogBase log not None, Segment segment not None, const unsigned char[::1] data, uint64_t base,
         uint64_t stop_seq, control, gap):
    """Take in whole good records from `data`, which stands at offset `base` of the segment.

    Returns (offset, why it stopped). `control(record…)` is called for records that are no messages,
    `gap(first, last)` before a message that does not follow its predecessor. Messages at or above
    `stop_seq` belong to the next segment and are passed over.
    """
    cdef uint64_t at = 0, size = data.shape[0]
    cdef const char* p = <const char*>&data[0] if size else NULL
    cdef Record r
    cdef int found
    cdef int64_t zero = 0
    while at < size:
        found = decode(p + at, size - at, segment.seed, segment.first_seq, True, &r)
        if found == 0:
            return base + at, MORE
        if found < 0:
            zero = 0
            memcpy(&zero, p + at, 8)
            return base + at, ZERO if zero == 0 else BAD
        segment.note(r.length, r.kind, r.flags, r.seq)
        if r.kind == MESSAGE:
            if log.last_seq < r.seq < stop_seq:
                if r.seq > log.last_seq + 1:
                    gap(log.last_seq + 1, r.seq - 1)
                if r.flags & ERASED:
                    log._advance(r.seq, r.time_ns)
                    segment.last_seq = r.seq
                else:
                    log._index_message(segment, base + at, &r)
        else:
            if log.last_seq + 1 < r.seq <= stop_seq:
                gap(log.last_seq + 1, r.seq - 1)
                log._advance(r.seq - 1, 0)
            control(r.kind, r.seq, r.time_ns, r.payload[:r.payload_len])
        at += padded(r.length)
        segment.end = base + at
    return base + at, MORE


def find_good(Segment segment not None, const unsigned char[::1] data, uint64_t start, uint64_t above_seq):
    """Offset in `data` of the next good record from `start` on whose sequence is above; -1: none."""
    cdef uint64_t at = (start + ALIGN - 1) & ~<uint64_t>(ALIGN - 1)
    cdef uint64_t size = data.shape[0]
    cdef const char* p = <const char*>&data[0] if size else NULL
    cdef Record r
    while at + HEAD <= size:
        if decode(p + at, size - at, segment.seed, segment.first_seq, True, &r) == 1 and r.seq > above_seq:
            return at
        at += ALIGN
    return -1


def load(LogBase log not None, Segment segment not None, lengths, int length_width, subjects,
         int subject_width, seqs, name_lengths, bytes name_bytes not None, control, expiry):
    """Take in a sealed segment from the columns of its footer; returns where its records end.

    `control(offset)` and `expiry(offset, seq)` read the record there: only the few that are no
    messages or expire on their own are touched.
    """
    cdef const unsigned char[::1] lens = lengths
    cdef const unsigned char[::1] subs = subjects
    cdef const unsigned char[::1] lows
    cdef Py_ssize_t i, n = lens.shape[0] // length_width
    cdef uint32_t word, low, sid, local, size
    cdef uint64_t offset = segment.start, seq = segment.first_seq - 1
    cdef uint64_t deaths = log.index.table.deaths
    cdef const unsigned char[::1] name_lens = name_lengths
    cdef uint32_t names = <uint32_t>(name_lens.shape[0] // 2)
    cdef uint32_t* name_at = <uint32_t*>calloc(names + 1, sizeof(uint32_t))
    cdef uint16_t name_len
    cdef const char* raw = name_bytes
    cdef size_t known = (names + 2) * sizeof(uint32_t)
    cdef uint32_t* sids = <uint32_t*>calloc(1, known)
    cdef bint dense = seqs is None
    if sids == NULL or name_at == NULL:
        free(sids)
        free(name_at)
        raise MemoryError
    if not dense:
        lows = seqs
    try:
        for i in range(names):
            memcpy(&name_len, &name_lens[i * 2], 2)
            name_at[i + 1] = name_at[i] + name_len
        for i in range(n):
            word = 0
            memcpy(&word, &lens[i * length_width], length_width)
            local = 0
            memcpy(&local, &subs[i * subject_width], subject_width)
            if local == 1:
                control(offset)
            else:
                seq += 1
                if not dense:
                    memcpy(&low, &lows[i * 4], 4)
                    seq = segment.first_seq + <uint32_t>(low - <uint32_t>segment.first_seq)
                if seq <= log.last_seq:
                    local = 0
                else:
                    log.last_seq = seq
                    if log.index.msgs == 0:
                        log.first = seq if local else seq + 1
            if local > 1:
                if log.index.table.deaths != deaths:
                    # A subject whose last message went has given its number back: learn them anew.
                    deaths = log.index.table.deaths
                    memset(sids, 0, known)
                sid = sids[local]
                if sid == 0:
                    sid = sids[local] = log.index.table.intern(
                        raw + name_at[local - 2], name_at[local - 1] - name_at[local - 2]
                    )
                size = (word >> WORD_BITS) + 6
                if word & WITH_EXPIRY:
                    size -= 8
                    expiry(offset, seq)
                    size |= HAS_EXPIRY
                if word & WITH_HEADERS:
                    size |= HAS_HEADERS
                log.index.put(seq, <uint32_t>(offset >> 2), size, sid)
                segment.live += 1
                segment.live_bytes += size & SIZE_MASK
            offset += padded(word >> WORD_BITS)
    finally:
        free(sids)
        free(name_at)
    return offset


def columns(LogBase log not None, Segment segment not None, bint placed=True):
    """What a footer says about each record: lengths, subjects, sequences, and the subject table.

    `placed` false: the segment is a copy the index does not point into yet.
    """
    cdef uint32_t i, word, local, sid, widest = 0, n = segment.records
    cdef uint64_t seq, expected = segment.first_seq, offset = segment.start, messages = 0
    cdef Slot* slot
    cdef bint dense = True
    cdef list names = []
    cdef bytearray subjects = bytearray(4 * n + 4)
    cdef uint32_t* subs = <uint32_t*><char*>subjects
    cdef uint32_t* known = <uint32_t*>calloc(log.index.table.used + 1, sizeof(uint32_t))
    cdef uint32_t* counts = <uint32_t*>calloc(n + 2, sizeof(uint32_t))
    cdef uint64_t* lasts = <uint64_t*>calloc(n + 2, sizeof(uint64_t))
    try:
        if known == NULL or counts == NULL or lasts == NULL:
            raise MemoryError
        for i in range(n):
            word = segment.lens[i]
            if word > widest:
                widest = word
            if word & CONTROL_BIT:
                subs[i] = 1
            else:
                seq = segment.first_seq + <uint32_t>(segment.seqs[i] - <uint32_t>segment.first_seq)
                if seq != expected:
                    dense = False
                expected = seq + 1
                slot = log.index.at(seq)
                if slot != NULL and (not placed or <uint64_t>slot.place << 2 == offset):
                    sid = slot.sid
                    local = known[sid]
                    if local == 0:
                        names.append(log.index.table.entries[sid].name[:log.index.table.entries[sid].name_len])
                        local = known[sid] = <uint32_t>len(names) + 1
                    subs[i] = local
                    counts[local] += 1
                    lasts[local] = seq
                    messages += 1
            offset += padded(word >> WORD_BITS)
        table = [(names[i], counts[i + 2], lasts[i + 2]) for i in range(<uint32_t>len(names))]
    finally:
        free(known)
        free(counts)
        free(lasts)
    return (
        narrowed(segment.lens, n, 2 if widest < 0x10000 else 4),
        narrowed(subs, n, 1 if len(names) < 0xFE else 2 if len(names) < 0xFFFE else 4),
        b"" if dense else narrowed(segment.seqs, n, 4)[0],
        table,
        n,
        messages,
    )


cdef tuple narrowed(const uint32_t* values, uint32_t n, int width):
    """The low `width` bytes of each value, and the width."""
    cdef bytearray out = bytearray(n * width)
    cdef char* at = out
    cdef uint32_t i
    for i in range(n):
        memcpy(at + i * width, &values[i], width)
    return bytes(out), width


def check(LogBase log not None, Segment segment not None, const unsigned char[::1] data, uint64_t base,
          uint64_t start_seq):
    """Compare existing messages of a segment with the bytes `data` at offset `base`.

    Goes on from `start_seq` while records lie wholly inside `data`; returns (sequence to go on with
    or 0, sequences found damaged).
    """
    cdef uint64_t size = data.shape[0], seq = log.index.next_live(start_seq), offset, want
    cdef const char* p = <const char*>&data[0] if size else NULL
    cdef list damaged = []
    cdef Slot* slot
    cdef Record r
    while seq and seq <= segment.last_seq:
        slot = log.index.at(seq)
        offset = <uint64_t>slot.place << 2
        want = (slot.size & SIZE_MASK) + 8
        if offset >= segment.mem_from:
            return 0, damaged       # still in memory: nothing to compare with
        if offset < base:
            break
        want = min(want, segment.end - offset)
        if offset + want > base + size:
            return seq, damaged
        if decode(p + (offset - base), want, segment.seed, segment.first_seq, True, &r) != 1 or r.seq != seq \
                or r.kind != MESSAGE or r.flags & ERASED:
            damaged.append(seq)
        seq = log.index.next_live(seq + 1)
    return 0, damaged


def place_of(LogBase log not None, uint64_t seq):
    """Offset of an existing message in its segment, 0 if there is none."""
    cdef Slot* slot = log.index.at(seq)
    return <uint64_t>slot.place << 2 if slot != NULL else 0


def copy_live(LogBase log not None, Segment source not None, Segment target not None,
              const unsigned char[::1] data, uint64_t base, control):
    """Copy what still exists from `data`, at offset `base` of `source`, to the end of `target`.

    Returns the offset to go on from. `control(kind, body)` gives the body to keep, or None.
    """
    cdef uint64_t at = 0, size = data.shape[0]
    cdef const char* p = <const char*>&data[0] if size else NULL
    cdef Record r
    cdef Slot* slot
    cdef int found
    cdef uint64_t skip
    while at < size:
        found = decode(p + at, min(size - at, source.end - base - at), source.seed, source.first_seq, True, &r)
        if found == 0:
            break
        if found < 0:
            # Damaged: what the index knew about it is reported elsewhere; look for the next record.
            skip = 4
            while at + skip + HEAD <= size and \
                    decode(p + at + skip, size - at - skip, source.seed, source.first_seq, True, &r) != 1:
                skip += ALIGN
            if at + skip + HEAD > size:
                break
            at += skip
            continue
        if r.kind == MESSAGE:
            slot = log.index.at(r.seq)
            if slot != NULL and <uint64_t>slot.place << 2 == base + at:
                append_record(target, MESSAGE, r.seq, r.time_ns, r.expires_at, r.subject, r.subject_len,
                              r.headers, r.headers_len, r.headers_len + r.payload_len)
        else:
            body = control(r.kind, r.payload[:r.payload_len])
            if body is not None:
                append_record(target, r.kind, r.seq, r.time_ns, 0, NULL, 0, <const char*><bytes>body, 0, <uint32_t>len(body))
        at += padded(r.length)
    return base + at


cdef int append_record(Segment target, uint8_t kind, uint64_t seq, int64_t time_ns, int64_t expires_at,
                       const char* subject, uint32_t subject_len, const char* body, uint32_t headers_len,
                       uint32_t total_len) except -1:
    cdef size_t need = HEAD + 16 + ALIGN + subject_len + total_len
    cdef uint32_t length
    if target.end - target.mem_from + need > target.mem_room:
        target.hold(need)
    length = encode(target.mem + (target.end - target.mem_from), target.seed, kind, seq, time_ns, expires_at,
                    subject, subject_len, body, headers_len, total_len, True)
    target.note(length, kind, (1 if headers_len else 0) | (2 if expires_at else 0), seq)
    target.end += padded(length)
    if kind == MESSAGE:
        target.last_seq = seq
        if target.min_time == 0 or time_ns < target.min_time:
            target.min_time = time_ns
        target.max_time = max(target.max_time, time_ns)
    return 0


def append_control(Segment target not None, uint8_t kind, uint64_t seq, int64_t time_ns, bytes body not None):
    append_record(target, kind, seq, time_ns, 0, NULL, 0, body, 0, <uint32_t>len(body))


def relocate(LogBase log not None, Segment target not None):
    """The index points into `target` from now on; counts what lives there."""
    cdef uint64_t offset = target.start, seq
    cdef uint32_t i, word
    cdef Slot* slot
    target.live = target.live_bytes = 0
    for i in range(target.records):
        word = target.lens[i]
        if not word & CONTROL_BIT:
            seq = target.first_seq + <uint32_t>(target.seqs[i] - <uint32_t>target.first_seq)
            slot = log.index.at(seq)
            if slot != NULL:
                slot.place = <uint32_t>(offset >> 2)
                target.live += 1
                target.live_bytes += slot.size & SIZE_MASK
        offset += padded(word >> WORD_BITS)
    log.found = None


def squeeze(LogBase log not None, Segment segment not None):
    """Memory segments: move what still exists together and give the rest back."""
    cdef uint64_t seq = log.index.next_live(segment.first_seq), to = segment.start, offset
    cdef Slot* slot
    cdef Record r
    cdef char* smaller
    while seq and seq <= segment.last_seq:
        slot = log.index.at(seq)
        offset = <uint64_t>slot.place << 2
        decode(segment.mem + (offset - segment.mem_from), segment.end - offset, 0, segment.first_seq, False, &r)
        memmove(segment.mem + (to - segment.mem_from), segment.mem + (offset - segment.mem_from), padded(r.length))
        slot.place = <uint32_t>(to >> 2)
        to += padded(r.length)
        seq = log.index.next_live(seq + 1)
    segment.end = to
    smaller = <char*>realloc(segment.mem, max(to - segment.mem_from, 8))
    if smaller != NULL:
        segment.mem = smaller
        segment.mem_room = max(to - segment.mem_from, 8)


def listed(uint64_t first_seq, uint64_t last_seq, subjects, int subject_width, seqs, list wanted):
    """Those of the `wanted` sequences that a footer still lists as existing messages."""
    cdef const unsigned char[::1] subs = subjects
    cdef const unsigned char[::1] lows
    cdef Py_ssize_t i, n = subs.shape[0] // subject_width
    cdef uint32_t local, low
    cdef uint64_t seq = first_seq - 1
    cdef bint dense = seqs is None
    if last_seq - first_seq > 1 << 26:
        return wanted       # too wide for a map; keeping more than needed does no harm
    cdef bytearray present = bytearray(last_seq - first_seq + 1)
    if not dense:
        lows = seqs
    for i in range(n):
        local = 0
        memcpy(&local, &subs[i * subject_width], subject_width)
        if local == 1:
            continue
        seq += 1
        if not dense:
            memcpy(&low, &lows[i * 4], 4)
            seq = first_seq + <uint32_t>(low - <uint32_t>first_seq)
        if local:
            present[seq - first_seq] = 1
    return [each for each in wanted if first_seq <= each <= last_seq and present[each - first_seq]]
