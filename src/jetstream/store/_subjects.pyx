# cython: language_level=3
"""The subjects of one stream as small numbers, and filters as sets of those numbers.

    SubjectTable   name → id (open addressing) → Subject: count, first, last sequence
    Filter         patterns → one bit per id; learns new ids from the table's list of births

An id is given back when its last message is gone and handed out again under another name; the
birth list tells every filter to look at it anew. About 80 bytes per subject with a 20 byte name:
40 for the entry, 5 to 11 for the buckets, 32 for the name.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

from jetstream.store._crc cimport js_crc32c


cdef enum:
    FIRST_ROOM = 16


cdef class SubjectTable:
    def __cinit__(self):
        self.entries = <Subject*>calloc(FIRST_ROOM, sizeof(Subject))
        self.buckets = <uint32_t*>calloc(2 * FIRST_ROOM, sizeof(uint32_t))
        if self.entries == NULL or self.buckets == NULL:
            raise MemoryError
        self.room = FIRST_ROOM
        self.mask = 2 * FIRST_ROOM - 1
        self.used = 1

    def __dealloc__(self):
        cdef uint32_t i
        if self.entries != NULL:
            for i in range(1, self.used):
                free(self.entries[i].name)
        free(self.entries)
        free(self.buckets)
        free(self.births)

    def __len__(self):
        return self.alive

    @property
    def memory_bytes(self):
        """What the table takes, names included (allocator overhead counted as 8 bytes a name)."""
        return (
            self.room * sizeof(Subject)
            + (self.mask + 1) * sizeof(uint32_t)
            + self.births_room * sizeof(uint32_t)
            + self.name_bytes
            + 8 * <uint64_t>self.alive
        )

    cdef uint32_t find(self, const char* name, uint32_t length) noexcept nogil:
        cdef uint32_t hash = js_crc32c(length, name, length)
        cdef uint32_t at = (hash * <uint32_t>2654435769) & self.mask
        cdef uint32_t sid
        cdef Subject* entry
        while True:
            sid = self.buckets[at]
            if sid == 0:
                return 0
            entry = &self.entries[sid]
            if entry.hash == hash and entry.name_len == length and memcmp(entry.name, name, length) == 0:
                return sid
            at = (at + 1) & self.mask

    cdef uint32_t intern(self, const char* name, uint32_t length) except 0:
        cdef uint32_t sid = self.find(name, length)
        cdef uint32_t at
        cdef Subject* grown
        cdef Subject* entry
        cdef char* copy
        if sid:
            return sid
        if (self.filled + 1) * 4 > (self.mask + 1) * 3:
            self._rehash((self.mask + 1) * 2)
        copy = <char*>malloc(length if length else 1)
        if copy == NULL:
            raise MemoryError
        if self.free_id:
            sid = self.free_id
            self.free_id = self.entries[sid].count
        else:
            if self.used == self.room:
                grown = <Subject*>realloc(self.entries, (self.room + self.room // 2) * sizeof(Subject))
                if grown == NULL:
                    free(copy)
                    raise MemoryError
                self.entries = grown
                self.room += self.room // 2
            sid = self.used
            self.used += 1
        entry = &self.entries[sid]
        memset(entry, 0, sizeof(Subject))
        memcpy(copy, name, length)
        entry.name = copy
        entry.name_len = length
        entry.hash = js_crc32c(length, name, length)
        at = (entry.hash * <uint32_t>2654435769) & self.mask
        while self.buckets[at]:
            at = (at + 1) & self.mask
        self.buckets[at] = sid
        self.filled += 1
        self.alive += 1
        self.name_bytes += length
        self._born(sid)
        return sid

    cdef int _born(self, uint32_t sid) except -1:
        cdef uint32_t room
        cdef uint32_t* grown
        if self.births_used > 64 and self.births_used > 2 * self.alive:
            # Filters that have not seen these yet start over; the list stays as short as the table.
            self.births_base += self.births_used
            self.births_used = 0
        if self.births_used == self.births_room:
            room = self.births_room + self.births_room // 2 + 16
            grown = <uint32_t*>realloc(self.births, room * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError
            self.births = grown
            self.births_room = room
        self.births[self.births_used] = sid
        self.births_used += 1
        return 0

    cdef void forget(self, uint32_t sid) noexcept nogil:
        """Give the id back. Backward-shift deletion keeps every probe chain whole."""
        cdef Subject* entry = &self.entries[sid]
        cdef uint32_t at = (entry.hash * <uint32_t>2654435769) & self.mask
        cdef uint32_t next, home
        while self.buckets[at] != sid:
            at = (at + 1) & self.mask
        next = at
        while True:
            next = (next + 1) & self.mask
            if self.buckets[next] == 0:
                break
            home = (self.entries[self.buckets[next]].hash * <uint32_t>2654435769) & self.mask
            if ((next - home) & self.mask) >= ((next - at) & self.mask):
                self.buckets[at] = self.buckets[next]
                at = next
        self.buckets[at] = 0
        self.filled -= 1
        self.alive -= 1
        self.deaths += 1
        self.name_bytes -= entry.name_len
        free(entry.name)
        entry.name = NULL
        entry.first = 0
        entry.last = 0
        entry.count = self.free_id
        self.free_id = sid

    cdef int _rehash(self, uint32_t size) except -1:
        cdef uint32_t* buckets = <uint32_t*>calloc(size, sizeof(uint32_t))
        cdef uint32_t sid, at
        if buckets == NULL:
            raise MemoryError
        for sid in range(1, self.used):
            if self.entries[sid].name == NULL:
                continue
            at = (self.entries[sid].hash * <uint32_t>2654435769) & (size - 1)
            while buckets[at]:
                at = (at + 1) & (size - 1)
            buckets[at] = sid
        free(self.buckets)
        self.buckets = buckets
        self.mask = size - 1
        return 0


cdef bint pattern_matches(const char* pattern, size_t plen, const char* name, size_t nlen) noexcept nogil:
    """Token by token; `*` takes one token, a last `>` takes one or more."""
    cdef size_t p = 0, n = 0, ptoken, ntoken
    cdef const char* dot
    while True:
        dot = <const char*>memchr(pattern + p, 46, plen - p)
        ptoken = (dot - (pattern + p)) if dot != NULL else plen - p
        dot = <const char*>memchr(name + n, 46, nlen - n)
        ntoken = (dot - (name + n)) if dot != NULL else nlen - n
        if ptoken == 1 and pattern[p] == 62 and p + 1 == plen:
            return True
        if not (ptoken == 1 and pattern[p] == 42):
            if ptoken != ntoken or memcmp(pattern + p, name + n, ptoken) != 0:
                return False
        p += ptoken + 1
        n += ntoken + 1
        if p > plen or n > nlen:
            return p > plen and n > nlen


cdef inline bint filter_has(Filter filter, uint32_t sid) noexcept nogil:
    return sid < filter.bits_room and (filter.bits[sid >> 3] >> (sid & 7)) & 1


cdef class Filter:
    """Which subjects are meant; asked for each id once, then a bit test."""

    def __cinit__(self, SubjectTable table not None, subjects=()):
        self.table = table
        self.subjects = tuple(bytes(subject) for subject in subjects)
        self.everything = not self.subjects or b">" in self.subjects
        self.single = len(self.subjects) == 1 and not any(
            token in (b"*", b">") for token in self.subjects[0].split(b".")
        )

    def __dealloc__(self):
        free(self.bits)
        free(self.pages)
        free(self.versions)

    def matches(self, bytes subject):
        """Would a message on this subject be taken?"""
        return self.everything or self._matches(subject, <uint32_t>len(subject))

    cdef bint _matches(self, const char* name, uint32_t length) noexcept:
        cdef bytes pattern
        for pattern in self.subjects:
            if pattern_matches(pattern, len(pattern), name, length):
                return True
        return False

    cdef int _mark(self, uint32_t sid) except -1:
        cdef uint32_t room
        cdef uint8_t* grown
        cdef Subject* entry = &self.table.entries[sid]
        cdef bint hit
        if sid >= self.bits_room:
            room = max(self.table.room, sid + 1)
            room = (room + 7) & ~<uint32_t>7
            grown = <uint8_t*>realloc(self.bits, room >> 3)
            if grown == NULL:
                raise MemoryError
            memset(grown + (self.bits_room >> 3), 0, (room - self.bits_room) >> 3)
            self.bits = grown
            self.bits_room = room
        hit = entry.name != NULL and self._matches(entry.name, entry.name_len)
        if hit:
            self.bits[sid >> 3] |= <uint8_t>(1 << (sid & 7))
        else:
            self.bits[sid >> 3] &= <uint8_t>~(1 << (sid & 7))
        return 0

    cdef int refresh(self) except -1:
        """Learn the subjects that appeared since the last call."""
        cdef SubjectTable table = self.table
        cdef uint64_t now = table.births_base + table.births_used
        cdef uint32_t i
        cdef bytes name
        if self.everything:
            return 0
        if self.single:
            name = self.subjects[0]
            self.sid = table.find(name, <uint32_t>len(name))
            return 0
        if self.births_seen == now:
            return 0
        if self.births_seen < table.births_base or self.births_seen == 0:
            for i in range(1, table.used):
                self._mark(i)
        else:
            for i in range(<uint32_t>(self.births_seen - table.births_base), table.births_used):
                self._mark(table.births[i])
        self.births_seen = now
        return 0

    cdef int cover(self, uint64_t first_serial, uint64_t last_serial) except -1:
        """Make room to remember a count for each of these index pages."""
        cdef uint32_t want, keep
        cdef uint32_t* pages
        cdef uint32_t* versions
        if first_serial > self.pages_base and self.pages_room:
            keep = 0
            if first_serial - self.pages_base < self.pages_room:
                keep = self.pages_room - <uint32_t>(first_serial - self.pages_base)
            if keep <= self.pages_room // 2:
                memmove(self.pages, self.pages + self.pages_room - keep, keep * sizeof(uint32_t))
                memmove(self.versions, self.versions + self.pages_room - keep, keep * sizeof(uint32_t))
                memset(self.versions + keep, 0, (self.pages_room - keep) * sizeof(uint32_t))
                self.pages_base = first_serial
        elif not self.pages_room:
            self.pages_base = first_serial
        if last_serial - self.pages_base < self.pages_room:
            return 0
        want = <uint32_t>(last_serial - self.pages_base) + 1
        want += want // 2 + 4
        pages = <uint32_t*>realloc(self.pages, want * sizeof(uint32_t))
        if pages == NULL:
            raise MemoryError
        self.pages = pages
        versions = <uint32_t*>realloc(self.versions, want * sizeof(uint32_t))
        if versions == NULL:
            raise MemoryError
        self.versions = versions
        memset(versions + self.pages_room, 0, (want - self.pages_room) * sizeof(uint32_t))
        self.pages_room = want
        return 0
