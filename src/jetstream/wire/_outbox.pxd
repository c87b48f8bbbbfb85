from libc.stdint cimport int64_t, uint64_t

cdef class Outbox:
    cdef char* data
    cdef size_t size     # where the next byte goes
    cdef size_t head     # where the first byte waits that has not left
    cdef size_t room
    cdef char* _grow(self, size_t n) except NULL
    cdef void _release(self) noexcept
    cdef void _sent(self, size_t n) noexcept

    cdef inline char* reserve(self, size_t n) except NULL:
        """Room for n more bytes; the caller fills them and adds to `size`."""
        if self.size + n > self.room:
            return self._grow(n)
        return self.data + self.size

cdef size_t put_number(char* at, uint64_t value) noexcept nogil
