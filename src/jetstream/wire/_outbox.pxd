from libc.stdint cimport int64_t, uint64_t

cdef struct Chunk:
    char* data
    size_t size
    size_t room

cdef class Outbox:
    cdef char* data      # the chunk being filled
    cdef size_t size
    cdef size_t room
    cdef size_t head     # how much of the oldest chunk has left already
    cdef Chunk* full     # chunks before it, `count` of them from `first` on
    cdef int first
    cdef int count
    cdef int places
    cdef size_t queued   # bytes in them
    cdef char* _grow(self, size_t n) except NULL
    cdef int _set_aside(self) except -1
    cdef void _leave(self, size_t n) noexcept
    cdef void _drop_all(self) noexcept

    cdef inline size_t waiting(self) noexcept:
        return self.queued + self.size - self.head

    cdef inline char* reserve(self, size_t n) except NULL:
        """Room for n more bytes; the caller fills them and adds to `size`."""
        if self.size + n > self.room:
            return self._grow(n)
        return self.data + self.size

cdef size_t put_number(char* at, uint64_t value) noexcept nogil
