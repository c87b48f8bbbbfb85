from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetstream.store._reader cimport Reader
from jetstream.store._record cimport Record
from jetstream.store._segment cimport Segment

cdef class LogBase(Reader):
    cdef readonly int64_t max_msgs_per_subject
    cdef uint64_t* evicted
    cdef size_t evicted_used
    cdef size_t evicted_room
    cdef size_t evicted_said            # how many of them stand in a record already
    cdef readonly object expiries       # heap of (time, sequence)
    cdef uint64_t age_cursor

    cdef char* _room(self, uint64_t seq, size_t need) except NULL
    cdef int _store(self, uint64_t seq, int64_t now, int64_t expires_at, const char* subject, uint32_t subject_len,
                    const char* body, uint32_t headers_len, uint32_t total_len, uint32_t sid) except -1
    cdef int _evict_over(self, uint32_t sid) except -1
    cdef int _index_message(self, Segment segment, uint64_t offset, Record* r) except -1
