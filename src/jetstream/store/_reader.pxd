from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetstream.store._record cimport Record
from jetstream.store._segment cimport Segment
from jetstream.store._view cimport View

cdef enum:
    WINDOWS = 4

cdef struct Window:
    char* data
    uint64_t start
    uint64_t end
    uint64_t room
    uint64_t used_at

cdef class Reader(View):
    cdef public list segments
    cdef public Segment active
    cdef Segment found                  # where the last look-up ended
    cdef public object trouble
    cdef readonly list lost_ranges
    cdef readonly uint64_t lost_bytes
    cdef Window windows[4]
    cdef list window_segments
    cdef uint64_t window_clock
    cdef uint64_t first_ts_of
    cdef int64_t first_ts_value

    cdef Segment segment_of(self, uint64_t seq)
    cdef int record(self, uint64_t seq, Record* out) except -1
    cdef const char* _bytes_at(self, Segment segment, uint64_t offset, uint64_t want) except? NULL
    cdef int _lose(self, uint64_t seq, uint64_t size) except -1
    cdef int _forget(self, uint64_t seq) except -1
