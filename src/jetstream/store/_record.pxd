from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    HEAD = 24
    ALIGN = 4
    MESSAGE = 1
    TOMBSTONE = 2
    TRUNCATE = 3
    SKIP = 4
    LOST = 5
    CONFIG = 6
    EVICTED = 7
    WITH_HEADERS = 1
    WITH_EXPIRY = 2
    ERASED = 4

cdef struct Record:
    uint64_t seq
    int64_t time_ns
    int64_t expires_at
    const char* subject
    const char* headers
    const char* payload
    uint32_t subject_len
    uint32_t headers_len
    uint32_t payload_len
    uint32_t length          # of the whole record, without padding
    uint8_t kind
    uint8_t flags

cdef uint32_t padded(uint32_t length) noexcept nogil
cdef uint32_t encode(
    char* at, uint32_t seed, uint8_t kind, uint64_t seq, int64_t time_ns, int64_t expires_at,
    const char* subject, uint32_t subject_len, const char* body, uint32_t headers_len, uint32_t total_len,
    bint checked,
) noexcept nogil
cdef int decode(
    const char* at, uint64_t available, uint32_t seed, uint64_t first_seq, bint checked, Record* out
) noexcept nogil
