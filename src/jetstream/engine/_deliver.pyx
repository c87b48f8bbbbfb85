# cython: language_level=3
"""Stored messages to where a consumer wants them, straight from the log into outboxes.

The consumer names sequences; here each record is found, its ack subject written and the frame
encoded for whoever listens on the delivery subject:

    $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>
"""

from cpython cimport array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from jetstream.broker._broker cimport Account, Broker, Client, Message, Route, Subscription
from jetstream.store._log cimport LogBase
from jetstream.store._record cimport Record
from jetstream.wire._outbox cimport put_number
from jetstream.wire._parser cimport Batch

cdef enum:
    REPLY_MAX = 1024


cdef bytes _with_lines(Record* r, bytes lines):
    """The record's header block with more lines at its end."""
    if r.headers_len >= 4:
        return PyBytes_FromStringAndSize(r.headers, r.headers_len - 2) + lines + b"\r\n"
    return b"NATS/1.0\r\n" + lines + b"\r\n"


def deliver(Broker broker, Account account, LogBase log, bytes to, array.array seqs, array.array deliveries,
            uint64_t consumer_seq, uint64_t step, int64_t pending, int64_t countdown, bytes ack_prefix,
            bytes extra_headers, bint headers_only):
    """Send these sequences; returns (messages sent, bytes sent)."""
    cdef Py_ssize_t i, n = len(seqs)
    cdef Record r
    cdef Message m
    cdef Route route
    cdef char reply[REPLY_MAX]
    cdef size_t prefix = PyBytes_GET_SIZE(ack_prefix), at
    cdef uint64_t count
    cdef uint64_t sent = 0, sent_bytes = 0
    cdef bytes block
    if prefix > REPLY_MAX - 128:
        raise ValueError("ack subject too long")
    memcpy(reply, PyBytes_AS_STRING(ack_prefix), prefix)
    route = account.route(PyBytes_AS_STRING(to), PyBytes_GET_SIZE(to), False)
    m.reply = reply
    for i in range(n):
        if log.record(seqs.data.as_ulonglongs[i], &r) == 0:
            consumer_seq += step
            pending -= countdown
            continue
        count = 1 if deliveries is None else deliveries.data.as_ulonglongs[i]
        at = prefix + put_number(reply + prefix, count)
        reply[at] = c'.'
        at += 1
        at += put_number(reply + at, r.seq)
        reply[at] = c'.'
        at += 1
        at += put_number(reply + at, consumer_seq)
        reply[at] = c'.'
        at += 1
        at += put_number(reply + at, <uint64_t>r.time_ns)
        reply[at] = c'.'
        at += 1
        at += put_number(reply + at, <uint64_t>pending if pending > 0 else 0)
        m.reply_len = at
        m.subject = r.subject
        m.subject_len = r.subject_len
        m.headers = r.headers
        m.headers_len = r.headers_len
        m.payload = r.payload
        m.payload_len = r.payload_len
        if headers_only or extra_headers:
            block = extra_headers
            if headers_only:
                block = b"Nats-Msg-Size: %d\r\n" % r.payload_len + extra_headers
                m.payload_len = 0
            block = _with_lines(&r, block)
            m.headers = PyBytes_AS_STRING(block)
            m.headers_len = PyBytes_GET_SIZE(block)
        sent += broker.deliver(route, None, &m)
        sent_bytes += m.headers_len + m.payload_len
        if route.sink is not None:
            # Somebody keeps what this consumer delivers in another stream, under the delivery subject.
            route.sink.capture(
                None,
                Batch.of([(
                    to,
                    PyBytes_FromStringAndSize(m.reply, m.reply_len),
                    PyBytes_FromStringAndSize(m.headers, m.headers_len),
                    PyBytes_FromStringAndSize(m.payload, m.payload_len),
                )]),
                0,
                1,
            )
            sent += 1
        consumer_seq += step
        pending -= countdown
    return sent, sent_bytes


def waiting_bytes(Account account, bytes to):
    """How much already waits to be sent to those who listen there (the fullest of them)."""
    cdef Route route = account.route(PyBytes_AS_STRING(to), PyBytes_GET_SIZE(to), False)
    cdef Subscription sub
    cdef list group
    cdef size_t most = 0
    if route.plain is not None:
        for sub in route.plain:
            most = max(most, sub.client.outbox.waiting() + sub.client.in_transport)
    if route.groups is not None:
        for group in route.groups:
            for sub in group:
                if sub.client is not None:
                    most = max(most, sub.client.outbox.waiting() + sub.client.in_transport)
    return most
