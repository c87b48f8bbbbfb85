# cython: language_level=3
"""One run of sequences and the bytes of their records, as far as they are in memory.

    file      [0 … start)  header     [start … end)  records     written ≤ end, synced ≤ written
    memory                    [mem_from … end)

A segment in a file keeps in memory what is not yet safely on disk; one without a file keeps all.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from jetstream.store._record cimport MESSAGE, padded

cdef extern from "stdlib.h":
    int posix_memalign(void** out, size_t alignment, size_t size) nogil

cdef extern from "sys/mman.h":
    int MADV_HUGEPAGE
    int madvise(void* at, size_t size, int advice) nogil

cdef enum:
    FIRST_MEMORY = 8192
    HUGE_PAGE = 2097152
    UNSYNCED_KEPT_MAX = 33554432    # bytes kept for a second attempt while the disk does not sync


cdef class Segment:
    """One run of sequences and the bytes of their records."""

    def __cinit__(self, uint64_t first_seq, uint64_t start, uint64_t limit, uint32_t seed=0):
        self.first_seq = first_seq
        self.last_seq = first_seq - 1
        self.start = self.end = self.written = self.synced = self.mem_from = start
        self.limit = limit
        self.seed = seed

    def __dealloc__(self):
        free(self.mem)
        free(self.lens)
        free(self.seqs)

    cdef int note(self, uint32_t length, uint8_t kind, uint8_t flags, uint64_t seq) except -1:
        """Remember a record for the footer."""
        cdef uint32_t room
        cdef uint32_t* grown
        if self.records == self.records_room:
            room = self.records_room * 2 + 16
            grown = <uint32_t*>realloc(self.lens, room * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError
            self.lens = grown
            grown = <uint32_t*>realloc(self.seqs, room * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError
            self.seqs = grown
            self.records_room = room
        self.lens[self.records] = (length << WORD_BITS) | (flags & 3 if kind == MESSAGE else CONTROL_BIT)
        self.seqs[self.records] = <uint32_t>seq
        self.records += 1
        return 0

    cdef int hold(self, size_t need) except -1:
        """Make room in memory for `need` more bytes, dropping what is safe on disk first."""
        cdef uint64_t used = self.end - self.mem_from
        cdef uint64_t safe = min(self.written, self.synced)
        cdef uint64_t drop, room
        cdef char* grown
        cdef void* fresh = NULL
        if self.written - self.mem_from > UNSYNCED_KEPT_MAX:
            safe = self.written
        drop = safe - self.mem_from if safe > self.mem_from else 0
        if self.file is not None and drop >= self.mem_room // 2 and used - drop + need <= self.mem_room:
            memmove(self.mem, self.mem + drop, used - drop)
            self.mem_from += drop
            return 0
        room = max(self.mem_room * 2, <uint64_t>FIRST_MEMORY)
        while room < used + need:
            room *= 2
        if self.whole:
            room = max(self.limit, used + need)
        if self.whole and room >= HUGE_PAGE:
            # Untouched memory costs nothing, and huge pages spare a fault every few messages.
            room = (room + HUGE_PAGE - 1) & ~<uint64_t>(HUGE_PAGE - 1)
            if posix_memalign(&fresh, HUGE_PAGE, room) != 0:
                raise MemoryError
            madvise(fresh, room, MADV_HUGEPAGE)
            memcpy(fresh, self.mem, used)
            free(self.mem)
            grown = <char*>fresh
        else:
            grown = <char*>realloc(self.mem, room)
            if grown == NULL:
                raise MemoryError
        self.mem = grown
        self.mem_room = room
        return 0

    def release(self):
        """Give memory back: bytes that are on disk are read from there when they are asked for."""
        cdef uint64_t safe = min(self.written, self.synced)
        if self.file is None or safe < self.end:
            return
        free(self.mem)
        self.mem = NULL
        self.mem_room = 0
        self.mem_from = self.end

    def resume(self, uint64_t end):
        """Everything up to `end` is on disk and nothing is in memory."""
        free(self.mem)
        self.mem = NULL
        self.mem_room = 0
        self.end = self.written = self.synced = self.mem_from = end

    def note_damage(self, uint32_t size):
        """A stretch of the file that holds no readable record."""
        self.note(size, 0, 0, self.last_seq)

    def cut_back(self, uint64_t end):
        """What lies behind `end` is not part of this segment any more."""
        cdef uint64_t offset = self.start
        cdef uint32_t i = 0
        while i < self.records and offset < end:
            offset += padded(self.lens[i] >> WORD_BITS)
            i += 1
        self.records = i
        self.resume(end)

    def forget_records(self):
        free(self.lens)
        free(self.seqs)
        self.lens = NULL
        self.seqs = NULL
        self.records = self.records_room = 0

    def bytes_from(self, uint64_t offset):
        """A view of the bytes in memory from `offset` on; valid until the next append."""
        assert offset >= self.mem_from
        if offset == self.end:
            return memoryview(b"")
        return PyMemoryView_FromMemory(self.mem + (offset - self.mem_from), self.end - offset, PyBUF_READ)

    @property
    def kept_from(self):
        """The first offset whose bytes are still in memory."""
        return self.mem_from

    @property
    def memory_bytes(self):
        return self.mem_room + self.records_room * 8
