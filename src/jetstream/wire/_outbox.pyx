# cython: language_level=3
"""Bytes on their way out of one connection, gathered until the loop turn ends."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

cdef enum:
    KEPT_ROOM = 65536


cdef size_t put_number(char* at, uint64_t value) noexcept nogil:
    """Decimal digits; returns how many."""
    cdef char digits[20]
    cdef size_t n = 0, i
    if value == 0:
        at[0] = c'0'
        return 1
    while value:
        digits[n] = <char>(c'0' + value % 10)
        value //= 10
        n += 1
    for i in range(n):
        at[i] = digits[n - 1 - i]
    return n


cdef class Outbox:
    """A growing buffer; `take()` empties it and gives small ones their memory back."""

    def __dealloc__(self):
        free(self.data)

    cdef char* _grow(self, size_t n) except NULL:
        cdef size_t room = max(self.size + n, self.room * 2, 512)
        cdef char* bigger = <char*>realloc(self.data, room)
        if bigger == NULL:
            raise MemoryError
        self.data = bigger
        self.room = room
        return bigger + self.size

    def __len__(self):
        return self.size

    def append(self, bytes data):
        cdef size_t n = PyBytes_GET_SIZE(data)
        memcpy(self.reserve(n), PyBytes_AS_STRING(data), n)
        self.size += n

    def take(self):
        """Everything gathered so far."""
        taken = PyBytes_FromStringAndSize(self.data, self.size)
        self.clear()
        return taken

    def take_front(self, size_t n):
        """The first n bytes; the rest stays."""
        if n >= self.size:
            return self.take()
        taken = PyBytes_FromStringAndSize(self.data, n)
        memmove(self.data, self.data + n, self.size - n)
        self.size -= n
        return taken

    def clear(self):
        self.size = 0
        if self.room > KEPT_ROOM:
            free(self.data)
            self.data = NULL
            self.room = 0
