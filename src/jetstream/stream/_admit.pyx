# Which messages of a batch are plain, and admission of the two everyday policies.
#
# A message is *plain* when no header line starts with `Nats-` and it is within max_msg_size; plain
# runs are appended without looking at them again. `Nats-Msg-Id` and a numeric
# `Nats-Expected-Last-Subject-Sequence` are decided here, message by message but without a Python
# object each; everything else stops the run and is decided in Python.

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from jetstream.stream._dedupe cimport Window
from jetstream.wire._parser cimport Batch

cdef uint32_t HEADER_MAX = 65535

cdef enum:
    PLAIN = 0
    MSG_ID = 1
    EXPECTED = 2
    OTHER = 4

# Why a run ended.
END = 0
POLICY = 1
DUPLICATE = 2
WRONG_SEQUENCE = 3

cdef struct Seen:
    const char* id
    Py_ssize_t id_len
    uint64_t expected


cdef inline int is_name(const char* line, Py_ssize_t length, const char* name, Py_ssize_t size) noexcept nogil:
    return length > size and line[size] == b':' and memcmp(line, name, size) == 0


cdef int look(const char* block, uint32_t length, Seen* seen) noexcept nogil:
    # The policy a header block asks for: PLAIN, MSG_ID and EXPECTED as bits, or OTHER.
    cdef const char* p = block
    cdef const char* end = block + length
    cdef const char* eol
    cdef const char* value
    cdef Py_ssize_t n, width
    cdef int found = PLAIN
    cdef uint64_t number
    p = <const char*>memchr(p, b'\n', end - p)
    if p == NULL:
        return PLAIN
    p += 1
    while p < end:
        eol = <const char*>memchr(p, b'\n', end - p)
        if eol == NULL:
            break
        n = eol - p
        if n > 5 and p[0] == b'N' and memcmp(p, b"Nats-", 5) == 0:
            width = n - 1 if p[n - 1] == b'\r' else n
            if is_name(p, width, b"Nats-Msg-Id", 11):
                if found & MSG_ID:
                    return OTHER
                value = p + 12
                while value < p + width and (value[0] == b' ' or value[0] == b'\t'):
                    value += 1
                if value == p + width:
                    return OTHER
                seen.id = value
                seen.id_len = p + width - value
                found |= MSG_ID
            elif is_name(p, width, b"Nats-Expected-Last-Subject-Sequence", 35):
                if found & EXPECTED:
                    return OTHER
                value = p + 36
                while value < p + width and (value[0] == b' ' or value[0] == b'\t'):
                    value += 1
                if value == p + width or p + width - value > 18:
                    return OTHER
                number = 0
                while value < p + width:
                    if value[0] < 48 or value[0] > 57:
                        return OTHER
                    number = number * 10 + <uint64_t>(value[0] - 48)
                    value += 1
                seen.expected = number
                found |= EXPECTED
            else:
                return OTHER
        p = eol + 1
    return found


def all_plain(Batch batch not None, Py_ssize_t start, Py_ssize_t stop, int64_t max_msg_size):
    """True when nothing in [start, stop) asks for a decision."""
    cdef Py_ssize_t i
    cdef Seen seen
    cdef uint32_t limit = <uint32_t>max_msg_size if 0 <= max_msg_size < 0xffffffff else 0xffffffff
    assert 0 <= start <= stop <= batch.n
    for i in range(start, stop):
        if batch.total_len[i] > limit:
            return False
        if batch.header_len[i]:
            if batch.header_len[i] > HEADER_MAX:
                return False
            if look(batch.base + batch.body_at[i], batch.header_len[i], &seen) != PLAIN:
                return False
    return True


def total_size(Batch batch not None, Py_ssize_t start, Py_ssize_t stop):
    """An upper bound of what [start, stop) will count in `bytes`, either storage."""
    cdef Py_ssize_t i
    cdef uint64_t total = 0
    assert 0 <= start <= stop <= batch.n
    for i in range(start, stop):
        total += 34 + batch.subject_len[i] + batch.total_len[i]
    return total


def fast_ingest_at(Batch batch not None, Py_ssize_t start, Py_ssize_t stop):
    """The first message whose reply subject ends in `.$FI`, or `stop`."""
    cdef Py_ssize_t i
    cdef uint32_t n
    assert 0 <= start <= stop <= batch.n
    for i in range(start, stop):
        n = batch.reply_len[i]
        if n > 4 and memcmp(batch.base + batch.reply_at[i] + n - 4, b".$FI", 4) == 0:
            return i
    return stop


