from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef struct Entry:
    uint64_t low          # 96 bits of a keyed hash of the id
    uint64_t seq
    uint32_t high
    uint32_t time_ms      # since `base_ns`

cdef class Window:
    cdef Entry* ring
    cdef uint32_t* slots  # entry number + 1 (counted from `first`, modulo 2**32), 0 = free
    cdef uint32_t room    # entries the ring has place for
    cdef uint32_t first   # running number of the oldest entry
    cdef uint32_t count
    cdef uint32_t head    # place of the oldest entry in the ring
    cdef uint32_t mask
    cdef int64_t base_ns
    cdef public int64_t window_ns
    cdef uint64_t key0, key1

    cdef uint64_t find(self, const char* id, Py_ssize_t length, int64_t now_ns) noexcept nogil
    cdef int add(self, const char* id, Py_ssize_t length, uint64_t seq, int64_t now_ns) except -1
    cdef int _grow_ring(self) except -1
    cdef int _rebuild(self, uint32_t size) except -1
    cdef void _drop_first(self) noexcept nogil
    cdef void _unslot(self, uint32_t number, uint64_t low) noexcept nogil
    cdef void _expire(self, int64_t now_ns) noexcept nogil
    cdef void _hash(self, const char* id, Py_ssize_t length, uint64_t* low, uint32_t* high) noexcept nogil
