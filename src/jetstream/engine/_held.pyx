# cython: language_level=3
"""Answers that wait for the disk.

A publish is acknowledged when its record is synced. Until then only the reply subject and the
sequence are kept, one after the other in one buffer; on release each becomes
`{"stream":"ORDERS","seq":17}` straight in the outbox of whoever listens on the reply.

    entry:  u64 seq (0: a ready-made body follows) · u32 reply length · u32 body length · reply · body
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from jetstream.broker._broker cimport Account, Broker, Message, Route
from jetstream.wire._outbox cimport put_number
from jetstream.wire._parser cimport Batch

cdef struct Entry:
    uint64_t seq
    uint32_t reply_len
    uint32_t body_len

cdef enum:
    BODY_MAX = 1024


cdef class HeldAcks:
    """The unsent answers of one stream."""

    cdef char* data
    cdef size_t size
    cdef size_t room
    cdef readonly Py_ssize_t count
    cdef bytes head

    def __init__(self, bytes head):
        """`head` is everything before the sequence, for example `{"stream":"ORDERS","seq":`."""
        if len(head) > BODY_MAX - 64:
            raise ValueError("stream name too long for an ack")
        self.head = head

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.count

    cdef int _fit(self, size_t n) except -1:
        cdef size_t room
        cdef char* bigger
        if self.size + n > self.room:
            room = max(self.size + n, <size_t>(self.room * 2), <size_t>4096)
            bigger = <char*>realloc(self.data, room)
            if bigger == NULL:
                raise MemoryError
            self.data = bigger
            self.room = room
        return 0

    def add_run(self, Batch batch, Py_ssize_t start, Py_ssize_t stop, uint64_t first_seq):
        """Messages [start, stop) were stored from `first_seq` on; those with a reply get an ack."""
        cdef Py_ssize_t i
        cdef Entry* entry
        cdef uint32_t n
        for i in range(start, stop):
            n = batch.reply_len[i]
            if n == 0:
                continue
            self._fit(sizeof(Entry) + n + 8)
            entry = <Entry*>(self.data + self.size)
            entry.seq = first_seq + <uint64_t>(i - start)
            entry.reply_len = n
            entry.body_len = 0
            memcpy(self.data + self.size + sizeof(Entry), batch.base + batch.reply_at[i], n)
            self.size += (sizeof(Entry) + n + 7) & ~<size_t>7
            self.count += 1

    def add(self, bytes reply, bytes body):
        """A ready-made answer."""
        cdef Entry* entry
        cdef uint32_t n = PyBytes_GET_SIZE(reply), m = PyBytes_GET_SIZE(body)
        self._fit(sizeof(Entry) + n + m + 8)
        entry = <Entry*>(self.data + self.size)
        entry.seq = 0
        entry.reply_len = n
        entry.body_len = m
        memcpy(self.data + self.size + sizeof(Entry), PyBytes_AS_STRING(reply), n)
        memcpy(self.data + self.size + sizeof(Entry) + n, PyBytes_AS_STRING(body), m)
        self.size += (sizeof(Entry) + n + m + 7) & ~<size_t>7
        self.count += 1

    def release(self, Broker broker, Account account):
        """Send everything, in order."""
        cdef char* at = self.data
        cdef char* end = self.data + self.size
        cdef Entry* entry
        cdef Message m
        cdef Route route
        cdef char body[BODY_MAX]
        cdef size_t head_len = PyBytes_GET_SIZE(self.head)
        cdef size_t n
        memcpy(body, PyBytes_AS_STRING(self.head), head_len)
        m.reply = NULL
        m.reply_len = 0
        m.headers = NULL
        m.headers_len = 0
        while at < end:
            entry = <Entry*>at
            m.subject = at + sizeof(Entry)
            m.subject_len = entry.reply_len
            if entry.seq:
                n = head_len + put_number(body + head_len, entry.seq)
                body[n] = c'}'
                m.payload = body
                m.payload_len = n + 1
            else:
                m.payload = m.subject + entry.reply_len
                m.payload_len = entry.body_len
            route = account.route(m.subject, m.subject_len, False)
            if not route.nobody:
                broker.deliver(route, None, &m)
                if route.sink is not None:
                    route.sink.capture(
                        None,
                        Batch.of([(
                            PyBytes_FromStringAndSize(m.subject, m.subject_len), b"", b"",
                            PyBytes_FromStringAndSize(m.payload, m.payload_len),
                        )]),
                        0,
                        1,
                    )
            at += (sizeof(Entry) + entry.reply_len + entry.body_len + 7) & ~<size_t>7
        self.clear()

    def replies(self):
        """The replies that wait, oldest first, with the body if it is ready-made."""
        cdef char* at = self.data
        cdef Entry* entry
        found = []
        while at < self.data + self.size:
            entry = <Entry*>at
            found.append((
                PyBytes_FromStringAndSize(at + sizeof(Entry), entry.reply_len),
                entry.seq,
                PyBytes_FromStringAndSize(at + sizeof(Entry) + entry.reply_len, entry.body_len),
            ))
            at += (sizeof(Entry) + entry.reply_len + entry.body_len + 7) & ~<size_t>7
        return found

    def clear(self):
        self.size = 0
        self.count = 0
        if self.room > 1048576:
            free(self.data)
            self.data = NULL
            self.room = 0
