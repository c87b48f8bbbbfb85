# The message ids of the last minutes, at most 40 bytes each.
#
#   ring   Entry Entry Entry …      24 bytes each, in order of arrival, grows by a quarter
#   slots  uint32 …                 open addressing into the ring, at most 4/5 full
#
# An id is remembered as 96 bits of SipHash under a random key: nobody outside can construct two ids
# that collide, and by chance it takes about 2**48 remembered ids. Entries leave from the front, so a
# slot is freed by shifting its followers back; there are no tombstones.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

import os

cdef inline uint64_t rotl(uint64_t x, int b) noexcept nogil:
    return (x << b) | (x >> (64 - b))

cdef void siphash(const char* p, Py_ssize_t n, uint64_t k0, uint64_t k1,
                  uint64_t* low, uint64_t* high) noexcept nogil:
    # SipHash-1-3 with the 128-bit finish.
    cdef uint64_t v0 = 0x736f6d6570736575ULL ^ k0
    cdef uint64_t v1 = 0x646f72616e646f6dULL ^ k1 ^ 0xee
    cdef uint64_t v2 = 0x6c7967656e657261ULL ^ k0
    cdef uint64_t v3 = 0x7465646279746573ULL ^ k1
    cdef uint64_t m
    cdef Py_ssize_t i, left = n
    cdef int round_
    while True:
        if left >= 8:
            memcpy(&m, p, 8)
        else:
            m = (<uint64_t>n) << 56
            for i in range(left):
                m |= (<uint64_t>(<unsigned char>p[i])) << (8 * i)
        v3 ^= m
        v0 += v1; v1 = rotl(v1, 13); v1 ^= v0; v0 = rotl(v0, 32)
        v2 += v3; v3 = rotl(v3, 16); v3 ^= v2
        v0 += v3; v3 = rotl(v3, 21); v3 ^= v0
        v2 += v1; v1 = rotl(v1, 17); v1 ^= v2; v2 = rotl(v2, 32)
        v0 ^= m
        if left < 8:
            break
        left -= 8
        p += 8
    v2 ^= 0xee
    for round_ in range(3):
        v0 += v1; v1 = rotl(v1, 13); v1 ^= v0; v0 = rotl(v0, 32)
        v2 += v3; v3 = rotl(v3, 16); v3 ^= v2
        v0 += v3; v3 = rotl(v3, 21); v3 ^= v0
        v2 += v1; v1 = rotl(v1, 17); v1 ^= v2; v2 = rotl(v2, 32)
    low[0] = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xdd
    for round_ in range(3):
        v0 += v1; v1 = rotl(v1, 13); v1 ^= v0; v0 = rotl(v0, 32)
        v2 += v3; v3 = rotl(v3, 16); v3 ^= v2
        v0 += v3; v3 = rotl(v3, 21); v3 ^= v0
        v2 += v1; v1 = rotl(v1, 17); v1 ^= v2; v2 = rotl(v2, 32)
    high[0] = v0 ^ v1 ^ v2 ^ v3


