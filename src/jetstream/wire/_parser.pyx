# cython: language_level=3
"""Bytes to operations, a whole read buffer per call.

    read buffer  ──►  Parser  ──►  Batch: one array per property, offsets into the buffer

          PUB a.b inbox 5\r\nhello\r\nPUB c 0\r\n\r\nPI…
    kinds        [PUB,  PUB]                       └── unfinished: kept for the next read
    subject_at   [4,    29]
    body_at      [17,   34]

All parsers of a thread share one large receive buffer: what was read is parsed and handled before the
next socket is read. Only what is unfinished is copied, into a small buffer of the
connection; a message larger than that gets a buffer of its own size and is received straight into it.
`parser.py` says the same in plain Python and is the oracle of the tests.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcpy, memmove

import threading


cdef enum:
    K_PUB = 1
    K_HPUB = 2
    K_SUB = 3
    K_UNSUB = 4
    K_CONNECT = 5
    K_PING = 6
    K_PONG = 7
    K_INFO = 8
    K_MSG = 9
    K_HMSG = 10
    K_OK = 11
    K_ERR = 12

cdef enum:
    F_UNKNOWN = 1
    F_LINE = 2
    F_PAYLOAD = 3
    F_ARGUMENTS = 4
    F_HEADERS = 5

cdef enum:
    BATCH_ROOM = 8192
    SHARED_ROOM = 262144
    CLIENT_LINE_MAX = 4194304
    TOKENS_MAX = 6
    BLANKS_MAX = 65536


cdef class Batch:
    """Operations of one read, as arrays. Valid until the parser reads again."""

    def __cinit__(self, Py_ssize_t room=BATCH_ROOM):
        self.room = room
        self.kinds = <uint8_t*>malloc(room)
        self.subject_at = <uint32_t*>malloc(room * 7 * sizeof(uint32_t))
        self.numbers = <int64_t*>malloc(room * sizeof(int64_t))
        if self.kinds == NULL or self.subject_at == NULL or self.numbers == NULL:
            raise MemoryError
        self.subject_len = self.subject_at + room
        self.reply_at = self.subject_len + room
        self.reply_len = self.reply_at + room
        self.header_len = self.reply_len + room
        self.body_at = self.header_len + room
        self.total_len = self.body_at + room

    def __dealloc__(self):
        free(self.kinds)
        free(self.subject_at)
        free(self.numbers)

    @staticmethod
    def of(list messages):
        """A batch of publishes made by hand: (subject, reply, headers, payload) each."""
        cdef Batch batch = Batch(max(1, len(messages)))
        cdef Py_ssize_t i, at = 0
        joined = b"".join([part for message in messages for part in message])
        batch.owner = joined
        batch.base = PyBytes_AS_STRING(joined)
        for i, (subject, reply, headers, payload) in enumerate(messages):
            batch.kinds[i] = K_HPUB if headers else K_PUB
            batch.subject_at[i] = at
            batch.subject_len[i] = len(subject)
            at += len(subject)
            batch.reply_at[i] = at
            batch.reply_len[i] = len(reply)
            at += len(reply)
            batch.body_at[i] = at
            batch.header_len[i] = len(headers)
            batch.total_len[i] = len(headers) + len(payload)
            at += len(headers) + len(payload)
            batch.numbers[i] = 0
        batch.n = len(messages)
        return batch

    def __len__(self):
        return self.n

    def kind(self, Py_ssize_t i):
        return self.kinds[i]

    def subject(self, Py_ssize_t i):
        return PyBytes_FromStringAndSize(self.base + self.subject_at[i], self.subject_len[i])

    def reply(self, Py_ssize_t i):
        """The reply subject; of a SUB its queue group."""
        return PyBytes_FromStringAndSize(self.base + self.reply_at[i], self.reply_len[i])

    def headers(self, Py_ssize_t i):
        return PyBytes_FromStringAndSize(self.base + self.body_at[i], self.header_len[i])

    def payload(self, Py_ssize_t i):
        """The payload; of CONNECT, INFO and -ERR the text, of SUB and UNSUB the sid."""
        return PyBytes_FromStringAndSize(
            self.base + self.body_at[i] + self.header_len[i], self.total_len[i] - self.header_len[i]
        )

    def sid(self, Py_ssize_t i):
        """The subscription number of a MSG; the maximum of an UNSUB (0 if none)."""
        return self.numbers[i]

    def size(self, Py_ssize_t i):
        """Headers and payload together, in bytes."""
        return self.total_len[i]

    def sizes(self, Py_ssize_t start, Py_ssize_t stop):
        """Headers and payloads of [start, stop) together, in bytes."""
        cdef Py_ssize_t i
        cdef uint64_t total = 0
        for i in range(start, stop):
            total += self.total_len[i]
        return total

    def header_size(self, Py_ssize_t i):
        return self.header_len[i]


cdef class _Shared:
    """The one receive buffer all parsers of a thread read into."""
    cdef char* room
    cdef char* at
    cdef Py_ssize_t size

    def __cinit__(self):
        self.room = <char*>malloc(SHARED_ROOM)
        if self.room == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.room)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.at, self.size, 0, flags)


cdef class _Window:
    """A writable view on a parser's own buffer, kept alive by the parser."""
    cdef char* at
    cdef Py_ssize_t size
    cdef object owner

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.at, self.size, 0, flags)


