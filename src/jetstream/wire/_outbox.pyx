# cython: language_level=3
"""Bytes on their way out of one connection, gathered until the loop turn ends.

    data ── sent already ──┬── waiting ──┬── room ──┐
                          head          size

What the socket does not take stays where it is; it is moved only when half of the buffer was sent.
Large buffers come from a small stock and go back to it, because memory that was used a moment ago
is far cheaper to write to than memory the system has to hand out anew.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

cdef extern from "<sys/socket.h>" nogil:
    ssize_t c_send "send"(int fd, const void* data, size_t n, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

cdef enum:
    KEPT_ROOM = 65536
    STOCK_ROOM = 1048576
    STOCK_MAX = 16

cdef char* _stock[STOCK_MAX]
cdef int _stocked = 0


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
    """A growing buffer with a front that moves on as its bytes leave."""

    def __dealloc__(self):
        free(self.data)

    cdef char* _grow(self, size_t n) except NULL:
        global _stocked
        cdef size_t waiting = self.size - self.head, room
        cdef char* bigger
        if self.head and waiting + n <= self.room:
            memmove(self.data, self.data + self.head, waiting)
            self.head = 0
            self.size = waiting
            return self.data + waiting
        room = max(waiting + n, self.room * 2, 512)
        if KEPT_ROOM < room <= STOCK_ROOM:
            if _stocked:
                _stocked -= 1
                bigger = _stock[_stocked]
            else:
                bigger = <char*>malloc(STOCK_ROOM)
            room = STOCK_ROOM
        else:
            bigger = <char*>malloc(room)
        if bigger == NULL:
            raise MemoryError
        if waiting:
            memcpy(bigger, self.data + self.head, waiting)
        self._release()
        self.data = bigger
        self.room = room
        self.head = 0
        self.size = waiting
        return bigger + waiting

    cdef void _release(self) noexcept:
        global _stocked
        if self.room == STOCK_ROOM and _stocked < STOCK_MAX:
            _stock[_stocked] = self.data
            _stocked += 1
        else:
            free(self.data)
        self.data = NULL
        self.room = 0

    def __len__(self):
        return self.size - self.head

    def append(self, bytes data):
        cdef size_t n = PyBytes_GET_SIZE(data)
        memcpy(self.reserve(n), PyBytes_AS_STRING(data), n)
        self.size += n

    def take(self):
        """Everything that waits."""
        taken = PyBytes_FromStringAndSize(self.data + self.head, self.size - self.head)
        self.clear()
        return taken

    def take_front(self, size_t n):
        """The first n bytes; the rest stays."""
        if n >= self.size - self.head:
            return self.take()
        taken = PyBytes_FromStringAndSize(self.data + self.head, n)
        self._sent(n)
        return taken

    def send(self, int fd):
        """Put as much as possible into a socket; what is left, or -1 if the socket is broken."""
        cdef ssize_t n
        while self.size > self.head:
            n = c_send(fd, self.data + self.head, self.size - self.head, MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0:
                if errno == EINTR:
                    continue
                if errno == EAGAIN:
                    return self.size - self.head
                return -1
            self._sent(n)
        self.clear()
        return 0

    cdef void _sent(self, size_t n) noexcept:
        self.head += n
        # Moving the rest costs less than was sent since it was moved last.
        if self.head * 2 > self.size:
            memmove(self.data, self.data + self.head, self.size - self.head)
            self.size -= self.head
            self.head = 0

    def clear(self):
        self.size = 0
        self.head = 0
        if self.room > KEPT_ROOM:
            self._release()
