# cython: language_level=3
"""Many patterns against one subject.

A tree with one level per token: a match walks down the subject once, and looks at most at the child
of that name, at `*` and at `>` on each level, so patterns that have nothing to do with the subject
cost nothing. The nodes that the last prefix led to are remembered: a row of inbox subjects differs
only in its last token.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp


cdef bint has_empty_token(const char* p, Py_ssize_t n) noexcept nogil:
    """`.a`, `a.` and `a..b` name nothing, so nothing matches them."""
    cdef const char* at = p
    cdef const char* end = p + n
    if p[0] == c'.' or p[n - 1] == c'.':
        return True
    while True:
        at = <const char*>memchr(at, c'.', end - at)
        if at == NULL:
            return False
        if at[1] == c'.':
            return True
        at += 1


cdef class Node:
    cdef bint empty(self):
        return not (self.plain or self.queues or self.tail or self.tail_queues or self.children or self.star)


cdef class Found:
    """What a subject led to: plain values, and one list per queue group."""

    def __init__(self):
        self.plain = []
        self.groups = []

    cdef int _take(self, list plain, dict queues) except -1:
        cdef list group
        if plain:
            self.plain.extend(plain)
        if queues:
            for queue, values in queues.items():
                if self._by_queue is None:
                    self._by_queue = {}
                group = <list>self._by_queue.get(queue)
                if group is None:
                    group = []
                    self._by_queue[queue] = group
                    self.groups.append(group)
                group.extend(values)
        return 0

    cdef Found copy(self):
        cdef Found twin = Found()
        if self.plain:
            twin.plain.extend(self.plain)
        if self._by_queue:
            twin._take(None, self._by_queue)
        return twin

    def by_queue(self):
        return dict(self._by_queue or {})


cdef class SubjectTree:
    """Values under subject patterns, each with an optional queue group."""

    def __init__(self):
        self.root = Node()
        self.front_generation = 0
        self.generation = 1

    def __len__(self):
        return self.count

    def insert(self, bytes pattern, value, bytes queue=None):
        """Put a value under a (valid) pattern."""
        cdef Node node = self.root, below
        cdef list tokens = pattern.split(b".")
        cdef bytes token
        cdef Py_ssize_t i, last = len(tokens) - 1
        self.generation += 1
        self.count += 1
        for i in range(last + 1):
            token = <bytes>tokens[i]
            if token == b">" and i == last:
                if queue is None:
                    if node.tail is None:
                        node.tail = []
                    node.tail.append(value)
                else:
                    if node.tail_queues is None:
                        node.tail_queues = {}
                    (<dict>node.tail_queues).setdefault(queue, []).append(value)
                return
            if token == b"*":
                if node.star is None:
                    node.star = Node()
                    node.star.parent = node
                    node.star.token = token
                node = node.star
                continue
            if node.children is None:
                node.children = {}
            below = <Node>node.children.get(token)
            if below is None:
                below = Node()
                below.parent = node
                below.token = token
                node.children[token] = below
            node = below
        if queue is None:
            if node.plain is None:
                node.plain = []
            node.plain.append(value)
        else:
            if node.queues is None:
                node.queues = {}
            (<dict>node.queues).setdefault(queue, []).append(value)

    def remove(self, bytes pattern, value, bytes queue=None):
        """Take one value away again; False if it was not there. Empty branches go with it."""
        cdef Node node = self.root
        cdef list tokens = pattern.split(b".")
        cdef bytes token
        cdef Py_ssize_t i, last = len(tokens) - 1
        cdef bint tail = False
        for i in range(last + 1):
            token = <bytes>tokens[i]
            if token == b">" and i == last:
                tail = True
                break
            if token == b"*":
                node = node.star
            else:
                node = <Node>node.children.get(token) if node.children is not None else None
            if node is None:
                return False
        values = node.tail if tail else node.plain
        queues = node.tail_queues if tail else node.queues
        if queue is not None:
            values = queues.get(queue) if queues else None
        if not values:
            return False
        # Newest first: short-lived subscriptions are the ones that come and go.
        for i in range(len(values) - 1, -1, -1):
            if values[i] is value:
                del values[i]
                break
        else:
            return False
        if queue is not None and not values:
            del queues[queue]
        self.generation += 1
        self.count -= 1
        while node is not self.root and node.empty():
            parent = node.parent
            if node.token == b"*":
                parent.star = None
            else:
                del parent.children[node.token]
            node = parent
        return True

    cpdef Found match(self, bytes subject):
        """Everything whose pattern takes in this literal subject."""
        return self.match_raw(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    cdef Found match_raw(self, const char* p, Py_ssize_t n):
        cdef Py_ssize_t cut = n - 1
        cdef Found found
        cdef Node node, below
        cdef bytes token
        if n == 0 or has_empty_token(p, n):
            return Found()
        while cut >= 0 and p[cut] != c'.':
            cut -= 1
        if cut <= 0:
            found = Found()
            self._walk(self.root, p, n, found)
            return found
        if not (
            self.front_generation == self.generation
            and PyBytes_GET_SIZE(self.front_prefix) == cut
            and memcmp(PyBytes_AS_STRING(self.front_prefix), p, cut) == 0
        ):
            self.front = []
            self.front_found = Found()
            self._prefix(self.root, p, cut)
            self.front_prefix = PyBytes_FromStringAndSize(p, cut)
            self.front_generation = self.generation
            self.front_uniform = True
            for node in self.front:
                if node.children:
                    self.front_uniform = False
                    break
        found = self.front_found.copy()
        if self.front:
            token = PyBytes_FromStringAndSize(p + cut + 1, n - cut - 1)
            for node in self.front:
                if node.tail is not None or node.tail_queues is not None:
                    found._take(node.tail, node.tail_queues)
                if node.star is not None:
                    found._take(node.star.plain, node.star.queues)
                if node.children is not None:
                    below = <Node>node.children.get(token)
                    if below is not None:
                        found._take(below.plain, below.queues)
        return found

    cdef bint same_front(self, const char* p, Py_ssize_t n):
        """Does this subject differ from the last one only in a last token that does not matter?"""
        cdef Py_ssize_t cut
        if self.front_generation != self.generation or not self.front_uniform:
            return False
        cut = PyBytes_GET_SIZE(self.front_prefix)
        if n <= cut + 1 or p[cut] != c'.' or memcmp(PyBytes_AS_STRING(self.front_prefix), p, cut) != 0:
            return False
        return memchr(p + cut + 1, c'.', n - cut - 1) == NULL

    cdef int _prefix(self, Node node, const char* p, Py_ssize_t n) except -1:
        """Collect the nodes that [p, p+n) leads to, and the `>` values passed on the way."""
        cdef const char* dot = <const char*>memchr(p, c'.', n)
        cdef Py_ssize_t length = dot - p if dot != NULL else n
        cdef Node below
        if node.tail is not None or node.tail_queues is not None:
            self.front_found._take(node.tail, node.tail_queues)
        if node.children is not None:
            below = <Node>node.children.get(PyBytes_FromStringAndSize(p, length))
            if below is not None:
                if dot == NULL:
                    self.front.append(below)
                else:
                    self._prefix(below, dot + 1, n - length - 1)
        if node.star is not None:
            if dot == NULL:
                self.front.append(node.star)
            else:
                self._prefix(node.star, dot + 1, n - length - 1)
        return 0

    cdef int _walk(self, Node node, const char* p, Py_ssize_t n, Found found) except -1:
        """A subject of one token."""
        cdef Node below
        found._take(node.tail, node.tail_queues)
        if node.star is not None:
            found._take(node.star.plain, node.star.queues)
        if node.children is not None:
            below = <Node>node.children.get(PyBytes_FromStringAndSize(p, n))
            if below is not None:
                found._take(below.plain, below.queues)
        return 0

    def has_match(self, bytes subject):
        """Is anybody there?"""
        cdef Found found = self.match(subject)
        return bool(found.plain or found.groups)
