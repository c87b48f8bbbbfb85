# cython: language_level=3
"""How many messages surely fit into pull requests that count bytes.

A message weighs its subject, headers and payload and the ack subject it is delivered with:

    $JS.ACK.<stream>.<consumer>.1.<stream seq>.<consumer seq>.<time>.<pending>

Requests take turns message by message. `fitting` finds how many whole turns leave every request with
something to spare; the last messages of a request, where it ends, are decided one by one in Python.
"""

from cpython cimport array
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc


cdef inline int _digits(uint64_t value) noexcept nogil:
    cdef int n = 1
    while value >= 10:
        value //= 10
        n += 1
    return n


def fitting(array.array seqs, array.array sizes, int prefix, int time_digits, uint64_t consumer_seq,
            int64_t pending, list left, list bytes_left):
    """(turns, bytes spent by each request). `bytes_left` is -1 for a request without that limit.

    `prefix` is the length of the ack subject up to the delivery count, `consumer_seq` belongs to the
    first message and `pending` is what is left after it.
    """
    cdef Py_ssize_t sharers = len(left), total = len(seqs), k, place, turns = 0
    cdef int64_t* spent = <int64_t*>malloc(sharers * 3 * sizeof(int64_t))
    cdef int64_t* limit = spent + sharers
    cdef int64_t* turn = limit + sharers
    cdef int64_t weight, most = total // sharers
    if spent == NULL:
        raise MemoryError
    try:
        for place in range(sharers):
            spent[place] = 0
            limit[place] = bytes_left[place]
            most = min(most, <int64_t>left[place] - 1)
        k = 0
        while turns < most:
            fits = True
            for place in range(sharers):
                weight = (
                    <int64_t>sizes.data.as_ulonglongs[k + place] + prefix + 2 + time_digits + 3
                    + _digits(seqs.data.as_ulonglongs[k + place])
                    + _digits(consumer_seq + <uint64_t>(k + place))
                    + _digits(<uint64_t>max(pending - (k + place), <int64_t>0))
                )
                turn[place] = weight
                if limit[place] >= 0 and spent[place] + weight >= limit[place]:
                    fits = False
                    break
            if not fits:
                break
            for place in range(sharers):
                spent[place] += turn[place]
            k += sharers
            turns += 1
        return turns, [spent[place] for place in range(sharers)]
    finally:
        free(spent)
