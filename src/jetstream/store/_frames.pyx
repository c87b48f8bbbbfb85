# cython: language_level=3
"""Many messages as columns in one piece of bytes, ready for Arrow: what bulk reads carry.

     0  8s   "JSCOLS01"
     8  u32  n messages                    12  u32  k subjects
    16  u64  sequence to go on with, 0 = the range is done
    24  u32  crc32c of everything from 32 on        28  u32  0
    32  u64  bytes of names     40  u64  bytes of headers     48  u64  bytes of payloads     56  u64  0
    64  u64[n] sequences, i64[n] times, i32[n] subjects (numbers into the names),
        i32[n+1] payload offsets, i32[n+1] header offsets, i32[k+1] name offsets,
        names, header blocks, payloads

Little-endian; every column starts at a multiple of 8. The offsets are those of Arrow's binary
columns, so each column is used where it lies.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from jetstream.store._crc cimport js_crc32c
from jetstream.store._log cimport LogBase
from jetstream.store._record cimport ERASED, HEAD, MESSAGE, Record, decode, padded
from jetstream.store._subjects cimport Filter, SubjectTable

cdef enum:
    PIECE = 1024
    HEADER = 64


cdef struct Column:
    char* data
    size_t used
    size_t room


cdef int push(Column* column, const void* data, size_t size) except -1:
    cdef size_t room
    cdef char* grown
    if column.used + size > column.room:
        room = column.room * 2 + size + 4096
        grown = <char*>realloc(column.data, room)
        if grown == NULL:
            raise MemoryError
        column.data = grown
        column.room = room
    if size:
        memcpy(column.data + column.used, data, size)
    column.used += size
    return 0


cdef enum:
    SEQS = 0
    TIMES = 1
    SUBJECTS = 2
    PAYLOAD_AT = 3
    HEADER_AT = 4
    NAME_AT = 5
    NAMES = 6
    HEADERS = 7
    PAYLOADS = 8
    COLUMNS = 9


cdef class Frame:
    """Columns being filled."""

    cdef Column columns[9]
    cdef SubjectTable names
    cdef uint32_t count
    cdef bint with_headers
    cdef bint with_payloads

    def __cinit__(self, bint with_headers=True, bint with_payloads=True):
        cdef int32_t zero = 0
        self.names = SubjectTable()
        self.with_headers = with_headers
        self.with_payloads = with_payloads
        push(&self.columns[PAYLOAD_AT], &zero, 4)
        push(&self.columns[HEADER_AT], &zero, 4)
        push(&self.columns[NAME_AT], &zero, 4)

    def __dealloc__(self):
        cdef int i
        for i in range(COLUMNS):
            free(self.columns[i].data)

    cdef int add(self, Record* r) except -1:
        cdef uint32_t known = self.names.used
        cdef uint32_t sid = self.names.intern(r.subject, r.subject_len)
        cdef int32_t number = <int32_t>sid - 1
        cdef int32_t at
        if sid == known:
            push(&self.columns[NAMES], r.subject, r.subject_len)
            at = <int32_t>self.columns[NAMES].used
            push(&self.columns[NAME_AT], &at, 4)
        push(&self.columns[SEQS], &r.seq, 8)
        push(&self.columns[TIMES], &r.time_ns, 8)
        push(&self.columns[SUBJECTS], &number, 4)
        if self.with_payloads:
            push(&self.columns[PAYLOADS], r.payload, r.payload_len)
        if self.with_headers:
            push(&self.columns[HEADERS], r.headers, r.headers_len)
        at = <int32_t>self.columns[PAYLOADS].used
        push(&self.columns[PAYLOAD_AT], &at, 4)
        at = <int32_t>self.columns[HEADERS].used
        push(&self.columns[HEADER_AT], &at, 4)
        self.count += 1
        return 0

    cdef size_t size(self) noexcept:
        cdef size_t total = HEADER
        cdef int i
        for i in range(COLUMNS):
            total += (self.columns[i].used + 7) & ~<size_t>7
        return total

    cdef bytearray finish(self, uint64_t next_seq):
        cdef bytearray out = bytearray(self.size())
        cdef char* at = out
        cdef uint64_t value
        cdef uint32_t crc, names = self.names.used - 1
        cdef size_t offset = HEADER
        cdef int i
        memcpy(at, b"JSCOLS01", 8)
        memcpy(at + 8, &self.count, 4)
        memcpy(at + 12, &names, 4)
        memcpy(at + 16, &next_seq, 8)
        for i in range(3):
            value = self.columns[NAMES + i].used
            memcpy(at + 32 + 8 * i, &value, 8)
        for i in range(COLUMNS):
            if self.columns[i].used:
                memcpy(at + offset, self.columns[i].data, self.columns[i].used)
            offset += (self.columns[i].used + 7) & ~<size_t>7
        crc = js_crc32c(0, at + 32, len(out) - 32)
        memcpy(at + 24, &crc, 4)
        return out


def read_frame(LogBase log not None, uint64_t lo, uint64_t hi, Filter filter, size_t max_bytes,
               bint headers=True, bint payloads=True):
    """Existing messages from lo to hi, both included, that the filter takes, up to about max_bytes."""
    cdef Frame frame = Frame(headers, payloads)
    cdef uint64_t seqs[PIECE]
    cdef uint64_t next_seq = max(lo, 1)
    cdef size_t i, n
    cdef Record r
    filter = log.usable(filter)
    max_bytes = min(max_bytes, 1 << 30)      # offsets are 32 bit
    while next_seq <= hi:
        n = log.index.collect(next_seq, seqs, PIECE, filter)
        for i in range(n):
            if seqs[i] > hi:
                return frame.finish(0)
            if log.record(seqs[i], &r):
                frame.add(&r)
                if frame.size() >= max_bytes:
                    return frame.finish(seqs[i] + 1 if seqs[i] < hi else 0)
        if n < PIECE:
            break
        next_seq = seqs[n - 1] + 1
    return frame.finish(0)


def frame_of_records(const unsigned char[::1] data, uint64_t start, uint64_t end, uint32_t seed,
                     uint64_t first_seq, const unsigned char[::1] subjects, int subject_width,
                     const unsigned char[::1] lengths, int length_width, uint64_t lo, uint64_t hi, names,
                     bint headers=True, bint payloads=True):
    """The existing messages of a sealed segment, straight from its bytes and its footer's columns.

    `names`: one truth value per subject of the footer, or None for all. Returns (frame, damaged).
    """
    cdef Frame frame = Frame(headers, payloads)
    cdef Py_ssize_t i, n = subjects.shape[0] // subject_width
    cdef uint64_t offset = start
    cdef uint32_t local, word, damaged = 0
    cdef Record r
    cdef bytes wanted = None if names is None else bytes(names)
    for i in range(n):
        local = 0
        memcpy(&local, &subjects[i * subject_width], subject_width)
        word = 0
        memcpy(&word, &lengths[i * length_width], length_width)
        if local > 1 and (wanted is None or wanted[local - 2]):
            if decode(<const char*>&data[offset], end - offset, seed, first_seq, True, &r) != 1 or r.kind != MESSAGE \
                    or r.flags & ERASED:
                damaged += 1
            elif lo <= r.seq <= hi:
                frame.add(&r)
        offset += padded(word >> 3)
    return frame.finish(0), damaged
