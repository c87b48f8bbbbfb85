from libc.stdint cimport uint32_t, uint64_t

from jetstream.store._subjects cimport Filter, SubjectTable

cdef enum:
    PAGE_BITS = 13
    PAGE_SLOTS = 8192
    SIZE_MASK = 0x3FFFFFFF
    HAS_HEADERS = 0x80000000
    HAS_EXPIRY = 0x40000000

cdef struct Slot:
    uint32_t place          # offset of the record in its segment, in units of 4; 0 = no message
    uint32_t size           # accounted bytes, HAS_HEADERS, HAS_EXPIRY
    uint32_t sid
    uint32_t prev           # distance to the previous message of the subject; 0 none, FAR look for it
    uint32_t next

cdef struct Page:
    uint64_t number         # sequence >> PAGE_BITS
    uint64_t serial
    uint32_t room           # slots allocated
    uint32_t live
    uint32_t version
    Slot* slots

cdef class Index:
    cdef readonly SubjectTable table
    cdef Page** pages
    cdef uint32_t pages_used
    cdef uint32_t pages_room
    cdef uint64_t serials
    cdef readonly uint64_t msgs
    cdef readonly uint64_t bytes

    cdef Py_ssize_t page_at(self, uint64_t number) noexcept nogil
    cdef Slot* at(self, uint64_t seq) noexcept nogil
    cdef Page* _page_for(self, uint64_t number) except NULL
    cdef int put(self, uint64_t seq, uint32_t place, uint32_t size, uint32_t sid) except -1
    cdef uint64_t before(self, uint64_t seq, Slot* slot) noexcept nogil
    cdef uint64_t after(self, uint64_t seq, Slot* slot) noexcept nogil
    cdef void drop(self, uint64_t seq, Slot* slot) noexcept nogil
    cdef uint64_t next_live(self, uint64_t seq) noexcept nogil
    cdef uint64_t prev_live(self, uint64_t seq) noexcept nogil
    cdef uint32_t page_count(self, Page* page, Filter filter) noexcept nogil
    cdef uint64_t count(self, uint64_t start, Filter filter) except? 0xFFFFFFFFFFFFFFFF
    cdef uint64_t next_match(self, uint64_t start, Filter filter) except? 0xFFFFFFFFFFFFFFFF
    cdef uint64_t last_match(self, uint64_t before, Filter filter) except? 0xFFFFFFFFFFFFFFFF
    cdef size_t collect(self, uint64_t start, uint64_t* out, size_t limit, Filter filter) except? 0xFFFFFFFFFFFFFFF
    cdef int _prepare(self, Filter filter) except -1
    cdef uint64_t _count_single(self, uint64_t start, uint32_t sid) noexcept nogil
    cdef uint64_t _next_single(self, uint64_t start, uint32_t sid) noexcept nogil
