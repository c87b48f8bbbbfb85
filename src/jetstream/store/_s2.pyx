# One S2 (or Snappy) block, unpacked.
#
#   uvarint length of the result, then elements; the low two bits of an element's first byte tell:
#   0  literal    length - 1 in the upper six bits (60..63: in the next 1..4 bytes)
#   1  copy       length 4..11 in bits 2-4, offset in bits 5-7 and one more byte;
#                 offset 0 is S2's "repeat": the last offset again, with lengths up to 16 million
#   2  copy       length 1..64, offset in two bytes
#   3  copy       length 1..64, offset in four bytes

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from jetstream.errors import StoreError

BLOCK_BYTES_MAX = 4 << 20


def decode_block(bytes data not None):
    """The unpacked bytes; StoreError when the block is not as it should be."""
    cdef const unsigned char* p = <const unsigned char*>PyBytes_AS_STRING(data)
    cdef const unsigned char* end = p + PyBytes_GET_SIZE(data)
    cdef size_t size = 0, length, offset, last_offset = 1, i
    cdef int shift = 0, tag, extra
    while True:
        if p >= end or shift > 28:
            raise StoreError("archive block: bad length")
        size |= <size_t>(p[0] & 0x7f) << shift
        shift += 7
        p += 1
        if not p[-1] & 0x80:
            break
    if size > BLOCK_BYTES_MAX:
        raise StoreError("archive block: too long")
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
    cdef unsigned char* start = <unsigned char*>PyBytes_AS_STRING(result)
    cdef unsigned char* out = start
    cdef unsigned char* out_end = start + size
    while p < end:
        tag = p[0] & 3
        if tag == 0:
            length = p[0] >> 2
            p += 1
            if length >= 60:
                extra = <int>length - 59
                if end - p < extra:
                    raise StoreError("archive block: cut off")
                length = 0
                for i in range(extra):
                    length |= <size_t>p[i] << (8 * i)
                p += extra
            length += 1
            if length > <size_t>(end - p) or length > <size_t>(out_end - out):
                raise StoreError("archive block: literal too long")
            memcpy(out, p, length)
            out += length
            p += length
            continue
        if tag == 1:
            if end - p < 2:
                raise StoreError("archive block: cut off")
            length = (p[0] >> 2) & 7
            offset = (<size_t>(p[0] >> 5) << 8) | p[1]
            p += 2
            if offset == 0:
                offset = last_offset
                if length == 5:
                    extra = 1
                elif length == 6:
                    extra = 2
                elif length == 7:
                    extra = 3
                else:
                    extra = 0
                if end - p < extra:
                    raise StoreError("archive block: cut off")
                if extra == 1:
                    length = <size_t>p[0] + 4
                elif extra == 2:
                    length = (<size_t>p[0] | <size_t>p[1] << 8) + 256
                elif extra == 3:
                    length = (<size_t>p[0] | <size_t>p[1] << 8 | <size_t>p[2] << 16) + 65536
                p += extra
            length += 4
        elif tag == 2:
            if end - p < 3:
                raise StoreError("archive block: cut off")
            length = <size_t>(p[0] >> 2) + 1
            offset = <size_t>p[1] | <size_t>p[2] << 8
            p += 3
        else:
            if end - p < 5:
                raise StoreError("archive block: cut off")
            length = <size_t>(p[0] >> 2) + 1
            offset = <size_t>p[1] | <size_t>p[2] << 8 | <size_t>p[3] << 16 | <size_t>p[4] << 24
            p += 5
        if offset == 0 or offset > <size_t>(out - start) or length > <size_t>(out_end - out):
            raise StoreError("archive block: bad copy")
        last_offset = offset
        # The copy may overlap what it writes: byte by byte.
        for i in range(length):
            out[i] = (out - offset)[i]
        out += length
    if out != out_end:
        raise StoreError("archive block: shorter than it says")
    return result
