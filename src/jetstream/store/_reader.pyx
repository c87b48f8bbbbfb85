# cython: language_level=3
"""Records of existing messages: from the memory of the newest segment, or from windows on files.

    record(seq)  ─►  slot  ─►  segment  ─►  its memory, or a window read from its file

A few small windows bound the memory that bodies take. Whatever comes from a file is compared with
its checksum; a record that does not fit is taken out of the index and reported as lost.
"""

from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc

from jetstream.store._index cimport SIZE_MASK, Slot
from jetstream.store._record cimport ERASED, MESSAGE, Record, decode
from jetstream.store._segment cimport Segment
from jetstream.store._view cimport View
from jetstream.store.base import LostData, StoredMessage

cdef enum:
    READ_AHEAD = 131072
    READ_ONE = 4096


cdef class Reader(View):
    def __cinit__(self, *args, **kwargs):
        self.segments = []
        self.lost_ranges = []
        self.window_segments = [None] * WINDOWS

    def __dealloc__(self):
        cdef int i
        for i in range(WINDOWS):
            free(self.windows[i].data)

    def _file_of(self, Segment segment):
        raise NotImplementedError

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

    def _segment_of(self, uint64_t seq):
        return self.segment_of(seq)

    def _lose_damaged(self, uint64_t seq):
        """A check found this message damaged."""
        cdef Slot* slot = self.index.at(seq)
        if slot != NULL:
            self._lose(seq, slot.size & SIZE_MASK)

    def _drop_found(self):
        """Forget the segment of the last look-up: it may be gone."""
        self.found = None

    # ── taking out ───────────────────────────────────────────────────────────────────────────

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