# One per thread: a read releases the GIL, so two loops in two threads must not receive into the same.
_of_thread = threading.local()


cdef _Shared _shared_here():
    shared = getattr(_of_thread, "shared", None)
    if shared is None:
        shared = _of_thread.shared = _Shared()
    return <_Shared>shared


cdef list _spare = []  # handled batches, to be used again


cdef inline uint8_t _upper(char c) noexcept nogil:
    return c - 32 if c'a' <= c <= c'z' else c


cdef inline bint _is(char* p, const char* word, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if _upper(p[i]) != <uint8_t>word[i]:
            return False
    return True


cdef inline int64_t _number(char* p, Py_ssize_t n) noexcept nogil:
    """Decimal digits only, at most nine; -1 for anything else."""
    cdef int64_t value = 0
    cdef Py_ssize_t i
    if n <= 0 or n > 9:
        return -1
    for i in range(n):
        if p[i] < c'0' or p[i] > c'9':
            return -1
        value = value * 10 + (p[i] - c'0')
    return value


cdef inline int64_t _long_number(char* p, Py_ssize_t n) noexcept nogil:
    cdef int64_t value = 0
    cdef Py_ssize_t i
    if n <= 0 or n > 18:
        return -1
    for i in range(n):
        if p[i] < c'0' or p[i] > c'9':
            return -1
        value = value * 10 + (p[i] - c'0')
    return value


cdef inline int _tokens(char* p, char* end, char** at, Py_ssize_t* size) noexcept nogil:
    """Split at blanks; TOKENS_MAX means too many."""
    cdef int n = 0
    cdef char* q = p
    while q < end:
        while q < end and (q[0] == c' ' or q[0] == c'\t'):
            q += 1
        if q == end:
            break
        if n == TOKENS_MAX:
            return TOKENS_MAX + 1
        at[n] = q
        while q < end and q[0] != c' ' and q[0] != c'\t':
            q += 1
        size[n] = q - at[n]
        n += 1
    return n


cdef bint _could_be(char* p, size_t n, const char* word, bint blank) noexcept nogil:
    """Do these first bytes agree with `word`, and with the blank some words need behind them?"""
    cdef size_t i = 0
    while i < n and word[i] != 0 and _upper(p[i]) == <uint8_t>word[i]:
        i += 1
    if i == n:
        return True
    return word[i] == 0 and (not blank or p[i] == c' ' or p[i] == c'\t')


cdef bint _may_begin(char* p, size_t n, int role) noexcept nogil:
    """Could these first bytes become a known operation?"""
    if _could_be(p, n, b"PING", False) or _could_be(p, n, b"PONG", False):
        return True
    if _could_be(p, n, b"+OK", False) or _could_be(p, n, b"INFO", role == 1):
        return True
    if role == 1:
        return (
            _could_be(p, n, b"MSG", True)
            or _could_be(p, n, b"HMSG", True)
            or _could_be(p, n, b"-ERR", False)
        )
    return (
        _could_be(p, n, b"PUB", True)
        or _could_be(p, n, b"HPUB", True)
        or _could_be(p, n, b"SUB", True)
        or _could_be(p, n, b"UNSUB", True)
        or _could_be(p, n, b"CONNECT", False)
        or _could_be(p, n, b"-ERR", True)
    )


cdef size_t _argument_length(char* p, size_t n) noexcept nogil:
    """How long the arguments of an unfinished line are so far."""
    cdef size_t i = 0
    while i < n and p[i] != c' ' and p[i] != c'\t':
        i += 1
    while i < n and (p[i] == c' ' or p[i] == c'\t'):
        i += 1
    # The last byte may be the CR of the line's end.
    return n - i - 1 if i < n and p[n - 1] == c'\r' else n - i


cdef class Parser:
    """Turns what arrives on one connection into batches.

    `get_buffer()`/`received(n)` suit asyncio's BufferedProtocol, `feed(data)` everything else; then
    call `next_batch()` until it returns None. When `fault` is not zero the connection has to end
    after the batches before it were handled.
    """

    def __cinit__(self, int role=0):
        self.role = role
        self.payload_max = 1048576 if role == 0 else 0xFFFFFFFF
        self.control_line_max = 4096 if role == 0 else CLIENT_LINE_MAX
        self.headers_agreed = role == 1
        self.shared = _shared_here()

    def __dealloc__(self):
        free(self.own)

    cdef int _keep(self, size_t room) except -1:
        """Make `own` hold at least `room` bytes."""
        cdef char* bigger
        if room > self.own_room:
            bigger = <char*>realloc(self.own, room)
            if bigger == NULL:
                raise MemoryError
            self.own = bigger
            self.own_room = room
        return 0

    def get_buffer(self, Py_ssize_t sizehint=-1):
        """Where the next bytes should be received."""
        cdef _Window window
        cdef _Shared shared
        if self.need > SHARED_ROOM // 4 or self.own_len > SHARED_ROOM // 4:
            self._keep(max(self.need + 65536, self.own_len + 65536))
            window = _Window()
            window.owner = self
            window.at = self.own + self.own_len
            window.size = self.own_room - self.own_len
            self.receiving_own = True
            return window
        shared = <_Shared>self.shared
        if self.own_len:
            memcpy(shared.room, self.own, self.own_len)
        shared.at = shared.room + self.own_len
        shared.size = SHARED_ROOM - self.own_len
        self.receiving_own = False
        return shared

    def received(self, Py_ssize_t n):
        """`n` bytes were put into the buffer given last."""
        if self.receiving_own:
            self.own_len += n
            self.data = self.own
            self.data_len = self.own_len
        else:
            self.data = (<_Shared>self.shared).room
            self.data_len = self.own_len + n
        self.pos = 0

    def feed(self, data):
        """Take bytes that were received elsewhere."""
        cdef const unsigned char[::1] view = data
        cdef Py_ssize_t n = view.shape[0]
        self._keep(self.own_len + n + 1)
        if n:
            memcpy(self.own + self.own_len, &view[0], n)
        self.own_len += n
        self.data = self.own
        self.data_len = self.own_len
        self.receiving_own = True
        self.pos = 0

    def stash(self):
        """Keep what is not parsed yet; call when handling stops half-way (and before any await)."""
        cdef size_t left = self.data_len - self.pos
        if self.data == NULL:
            return
        if self.data == self.own:
            if self.pos:
                memmove(self.own, self.own + self.pos, left)
        else:
            self._keep(left)
            if left:
                memcpy(self.own, self.data + self.pos, left)
        self.own_len = left
        if left == 0 and self.own_room > 4096:
            free(self.own)
            self.own = NULL
            self.own_room = 0
        self.data = self.own
        self.data_len = left
        self.pos = 0

    @property
    def unparsed(self):
        """Bytes that wait for the rest of their operation."""
        return self.data_len - self.pos

    def next_batch(self):
        """The next operations, or None when the buffer holds no further whole one."""
        cdef Batch batch
        if self.fault or self.data == NULL or self.data_len == self.pos:
            self.stash()
            return None
        if self.need and self.data_len - self.pos < self.need:
            self.stash()
            return None
        batch = <Batch>_spare.pop() if _spare else Batch()
        self._parse(batch)
        if batch.n == 0:
            _spare.append(batch)
            self.stash()
            return None
        return batch

    @staticmethod
    def done(Batch batch):
        """Give a handled batch back, so that the next read needs no new one."""
        if len(_spare) < 4 and batch.room == BATCH_ROOM:
            batch.owner = None
            _spare.append(batch)

    cdef int _parse(self, Batch batch) except -1:
        cdef char* data = self.data
        cdef char* newline
        cdef char* after
        cdef size_t left
        cdef int outcome
        batch.base = data
        batch.owner = self
        batch.n = 0
        self.need = 0
        while batch.n < batch.room and self.pos < self.data_len:
            left = self.data_len - self.pos
            newline = <char*>memchr(data + self.pos, c'\n', left)
            if newline == NULL:
                if not _may_begin(data + self.pos, left, self.role):
                    self.fault = F_UNKNOWN
                elif _argument_length(data + self.pos, left) > self.control_line_max:
                    self.fault = F_LINE
                elif left > self.control_line_max + BLANKS_MAX:
                    self.fault = F_LINE
                return 0
            outcome = self._line(batch, data + self.pos, newline, &after)
            if outcome == 0:  # the payload is not complete yet
                return 0
            if outcome < 0:
                self.fault = -outcome
                return 0
            self.pos = after - data
            if outcome == 2:  # CONNECT: the connection decides before anything else is read
                return 0
        return 0

    cdef int _line(self, Batch batch, char* p, char* newline, char** after) except -99:
        """One operation whose control line is [p, newline). 1 done, 2 done and stop, 0 unfinished, <0 fault."""
        cdef char* at[TOKENS_MAX]
        cdef Py_ssize_t size[TOKENS_MAX]
        cdef Py_ssize_t n = batch.n, count, i
        cdef size_t left
        cdef char* end = newline
        cdef char* args
        cdef int kind
        cdef int64_t headers = 0, total = 0
        cdef size_t line
        if end > p and (end - 1)[0] == c'\r':
            end -= 1
        line = end - p
        after[0] = newline + 1
        if self.role == 0:
            if line >= 4 and _is(p, b"PUB", 3) and (p[3] == c' ' or p[3] == c'\t'):
                kind = K_PUB
                args = p + 4
            elif line >= 5 and _is(p, b"HPUB", 4) and (p[4] == c' ' or p[4] == c'\t'):
                kind = K_HPUB
                args = p + 5
            elif line >= 4 and _is(p, b"SUB", 3) and (p[3] == c' ' or p[3] == c'\t'):
                kind = K_SUB
                args = p + 4
            elif line >= 6 and _is(p, b"UNSUB", 5) and (p[5] == c' ' or p[5] == c'\t'):
                kind = K_UNSUB
                args = p + 6
            elif line >= 4 and _is(p, b"PING", 4):
                kind = K_PING
                args = p + 4
            elif line >= 4 and _is(p, b"PONG", 4):
                kind = K_PONG
                args = p + 4
            elif line >= 7 and _is(p, b"CONNECT", 7):
                kind = K_CONNECT
                args = p + 7
            elif line >= 4 and _is(p, b"INFO", 4):
                kind = K_INFO
                args = p + 4
            elif line >= 3 and _is(p, b"+OK", 3):
                return 1
            elif line >= 5 and _is(p, b"-ERR", 4) and (p[4] == c' ' or p[4] == c'\t'):
                kind = K_ERR
                args = p + 5
            else:
                return -F_UNKNOWN
        else:
            if line >= 4 and _is(p, b"MSG", 3) and (p[3] == c' ' or p[3] == c'\t'):
                kind = K_MSG
                args = p + 4
            elif line >= 5 and _is(p, b"HMSG", 4) and (p[4] == c' ' or p[4] == c'\t'):
                kind = K_HMSG
                args = p + 5
            elif line >= 4 and _is(p, b"PING", 4):
                kind = K_PING
                args = p + 4
            elif line >= 4 and _is(p, b"PONG", 4):
                kind = K_PONG
                args = p + 4
            elif line >= 3 and _is(p, b"+OK", 3):
                kind = K_OK
                args = p + 3
            elif line >= 4 and _is(p, b"-ERR", 4):
                kind = K_ERR
                args = p + 4
            elif line >= 5 and _is(p, b"INFO", 4) and (p[4] == c' ' or p[4] == c'\t'):
                kind = K_INFO
                args = p + 5
            else:
                return -F_UNKNOWN
        # Blanks before the first argument do not count.
        while args < end and (args[0] == c' ' or args[0] == c'\t'):
            args += 1
        if <size_t>(end - args) > self.control_line_max:
            return -F_LINE
        batch.kinds[n] = kind
        batch.subject_len[n] = 0
        batch.subject_at[n] = 0
        batch.reply_len[n] = 0
        batch.reply_at[n] = 0
        batch.header_len[n] = 0
        batch.numbers[n] = 0
        if kind == K_PING or kind == K_PONG or kind == K_OK:
            batch.body_at[n] = 0
            batch.total_len[n] = 0
            batch.n += 1
            return 1
        if kind == K_CONNECT or kind == K_INFO or kind == K_ERR:
            batch.body_at[n] = args - batch.base
            batch.total_len[n] = end - args
            batch.n += 1
            return 2 if kind == K_CONNECT else 1
        count = _tokens(args, end, at, size)
        if kind == K_SUB:
            if count != 2 and count != 3:
                return -F_ARGUMENTS
            batch.subject_at[n] = at[0] - batch.base
            batch.subject_len[n] = size[0]
            if count == 3:
                batch.reply_at[n] = at[1] - batch.base
                batch.reply_len[n] = size[1]
            batch.body_at[n] = at[count - 1] - batch.base
            batch.total_len[n] = size[count - 1]
            batch.n += 1
            return 1
        if kind == K_UNSUB:
            if count != 1 and count != 2:
                return -F_ARGUMENTS
            batch.body_at[n] = at[0] - batch.base
            batch.total_len[n] = size[0]
            if count == 2:
                total = _number(at[1], size[1])
                batch.numbers[n] = total if total > 0 else 0
            batch.n += 1
            return 1
        # PUB subject [reply] total · HPUB subject [reply] headers total
        # MSG subject sid [reply] total · HMSG subject sid [reply] headers total
        if self.role == 1:
            if count < 3:
                return -F_ARGUMENTS
            batch.numbers[n] = _long_number(at[1], size[1])
            # From here on the line looks like the one a publisher sends.
            for i in range(1, count - 1):
                at[i] = at[i + 1]
                size[i] = size[i + 1]
            count -= 1
        if kind == K_PUB or kind == K_MSG:
            if count != 2 and count != 3:
                return -F_ARGUMENTS
            if count == 3:
                batch.reply_at[n] = at[1] - batch.base
                batch.reply_len[n] = size[1]
        else:
            if count != 3 and count != 4:
                return -F_ARGUMENTS
            if not self.headers_agreed:
                return -F_HEADERS
            if count == 4:
                batch.reply_at[n] = at[1] - batch.base
                batch.reply_len[n] = size[1]
            headers = _number(at[count - 2], size[count - 2])
            if headers < 0:
                return -F_ARGUMENTS
        total = _number(at[count - 1], size[count - 1])
        if total < 0 or headers > total:
            return -F_ARGUMENTS
        if total > self.payload_max:
            return -F_PAYLOAD
        batch.subject_at[n] = at[0] - batch.base
        batch.subject_len[n] = size[0]
        batch.header_len[n] = headers
        batch.body_at[n] = newline + 1 - batch.base
        batch.total_len[n] = total
        left = self.data_len - (newline + 1 - self.data)
        if <int64_t>left < total + 2:
            if <int64_t>left == total + 1 and newline[1 + total] != c'\r':
                return -F_UNKNOWN
            self.need = (newline + 1 - p) + total + 2
            return 0
        if newline[1 + total] != c'\r' or newline[2 + total] != c'\n':
            return -F_UNKNOWN
        after[0] = newline + 3 + total
        batch.n += 1
        return 1
