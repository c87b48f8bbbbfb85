# cython: language_level=3
"""From a parsed batch to what the application holds, in C loops over whole runs.

    Batch ──dispatch──► one call per run of messages of the same subscription
                           ├─ frames()   a list of message objects
                           ├─ ack_list() (token, headers, payload) of publish acks
                           └─ AckRun     only sequence numbers: bulk publishing keeps no objects

A `Frame` owns copies of its parts, because a batch is only valid until the socket is read again.
The numbers in an ack subject are read on first use:

    $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>
    $JS.ACK.<domain>.<account hash>.<stream>.….<pending>[.<random>]
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp

from jetstream.wire._parser cimport Batch


cdef enum:
    K_MSG = 9
    K_HMSG = 10
    ACK_TOKENS_MAX = 13


cdef class Frame:
    """One received message: its parts as bytes, text and numbers made on demand."""

    def __init__(self, bytes subject=b"", bytes reply=b"", bytes header_block=b"", bytes data=b"",
                 object connection=None):
        self.subject_bytes = subject
        self.reply_bytes = reply
        self.header_block = header_block
        self.data = data
        self.connection = connection
        self.status = _status(PyBytes_AS_STRING(header_block), PyBytes_GET_SIZE(header_block))

    @property
    def subject(self):
        """The subject the message was published on."""
        if self._subject is None:
            self._subject = PyUnicode_DecodeUTF8(
                PyBytes_AS_STRING(self.subject_bytes), PyBytes_GET_SIZE(self.subject_bytes), "replace"
            )
        return self._subject

    @property
    def reply(self):
        """Where an answer is expected; empty when none is."""
        if self._reply is None:
            self._reply = PyUnicode_DecodeUTF8(
                PyBytes_AS_STRING(self.reply_bytes), PyBytes_GET_SIZE(self.reply_bytes), "replace"
            )
        return self._reply

    @property
    def size(self):
        """Bytes of subject, reply, headers and payload together."""
        return (PyBytes_GET_SIZE(self.subject_bytes) + PyBytes_GET_SIZE(self.reply_bytes)
                + PyBytes_GET_SIZE(self.header_block) + PyBytes_GET_SIZE(self.data))

    cdef int _numbers(self) except -1:
        if self.read == 0:
            self.read = 1 if _ack_numbers(self) else 2
        return self.read

    def ack_parts(self):
        """(domain, stream, consumer) of the ack subject, or None if it is no JetStream delivery."""
        if self._numbers() == 2:
            return None
        parts = self.reply.split(".")
        if len(parts) == 9:
            return "", parts[2], parts[3]
        return ("" if parts[2] == "_" else parts[2]), parts[4], parts[5]

    @property
    def is_delivery(self):
        return self._numbers() == 1

    @property
    def seq(self):
        """The sequence of the message in its stream; 0 for a message that came from no stream."""
        self._numbers()
        return self._stream_seq

    @property
    def consumer_seq(self):
        """How many deliveries the consumer had made, this one included."""
        self._numbers()
        return self._consumer_seq

    @property
    def deliveries(self):
        """How often this message was delivered, this time included."""
        self._numbers()
        return self._deliveries

    @property
    def pending(self):
        """How many messages still waited for this consumer after this one."""
        self._numbers()
        return self._pending

    @property
    def time_ns(self):
        """When the stream stored the message, in unix nanoseconds."""
        self._numbers()
        return self._time_ns


cdef inline int _status(char* block, Py_ssize_t n) noexcept nogil:
    """The three digits behind NATS/1.0, or 0."""
    if n < 12 or block[8] != c' ':
        return 0
    cdef int i, value = 0
    for i in range(9, 12):
        if block[i] < c'0' or block[i] > c'9':
            return 0
        value = value * 10 + (block[i] - c'0')
    return value


cdef inline int64_t _digits(char* p, char* end) noexcept nogil:
    cdef int64_t value = 0
    if p == end or end - p > 19:
        return -1
    while p < end:
        if p[0] < c'0' or p[0] > c'9':
            return -1
        value = value * 10 + (p[0] - c'0')
        p += 1
    return value


cdef bint _ack_numbers(Frame frame) noexcept:
    cdef (char*)[14] at  # ACK_TOKENS_MAX and one behind the end
    cdef char* p = PyBytes_AS_STRING(frame.reply_bytes)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(frame.reply_bytes)
    cdef char* end = p + n
    cdef char* q
    cdef int count = 1, first
    cdef int64_t[5] numbers
    cdef int k
    if n < 10 or memcmp(p, b"$JS.ACK.", 8) != 0:
        return False
    at[0] = p
    q = p
    while q < end:
        if q[0] == c'.':
            if count == ACK_TOKENS_MAX:
                return False
            at[count] = q + 1
            count += 1
        q += 1
    at[count] = end + 1
    if count == 9:
        first = 4
    elif count >= 11:
        first = 6
    else:
        return False
    for k in range(5):
        numbers[k] = _digits(at[first + k], at[first + k + 1] - 1)
        if numbers[k] < 0:
            return False
    frame._deliveries = numbers[0]
    frame._stream_seq = numbers[1]
    frame._consumer_seq = numbers[2]
    frame._time_ns = numbers[3]
    frame._pending = numbers[4]
    return True


def dispatch(Batch batch, dict receivers, on_control):
    """Hand each run of messages to its receiver, everything else to on_control(kind, text).

    Returns how many messages there were and how many bytes they carried.
    """
    cdef Py_ssize_t i = 0, j, n = batch.n, messages = 0, size = 0
    cdef int64_t sid
    while i < n:
        if batch.kinds[i] != K_MSG and batch.kinds[i] != K_HMSG:
            on_control(batch.kinds[i], batch.payload(i))
            i += 1
            continue
        sid = batch.numbers[i]
        j = i
        while j < n and batch.numbers[j] == sid and (batch.kinds[j] == K_MSG or batch.kinds[j] == K_HMSG):
            size += batch.total_len[j]
            j += 1
        messages += j - i
        receiver = receivers.get(sid)
        if receiver is not None:
            receiver(batch, i, j)
        i = j
    return messages, size


def frames(Batch batch, Py_ssize_t start, Py_ssize_t stop, type cls, connection):
    """Message objects for [start, stop), and how many of them are status messages."""
    cdef list made = []
    cdef Frame frame
    cdef Py_ssize_t i, statuses = 0
    cdef char* base = batch.base
    cdef char* body
    cdef bytes empty = b""
    for i in range(start, stop):
        frame = <Frame>cls.__new__(cls)
        frame.connection = connection
        frame.subject_bytes = PyBytes_FromStringAndSize(base + batch.subject_at[i], batch.subject_len[i])
        if batch.reply_len[i]:
            frame.reply_bytes = PyBytes_FromStringAndSize(base + batch.reply_at[i], batch.reply_len[i])
        else:
            frame.reply_bytes = empty
        body = base + batch.body_at[i]
        if batch.header_len[i]:
            frame.header_block = PyBytes_FromStringAndSize(body, batch.header_len[i])
            frame.status = _status(body, batch.header_len[i])
            statuses += frame.status != 0
        else:
            frame.header_block = empty
        frame.data = PyBytes_FromStringAndSize(
            body + batch.header_len[i], batch.total_len[i] - batch.header_len[i]
        )
        made.append(frame)
    return made, statuses


def in_order(received, uint64_t consumer_seq):
    """How many of these deliveries follow each other without a gap, the first being `consumer_seq`."""
    cdef Py_ssize_t i
    cdef Frame frame
    for i in range(len(received)):
        frame = <Frame>received[i]
        if frame._numbers() == 2 or frame._consumer_seq != consumer_seq + i:
            return i
    return len(received)


def total_size(received):
    """Bytes of all these messages."""
    cdef Py_ssize_t total = 0
    cdef Frame frame
    for frame in received:
        total += (PyBytes_GET_SIZE(frame.subject_bytes) + PyBytes_GET_SIZE(frame.reply_bytes)
                  + PyBytes_GET_SIZE(frame.header_block) + PyBytes_GET_SIZE(frame.data))
    return total


def ack_list(Batch batch, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t prefix):
    """(token, headers, payload) of each answer whose subject ends in a number."""
    cdef list made = []
    cdef Py_ssize_t i
    cdef char* subject
    for i in range(start, stop):
        subject = batch.base + batch.subject_at[i]
        token = _digits(subject + prefix, subject + batch.subject_len[i])
        made.append((token, batch.headers(i), batch.payload(i)))
    return made


cdef class AckRun:
    """The acks of one bulk publish: sequence numbers by position, and whatever is not plain.

    `odd` collects (position, headers, payload) of answers that are no simple acceptance: errors,
    duplicates, no responders.
    """

    cdef uint64_t* seqs
    cdef readonly Py_ssize_t sent
    cdef readonly Py_ssize_t answered
    cdef Py_ssize_t room
    cdef Py_ssize_t prefix
    cdef public Py_ssize_t wake_at
    cdef public object waiter
    cdef readonly list odd

    def __cinit__(self, Py_ssize_t prefix):
        self.prefix = prefix
        self.odd = []

    def __dealloc__(self):
        free(self.seqs)

    def expect(self, Py_ssize_t n):
        """`n` more messages go out."""
        cdef uint64_t* bigger
        cdef Py_ssize_t i
        if self.sent + n > self.room:
            self.room = max(2 * self.room, self.sent + n, 1024)
            bigger = <uint64_t*>realloc(self.seqs, self.room * sizeof(uint64_t))
            if bigger == NULL:
                raise MemoryError
            self.seqs = bigger
        for i in range(self.sent, self.sent + n):
            self.seqs[i] = 0
        self.sent += n

    @property
    def outstanding(self):
        return self.sent - self.answered

    def receive(self, Batch batch, Py_ssize_t start, Py_ssize_t stop):
        cdef Py_ssize_t i
        cdef int64_t position
        cdef char* subject
        cdef uint64_t seq
        for i in range(start, stop):
            subject = batch.base + batch.subject_at[i]
            position = _digits(subject + self.prefix, subject + batch.subject_len[i])
            if position < 0 or position >= self.sent or self.seqs[position]:
                continue
            seq = 0
            if batch.header_len[i] == 0:
                seq = _plain_ack(batch.base + batch.body_at[i], batch.total_len[i])
            if seq == 0:
                self.odd.append((position, batch.headers(i), batch.payload(i)))
                self.seqs[position] = <uint64_t>-1
            else:
                self.seqs[position] = seq
            self.answered += 1
        if self.waiter is not None and self.sent - self.answered <= self.wake_at:
            waiter = self.waiter
            self.waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def missing(self):
        """Positions nobody answered."""
        cdef Py_ssize_t i
        return [i for i in range(self.sent) if self.seqs[i] == 0]

    def sequences(self):
        """The stream sequence of each message, 0 where there is none."""
        from array import array
        cdef Py_ssize_t i
        if self.sent == 0:
            return array("Q")
        made = array("Q")
        made.frombytes(PyBytes_FromStringAndSize(<char*>self.seqs, self.sent * sizeof(uint64_t)))
        for position, _, _ in self.odd:
            made[position] = 0
        return made


cdef uint64_t _plain_ack(char* p, Py_ssize_t n) noexcept nogil:
    """The sequence in `{"stream":"S","seq":7}` (a domain may be there); 0 for anything else."""
    cdef char* end = p + n
    cdef char* q
    cdef uint64_t value = 0
    if n < 20 or memcmp(p, b'{"stream":', 10) != 0 or end[-1] != c'}':
        return 0
    # The number is at the end, so we read it backwards to its label.
    q = end - 2
    while q > p and c'0' <= q[0] <= c'9':
        q -= 1
    if q == end - 2 or q - p < 6 or memcmp(q - 5, b'"seq":', 6) != 0:
        return 0
    q += 1
    while q < end - 1:
        value = value * 10 + (q[0] - c'0')
        q += 1
    return value
