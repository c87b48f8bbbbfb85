# cython: language_level=3
"""The log of one stream: records in segments, an index over them. Both stores stand on it.

    append_run(batch) ─► record into the active segment's memory ─► slot into the index

Reading is in `_reader.pyx`. Files, rolling and recovery are the business of the classes above
(`log.py`, `memory.py`): they hand in segments through `_roll`.
"""

from cpython cimport array
import array
from heapq import heappop, heappush

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

from jetstream.errors import StoreError
from jetstream.store._index cimport HAS_EXPIRY, HAS_HEADERS, SIZE_MASK, Index, Slot
from jetstream.store._reader cimport Reader
from jetstream.store._record cimport ALIGN, EVICTED, HEAD, MESSAGE, Record, encode, padded
from jetstream.store._segment cimport Segment
from jetstream.store._subjects cimport Subject, SubjectTable
from jetstream.wire._parser cimport Batch

cdef array.array SEQS = array.array("Q")
cdef int64_t NEVER = 0x7FFFFFFFFFFFFFFF


cdef class LogBase(Reader):
    def __cinit__(self, *args, **kwargs):
        self.expiries = []
        self.max_msgs_per_subject = -1

    def __dealloc__(self):
        free(self.evicted)

    def _roll(self, uint64_t first_seq):
        """Begin the next segment; the class above knows where its bytes go."""
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

    # ── expiry ───────────────────────────────────────────────────────────────────────────────

    def expired(self, int64_t now, int64_t max_age, limit):
        """Sequences due by their own expiry or by max_age, oldest first; the caller removes them."""
        cdef list due = []
        cdef list again = []
        cdef uint64_t seq
        cdef Record r
        while self.expiries and len(due) < limit and self.expiries[0][0] <= now:
            entry = heappop(self.expiries)
            seq = entry[1]
            if self.index.at(seq) != NULL:
                due.append(seq)
                again.append(entry)
        for entry in again:
            heappush(self.expiries, entry)      # until it was removed, it stays due
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

    def _expect(self, int64_t expires_at, uint64_t seq):
        heappush(self.expiries, (expires_at, seq))

    def _set_in_memory(self):
        self.in_memory = True

    def _set_limit(self, int64_t max_msgs_per_subject):
        self.max_msgs_per_subject = max_msgs_per_subject
