# cython: language_level=3
"""One record as bytes. `record.py` says the same in plain Python and is the oracle of the tests.

     0  u32  crc32c of everything that follows in the record, seeded with the segment's identity
     4  u32  length of the record from its first byte, without padding
     8  u32  low half of the sequence; the segment's first sequence gives the rest
    12  u8   kind            13  u8  flags           14  u16  length of the subject
    16  i64  time, unix nanoseconds
    24  u32  length of the header block   (only with WITH_HEADERS)
        i64  time of expiry               (only with WITH_EXPIRY)
        subject, header block, payload, zeros up to a multiple of 4
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from jetstream.store._crc cimport js_crc32c


cdef inline uint32_t padded(uint32_t length) noexcept nogil:
    return (length + ALIGN - 1) & ~<uint32_t>(ALIGN - 1)


cdef uint32_t encode(
    char* at, uint32_t seed, uint8_t kind, uint64_t seq, int64_t time_ns, int64_t expires_at,
    const char* subject, uint32_t subject_len, const char* body, uint32_t headers_len, uint32_t total_len,
    bint checked,
) noexcept nogil:
    """Write a record, padding included; the caller made room. Returns its length without padding."""
    cdef uint32_t at_body = HEAD
    cdef uint32_t length, crc
    cdef uint32_t low = <uint32_t>seq
    cdef uint16_t short_len = <uint16_t>subject_len
    cdef uint8_t flags = 0
    if headers_len:
        flags |= WITH_HEADERS
        memcpy(at + at_body, &headers_len, 4)
        at_body += 4
    if expires_at:
        flags |= WITH_EXPIRY
        memcpy(at + at_body, &expires_at, 8)
        at_body += 8
    memcpy(at + at_body, subject, subject_len)
    at_body += subject_len
    memcpy(at + at_body, body, total_len)
    length = at_body + total_len
    memset(at + length, 0, padded(length) - length)
    memcpy(at + 4, &length, 4)
    memcpy(at + 8, &low, 4)
    at[12] = <char>kind
    at[13] = <char>flags
    memcpy(at + 14, &short_len, 2)
    memcpy(at + 16, &time_ns, 8)
    crc = js_crc32c(seed, at + 4, padded(length) - 4) if checked else 0
    memcpy(at, &crc, 4)
    return length


cdef int decode(
    const char* at, uint64_t available, uint32_t seed, uint64_t first_seq, bint checked, Record* out
) noexcept nogil:
    """1 a good record, 0 more bytes are needed to know, -1 not a record."""
    cdef uint32_t crc, length, low, fixed = HEAD, headers_len = 0
    cdef uint16_t subject_len
    cdef uint8_t flags
    if available < HEAD:
        return 0
    memcpy(&length, at + 4, 4)
    flags = <uint8_t>at[13]
    if flags & WITH_HEADERS:
        fixed += 4
    if flags & WITH_EXPIRY:
        fixed += 8
    memcpy(&subject_len, at + 14, 2)
    if length < fixed + subject_len or length > 0x3FFFFFF0 or at[12] < MESSAGE or at[12] > EVICTED or flags > 7:
        return -1
    if available < padded(length):
        return 0
    if checked:
        memcpy(&crc, at, 4)
        if crc != js_crc32c(seed, at + 4, padded(length) - 4):
            return -1
    out.expires_at = 0
    fixed = HEAD
    if flags & WITH_HEADERS:
        memcpy(&headers_len, at + fixed, 4)
        fixed += 4
    if flags & WITH_EXPIRY:
        memcpy(&out.expires_at, at + fixed, 8)
        fixed += 8
    if <uint64_t>fixed + subject_len + headers_len > length:
        return -1
    memcpy(&low, at + 8, 4)
    memcpy(&out.time_ns, at + 16, 8)
    out.seq = first_seq + <uint32_t>(low - <uint32_t>first_seq)
    out.kind = <uint8_t>at[12]
    out.flags = flags
    out.length = length
    out.subject = at + fixed
    out.subject_len = subject_len
    out.headers = out.subject + subject_len
    out.headers_len = headers_len
    out.payload = out.headers + headers_len
    out.payload_len = length - fixed - subject_len - headers_len
    return 1


def pack(uint32_t seed, uint8_t kind, uint64_t seq, int64_t time_ns, bytes subject, bytes headers,
         bytes payload, int64_t expires_at=0):
    """A record as bytes, padding included."""
    cdef bytes body = headers + payload
    cdef bytearray room = bytearray(HEAD + 12 + len(subject) + len(body) + ALIGN)
    cdef uint32_t length = encode(room, seed, kind, seq, time_ns, expires_at, subject,
                                  <uint32_t>len(subject), body, <uint32_t>len(headers), <uint32_t>len(body), True)
    return bytes(room[:padded(length)])


def unpack(bytes data, uint32_t seed, uint64_t first_seq):
    """(kind, seq, time, subject, headers, payload, expires, flags), or None for anything but a whole good record."""
    cdef Record r
    if decode(data, len(data), seed, first_seq, True, &r) != 1:
        return None
    return (r.kind, r.seq, r.time_ns, r.subject[:r.subject_len], r.headers[:r.headers_len],
            r.payload[:r.payload_len], r.expires_at, r.flags)
