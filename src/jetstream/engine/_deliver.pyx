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


cdef class Lane:
    """One Delivery on its way: where it goes and which message of it is next."""
    cdef Route route
    cdef bytes to
    cdef array.array seqs
    cdef array.array counts
    cdef uint64_t consumer_seq
    cdef uint64_t step
    cdef int64_t pending
    cdef int64_t countdown
    cdef bytes extra_headers
    cdef bint headers_only
    cdef Py_ssize_t at

    def __init__(self, Account account, delivery):
        self.to = delivery.to
        self.route = account.route(PyBytes_AS_STRING(self.to), PyBytes_GET_SIZE(self.to), False)
        self.seqs = delivery.seqs
        self.counts = delivery.deliveries
        self.consumer_seq = delivery.first_consumer_seq
        self.step = delivery.step
        self.pending = delivery.pending
        self.countdown = delivery.countdown
        self.extra_headers = delivery.extra_headers
        self.headers_only = delivery.headers_only

    cdef int send(self, Broker broker, LogBase log, char* reply, size_t prefix) except -1:
        """The next message of this lane. `reply` holds the ack subject up to the delivery count."""
        cdef Record r
        cdef Message m
        cdef size_t at
        cdef bytes block
        cdef Py_ssize_t i = self.at
        cdef int64_t pending = self.pending
        cdef uint64_t consumer_seq = self.consumer_seq
        self.at += 1
        self.consumer_seq += self.step
        self.pending -= self.countdown
        if log.record(self.seqs.data.as_ulonglongs[i], &r) == 0:
            return 0
        at = prefix + put_number(reply + prefix, 1 if self.counts is None else self.counts.data.as_ulonglongs[i])
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
        m.reply = reply
        m.reply_len = at
        m.subject = r.subject
        m.subject_len = r.subject_len
        m.headers = r.headers
        m.headers_len = r.headers_len
        m.payload = r.payload
        m.payload_len = r.payload_len
        if self.headers_only or self.extra_headers:
            block = self.extra_headers
            if self.headers_only:
                block = b"Nats-Msg-Size: %d\r\n" % r.payload_len + block
                m.payload_len = 0
            block = _with_lines(&r, block)
            m.headers = PyBytes_AS_STRING(block)
            m.headers_len = PyBytes_GET_SIZE(block)
        broker.deliver_as(self.route, self.to, None, &m)
        if self.route.sink is not None:
            # Somebody keeps what this consumer delivers in another stream, under the delivery subject.
            self.route.sink.capture(
                None,
                Batch.of([(
                    self.to,
                    PyBytes_FromStringAndSize(m.reply, m.reply_len),
                    PyBytes_FromStringAndSize(m.headers, m.headers_len),
                    PyBytes_FromStringAndSize(m.payload, m.payload_len),
                )]),
                0,
                1,
            )
        return 0


def deliver(Broker broker, Account account, LogBase log, list deliveries, bytes ack_prefix):
    """Send what a consumer hands out; deliveries that take turns go out message by message.

    Requests that share a run have every n-th message each (`step` n); on the wire the messages
    keep the order of the stream, whoever they are for.
    """
    cdef char reply[REPLY_MAX]
    cdef size_t prefix = PyBytes_GET_SIZE(ack_prefix)
    cdef Py_ssize_t first = 0, k, total = len(deliveries), sharers
    cdef Lane lane
    cdef list lanes
    if prefix > REPLY_MAX - 128:
        raise ValueError("ack subject too long")
    memcpy(reply, PyBytes_AS_STRING(ack_prefix), prefix)
    while first < total:
        sharers = min(<Py_ssize_t>deliveries[first].step, total - first)
        lanes = [Lane(account, deliveries[k]) for k in range(first, first + sharers)]
        first += sharers
        more = True
        while more:
            more = False
            for lane in lanes:
                if lane.at < len(lane.seqs):
                    lane.send(broker, log, reply, prefix)
                    more = True


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