def fast_run(Batch batch not None, Py_ssize_t start, Py_ssize_t stop, uint64_t seq,
             int64_t max_msg_size):
    """How far from `start` one fast batch simply goes on: same batch, next number, plain append.

    The control part of a reply is `….<seq>.<op>.$FI`; what comes before it must not change.
    """
    cdef Py_ssize_t i, head, at, end
    cdef const char* reply
    cdef const char* first = batch.base + batch.reply_at[start]
    cdef uint64_t number
    cdef Seen seen
    cdef uint32_t limit = <uint32_t>max_msg_size if 0 <= max_msg_size < 0xffffffff else 0xffffffff
    assert 0 <= start < stop <= batch.n
    # Up to and including the dot before the sequence.
    head = <Py_ssize_t>batch.reply_len[start] - 6
    while head > 0 and first[head - 1] != b'.':
        head -= 1
    for i in range(start, stop):
        reply = batch.base + batch.reply_at[i]
        end = <Py_ssize_t>batch.reply_len[i] - 6
        if end <= head or memcmp(reply, first, head) != 0 or memcmp(reply + end, b".1.$FI", 6) != 0:
            return i
        number = 0
        for at in range(head, end):
            if reply[at] < 48 or reply[at] > 57 or end - head > 18:
                return i
            number = number * 10 + <uint64_t>(reply[at] - 48)
        if number != seq + <uint64_t>(i - start):
            return i
        if batch.total_len[i] > limit or batch.header_len[i] > HEADER_MAX:
            return i
        if batch.header_len[i] and look(batch.base + batch.body_at[i], batch.header_len[i], &seen) != PLAIN:
            return i
    return stop


cdef class Admitter:
    """Walks a run as far as kernel rules reach; the stream appends what was admitted."""

    cdef public Window window
    cdef readonly Py_ssize_t stop      # the run was admitted up to here
    cdef readonly int reason           # why it ended there
    cdef readonly uint64_t seq         # of the duplicate, or the actual last sequence
    cdef readonly bytes last_id        # id of the last admitted message, b"" if it had none

    def __init__(self, Window window):
        self.window = window
        self.last_id = b""

    def admit(self, Batch batch not None, Py_ssize_t start, Py_ssize_t stop, uint64_t next_seq,
              int64_t now, int64_t max_msg_size, last_for, Py_ssize_t longest):
        """Admit [start, self.stop); `next_seq` is what its first message will get."""
        cdef Py_ssize_t i = start
        cdef Seen seen
        cdef int kind
        cdef uint64_t found
        cdef uint32_t limit = <uint32_t>max_msg_size if 0 <= max_msg_size < 0xffffffff else 0xffffffff
        cdef dict written = None
        cdef Py_ssize_t covered = start  # messages before this one are in `written`
        cdef Py_ssize_t j
        cdef const char* id = NULL
        cdef Py_ssize_t id_len = 0
        assert 0 <= start <= stop <= batch.n
        self.reason = END
        while i < stop and i - start < longest:
            kind = PLAIN
            if batch.total_len[i] > limit or batch.header_len[i] > HEADER_MAX:
                kind = OTHER
            elif batch.header_len[i]:
                kind = look(batch.base + batch.body_at[i], batch.header_len[i], &seen)
            if kind == OTHER:
                self.reason = POLICY
                break
            if kind & EXPECTED:
                # What this very run wrote counts too, so note it (only once expectations appear).
                if written is None:
                    written = {}
                for j in range(covered, i):
                    written[batch.subject(j)] = next_seq + (j - start)
                covered = i
                subject = batch.subject(i)
                earlier = written.get(subject)
                found = earlier if earlier is not None else last_for(subject)
                if found != seen.expected:
                    self.seq = found
                    self.reason = WRONG_SEQUENCE
                    break
            if kind & MSG_ID:
                if self.window is not None:
                    found = self.window.find(seen.id, seen.id_len, now)
                    if found:
                        self.seq = found
                        self.reason = DUPLICATE
                        break
                    self.window.add(seen.id, seen.id_len, next_seq + (i - start), now)
                id = seen.id
                id_len = seen.id_len
            else:
                id_len = 0
            i += 1
        self.stop = i
        if i > start:
            self.last_id = id[:id_len] if id_len else b""
