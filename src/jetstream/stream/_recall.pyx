# The message ids of a stream that was stored before: read from its log into the window.

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from jetstream.store._log cimport LogBase
from jetstream.store._record cimport Record
from jetstream.stream._dedupe cimport Window


cdef Py_ssize_t find_id(const char* block, uint32_t length, const char** id) noexcept nogil:
    # The value of the first `Nats-Msg-Id` line, 0 when there is none.
    cdef const char* p = block
    cdef const char* end = block + length
    cdef const char* eol
    cdef const char* value
    while p < end:
        eol = <const char*>memchr(p, b'\n', end - p)
        if eol == NULL:
            return 0
        if eol - p > 12 and memcmp(p, b"Nats-Msg-Id:", 12) == 0:
            value = p + 12
            while value < eol and (value[0] == b' ' or value[0] == b'\t'):
                value += 1
            if eol > value and (eol - 1)[0] == b'\r':
                eol -= 1
            id[0] = value
            return eol - value
        p = eol + 1
    return 0


def recall(LogBase log not None, Window window not None, const uint64_t[::1] seqs):
    """Remember the ids of these stored messages under the time they were stored."""
    cdef Py_ssize_t i, length
    cdef Record record
    cdef const char* id = NULL
    for i in range(seqs.shape[0]):
        if log.record(seqs[i], &record) == 1 and record.headers_len:
            length = find_id(record.headers, record.headers_len, &id)
            if length > 0:
                window.add(id, length, seqs[i], record.time_ns)
