from libc.stdint cimport int64_t, uint64_t

cdef class Frame:
    cdef public object connection
    cdef readonly bytes subject_bytes
    cdef readonly bytes reply_bytes
    cdef readonly bytes header_block
    cdef readonly bytes data
    cdef readonly int status
    cdef object _subject
    cdef object _reply
    cdef int read
    cdef uint64_t _stream_seq
    cdef uint64_t _consumer_seq
    cdef uint64_t _deliveries
    cdef uint64_t _pending
    cdef int64_t _time_ns

    cdef int _numbers(self) except -1
