cdef class Node:
    cdef dict children       # token → Node, or None
    cdef Node star           # the node of `*`
    cdef list plain          # values that end here
    cdef dict queues         # queue group → list of values
    cdef list tail           # values of `>` below here
    cdef dict tail_queues
    cdef Node parent
    cdef bytes token
    cdef bint empty(self)

cdef class Found:
    cdef public list plain
    cdef public list groups  # one list of values per queue group
    cdef dict _by_queue
    cdef int _take(self, list plain, dict queues) except -1
    cdef Found copy(self)

cdef class SubjectTree:
    cdef Node root
    cdef readonly unsigned long long generation
    cdef readonly Py_ssize_t count
    # The nodes that the last prefix (all tokens but the last) led to.
    cdef bytes front_prefix
    cdef unsigned long long front_generation
    cdef list front
    cdef Found front_found

    cdef bint front_uniform  # nothing under the prefix has a name: any last token leads to the same
    cdef bint same_front(self, const char* p, Py_ssize_t n)
    cdef int _walk(self, Node node, const char* p, Py_ssize_t n, Found found) except -1
    cdef int _prefix(self, Node node, const char* p, Py_ssize_t n) except -1
    cpdef Found match(self, bytes subject)
    cdef Found match_raw(self, const char* p, Py_ssize_t n)
