# cython: language_level=3
"""Bytes on their way out of one connection, gathered until the loop turn ends.

    full chunks, oldest first              the chunk being filled
    [##sent##|waiting......] [waiting.....] [waiting.... size |  room]
             head

A small connection has one small chunk. Under load chunks come from a stock and go back to it:
memory that was used a moment ago is far cheaper to write to than memory the system hands out anew,
and what waits is never copied again because more arrives. What was not needed for a while goes
back to the system (`trim_stock`).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

cdef extern from "<sys/socket.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    cdef struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int fd, const msghdr* message, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* at, size_t n, int protection, int flags, int fd, long offset)
    int munmap(void* at, size_t n)
    void* MAP_FAILED
    int PROT_READ
    int PROT_WRITE
    int MAP_PRIVATE
    int MAP_ANONYMOUS

cdef enum:
    FIRST_ROOM = 512
    KEPT_ROOM = 65536      # an empty outbox keeps no more than this
    CHUNK_ROOM = 262144
    GATHER_MAX = 16

# Chunks nobody uses, each pointing to the next one in its first bytes.
cdef char* _stock = NULL
cdef Py_ssize_t _stocked = 0
cdef Py_ssize_t _spare = 0  # how few there were since the last trim: so many are not needed


cdef char* _take_chunk() noexcept:
    global _stock, _stocked, _spare
    cdef char* chunk = _stock
    cdef void* fresh
    if chunk != NULL:
        _stock = (<char**>chunk)[0]
        _stocked -= 1
        _spare = min(_spare, _stocked)
        return chunk
    # Not from the heap, which would keep it when it is no longer needed.
    fresh = mmap(NULL, CHUNK_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    return NULL if fresh == MAP_FAILED else <char*>fresh


cdef void _give_chunk(char* data, size_t room) noexcept:
    global _stock, _stocked
    if room != CHUNK_ROOM:
        free(data)
        return
    (<char**>data)[0] = _stock
    _stock = data
    _stocked += 1


def trim_stock():
    """Give back the chunks that were not needed since the last call; how many bytes are kept."""
    global _stock, _stocked, _spare
    cdef char* chunk
    while _spare > 0 and _stock != NULL:
        chunk = _stock
        _stock = (<char**>chunk)[0]
        munmap(chunk, CHUNK_ROOM)
        _stocked -= 1
        _spare -= 1
    _spare = _stocked
    return _stocked * CHUNK_ROOM


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
    """A queue of bytes that grows by chunks."""

    def __dealloc__(self):
        self._drop_all()
        _give_chunk(self.data, self.room)
        free(self.full)

    cdef char* _grow(self, size_t n) except NULL:
        """Room for n more bytes behind what is there."""
        cdef size_t waiting = self.size - self.head, room
        cdef char* bigger
        if self.count == 0 and self.head and (waiting + n) * 2 <= self.room:
            memmove(self.data, self.data + self.head, waiting)
            self.head = 0
            self.size = waiting
            return self.data + waiting
        if self.size + n <= KEPT_ROOM:
            room = max(self.size + n, self.room * 2, FIRST_ROOM)
            bigger = <char*>realloc(self.data, room)
            if bigger == NULL:
                raise MemoryError
        else:
            room = max(n, CHUNK_ROOM)
            bigger = _take_chunk() if room == CHUNK_ROOM else <char*>malloc(room)  # one large message
            if bigger == NULL:
                raise MemoryError
            if self.size + n <= room and self.count == 0 and self.room <= KEPT_ROOM:
                # The first chunk: what little there is moves along.
                memcpy(bigger, self.data, self.size)
                free(self.data)
            else:
                self._set_aside()
                self.size = 0
        self.data = bigger
        self.room = room
        return bigger + self.size

    cdef int _set_aside(self) except -1:
        """The chunk being filled is full."""
        cdef Chunk* more
        if self.size == 0:
            _give_chunk(self.data, self.room)
            return 0
        if self.first + self.count == self.places:
            if self.first:
                memmove(self.full, self.full + self.first, self.count * sizeof(Chunk))
                self.first = 0
            else:
                more = <Chunk*>realloc(self.full, (self.places * 2 + 4) * sizeof(Chunk))
                if more == NULL:
                    raise MemoryError
                self.full = more
                self.places = self.places * 2 + 4
        more = self.full + self.first + self.count
        more.data = self.data
        more.size = self.size
        more.room = self.room
        self.count += 1
        self.queued += self.size
        return 0

    cdef void _leave(self, size_t n) noexcept:
        """The first n bytes are gone."""
        cdef Chunk* chunk
        cdef size_t here
        while self.count:
            chunk = self.full + self.first
            here = chunk.size - self.head
            if n < here:
                self.head += n
                return
            n -= here
            self.queued -= chunk.size
            _give_chunk(chunk.data, chunk.room)
            self.head = 0
            self.first += 1
            self.count -= 1
        self.first = 0
        self.head += n
        if self.head == self.size:
            self.head = self.size = 0
            if self.room > KEPT_ROOM:
                _give_chunk(self.data, self.room)
                self.data = NULL
                self.room = 0

    cdef void _drop_all(self) noexcept:
        self._leave(self.waiting())

    def __len__(self):
        return self.waiting()

    def append(self, bytes data):
        cdef size_t n = PyBytes_GET_SIZE(data)
        if n:
            memcpy(self.reserve(n), PyBytes_AS_STRING(data), n)
            self.size += n

    def take(self):
        """Everything that waits."""
        parts = []
        while self.count:
            parts.append(self.take_front(self.waiting()))
        parts.append(PyBytes_FromStringAndSize(self.data + self.head, self.size - self.head))
        self._drop_all()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def take_front(self, size_t n):
        """At most n bytes from the front; the rest stays."""
        cdef char* at = self.full[self.first].data if self.count else self.data
        cdef size_t here = (self.full[self.first].size if self.count else self.size) - self.head
        n = min(n, here)
        taken = PyBytes_FromStringAndSize(at + self.head, n)
        self._leave(n)
        return taken

    def send(self, int fd):
        """Put as much as possible into a socket; what is left, or -1 if the socket is broken."""
        cdef iovec parts[GATHER_MAX]
        cdef msghdr message
        cdef ssize_t n
        cdef size_t offset
        cdef int i, used
        memset(&message, 0, sizeof(message))
        message.msg_iov = parts
        while self.waiting():
            used = 0
            offset = self.head
            for i in range(min(self.count, <int>GATHER_MAX - 1)):
                parts[used].iov_base = self.full[self.first + i].data + offset
                parts[used].iov_len = self.full[self.first + i].size - offset
                used += 1
                offset = 0
            if self.count < GATHER_MAX and self.size > offset:
                parts[used].iov_base = self.data + offset
                parts[used].iov_len = self.size - offset
                used += 1
            message.msg_iovlen = used
            n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0:
                if errno == EINTR:
                    continue
                return self.waiting() if errno == EAGAIN else -1
            self._leave(n)
        return 0

    def clear(self):
        self._drop_all()
