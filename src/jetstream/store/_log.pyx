# cython: language_level=3
"""The log of one stream: records in segments, an index over them. Both stores stand on it.

    append_run(batch) ─► record into the active segment's memory ─► slot into the index
    record(seq)       ─► slot ─► segment ─► its memory, or a window read from its file

The active segment keeps in memory what is not yet safely on disk; older bytes are read through a
few small windows, so bodies take a bounded amount of memory. Files, rolling and recovery are the
business of the classes above (`log.py`, `memory.py`): they hand in segments through `_roll`.
"""

from cpython cimport array
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
import array
from heapq import heappop, heappush

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memmove

cdef extern from "stdlib.h":
    int posix_memalign(void** out, size_t alignment, size_t size) nogil

cdef extern from "sys/mman.h":
    int MADV_HUGEPAGE
    int madvise(void* at, size_t size, int advice) nogil

from jetstream.errors import StoreError
from jetstream.store._index cimport HAS_EXPIRY, HAS_HEADERS, SIZE_MASK, Index, Slot
from jetstream.store._record cimport (
    ALIGN, ERASED, EVICTED, HEAD, LOST, MESSAGE, SKIP, TOMBSTONE, TRUNCATE, WITH_EXPIRY, Record,
    decode, encode, padded,
)
from jetstream.store._subjects cimport Filter, Subject, SubjectTable
from jetstream.store._view cimport View
from jetstream.store.base import LostData, StoredMessage
from jetstream.wire._parser cimport Batch

cdef array.array SEQS = array.array("Q")
cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF

cdef enum:
    FIRST_MEMORY = 8192
    HUGE_PAGE = 2097152
    UNSYNCED_KEPT_MAX = 33554432    # bytes kept for a second attempt while the disk does not sync
    WINDOWS = 4
    READ_AHEAD = 131072
    READ_ONE = 4096


