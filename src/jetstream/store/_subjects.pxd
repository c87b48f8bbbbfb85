from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef struct Subject:
    uint64_t first          # sequence of its oldest message, 0 when it has none
    uint64_t last
    char* name              # NULL: this id is free
    uint32_t name_len
    uint32_t hash
    uint32_t count          # messages; in a free entry the next free id
    uint32_t spare

cdef class SubjectTable:
    cdef Subject* entries
    cdef uint32_t used              # ids handed out so far, id 0 is never used
    cdef uint32_t room
    cdef uint32_t* buckets          # open addressing, 0 = empty
    cdef uint32_t mask
    cdef uint32_t filled            # buckets taken
    cdef uint32_t free_id           # head of the list of free ids
    cdef uint32_t alive             # subjects with a name
    cdef uint32_t* births           # ids in the order they were named, for the filters
    cdef uint64_t births_base
    cdef uint32_t births_used
    cdef uint32_t births_room
    cdef uint64_t name_bytes
    cdef uint64_t deaths            # ids given back so far

    cdef uint32_t find(self, const char* name, uint32_t length) noexcept nogil
    cdef uint32_t intern(self, const char* name, uint32_t length) except 0
    cdef void forget(self, uint32_t sid) noexcept nogil
    cdef int _rehash(self, uint32_t size) except -1
    cdef int _born(self, uint32_t sid) except -1

cdef class Filter:
    cdef SubjectTable table
    cdef readonly tuple subjects
    cdef readonly bint everything
    cdef readonly bint single        # one literal subject
    cdef uint32_t sid                # its id, 0 while unknown
    cdef uint8_t* bits               # one bit per subject id
    cdef uint32_t bits_room          # ids covered
    cdef uint64_t births_seen
    cdef uint32_t* pages             # matching messages per index page, by page serial
    cdef uint32_t* versions          # the page version the count was made for
    cdef uint64_t pages_base
    cdef uint32_t pages_room

    cdef int refresh(self) except -1
    cdef bint _matches(self, const char* name, uint32_t length) noexcept
    cdef int _mark(self, uint32_t sid) except -1
    cdef int cover(self, uint64_t first_serial, uint64_t last_serial) except -1

cdef bint filter_has(Filter filter, uint32_t sid) noexcept nogil
cdef bint pattern_matches(const char* pattern, size_t plen, const char* name, size_t nlen) noexcept nogil
