# cython: language_level=3
"""A buffer full of acknowledgements, as columns per consumer.

    $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>

Clients acknowledge one message per publish, so a fetch of 500 comes back as 500 of these. They are
taken apart here without a Python object each; `consumer/acks.py` describes the same readably, and
gets the forms that are rare (v2 subjects, the 2019 ones, malformed ones).
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from jetstream.wire._parser cimport Batch

import array as arrays

from jetstream.consumer.acks import AckRun

cdef array.array _bytes = arrays.array("B")
cdef array.array _longs = arrays.array("Q")

cdef enum:
    A_ACK = 0
    A_NAK = 1
    A_PROGRESS = 2
    A_NEXT = 3
    A_TERM = 4
    A_UNKNOWN = 5
    PREFIX = 8  # "$JS.ACK."


cdef inline int _kind(const char* p, uint32_t n) noexcept nogil:
    if n == 0 or (n == 3 and memcmp(p, b"+OK", 3) == 0):
        return A_ACK
    if n >= 4:
        if memcmp(p, b"+ACK", 4) == 0:
            return A_ACK
        if memcmp(p, b"-NAK", 4) == 0:
            return A_NAK
        if memcmp(p, b"+WPI", 4) == 0:
            return A_PROGRESS
        if memcmp(p, b"+NXT", 4) == 0:
            return A_NEXT
        if n >= 5 and memcmp(p, b"+TERM", 5) == 0:
            return A_TERM
    return A_UNKNOWN


cdef inline const char* _digits(const char* p, const char* end, uint64_t* value) noexcept nogil:
    """A number up to the next dot; NULL if there is none."""
    cdef uint64_t number = 0
    cdef const char* at = p
    while at < end and at[0] != c'.':
        if at[0] < c'0' or at[0] > c'9':
            return NULL
        number = number * 10 + <uint64_t>(at[0] - c'0')
        at += 1
    if at == p:
        return NULL
    value[0] = number
    return at + 1 if at < end else at


cdef inline const char* _consumer_end(const char* p, const char* end) noexcept nogil:
    """Behind `<stream>.<consumer>`, if exactly five more tokens follow; NULL otherwise."""
    cdef const char* at = p
    cdef const char* second = NULL
    cdef int dots = 0
    while at < end:
        if at[0] == c'.':
            dots += 1
            if dots == 2:
                second = at
        at += 1
    return second if dots == 6 else NULL


def parse_acks(Batch batch, Py_ssize_t start, Py_ssize_t stop):
    """([(stream, consumer, AckRun)], [indexes that need a closer look])."""
    cdef list runs = [], odd = []
    cdef Py_ssize_t i, n, room = stop - start
    cdef const char* subject
    cdef const char* end
    cdef const char* behind
    cdef const char* at
    cdef const char* prefix = NULL
    cdef const char* body
    cdef size_t prefix_len = 0
    cdef uint64_t deliveries, stream_seq, consumer_seq
    cdef array.array kinds = None, stream_seqs = None, consumer_seqs = None, counts = None
    cdef dict bodies = None, replies = None
    cdef int kind
    n = 0
    for i in range(start, stop):
        subject = batch.base + batch.subject_at[i] + PREFIX
        end = batch.base + batch.subject_at[i] + batch.subject_len[i]
        behind = _consumer_end(subject, end)
        at = NULL
        if behind != NULL:
            at = _digits(behind + 1, end, &deliveries)
            if at != NULL:
                at = _digits(at, end, &stream_seq)
            if at != NULL:
                at = _digits(at, end, &consumer_seq)
        if at == NULL:
            odd.append(i)
            continue
        if prefix == NULL or <size_t>(behind - subject) != prefix_len or memcmp(subject, prefix, prefix_len):
            if prefix != NULL:
                runs.append(_finish(prefix, prefix_len, n, kinds, stream_seqs, consumer_seqs, counts, bodies, replies))
            prefix = subject
            prefix_len = behind - subject
            kinds = array.clone(_bytes, room, False)
            stream_seqs = array.clone(_longs, room, False)
            consumer_seqs = array.clone(_longs, room, False)
            counts = array.clone(_longs, room, False)
            bodies = {}
            replies = {}
            n = 0
        body = batch.base + batch.body_at[i] + batch.header_len[i]
        kind = _kind(body, batch.total_len[i] - batch.header_len[i])
        kinds.data.as_uchars[n] = kind
        stream_seqs.data.as_ulonglongs[n] = stream_seq
        consumer_seqs.data.as_ulonglongs[n] = consumer_seq
        counts.data.as_ulonglongs[n] = deliveries
        if kind != A_ACK and kind != A_PROGRESS and kind != A_UNKNOWN:
            argument = batch.payload(i)[5 if kind == A_TERM else 4:].strip()
            if argument:
                bodies[n] = argument
        if batch.reply_len[i]:
            replies[n] = PyBytes_FromStringAndSize(batch.base + batch.reply_at[i], batch.reply_len[i])
        n += 1
    if prefix != NULL:
        runs.append(_finish(prefix, prefix_len, n, kinds, stream_seqs, consumer_seqs, counts, bodies, replies))
    return runs, odd


cdef tuple _finish(const char* prefix, size_t length, Py_ssize_t n, array.array kinds, array.array stream_seqs,
                   array.array consumer_seqs, array.array counts, dict bodies, dict replies):
    cdef str name = PyBytes_FromStringAndSize(prefix, length).decode("utf-8", "replace")
    array.resize(kinds, n)
    array.resize(stream_seqs, n)
    array.resize(consumer_seqs, n)
    array.resize(counts, n)
    stream, _, consumer = name.partition(".")
    return stream, consumer, AckRun(kinds, stream_seqs, consumer_seqs, counts, bodies, replies)