cdef class Segment:
    """One run of sequences and the bytes of their records."""

    def __cinit__(self, uint64_t first_seq, uint64_t start, uint64_t limit, uint32_t seed=0):
        self.first_seq = first_seq
        self.last_seq = first_seq - 1
        self.start = self.end = self.written = self.synced = self.mem_from = start
        self.limit = limit
        self.seed = seed

    def __dealloc__(self):
        free(self.mem)
        free(self.lens)
        free(self.seqs)

    cdef int note(self, uint32_t length, uint8_t kind, uint8_t flags, uint64_t seq) except -1:
        """Remember a record for the footer."""
        cdef uint32_t room
        cdef uint32_t* grown
        if self.records == self.records_room:
            room = self.records_room * 2 + 16
            grown = <uint32_t*>realloc(self.lens, room * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError
            self.lens = grown
            grown = <uint32_t*>realloc(self.seqs, room * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError
            self.seqs = grown
            self.records_room = room
        self.lens[self.records] = (length << WORD_BITS) | (flags & 3 if kind == MESSAGE else CONTROL_BIT)
        self.seqs[self.records] = <uint32_t>seq
        self.records += 1
        return 0

    cdef int hold(self, size_t need) except -1:
        """Make room in memory for `need` more bytes, dropping what is safe on disk first."""
        cdef uint64_t used = self.end - self.mem_from
        cdef uint64_t safe = min(self.written, self.synced)
        cdef uint64_t drop, room
        cdef char* grown
        cdef void* fresh = NULL
        if self.written - self.mem_from > UNSYNCED_KEPT_MAX:
            safe = self.written
        drop = safe - self.mem_from if safe > self.mem_from else 0
        if self.file is not None and drop >= self.mem_room // 2 and used - drop + need <= self.mem_room:
            memmove(self.mem, self.mem + drop, used - drop)
            self.mem_from += drop
            return 0
        room = max(self.mem_room * 2, <uint64_t>FIRST_MEMORY)
        while room < used + need:
            room *= 2
        if self.whole:
            room = max(self.limit, used + need)
        if self.whole and room >= HUGE_PAGE:
            # Untouched memory costs nothing, and huge pages spare a fault every few messages.
            room = (room + HUGE_PAGE - 1) & ~<uint64_t>(HUGE_PAGE - 1)
            if posix_memalign(&fresh, HUGE_PAGE, room) != 0:
                raise MemoryError
            madvise(fresh, room, MADV_HUGEPAGE)
            memcpy(fresh, self.mem, used)
            free(self.mem)
            grown = <char*>fresh
        else:
            grown = <char*>realloc(self.mem, room)
            if grown == NULL:
                raise MemoryError
        self.mem = grown
        self.mem_room = room
        return 0

    def release(self):
        """Give memory back: bytes that are on disk are read from there when they are asked for."""
        cdef uint64_t safe = min(self.written, self.synced)
        if self.file is None or safe < self.end:
            return
        free(self.mem)
        self.mem = NULL
        self.mem_room = 0
        self.mem_from = self.end

    def resume(self, uint64_t end):
        """Everything up to `end` is on disk and nothing is in memory."""
        free(self.mem)
        self.mem = NULL
        self.mem_room = 0
        self.end = self.written = self.synced = self.mem_from = end

    def note_damage(self, uint32_t size):
        """A stretch of the file that holds no readable record."""
        self.note(size, 0, 0, self.last_seq)

    def cut_back(self, uint64_t end):
        """What lies behind `end` is not part of this segment any more."""
        cdef uint64_t offset = self.start
        cdef uint32_t i = 0
        while i < self.records and offset < end:
            offset += padded(self.lens[i] >> WORD_BITS)
            i += 1
        self.records = i
        self.resume(end)

    def forget_records(self):
        free(self.lens)
        free(self.seqs)
        self.lens = NULL
        self.seqs = NULL
        self.records = self.records_room = 0

    def bytes_from(self, uint64_t offset):
        """A view of the bytes in memory from `offset` on; valid until the next append."""
        assert offset >= self.mem_from
        if offset == self.end:
            return memoryview(b"")
        return PyMemoryView_FromMemory(self.mem + (offset - self.mem_from), self.end - offset, PyBUF_READ)

    @property
    def kept_from(self):
        """The first offset whose bytes are still in memory."""
        return self.mem_from

    @property
    def memory_bytes(self):
        return self.mem_room + self.records_room * 8


cdef class LogBase(View):
    def __cinit__(self, *args, **kwargs):
        self.segments = []
        self.lost_ranges = []
        self.window_segments = [None] * WINDOWS
        self.expiries = []
        self.max_msgs_per_subject = -1

    def __dealloc__(self):
        cdef int i
        for i in range(WINDOWS):
            free(self.windows[i].data)
        free(self.evicted)

    def _roll(self, uint64_t first_seq):
        """Begin the next segment; the class above knows where its bytes go."""
        raise NotImplementedError

    def _file_of(self, Segment segment):
        raise NotImplementedError

    # ── appending ────────────────────────────────────────────────────────────────────────────

    def append_run(self, Batch batch not None, Py_ssize_t start, Py_ssize_t stop, int64_t now):
        """Append the messages [start, stop) of a batch; returns the sequence of the first."""
        cdef uint64_t first = self.last_seq + 1
        cdef uint64_t seq = first
        cdef const char* subject
        cdef const char* memo = NULL
        cdef uint32_t length, memo_len = 0, sid = 0
        cdef SubjectTable table = self.index.table
        cdef Py_ssize_t i
        if self.trouble is not None:
            raise StoreError(self.trouble)
        for i in range(start, stop):
            subject = batch.base + batch.subject_at[i]
            length = batch.subject_len[i]
            if length != memo_len or memo == NULL or memcmp(subject, memo, length) != 0 or table.entries[sid].count == 0:
                sid = table.intern(subject, length)
                memo = subject
                memo_len = length
            self._store(seq, now, 0, subject, length, batch.base + batch.body_at[i],
                        batch.header_len[i], batch.total_len[i], sid)
            seq += 1
        return first

    def append(self, bytes subject not None, bytes headers, bytes payload, int64_t now, *,
               uint64_t seq=0, int64_t expires_at=0):
        """Append one message; `seq` > 0 gives its sequence (mirrors, restore), gaps allowed."""
        cdef bytes body = headers + payload if headers else payload
        cdef uint32_t sid
        if self.trouble is not None:
            raise StoreError(self.trouble)
        if expires_at < 0:
            expires_at = NEVER
        if seq == 0:
            seq = self.last_seq + 1
        elif seq <= self.last_seq:
            raise StoreError(f"sequence {seq} is not above the last one, {self.last_seq}")
        sid = self.index.table.intern(subject, <uint32_t>len(subject))
        self._store(seq, now, expires_at, subject, <uint32_t>len(subject), body,
                    <uint32_t>len(headers), <uint32_t>len(body), sid)
        if expires_at and expires_at != NEVER:
            heappush(self.expiries, (expires_at, seq))
        return seq

    cdef char* _room(self, uint64_t seq, size_t need) except NULL:
        """Memory for `need` bytes at the end of the active segment, a new one if this is full."""
        cdef Segment segment = self.active
        if segment is None or segment.sealed or (
            segment.end + need > segment.limit and segment.end > segment.start
        ) or seq - segment.first_seq >= 0xFFFFFF00:
            self._roll(seq)
            segment = self.active
        if segment.end - segment.mem_from + need > segment.mem_room:
            segment.hold(need)
        return segment.mem + (segment.end - segment.mem_from)

    cdef int _store(self, uint64_t seq, int64_t now, int64_t expires_at, const char* subject, uint32_t subject_len,
                    const char* body, uint32_t headers_len, uint32_t total_len, uint32_t sid) except -1:
        cdef char* at = self._room(seq, HEAD + 16 + ALIGN + subject_len + total_len)
        cdef Segment segment = self.active
        cdef uint32_t length, size
        length = encode(at, segment.seed, MESSAGE, seq, now, expires_at, subject, subject_len,
                        body, headers_len, total_len, not self.in_memory)
        if self.in_memory:
            size = 16 + subject_len + total_len
        else:
            size = 30 + subject_len + total_len
            segment.note(length, MESSAGE, (1 if headers_len else 0) | (2 if expires_at else 0), seq)
        if headers_len:
            size += 0 if self.in_memory else 4
            size |= HAS_HEADERS
        if expires_at:
            size |= HAS_EXPIRY
        self.index.put(seq, <uint32_t>(segment.end >> 2), size, sid)
        segment.end += padded(length)
        segment.last_seq = seq
        segment.live += 1
        segment.live_bytes += size & SIZE_MASK
        if segment.min_time == 0 or now < segment.min_time:
            segment.min_time = now
        if now > segment.max_time:
            segment.max_time = now
        if self.index.msgs == 1:
            self.first = seq
        self.last_seq = seq
        self.last_ts = now
        if self.max_msgs_per_subject > 0 and self.index.table.entries[sid].count > self.max_msgs_per_subject:
            self._evict_over(sid)
        return 0

    cdef int _evict_over(self, uint32_t sid) except -1:
        """Drop the oldest messages of a subject beyond max_msgs_per_subject.

        They are named in one record per write, not in a tombstone each. Should that record be lost,
        the same limit removes the same messages again at the next start.
        """
        cdef Subject* subject = &self.index.table.entries[sid]
        cdef uint64_t* grown
        cdef size_t room
        while subject.count > self.max_msgs_per_subject:
            if self.evicted_used == self.evicted_room:
                room = self.evicted_room * 2 + 64
                grown = <uint64_t*>realloc(self.evicted, room * sizeof(uint64_t))
                if grown == NULL:
                    raise MemoryError
                self.evicted = grown
                self.evicted_room = room
            self.evicted[self.evicted_used] = subject.first
            self.evicted_used += 1
            self._forget(subject.first)
        return 0

    def take_evicted(self):
        cdef array.array out
        self._say_evicted()
        out = array.clone(SEQS, self.evicted_used, zero=False)
        memcpy(out.data.as_voidptr, self.evicted, self.evicted_used * sizeof(uint64_t))
        self.evicted_used = self.evicted_said = 0
        return out

    def _say_evicted(self):
        """Put the evictions since the last time into the log: a base and distances from it."""
        cdef size_t i, said = self.evicted_said
        cdef uint64_t low, high
        cdef uint32_t distance
        cdef bytearray body
        if self.evicted_used == said:
            return
        self.evicted_said = self.evicted_used
        if self.in_memory:
            return
        low = high = self.evicted[said]
        for i in range(said, self.evicted_used):
            low = min(low, self.evicted[i])
            high = max(high, self.evicted[i])
        if high - low >= 0xFFFFFFFF:
            for i in range(said, self.evicted_used):
                self._control(EVICTED, self.evicted[i].to_bytes(8, "little") + bytes(4))
            return
        body = bytearray(8 + 4 * (self.evicted_used - said))
        memcpy(<char*>body, &low, 8)
        for i in range(said, self.evicted_used):
            distance = <uint32_t>(self.evicted[i] - low)
            memcpy(<char*>body + 8 + 4 * (i - said), &distance, 4)
        self._control(EVICTED, bytes(body))

    def _apply_limit(self, int64_t max_msgs_per_subject):
        """A new limit: what is over it goes now."""
        cdef uint32_t sid
        self.max_msgs_per_subject = max_msgs_per_subject
        if max_msgs_per_subject > 0:
            for sid in range(1, self.index.table.used):
                if self.index.table.entries[sid].name != NULL and self.index.table.entries[sid].count > max_msgs_per_subject:
                    self._evict_over(sid)

    def _control(self, uint8_t kind, bytes body):
        """Append a record that is not a message."""
        cdef uint64_t seq = self.last_seq + 1
        cdef char* at = self._room(seq, HEAD + ALIGN + len(body))
        cdef Segment segment = self.active
        cdef uint32_t length = encode(at, segment.seed, kind, seq, self.last_ts, 0, b"", 0, body, 0,
                                      <uint32_t>len(body), not self.in_memory)
        segment.note(length, kind, 0, seq)
        segment.end += padded(length)

    def _advance(self, uint64_t last_seq, int64_t time_ns):
        """Sequences up to here were given out and hold nothing."""
        self.last_seq = last_seq
        if time_ns:
            self.last_ts = time_ns
        if self.index.msgs == 0:
            self.first = last_seq + 1
        if self.active is not None and last_seq > self.active.last_seq:
            self.active.last_seq = last_seq

    # ── removing ─────────────────────────────────────────────────────────────────────────────

    cdef int _forget(self, uint64_t seq) except -1:
        """Take an existing message out of the index; 0 if there was none."""
        cdef Slot* slot = self.index.at(seq)
        cdef Segment segment
        if slot == NULL:
            return 0
        segment = self.segment_of(seq)
        if segment is not None:
            segment.live -= 1
            segment.live_bytes -= slot.size & SIZE_MASK
        self.index.drop(seq, slot)
        if self.index.msgs == 0:
            self.first = self.last_seq + 1
        elif seq == self.first:
            self.first = self.index.next_live(seq + 1)
        return 1

    def _forget_many(self, seqs):
        cdef uint64_t gone = 0, seq
        for seq in seqs:
            gone += self._forget(seq)
        return gone

    def _forget_to_ranges(self, seqs):
        """How many existed, and which, as (first, last) pairs in the order they were removed."""
        cdef uint64_t gone = 0, seq, low = 0, high = 0
        cdef list ranges = []
        for seq in seqs:
            if self._forget(seq):
                gone += 1
                if high and seq == high + 1:
                    high = seq
                else:
                    if high:
                        ranges.append((low, high))
                    low = high = seq
        if high:
            ranges.append((low, high))
        return gone, ranges

    def _forget_ranges(self, ranges):
        cdef uint64_t gone = 0, low, high, seq
        for low, high in ranges:
            seq = self.index.next_live(low)
            while seq and seq <= high:
                gone += self._forget(seq)
                seq = self.index.next_live(seq + 1)
        return gone

    def _forget_below(self, uint64_t first_seq):
        """Everything below goes; a first sequence beyond the end moves the end."""
        cdef uint64_t gone = 0
        cdef Segment segment
        if first_seq > self.last_seq and self.index.msgs:
            # Everything: start with an empty index instead of taking messages out one by one.
            gone = self.index.msgs
            self.index = Index()
            for segment in self.segments:
                segment.live = segment.live_bytes = 0
            self.expiries.clear()
            self.first = self.last_seq + 1
        while self.index.msgs and self.first < first_seq:
            gone += self._forget(self.first)
        if first_seq > self.last_seq + 1:
            self._advance(first_seq - 1, 0)
        return gone

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    cdef Segment segment_of(self, uint64_t seq):
        cdef Py_ssize_t low = 0, high = len(self.segments), middle
        cdef Segment segment = self.active
        if segment is not None and seq >= segment.first_seq:
            return segment
        segment = self.found
        if segment is not None and segment.first_seq <= seq <= segment.last_seq:
            return segment
        while low < high:
            middle = (low + high) >> 1
            if (<Segment>self.segments[middle]).first_seq <= seq:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return None
        self.found = <Segment>self.segments[low - 1]
        return self.found

    cdef int record(self, uint64_t seq, Record* out) except -1:
        """1 and the record, or 0. The pointers hold until the next call into this store."""
        cdef Slot* slot = self.index.at(seq)
        cdef Segment segment
        cdef uint64_t offset, want
        cdef const char* at
        cdef bint in_buffer
        if slot == NULL:
            return 0
        segment = self.segment_of(seq)
        offset = <uint64_t>slot.place << 2
        in_buffer = offset >= segment.mem_from
        want = (slot.size & SIZE_MASK) + 8
        if in_buffer:
            at = segment.mem + (offset - segment.mem_from)
            want = segment.end - offset
        else:
            want = min(want, segment.mem_from - offset)
            at = self._bytes_at(segment, offset, want)
        if at == NULL or decode(at, want, segment.seed, segment.first_seq, not in_buffer, out) != 1 \
                or out.seq != seq or out.kind != MESSAGE or out.flags & ERASED:
            self._lose(seq, want)
            return 0
        return 1

    cdef const char* _bytes_at(self, Segment segment, uint64_t offset, uint64_t want) except? NULL:
        """`want` bytes of a segment's file; NULL when the disk does not give them."""
        cdef int i, chosen = 0
        cdef Window* window
        cdef uint64_t size, room, top = segment.mem_from if segment.mem_from > offset else segment.end
        cdef char* grown
        self.window_clock += 1
        size = max(want, <uint64_t>READ_ONE)
        for i in range(WINDOWS):
            window = &self.windows[i]
            if self.window_segments[i] is segment and window.start <= offset <= window.end:
                if offset + want <= window.end:
                    window.used_at = self.window_clock
                    return window.data + (offset - window.start)
                chosen = i
                size = max(want, <uint64_t>READ_AHEAD)     # it goes on where it stopped: read ahead
                break
            if window.used_at < self.windows[chosen].used_at:
                chosen = i
        window = &self.windows[chosen]
        size = min(size, top - offset)
        if size < want:
            return NULL
        if window.room < size:
            room = max(size, <uint64_t>READ_ONE)
            grown = <char*>realloc(window.data, room)
            if grown == NULL:
                raise MemoryError
            window.data = grown
            window.room = room
        self.window_segments[chosen] = None
        try:
            got = self._file_of(segment).read_into(
                offset, PyMemoryView_FromMemory(window.data, size, PyBUF_WRITE)
            )
        except OSError:
            return NULL
        if <uint64_t>got < want:
            return NULL
        self.window_segments[chosen] = segment
        window.start = offset
        window.end = offset + <uint64_t>got
        window.used_at = self.window_clock
        return window.data

    def _drop_windows(self, Segment segment=None):
        """Forget what was read from a file that is about to change."""
        cdef int i
        for i in range(WINDOWS):
            if segment is None or self.window_segments[i] is segment:
                self.window_segments[i] = None
                free(self.windows[i].data)
                self.windows[i].data = NULL
                self.windows[i].room = self.windows[i].start = self.windows[i].end = 0
                self.windows[i].used_at = 0

    cdef int _lose(self, uint64_t seq, uint64_t size) except -1:
        self._forget(seq)
        self._note_lost(seq, seq, size)
        return 0

    def _note_lost(self, uint64_t first, uint64_t last, uint64_t size):
        """Damaged: remembered as ranges, neighbours joined."""
        cdef list merged = []
        self.lost_bytes += size
        self.lost_ranges.append((first, last))
        self.lost_ranges.sort()
        for low, high in self.lost_ranges:
            if merged:
                below = merged.pop()
                if low <= below[1] + 1:
                    low, high = below[0], max(high, below[1])
                else:
                    merged.append(below)
            merged.append((low, high))
        self.lost_ranges = merged

    def _was_removed(self, uint64_t first, uint64_t last):
        """These were removed on purpose: their records being gone is no loss."""
        cdef list left = []
        if not self.lost_ranges:
            return
        for low, high in self.lost_ranges:
            if last < low or first > high:
                left.append((low, high))
                continue
            if low < first:
                left.append((low, first - 1))
            if high > last:
                left.append((last + 1, high))
        self.lost_ranges = left

    def lost(self):
        return LostData(list(self.lost_ranges), self.lost_bytes) if self.lost_ranges else None

    def get(self, seq):
        cdef Record r
        if seq <= 0 or not self.record(seq, &r):
            return None
        return StoredMessage(r.seq, r.subject[:r.subject_len], r.headers[:r.headers_len],
                             r.payload[:r.payload_len], r.time_ns)

    def expires_at(self, uint64_t seq):
        """When a message expires on its own: 0 it does not, NEVER not even by max_age."""
        cdef Record r
        return r.expires_at if self.record(seq, &r) else 0

    def time_of(self, uint64_t seq):
        """Unix ns of an existing message, 0 if there is none."""
        cdef Record r
        return r.time_ns if self.record(seq, &r) else 0

    @property
    def first_ts(self):
        cdef Record r
        if not self.index.msgs:
            return 0
        if self.first_ts_of != self.first:
            while self.index.msgs and not self.record(self.first, &r):
                pass        # damaged: the next one is the first now
            if not self.index.msgs:
                return 0
            self.first_ts_of = self.first
            self.first_ts_value = r.time_ns
        return self.first_ts_value

    def seq_at_time(self, int64_t time_ns):
        """The first sequence with time >= t; last + 1 if none. Times are taken as ascending."""
        cdef uint64_t low = self.first, high = self.last_seq + 1, middle, probe
        cdef Record r
        cdef Segment segment
        if not self.index.msgs or time_ns > self.last_ts:
            return self.last_seq + 1
        for segment in self.segments:
            if segment.max_time and segment.max_time < time_ns and segment is not self.active:
                low = max(low, segment.last_seq + 1)
            else:
                break
        while low < high:
            middle = low + ((high - low) >> 1)
            probe = self.index.next_live(middle)
            if probe == 0 or probe >= high:
                high = middle
            elif not self.record(probe, &r):
                continue    # damaged and gone from the index now: ask again
            elif r.time_ns >= time_ns:
                high = middle
            else:
                low = probe + 1
        probe = self.index.next_live(low)
        return probe if probe else self.last_seq + 1

    # ── expiry ───────────────────────────────────────────────────────────────────────────────

    def expired(self, int64_t now, int64_t max_age, limit):
        """Sequences due by their own expiry or by max_age, oldest first; the caller removes them."""
        cdef list due = []
        cdef uint64_t seq
        cdef Record r
        while self.expiries and len(due) < limit and self.expiries[0][0] <= now:
            seq = heappop(self.expiries)[1]
            if self.index.at(seq) != NULL:
                due.append(seq)
        if max_age > 0:
            seq = self._oldest_ageing()
            while seq and len(due) < limit:
                if not self.record(seq, &r):
                    pass
                elif r.time_ns > now - max_age:
                    break
                elif r.expires_at != NEVER:
                    due.append(seq)
                seq = self.index.next_live(seq + 1)
        return array.array("Q", sorted(set(due)))

    def _oldest_ageing(self):
        """The first message that max_age may remove; the ones that never expire are passed once."""
        cdef uint64_t seq = self.index.next_live(max(self.first, self.age_cursor))
        cdef Slot* slot
        cdef Record r
        while seq:
            slot = self.index.at(seq)
            if not slot.size & HAS_EXPIRY or (self.record(seq, &r) and r.expires_at != NEVER):
                break
            seq = self.index.next_live(seq + 1)
        self.age_cursor = seq
        return seq

    def next_expiry(self, int64_t max_age):
        """When `expired` will have something, unix ns; 0 = never."""
        cdef Record r
        cdef uint64_t seq
        cdef int64_t when = 0
        while self.expiries and self.index.at(self.expiries[0][1]) == NULL:
            heappop(self.expiries)
        if self.expiries:
            when = self.expiries[0][0]
        if max_age > 0:
            seq = self._oldest_ageing()
            if seq and self.record(seq, &r) and (when == 0 or r.time_ns + max_age < when):
                when = r.time_ns + max_age
        return when

    # ── recovery, used by the kernel _replay ─────────────────────────────────────────────────

    cdef int _index_message(self, Segment segment, uint64_t offset, Record* r) except -1:
        """A message found in a segment: into the index, oldest first."""
        cdef uint32_t sid, size
        size = (16 if self.in_memory else 30) + r.subject_len + r.headers_len + r.payload_len
        if r.headers_len:
            size += 0 if self.in_memory else 4
            size |= HAS_HEADERS
        if r.expires_at:
            size |= HAS_EXPIRY
            if r.expires_at != NEVER:
                heappush(self.expiries, (r.expires_at, r.seq))
        sid = self.index.table.intern(r.subject, r.subject_len)
        self.index.put(r.seq, <uint32_t>(offset >> 2), size, sid)
        segment.live += 1
        segment.live_bytes += size & SIZE_MASK
        if self.index.msgs == 1:
            self.first = r.seq
        self.last_seq = r.seq
        self.last_ts = r.time_ns
        segment.last_seq = r.seq
        if segment.min_time == 0 or r.time_ns < segment.min_time:
            segment.min_time = r.time_ns
        segment.max_time = max(segment.max_time, r.time_ns)
        return 0

    def _segment_of(self, uint64_t seq):
        return self.segment_of(seq)

    def _lose_damaged(self, uint64_t seq):
        """A check found this message damaged."""
        cdef Slot* slot = self.index.at(seq)
        if slot != NULL:
            self._lose(seq, slot.size & SIZE_MASK)

    def _expect(self, int64_t expires_at, uint64_t seq):
        heappush(self.expiries, (expires_at, seq))

    def _set_in_memory(self):
        self.in_memory = True

    def _drop_found(self):
        """Forget the segment of the last look-up: it may be gone."""
        self.found = None

    def _set_limit(self, int64_t max_msgs_per_subject):
        self.max_msgs_per_subject = max_msgs_per_subject