cdef class Window:
    """id → sequence for as long as `window_ns`."""

    def __cinit__(self, int64_t window_ns):
        cdef bytes key = os.urandom(16)
        self.window_ns = window_ns
        memcpy(&self.key0, PyBytes_AS_STRING(key), 8)
        memcpy(&self.key1, PyBytes_AS_STRING(key) + 8, 8)
        self.ring = NULL
        self.slots = NULL
        self.room = self.first = self.count = self.head = 0
        self.mask = 0
        self.base_ns = 0

    def __dealloc__(self):
        free(self.ring)
        free(self.slots)

    def __len__(self):
        return self.count

    @property
    def nbytes(self):
        return self.room * sizeof(Entry) + (self.mask + 1 if self.slots != NULL else 0) * 4

    def lookup(self, bytes id not None, int64_t now_ns):
        """The sequence stored under this id inside the window, or 0."""
        return self.find(PyBytes_AS_STRING(id), PyBytes_GET_SIZE(id), now_ns)

    def remember(self, bytes id not None, uint64_t seq, int64_t now_ns):
        self.add(PyBytes_AS_STRING(id), PyBytes_GET_SIZE(id), seq, now_ns)

    def forget_after(self, uint64_t seq):
        """Take back the newest entries whose sequence is above `seq`: their append failed."""
        cdef Entry* entry
        while self.count:
            entry = &self.ring[(self.head + self.count - 1) % self.room]
            if entry.seq <= seq:
                break
            self._unslot(self.first + self.count - 1, entry.low)
            self.count -= 1

    def expire(self, int64_t now_ns):
        self._expire(now_ns)

    def clear(self):
        free(self.ring)
        free(self.slots)
        self.ring = NULL
        self.slots = NULL
        self.room = self.count = self.head = self.mask = 0

    cdef void _hash(self, const char* id, Py_ssize_t length, uint64_t* low, uint32_t* high) noexcept nogil:
        cdef uint64_t wide
        siphash(id, length, self.key0, self.key1, low, &wide)
        high[0] = <uint32_t>wide

    cdef uint64_t find(self, const char* id, Py_ssize_t length, int64_t now_ns) noexcept nogil:
        cdef uint64_t low
        cdef uint32_t high, at, number
        cdef Entry* entry
        if self.count == 0:
            return 0
        self._expire(now_ns)
        if self.count == 0:
            return 0
        self._hash(id, length, &low, &high)
        at = <uint32_t>low & self.mask
        while self.slots[at]:
            number = self.slots[at] - 1 - self.first
            entry = &self.ring[(<uint64_t>self.head + number) % self.room]
            if entry.low == low and entry.high == high:
                return entry.seq
            at = (at + 1) & self.mask
        return 0

    cdef int add(self, const char* id, Py_ssize_t length, uint64_t seq, int64_t now_ns) except -1:
        cdef uint64_t low
        cdef uint32_t high, at
        cdef Entry* entry
        cdef int64_t age_ms
        if self.count == 0:
            self.base_ns = now_ns
        age_ms = (now_ns - self.base_ns) // 1000000
        if age_ms < 0:
            age_ms = 0
        if age_ms > 0x7fffffff:
            self._shift_base(now_ns)
            age_ms = (now_ns - self.base_ns) // 1000000
        if self.first + self.count + 1 >= 0xfffffff0U:
            self._renumber()
        if self.count == self.room:
            self._grow_ring()
        if (<uint64_t>self.count + 1) * 5 > (<uint64_t>self.mask + 1) * 4 or self.slots == NULL:
            self._rebuild(max(64, (self.mask + 1) * 2 if self.slots != NULL else 64))
        self._hash(id, length, &low, &high)
        entry = &self.ring[(<uint64_t>self.head + self.count) % self.room]
        entry.low = low
        entry.high = high
        entry.seq = seq
        entry.time_ms = <uint32_t>age_ms
        at = <uint32_t>low & self.mask
        while self.slots[at]:
            at = (at + 1) & self.mask
        self.slots[at] = self.first + self.count + 1
        self.count += 1
        return 0

    cdef void _expire(self, int64_t now_ns) noexcept nogil:
        cdef int64_t limit_ms = (now_ns - self.window_ns - self.base_ns)
        if limit_ms < 0:
            return
        limit_ms = limit_ms // 1000000
        while self.count and <int64_t>self.ring[self.head].time_ms <= limit_ms:
            self._drop_first()

    cdef void _drop_first(self) noexcept nogil:
        self._unslot(self.first, self.ring[self.head].low)
        self.first += 1
        self.count -= 1
        self.head = (self.head + 1) % self.room

    cdef void _unslot(self, uint32_t number, uint64_t low) noexcept nogil:
        cdef uint32_t at = <uint32_t>low & self.mask
        cdef uint32_t hole, home, other
        while self.slots[at] != number + 1:
            at = (at + 1) & self.mask
        hole = at
        while True:
            at = (at + 1) & self.mask
            if self.slots[at] == 0:
                break
            other = self.slots[at] - 1 - self.first
            home = <uint32_t>self.ring[(<uint64_t>self.head + other) % self.room].low & self.mask
            # Move it back only if its home is not between the hole and where it stands.
            if ((at - home) & self.mask) >= ((at - hole) & self.mask):
                self.slots[hole] = self.slots[at]
                hole = at
        self.slots[hole] = 0

    cdef int _grow_ring(self) except -1:
        cdef uint32_t room = self.room + max(64, self.room // 4)
        cdef Entry* ring = <Entry*>malloc(room * sizeof(Entry))
        cdef uint32_t i
        if ring == NULL:
            raise MemoryError()
        for i in range(self.count):
            ring[i] = self.ring[(<uint64_t>self.head + i) % self.room]
        free(self.ring)
        self.ring = ring
        self.room = room
        self.head = 0
        return 0

    cdef int _rebuild(self, uint32_t size) except -1:
        cdef uint32_t* slots = <uint32_t*>calloc(size, 4)
        cdef uint32_t i, at
        if slots == NULL:
            raise MemoryError()
        free(self.slots)
        self.slots = slots
        self.mask = size - 1
        for i in range(self.count):
            at = <uint32_t>self.ring[(<uint64_t>self.head + i) % self.room].low & self.mask
            while slots[at]:
                at = (at + 1) & self.mask
            slots[at] = self.first + i + 1
        return 0

    def _renumber(self):
        self.first = 0
        self._rebuild(self.mask + 1)

    def _shift_base(self, int64_t now_ns):
        # Entries older than what 31 bits of milliseconds can say keep the oldest time we can.
        cdef int64_t base = now_ns - self.window_ns - 1000000000
        cdef int64_t by = (base - self.base_ns) // 1000000
        cdef uint32_t i
        cdef Entry* entry
        if by <= 0:
            return
        for i in range(self.count):
            entry = &self.ring[(<uint64_t>self.head + i) % self.room]
            entry.time_ms = <uint32_t>max(0, <int64_t>entry.time_ms - by)
        self.base_ns += by * 1000000
