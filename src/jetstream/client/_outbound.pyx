# cython: language_level=3
"""What the client says, written straight into one growing buffer.

    pub / hpub      PUB <subject> [reply] <size>\r\n<payload>\r\n   (HPUB with a header block)
    numbered        the same with reply = prefix + number, for publish acks
    acks            one small PUB per message of a batch, in one go

`take()` gives everything collected since the last time, once per turn of the loop. Subjects are
checked while they are copied: a blank or line end in one would start another command.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from jetstream.client._inbound cimport Frame

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    FIRST_ROOM = 16384
    KEPT_ROOM = 1048576


cdef class OutBuffer:
    """Collects outgoing protocol text."""

    cdef char* at
    cdef Py_ssize_t room
    cdef readonly Py_ssize_t size
    cdef readonly uint64_t messages
    cdef readonly uint64_t payload_bytes

    def __dealloc__(self):
        free(self.at)

    def __len__(self):
        return self.size

    cdef int _need(self, Py_ssize_t more) except -1:
        cdef char* bigger
        cdef Py_ssize_t room
        if self.size + more > self.room:
            room = max(self.room * 2, self.size + more, FIRST_ROOM)
            bigger = <char*>realloc(self.at, room)
            if bigger == NULL:
                raise MemoryError
            self.at = bigger
            self.room = room
        return 0

    cdef inline void _put(self, const char* p, Py_ssize_t n) noexcept:
        memcpy(self.at + self.size, p, n)
        self.size += n

    cdef inline void _number(self, uint64_t value) noexcept:
        cdef char[20] digits
        cdef int k = 20
        while True:
            k -= 1
            digits[k] = c'0' + <char>(value % 10)
            value //= 10
            if value == 0:
                break
        self._put(digits + k, 20 - k)

    cdef int _subject(self, object subject) except -1:
        """Copy a subject; refuses what could not be one. There must be room already."""
        cdef const char* p
        cdef Py_ssize_t n, i
        if PyUnicode_Check(subject):
            p = PyUnicode_AsUTF8AndSize(subject, &n)
        else:
            p = PyBytes_AS_STRING(subject)
            n = PyBytes_GET_SIZE(subject)
        self._need(n + 64)
        for i in range(n):
            if <unsigned char>p[i] <= 32:
                raise ValueError(f"invalid subject {subject!r}: blanks and line ends are not allowed")
        if n == 0:
            raise ValueError("invalid subject: it is empty")
        self._put(p, n)
        return 0

    def raw(self, bytes data):
        """Append protocol text as it is."""
        self._need(PyBytes_GET_SIZE(data))
        self._put(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def pub(self, subject, reply, bytes headers, payload):
        """One message; `reply` and `headers` may be None."""
        cdef Py_ssize_t start = self.size
        try:
            self._pub(subject, reply, -1, headers, payload)
        except BaseException:
            self.size = start
            raise

    def numbered(self, subject, bytes prefix, int64_t number, bytes headers, payload):
        """One message whose reply is the prefix followed by a number."""
        cdef Py_ssize_t start = self.size
        try:
            self._pub(subject, prefix, number, headers, payload)
        except BaseException:
            self.size = start
            raise

    def many(self, list messages, bytes prefix, int64_t number):
        """Messages (subject, headers or None, payload) with numbered replies; all or none."""
        cdef Py_ssize_t start = self.size
        cdef uint64_t count = self.messages
        cdef tuple message
        try:
            for message in messages:
                self._pub(message[0], prefix, number, message[1], message[2])
                number += 1
        except BaseException:
            self.size = start
            self.messages = count
            raise

    cdef int _pub(self, subject, reply, int64_t number, bytes headers, payload) except -1:
        cdef Py_buffer view
        cdef const char* body
        cdef Py_ssize_t body_len, headers_len = 0
        cdef bint held = False
        if type(payload) is bytes:
            body = PyBytes_AS_STRING(payload)
            body_len = PyBytes_GET_SIZE(payload)
        elif PyUnicode_Check(payload):
            body = PyUnicode_AsUTF8AndSize(payload, &body_len)
        else:
            PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
            held = True
            body = <const char*>view.buf
            body_len = view.len
        try:
            self._need(8)
            if headers is not None:
                headers_len = PyBytes_GET_SIZE(headers)
            self._put(b"HPUB " if headers_len else b"PUB ", 5 if headers_len else 4)
            self._subject(subject)
            self._put(b" ", 1)
            if reply is not None:
                self._subject(reply)
                if number >= 0:
                    self._number(number)
                self._put(b" ", 1)
            self._need(48 + headers_len + body_len + 2)
            if headers_len:
                self._number(headers_len)
                self._put(b" ", 1)
            self._number(headers_len + body_len)
            self._put(b"\r\n", 2)
            if headers_len:
                self._put(PyBytes_AS_STRING(headers), headers_len)
            self._put(body, body_len)
            self._put(b"\r\n", 2)
        finally:
            if held:
                PyBuffer_Release(&view)
        self.messages += 1
        self.payload_bytes += headers_len + body_len
        return 0

    def acks(self, received, bytes body):
        """The same answer to every one of these messages that wants one; returns how many."""
        cdef Frame frame
        cdef Py_ssize_t n = PyBytes_GET_SIZE(body), reply_len, count = 0
        for frame in received:
            reply_len = PyBytes_GET_SIZE(frame.reply_bytes)
            if reply_len == 0:
                continue
            self._need(reply_len + n + 40)
            self._put(b"PUB ", 4)
            self._put(PyBytes_AS_STRING(frame.reply_bytes), reply_len)
            self._put(b" ", 1)
            self._number(n)
            self._put(b"\r\n", 2)
            self._put(PyBytes_AS_STRING(body), n)
            self._put(b"\r\n", 2)
            count += 1
        self.messages += count
        self.payload_bytes += n * count
        return count

    def take(self):
        """Everything collected, and an empty buffer again."""
        cdef bytes taken = PyBytes_FromStringAndSize(self.at, self.size) if self.size else b""
        self.size = 0
        if self.room > KEPT_ROOM:
            free(self.at)
            self.at = NULL
            self.room = 0
        return taken
