# cython: language_level=3
"""What a stream's index can answer without reading a record: the larger part of `StreamView`."""

from cpython cimport array
import array

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from jetstream.store._index cimport HAS_HEADERS, SIZE_MASK, Index, Slot
from jetstream.store._subjects cimport Filter, Subject, SubjectTable, filter_has

cdef array.array SEQS = array.array("Q")

cdef enum:
    FILTERS_REMEMBERED = 1024


cdef class View:
    def __cinit__(self, *args, **kwargs):
        self.index = Index()
        self.first = 1
        self.filters = {}

    @property
    def first_seq(self):
        return self.first if self.last_seq else 0

    @property
    def msgs(self):
        return self.index.msgs

    @property
    def bytes(self):
        return self.index.bytes

    @property
    def num_subjects(self):
        return self.index.table.alive

    @property
    def num_deleted(self):
        return self.last_seq + 1 - self.first - self.index.msgs if self.index.msgs else 0

    cdef uint32_t sid_of(self, bytes subject):
        return self.index.table.find(subject, <uint32_t>len(subject))

    cdef Filter usable(self, Filter filter):
        """A purge swaps the whole index; a filter made before it is made again."""
        if filter is None or filter.table is self.index.table:
            return filter
        return self.filter(filter.subjects)

    def last_for(self, bytes subject):
        cdef uint32_t sid = self.sid_of(subject)
        return self.index.table.entries[sid].last if sid else 0

    def oldest_for(self, bytes subject):
        cdef uint32_t sid = self.sid_of(subject)
        return self.index.table.entries[sid].first if sid else 0

    def subject_state(self, bytes subject):
        cdef uint32_t sid = self.sid_of(subject)
        if not sid:
            return (0, 0, 0)
        return (self.index.table.entries[sid].count, self.index.table.entries[sid].first,
                self.index.table.entries[sid].last)

    def prev_for(self, bytes subject, uint64_t seq):
        cdef uint32_t sid = self.sid_of(subject)
        cdef Slot* slot
        cdef uint64_t at
        if not sid:
            return 0
        slot = self.index.at(seq)
        if slot != NULL and slot.sid == sid:
            return self.index.before(seq, slot)
        at = self.index.table.entries[sid].last
        while at >= seq and at:
            at = self.index.before(at, self.index.at(at))
        return at

    def filter(self, subjects):
        key = tuple(subjects)
        found = self.filters.get(key)
        if found is None or (<Filter>found).table is not self.index.table:
            if len(self.filters) >= FILTERS_REMEMBERED:
                self.filters.clear()
            found = self.filters[key] = Filter(self.index.table, key)
        return found

    def next_seqs(self, start, limit, Filter filter=None):
        cdef uint64_t begin = max(<object>start, 1)
        cdef size_t room = min(limit, self.index.msgs)
        cdef array.array out = array.clone(SEQS, room, zero=False)
        cdef size_t n = 0
        if room:
            n = self.index.collect(begin, <uint64_t*>out.data.as_ulonglongs, room, self.usable(filter))
            if n < room:
                array.resize(out, n)
        return out

    def next_seq(self, start, Filter filter=None):
        """The first existing sequence >= start that the filter takes, or 0."""
        return self.index.next_match(max(<object>start, 1), self.usable(filter))

    def count_from(self, start, Filter filter=None):
        if start > self.last_seq:
            return 0
        return self.index.count(max(<object>start, 1), self.usable(filter))

    def last_match(self, Filter filter=None, before=0):
        return self.index.last_match(before or self.last_seq + 1, self.usable(filter))

    def last_seqs(self, Filter filter=None, up_to_seq=0, limit=0):
        cdef SubjectTable table = self.index.table
        cdef uint64_t top = up_to_seq or self.last_seq
        cdef uint64_t seq
        cdef uint32_t sid
        cdef list found = []
        cdef bint all
        filter = self.usable(filter)
        all = filter is None or filter.everything
        if not all:
            filter.refresh()
        if not all and filter.single:
            seq = self.index.last_match(top + 1, filter)
            return array.array("Q", [seq] if seq else [])
        for sid in range(1, table.used):
            if table.entries[sid].name == NULL or not (all or filter_has(filter, sid)):
                continue
            seq = table.entries[sid].last
            while seq > top:
                seq = self.index.before(seq, self.index.at(seq))
            if seq:
                found.append(seq)
        found.sort()
        return array.array("Q", found[:limit] if limit else found)

    def subjects(self, Filter filter=None):
        cdef SubjectTable table = self.index.table
        cdef uint32_t sid
        cdef Subject* subject
        cdef list found = []
        cdef bint all
        filter = self.usable(filter)
        all = filter is None or filter.everything
        if not all:
            filter.refresh()
            if filter.single:
                sid = filter.sid
                return iter([(filter.subjects[0], table.entries[sid].count)] if sid else [])
        for sid in range(1, table.used):
            subject = &table.entries[sid]
            if subject.name != NULL and (all or filter_has(filter, sid)):
                found.append((subject.name[:subject.name_len], subject.count))
        found.sort()
        return iter(found)

    def count_subjects(self, Filter filter=None):
        """How many subjects with messages the filter takes."""
        cdef SubjectTable table = self.index.table
        cdef uint32_t sid
        cdef uint64_t found = 0
        filter = self.usable(filter)
        if filter is None or filter.everything:
            return table.alive
        filter.refresh()
        if filter.single:
            return 1 if filter.sid else 0
        for sid in range(1, table.used):
            if table.entries[sid].name != NULL and filter_has(filter, sid):
                found += 1
        return found

    def deleted(self, limit=0):
        """The gaps between the first and the last sequence, one by one."""
        cdef list found = []
        cdef uint64_t seq = self.first, next
        cdef size_t most = limit or <size_t>-1
        if not self.index.msgs:
            return found
        while seq <= self.last_seq and <size_t>len(found) < most:
            next = self.index.next_live(seq)
            if next == 0:
                next = self.last_seq + 1
            while seq < next and <size_t>len(found) < most:
                found.append(seq)
                seq += 1
            seq = next + 1
        return found

    def sizes(self, seqs):
        cdef array.array given = seqs if isinstance(seqs, array.array) else array.array("Q", seqs)
        cdef array.array out = array.clone(SEQS, len(given), zero=True)
        cdef uint64_t* source = <uint64_t*>given.data.as_ulonglongs
        cdef uint64_t* target = <uint64_t*>out.data.as_ulonglongs
        cdef Py_ssize_t i
        cdef Slot* slot
        cdef uint32_t fixed = 16 if self.in_memory else 30
        for i in range(len(given)):
            slot = self.index.at(source[i])
            if slot != NULL:
                target[i] = (slot.size & SIZE_MASK) - fixed
                if slot.size & HAS_HEADERS and not self.in_memory:
                    target[i] -= 4
        return out

    def exists(self, uint64_t seq):
        return self.index.at(seq) != NULL

    def subject_of(self, uint64_t seq):
        """The subject of an existing message without reading its record, or None."""
        cdef Slot* slot = self.index.at(seq)
        cdef Subject* subject
        if slot == NULL:
            return None
        subject = &self.index.table.entries[slot.sid]
        return subject.name[:subject.name_len]

    @property
    def memory_bytes(self):
        """What the index takes in memory: messages and subjects, without bodies."""
        return self.index.memory_bytes
