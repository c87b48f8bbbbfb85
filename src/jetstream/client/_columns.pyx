"""Frames of messages straight into the buffers of columns: no Python object per message.

The readable twin is `columns.py`; same names, same tests. A `Columns` takes MSG and HMSG frames of
one subscription out of a read buffer and appends to growing byte blocks

    subjects  s0 s1 s2 …      subject_ends   int32 end of each
    payloads  p0 p1 p2 …      payload_ends   int32
    headers   h0 h1 h2 …      header_ends    int32   (only when asked for)
    seqs int64                times int64 (unix ns)

that Arrow takes over as they are. Anything that is not such a frame (PING, a status, another
subscription) makes `feed` stop and say so; the caller handles it and feeds on.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy

NEED_MORE = 0
OTHER = 1
FULL = 2
PAST_END = 3

ACK = 0
DIRECT = 1

cdef enum:
    BYTES_MAX = 0x7FFFFF00  # what an int32 offset can still point at


cdef class Block:
    """Bytes that grow; Arrow reads them through the buffer protocol and keeps them alive."""

    cdef char* data
    cdef size_t size
    cdef size_t room

    def __cinit__(self, size_t room=4096):
        self.data = <char*> malloc(room)
        if self.data == NULL:
            raise MemoryError()
        self.size = 0
        self.room = room

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    cdef int reserve(self, size_t more) except -1:
        cdef size_t wanted = self.size + more
        cdef char* moved
        if wanted > self.room:
            wanted = wanted + (wanted >> 1)
            moved = <char*> realloc(self.data, wanted)
            if moved == NULL:
                raise MemoryError()
            self.data = moved
            self.room = wanted
        return 0

    cdef int append(self, const char* source, size_t count) except -1:
        if self.size + count > self.room:
            self.reserve(count)
        memcpy(self.data + self.size, source, count)
        self.size += count
        return 0

    cdef int append_int32(self, int32_t value) except -1:
        if self.size + 4 > self.room:
            self.reserve(4)
        (<int32_t*> (self.data + self.size))[0] = value
        self.size += 4
        return 0

    cdef int append_int64(self, int64_t value) except -1:
        if self.size + 8 > self.room:
            self.reserve(8)
        (<int64_t*> (self.data + self.size))[0] = value
        self.size += 8
        return 0


cdef Block offsets():
    cdef Block block = Block(65536)
    block.append_int32(0)
    return block


cdef inline int64_t number(const char* at, const char* end, const char** stop) noexcept nogil:
    """The decimal number at `at`; -1 when there is none."""
    cdef int64_t value = 0
    cdef const char* start = at
    while at < end and 48 <= at[0] <= 57:
        value = value * 10 + (at[0] - 48)
        at += 1
    stop[0] = at
    return -1 if at == start else value


cdef int64_t days_of(int64_t year, int month, int day) noexcept nogil:
    """Days since 1970-01-01 of a Gregorian date."""
    if month <= 2:
        year -= 1
    cdef int64_t era = (year if year >= 0 else year - 399) // 400
    cdef int64_t of_era = year - era * 400
    cdef int64_t of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


cdef int64_t rfc3339(const char* at, const char* end) noexcept nogil:
    """Unix nanoseconds of `2026-11-15T18:28:08.016417165Z`."""
    cdef const char* stop
    cdef int64_t year, month, day, hour, minute, second, fraction = 0
    cdef int digits = 0
    if end - at < 20:
        return 0
    year = number(at, at + 4, &stop)
    month = number(at + 5, at + 7, &stop)
    day = number(at + 8, at + 10, &stop)
    hour = number(at + 11, at + 13, &stop)
    minute = number(at + 14, at + 16, &stop)
    second = number(at + 17, at + 19, &stop)
    at += 19
    if at < end and at[0] == 46:
        at += 1
        while at < end and 48 <= at[0] <= 57:
            if digits < 9:
                fraction = fraction * 10 + (at[0] - 48)
                digits += 1
            at += 1
    while digits < 9:
        fraction *= 10
        digits += 1
    cdef int64_t seconds = ((days_of(year, <int> month, <int> day) * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 1000000000 + fraction


cdef class Columns:
    """Rows of one subscription as columns; see the module."""

    cdef public long long last_seq, pending, past_end_seq
    cdef public Py_ssize_t rows
    cdef readonly int stopped
    cdef long long sid
    cdef long long up_to
    cdef int mode
    cdef bint with_headers, with_data
    cdef Block subjects, subject_ends, payloads, payload_ends, header_blocks, header_ends, seqs, times

    def __init__(self, long long sid, int mode=ACK, long long up_to=0, bint with_headers=False, bint with_data=True):
        self.sid = sid
        self.mode = mode
        self.up_to = up_to
        self.with_headers = with_headers
        self.with_data = with_data
        self.last_seq = 0
        self.pending = -1
        self.past_end_seq = 0
        self.stopped = NEED_MORE
        self._fresh()

    cdef _fresh(self):
        self.rows = 0
        self.subjects = Block(65536)
        self.subject_ends = offsets()
        self.payloads = Block(1 << 20)
        self.payload_ends = offsets()
        self.header_blocks = Block(4096)
        self.header_ends = offsets()
        self.seqs = Block(65536)
        self.times = Block(65536)

    @property
    def data_bytes(self):
        return self.payloads.size + self.subjects.size + self.header_blocks.size

    def take(self):
        """All rows so far as (rows, subject_ends, subjects, payload_ends, payloads, seqs, times, header_ends, headers)."""
        taken = (
            self.rows, self.subject_ends, self.subjects, self.payload_ends, self.payloads,
            self.seqs, self.times, self.header_ends, self.header_blocks,
        )
        self._fresh()
        return taken

    def feed(self, buffer, Py_ssize_t start, Py_ssize_t end, Py_ssize_t rows_max, Py_ssize_t bytes_max):
        """Take whole frames out of buffer[start:end]; returns where it stopped, `stopped` says why."""
        cdef Py_buffer view
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            return self._feed(<const char*> view.buf, start, end, rows_max, bytes_max)
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t _feed(self, const char* base, Py_ssize_t start, Py_ssize_t end, Py_ssize_t rows_max, Py_ssize_t bytes_max) except -1:
        cdef const char* at
        cdef const char* line_end
        cdef const char* stop = NULL
        cdef const char* body
        cdef const char* words[6]
        cdef Py_ssize_t lengths[6]
        cdef int count
        cdef bint has_headers
        cdef int64_t total, head
        cdef const char* finish = base + end
        at = base + start
        while True:
            if self.rows >= rows_max or <Py_ssize_t> (self.payloads.size + self.subjects.size + self.header_blocks.size) >= bytes_max:
                self.stopped = FULL
                break
            if finish - at < 4:
                self.stopped = NEED_MORE
                break
            has_headers = at[0] == 72  # H
            if memcmp(at, b"HMSG" if has_headers else b"MSG ", 4) != 0:
                self.stopped = OTHER
                break
            line_end = <const char*> memchr(at, 13, finish - at)
            if line_end == NULL:
                self.stopped = NEED_MORE
                break
            count = self._words(at + (5 if has_headers else 4), line_end, words, lengths)
            if has_headers:
                if count < 4 or number(words[1], line_end, &stop) != self.sid:
                    self.stopped = OTHER
                    break
                head = number(words[count - 2], line_end, &stop)
            else:
                if count < 3 or number(words[1], line_end, &stop) != self.sid:
                    self.stopped = OTHER
                    break
                head = 0
            total = number(words[count - 1], line_end, &stop)
            body = line_end + 2
            if finish - body < total + 2:
                self.stopped = NEED_MORE
                break
            if self.mode == ACK:
                # A status has no reply: the caller has to see it.
                if count != (5 if has_headers else 4) or not self._from_ack(words, lengths, body, head, total):
                    self.stopped = OTHER
                    break
            elif not self._from_direct(words, lengths, body, head, total):
                self.stopped = OTHER
                break
            if self.past_end_seq:
                self.stopped = PAST_END
                break
            at = body + total + 2
        return at - base

    cdef int _words(self, const char* at, const char* end, const char** words, Py_ssize_t* lengths) noexcept:
        cdef int count = 0
        cdef const char* stop
        while at < end and count < 6:
            while at < end and (at[0] == 32 or at[0] == 9):
                at += 1
            if at >= end:
                break
            stop = at
            while stop < end and stop[0] != 32 and stop[0] != 9:
                stop += 1
            words[count] = at
            lengths[count] = stop - at
            count += 1
            at = stop
        return count

    cdef int _from_ack(self, const char** words, Py_ssize_t* lengths, const char* body, int64_t head, int64_t total) except -1:
        """$JS.ACK.<stream>.<consumer>.<count>.<seq>.<cseq>.<ns>.<pending>; longer form: two more in front."""
        cdef const char* at = words[2]
        cdef const char* end = at + lengths[2]
        cdef const char* tokens[13]
        cdef int count = 1
        cdef int first
        cdef const char* stop = NULL
        cdef int64_t seq, time
        if lengths[2] < 9 or memcmp(at, b"$JS.ACK.", 8) != 0:
            return 0
        tokens[0] = at
        while at < end and count < 13:
            if at[0] == 46:
                tokens[count] = at + 1
                count += 1
            at += 1
        if count == 9:
            first = 4
        elif count >= 11:
            first = 6
        else:
            return 0
        seq = number(tokens[first + 1], end, &stop)
        if seq < 0:
            return 0
        if self.up_to and seq > self.up_to:
            self.past_end_seq = seq
            return 1
        time = number(tokens[first + 3], end, &stop)
        self.pending = number(tokens[first + 4], end, &stop)
        return self._row(words[0], lengths[0], body, head, body + head, total - head, seq, time)

    cdef int _from_direct(self, const char** words, Py_ssize_t* lengths, const char* body, int64_t head, int64_t total) except -1:
        """Stored headers, then Nats-Stream, -Subject, -Sequence, -Time-Stamp (and more) of the server."""
        cdef const char* at = body
        cdef const char* end = body + head
        cdef const char* line
        cdef const char* colon
        cdef const char* value
        cdef const char* stop = NULL
        cdef const char* subject = NULL
        cdef Py_ssize_t subject_length = 0, length
        cdef const char* added = NULL
        cdef int64_t seq = -1, time = 0, waiting = -1
        if head < 14 or body[8] != 13:  # NATS/1.0 with a status behind it
            return 0
        at = body + 10
        while at < end:
            line = at
            stop = <const char*> memchr(at, 13, end - at)
            if stop == NULL or stop == line:
                break
            at = stop + 2
            if stop - line < 6 or memcmp(line, b"Nats-", 5) != 0:
                continue
            colon = <const char*> memchr(line, 58, stop - line)
            if colon == NULL:
                continue
            length = colon - line
            value = colon + 1
            while value < stop and value[0] == 32:
                value += 1
            if length == 11 and memcmp(line, b"Nats-Stream", 11) == 0:
                added = line
            elif length == 12 and memcmp(line, b"Nats-Subject", 12) == 0:
                subject = value
                subject_length = stop - value
            elif length == 13 and memcmp(line, b"Nats-Sequence", 13) == 0:
                seq = number(value, stop, &colon)
            elif length == 15 and memcmp(line, b"Nats-Time-Stamp", 15) == 0:
                time = rfc3339(value, stop)
            elif length == 16 and memcmp(line, b"Nats-Num-Pending", 16) == 0:
                waiting = number(value, stop, &colon)
        if seq < 0 or subject == NULL or added == NULL:
            return 0
        if self.up_to and seq > self.up_to:
            self.past_end_seq = seq
            return 1
        self.pending = waiting
        length = added - body
        if length <= 10:
            length = 0
        self._row(subject, subject_length, body, length, body + head, total - head, seq, time)
        if self.with_headers and length:
            # The stored block again needs the empty line the cut took away.
            self.header_blocks.append(b"\r\n", 2)
            (<int32_t*> (self.header_ends.data + self.header_ends.size - 4))[0] = <int32_t> self.header_blocks.size
        return 1

    cdef int _row(self, const char* subject, Py_ssize_t subject_length, const char* headers, Py_ssize_t header_length,
                  const char* payload, Py_ssize_t payload_length, int64_t seq, int64_t time) except -1:
        if self.payloads.size + payload_length > BYTES_MAX:
            raise OverflowError("a column holds more bytes than an Arrow offset reaches")
        self.subjects.append(subject, subject_length)
        self.subject_ends.append_int32(<int32_t> self.subjects.size)
        if self.with_data:
            self.payloads.append(payload, payload_length)
        self.payload_ends.append_int32(<int32_t> self.payloads.size)
        if self.with_headers:
            self.header_blocks.append(headers, header_length)
            self.header_ends.append_int32(<int32_t> self.header_blocks.size)
        self.seqs.append_int64(seq)
        self.times.append_int64(time)
        self.last_seq = seq
        self.rows += 1
        return 1


cdef int append_number(Block out, int64_t value) except -1:
    cdef char digits[20]
    cdef int at = 20
    if value == 0:
        at -= 1
        digits[at] = 48
    while value:
        at -= 1
        digits[at] = <char> (48 + value % 10)
        value //= 10
    return out.append(digits + at, 20 - at)


def publishes(subject_ends, subjects, payload_ends, payloads, list header_blocks, bytes fixed_subject,
              bytes id_prefix, bytes common_headers, bytes reply_prefix, Py_ssize_t start, Py_ssize_t stop,
              long long first_row, skip):
    """PUB or HPUB frames of the rows [start, stop).

    Offsets are int32 buffers of Arrow (row i is ends[i]..ends[i+1]). With `id_prefix` a row gets
    `Nats-Msg-Id: <prefix><first_row + i>`. `header_blocks` has a whole header block (or b"") per row
    or is None. `skip` marks rows to leave out (a bytes-like, one byte each) or is None. The reply
    is `reply_prefix` and i.
    """
    cdef Py_buffer views[5]
    cdef int held = 0
    cdef Block out = Block(1 << 20)
    cdef Block head = Block(512)
    cdef const int32_t* s_ends = NULL
    cdef const int32_t* p_ends
    cdef const char* s_data = NULL
    cdef const char* p_data
    cdef const char* skipped = NULL
    cdef Py_ssize_t row, subject_length, payload_length
    cdef const char* subject
    cdef bytes block
    cdef bint with_id = len(id_prefix) > 0
    cdef bint plain = not with_id and header_blocks is None and not common_headers
    try:
        PyObject_GetBuffer(payload_ends, &views[held], PyBUF_SIMPLE); held += 1
        p_ends = <const int32_t*> views[0].buf
        PyObject_GetBuffer(payloads, &views[held], PyBUF_SIMPLE); held += 1
        p_data = <const char*> views[1].buf
        if subjects is not None:
            PyObject_GetBuffer(subject_ends, &views[held], PyBUF_SIMPLE); held += 1
            s_ends = <const int32_t*> views[2].buf
            PyObject_GetBuffer(subjects, &views[held], PyBUF_SIMPLE); held += 1
            s_data = <const char*> views[3].buf
        if skip is not None:
            PyObject_GetBuffer(skip, &views[held], PyBUF_SIMPLE); held += 1
            skipped = <const char*> views[held - 1].buf
        for row in range(start, stop):
            if skipped != NULL and skipped[row]:
                continue
            if s_data != NULL:
                subject = s_data + s_ends[row]
                subject_length = s_ends[row + 1] - s_ends[row]
            else:
                subject = fixed_subject
                subject_length = len(fixed_subject)
            payload_length = p_ends[row + 1] - p_ends[row]
            if plain:
                out.append(b"PUB ", 4)
            else:
                head.size = 0
                block = header_blocks[row] if header_blocks is not None else b""
                if len(block) > 4:
                    head.append(<const char*> block, len(block) - 2)
                else:
                    head.append(b"NATS/1.0\r\n", 10)
                head.append(<const char*> common_headers, len(common_headers))
                if with_id:
                    head.append(b"Nats-Msg-Id: ", 13)
                    head.append(<const char*> id_prefix, len(id_prefix))
                    append_number(head, first_row + row)
                    head.append(b"\r\n", 2)
                head.append(b"\r\n", 2)
                out.append(b"HPUB ", 5)
            out.append(subject, subject_length)
            out.append(b" ", 1)
            out.append(<const char*> reply_prefix, len(reply_prefix))
            append_number(out, row)
            out.append(b" ", 1)
            if not plain:
                append_number(out, head.size)
                out.append(b" ", 1)
                append_number(out, head.size + payload_length)
                out.append(b"\r\n", 2)
                out.append(head.data, head.size)
            else:
                append_number(out, payload_length)
                out.append(b"\r\n", 2)
            out.append(p_data + p_ends[row], payload_length)
            out.append(b"\r\n", 2)
        return out
    finally:
        while held:
            held -= 1
            PyBuffer_Release(&views[held])


cdef class Acks:
    """Counts good publish acknowledgements; everything else is left for Python to look at."""

    cdef public Py_ssize_t good, duplicates
    cdef public long long last_seq
    cdef readonly int stopped
    cdef long long sid
    cdef Py_ssize_t prefix_length
    cdef object flags

    def __init__(self, long long sid, Py_ssize_t prefix_length, flags):
        """`flags` is a bytearray with one byte per row; an acknowledged row becomes 1."""
        self.sid = sid
        self.prefix_length = prefix_length
        self.flags = flags
        self.good = 0
        self.duplicates = 0
        self.last_seq = 0
        self.stopped = NEED_MORE

    def feed(self, buffer, Py_ssize_t start, Py_ssize_t end):
        cdef Py_buffer view, flags
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(self.flags, &flags, PyBUF_WRITABLE)
            try:
                return self._feed(<const char*> view.buf, start, end, <char*> flags.buf, flags.len)
            finally:
                PyBuffer_Release(&flags)
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t _feed(self, const char* base, Py_ssize_t start, Py_ssize_t end, char* flags, Py_ssize_t rows) except -1:
        cdef const char* at = base + start
        cdef const char* finish = base + end
        cdef const char* line_end
        cdef const char* word
        cdef const char* stop = NULL
        cdef const char* body
        cdef int64_t row, total, seq
        while True:
            if finish - at < 4:
                self.stopped = NEED_MORE
                break
            if memcmp(at, b"MSG ", 4) != 0:
                self.stopped = OTHER
                break
            line_end = <const char*> memchr(at, 13, finish - at)
            if line_end == NULL:
                self.stopped = NEED_MORE
                break
            word = at + 4 + self.prefix_length
            if word >= line_end:
                self.stopped = OTHER
                break
            row = number(word, line_end, &stop)
            if row < 0 or row >= rows or stop[0] != 32 or number(stop + 1, line_end, &stop) != self.sid:
                self.stopped = OTHER
                break
            total = number(stop + 1, line_end, &stop)
            if stop != line_end:
                self.stopped = OTHER
                break
            body = line_end + 2
            if finish - body < total + 2:
                self.stopped = NEED_MORE
                break
            if total < 12 or memcmp(body, b'{"stream":"', 11) != 0:
                self.stopped = OTHER
                break
            at = body + total + 2
            if not flags[row]:
                flags[row] = 1
                self.good += 1
            word = body + 11
            stop = body + total
            while word < stop - 6:
                if word[0] == 34 and memcmp(word, b'"seq":', 6) == 0:
                    seq = number(word + 6, stop, &word)
                    if seq > self.last_seq:
                        self.last_seq = seq
                    if word < stop and word[0] == 44 and memchr(word, 100, stop - word) != NULL:
                        # only "duplicate" (and batch fields we never ask for) follows the sequence
                        self.duplicates += 1
                    break
                word += 1
        return at - base
