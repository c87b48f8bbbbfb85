# cython: language_level=3
"""The answer to a direct get, straight from the log into the outbox of whoever asked.

    NATS/1.0 … stored headers …
    Nats-Stream: ORDERS
    Nats-Subject: orders.new
    Nats-Sequence: 17
    Nats-Time-Stamp: 2026-11-15T18:28:08.016417165Z
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy

from jetstream.broker._broker cimport Account, Broker, Message, Route
from jetstream.store._log cimport LogBase
from jetstream.store._record cimport Record
from jetstream.wire._outbox cimport put_number
from jetstream.wire._parser cimport Batch

cdef enum:
    PREFIX = 19  # "$JS.API.DIRECT.GET."


cdef inline size_t _two(char* at, int value) noexcept nogil:
    at[0] = <char>(c'0' + value // 10)
    at[1] = <char>(c'0' + value % 10)
    return 2


cdef size_t put_time(char* at, int64_t ns) noexcept nogil:
    """RFC 3339 in UTC with up to nine decimals, trailing zeros cut."""
    cdef int64_t seconds = ns // 1000000000
    cdef int64_t rest = ns % 1000000000
    cdef int64_t days, era, day_of_era, year_of_era, day_of_year, month, day, year
    cdef size_t n = 0
    cdef int i
    if rest < 0:
        rest += 1000000000
        seconds -= 1
    days = seconds // 86400
    seconds = seconds % 86400
    if seconds < 0:
        seconds += 86400
        days -= 1
    # Days to a date in the Gregorian calendar, years starting in March.
    days += 719468
    era = days // 146097
    day_of_era = days - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    n += _two(at, <int>(year // 100))
    n += _two(at + n, <int>(year % 100))
    at[n] = c'-'
    n += 1
    n += _two(at + n, <int>month)
    at[n] = c'-'
    n += 1
    n += _two(at + n, <int>day)
    at[n] = c'T'
    n += 1
    n += _two(at + n, <int>(seconds // 3600))
    at[n] = c':'
    n += 1
    n += _two(at + n, <int>(seconds // 60 % 60))
    at[n] = c':'
    n += 1
    n += _two(at + n, <int>(seconds % 60))
    if rest:
        at[n] = c'.'
        for i in range(9):
            at[n + 9 - i] = <char>(c'0' + rest % 10)
            rest //= 10
        n += 10
        while at[n - 1] == c'0':
            n -= 1
    at[n] = c'Z'
    return n + 1


def format_time(int64_t ns):
    """For the tests: what `put_time` writes."""
    cdef char room[40]
    return room[:put_time(room, ns)]


cdef inline char* _line(char* p, const char* name, size_t name_len, const char* value, size_t n) noexcept nogil:
    memcpy(p, name, name_len)
    memcpy(p + name_len, value, n)
    p[name_len + n] = c'\r'
    p[name_len + n + 1] = c'\n'
    return p + name_len + n + 2


cdef int64_t _asked_seq(const char* p, uint32_t n) noexcept nogil:
    """N of `{"seq":N}`; -1 for any other request."""
    cdef int64_t value = 0
    cdef uint32_t at = 7
    if n < 9 or n > 26 or memcmp(p, b'{"seq":', 7) != 0 or p[n - 1] != c'}':
        return -1
    if p[at] == c' ':
        at += 1
    if at == n - 1:
        return -1
    while at < n - 1:
        if p[at] < c'0' or p[at] > c'9':
            return -1
        value = value * 10 + (p[at] - c'0')
        at += 1
    return value


def answer_run(Broker broker, Account account, dict answering, Batch batch, Py_ssize_t start, Py_ssize_t stop):
    """Answer a run of `$JS.API.DIRECT.GET.…` requests; returns the indexes that need a closer look.

    `answering` has (log, stream name) by the name in the subject. Plain questions are by sequence
    (`{"seq":N}`) and by last of a subject (the rest of the request's subject, no payload).
    """
    cdef Py_ssize_t i
    cdef const char* name
    cdef const char* dot
    cdef const char* end
    cdef const char* last_name = NULL
    cdef size_t name_len, last_len = 0
    cdef LogBase log = None
    cdef bytes stream = None
    cdef int64_t seq
    cdef list odd = []
    for i in range(start, stop):
        name = batch.base + batch.subject_at[i] + PREFIX
        end = batch.base + batch.subject_at[i] + batch.subject_len[i]
        dot = <const char*>memchr(name, c'.', end - name)
        name_len = (dot if dot != NULL else end) - name
        if last_name == NULL or name_len != last_len or memcmp(name, last_name, name_len) != 0:
            found = answering.get(PyBytes_FromStringAndSize(name, name_len))
            log, stream = found if found is not None else (None, None)
            last_name = name
            last_len = name_len
        if log is None or batch.header_len[i]:
            odd.append(i)
            continue
        if dot == NULL:
            seq = _asked_seq(batch.base + batch.body_at[i], batch.total_len[i])
        elif batch.total_len[i] == 0:
            seq = log.last_for(PyBytes_FromStringAndSize(dot + 1, end - dot - 1))
        else:
            seq = -1
        if seq <= 0 or not answer_direct(
            broker, account, log, seq,
            PyBytes_FromStringAndSize(batch.base + batch.reply_at[i], batch.reply_len[i]), stream,
        ):
            odd.append(i)
    return odd


cdef int _send(Broker broker, Account account, Record* r, bytes reply, bytes stream, int64_t pending,
               int64_t previous) except -1:
    """One stored message with the headers of a direct get; `pending` < 0: not part of a row."""
    cdef Message m
    cdef Route route
    cdef char* room
    cdef char* p
    cdef char number[24]
    cdef char stamp[40]
    cdef size_t n, stream_len = PyBytes_GET_SIZE(stream)
    room = <char*>malloc(r.headers_len + r.subject_len + stream_len + 288)
    if room == NULL:
        raise MemoryError
    try:
        p = room
        if r.headers_len >= 4:
            memcpy(p, r.headers, r.headers_len - 2)
            p += r.headers_len - 2
        else:
            memcpy(p, b"NATS/1.0\r\n", 10)
            p += 10
        p = _line(p, b"Nats-Stream: ", 13, PyBytes_AS_STRING(stream), stream_len)
        p = _line(p, b"Nats-Subject: ", 14, r.subject, r.subject_len)
        n = put_number(number, r.seq)
        p = _line(p, b"Nats-Sequence: ", 15, number, n)
        n = put_time(stamp, r.time_ns)
        p = _line(p, b"Nats-Time-Stamp: ", 17, stamp, n)
        if pending >= 0:
            n = put_number(number, <uint64_t>pending)
            p = _line(p, b"Nats-Num-Pending: ", 18, number, n)
            n = put_number(number, <uint64_t>previous)
            p = _line(p, b"Nats-Last-Sequence: ", 20, number, n)
        p[0] = c'\r'
        p[1] = c'\n'
        p += 2
        m.subject = PyBytes_AS_STRING(reply)
        m.subject_len = PyBytes_GET_SIZE(reply)
        m.reply = NULL
        m.reply_len = 0
        m.headers = room
        m.headers_len = <uint32_t>(p - room)
        m.payload = r.payload
        m.payload_len = r.payload_len
        route = account.route(m.subject, m.subject_len, False)
        if not route.nobody:
            broker.deliver(route, None, &m)
    finally:
        free(room)
    return 0


cpdef bint answer_direct(Broker broker, Account account, LogBase log, uint64_t seq, bytes reply, bytes stream) except *:
    """Send the message of this sequence to `reply`; False if it is not there."""
    cdef Record r
    if seq == 0 or log.record(seq, &r) == 0:
        return False
    _send(broker, account, &r, reply, stream, -1, 0)
    return True


def answer_row(Broker broker, Account account, LogBase log, array.array seqs, int64_t pending, int64_t room,
               bytes reply, bytes stream):
    """Send a row of messages until `room` bytes are reached; (pending, last sequence, bytes left)."""
    cdef Py_ssize_t i
    cdef Record r
    cdef int64_t previous = 0
    for i in range(len(seqs)):
        if log.record(seqs.data.as_ulonglongs[i], &r) == 0:
            continue
        pending -= 1
        room -= r.subject_len + r.headers_len + r.payload_len
        _send(broker, account, &r, reply, stream, max(pending, <int64_t>0), previous)
        previous = seqs.data.as_ulonglongs[i]
        if room <= 0:
            break
    return pending, previous, room
