from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetstream.store._index cimport Index
from jetstream.store._subjects cimport Filter

cdef class View:
    cdef readonly Index index
    cdef uint64_t first              # of the existing messages; last + 1 when there is none
    cdef readonly uint64_t last_seq
    cdef readonly int64_t last_ts
    cdef bint in_memory
    cdef dict filters                # subjects → Filter, so that repeated questions share the work
    cdef uint32_t sid_of(self, bytes subject)
    cdef Filter usable(self, Filter filter)
