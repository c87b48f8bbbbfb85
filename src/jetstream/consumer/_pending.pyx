# cython: language_level=3
"""What is out and not yet acknowledged, as one compact table (see pending.py for the words).

    slots   | seq | consumer seq | delivered at | due | deliveries | place | links |   72 bytes each
    table   open addressing, linear probing: sequence → slot
    order   slots linked by stream sequence: its head decides the ack floor
    waiting one list per back-off step, linked by due time: its head is the next to expire

Every operation on one message is O(1); expiry touches expired slots only. A slot's place is the
number of its waiting list, QUEUED (due, to be delivered again) or DELAYED (a NAK said when).
"""

from cpython cimport array
import array as _array
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

cdef array.array _TEMPLATE = _array.array("Q")

cdef enum:
    NONE = -1
    QUEUED = -2
    DELAYED = -3
    DUMPED = 5  # numbers in the dump of a slot: seq, consumer_seq, at, due (0: as its list says), deliveries

cdef struct Slot:
    uint64_t seq
    uint64_t consumer_seq
    int64_t at
    int64_t due
    uint32_t deliveries
    int32_t place
    int32_t older
    int32_t newer
    int32_t before
    int32_t after


cdef class PendingTable:
    cdef Slot* slots
    cdef int32_t* table
    cdef int32_t* heads
    cdef int32_t* tails
    cdef int64_t* waits
    cdef int32_t levels, capacity, free_slot, oldest, newest
    cdef uint32_t bits
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t redelivered
    cdef readonly Py_ssize_t delayed

    def __cinit__(self, waits):
        self.free_slot = self.oldest = self.newest = NONE
        self._set_levels(waits)

    def __dealloc__(self):
        free(self.slots)
        free(self.table)
        free(self.heads)
        free(self.tails)
        free(self.waits)

    def __len__(self):
        return self.count

    def __contains__(self, uint64_t seq):
        return self._find(seq) != NONE

    # --- coming in -------------------------------------------------------------------------

    def add(self, array.array seqs, uint64_t first_consumer_seq, int64_t now):
        """Delivered for the first time: consumer sequences count up along `seqs`."""
        cdef Py_ssize_t i, n = len(seqs)
        cdef uint64_t* s = <uint64_t*>seqs.data.as_ulonglongs
        for i in range(n):
            self._insert(s[i], first_consumer_seq + i, now, 1)

    def load(self, bytes dump):
        """Put back what `dump` wrote; queued ones come back as due at once."""
        cdef Py_ssize_t i, n = len(dump) // (8 * DUMPED)
        cdef const char* raw = dump
        cdef uint64_t row[DUMPED]
        cdef int32_t at
        for i in range(n):
            memcpy(row, raw + i * 8 * DUMPED, 8 * DUMPED)
            at = self._insert(row[0], row[1], <int64_t>row[2], <uint32_t>row[4])
            if row[3]:
                self._leave_waiting(at)
                self._set_delayed(at, <int64_t>row[3])

    def dump(self):
        """Every slot as five 64-bit numbers, in stream order."""
        cdef array.array out = array.clone(_TEMPLATE, self.count * DUMPED, False)
        cdef uint64_t* o = <uint64_t*>out.data.as_ulonglongs
        cdef int32_t at = self.oldest
        cdef Slot* slot
        while at != NONE:
            slot = &self.slots[at]
            o[0] = slot.seq
            o[1] = slot.consumer_seq
            o[2] = <uint64_t>slot.at
            o[3] = 0
            if slot.place == DELAYED:
                o[3] = <uint64_t>slot.due
            elif slot.place == QUEUED:
                o[3] = 1
            o[4] = slot.deliveries
            o += DUMPED
            at = slot.newer
        return out.tobytes()

    # --- going out -------------------------------------------------------------------------

    def settle(self, array.array seqs):
        """Take these out; returns those that were there, in the given order."""
        cdef Py_ssize_t i, found = 0, n = len(seqs)
        cdef array.array out = array.clone(_TEMPLATE, n, False)
        cdef uint64_t* s = <uint64_t*>seqs.data.as_ulonglongs
        cdef uint64_t* o = <uint64_t*>out.data.as_ulonglongs
        cdef int32_t at
        for i in range(n):
            at = self._find(s[i])
            if at != NONE:
                self._remove(at)
                o[found] = s[i]
                found += 1
        array.resize(out, found)
        return out

    def settle_up_to(self, uint64_t seq):
        """Take out everything up to and including `seq`."""
        cdef array.array out = array.clone(_TEMPLATE, self.count, False)
        cdef uint64_t* o = <uint64_t*>out.data.as_ulonglongs
        cdef Py_ssize_t found = 0
        while self.oldest != NONE and self.slots[self.oldest].seq <= seq:
            o[found] = self.slots[self.oldest].seq
            found += 1
            self._remove(self.oldest)
        array.resize(out, found)
        return out

    def clear(self):
        """Forget everything."""
        self.settle_up_to(<uint64_t>-1)

    # --- asking ----------------------------------------------------------------------------

    def get(self, uint64_t seq):
        """(consumer_seq, delivered_at, deliveries, due) or None; due 0 while it is queued."""
        cdef int32_t at = self._find(seq)
        if at == NONE:
            return None
        cdef Slot* slot = &self.slots[at]
        return slot.consumer_seq, slot.at, slot.deliveries, 0 if slot.place == QUEUED else slot.due

    def first(self):
        """(seq, consumer_seq) of the lowest, (0, 0) if there is none."""
        if self.oldest == NONE:
            return 0, 0
        return self.slots[self.oldest].seq, self.slots[self.oldest].consumer_seq

    def seqs(self):
        """All of them, ascending."""
        cdef array.array out = array.clone(_TEMPLATE, self.count, False)
        cdef Py_ssize_t i = 0
        cdef int32_t at = self.oldest
        while at != NONE:
            out.data.as_ulonglongs[i] = self.slots[at].seq
            i += 1
            at = self.slots[at].newer
        return out

    def missing(self, array.array seqs):
        """Those of `seqs` that are not in the table."""
        cdef Py_ssize_t i, found = 0, n = len(seqs)
        cdef array.array out = array.clone(_TEMPLATE, n, False)
        for i in range(n):
            if self._find(seqs.data.as_ulonglongs[i]) == NONE:
                out.data.as_ulonglongs[found] = seqs.data.as_ulonglongs[i]
                found += 1
        array.resize(out, found)
        return out

    # --- time ------------------------------------------------------------------------------

    def next_due(self):
        """When the first waiting one expires; 0 if none waits."""
        cdef int64_t due = 0
        cdef int32_t level, at
        for level in range(self.levels):
            at = self.heads[level]
            if at != NONE and (due == 0 or self.slots[at].due < due):
                due = self.slots[at].due
        return due

    def expire(self, int64_t now):
        """Those whose wait is over, ascending; they are queued from now on."""
        cdef int32_t level, at
        out = _array.array("Q")
        for level in range(self.levels):
            while self.heads[level] != NONE and self.slots[self.heads[level]].due <= now:
                at = self.heads[level]
                self._leave_waiting(at)
                self.slots[at].place = QUEUED
                out.append(self.slots[at].seq)
        if len(out) > 1:
            out = _array.array("Q", sorted(out))
        return out

    def queue(self, uint64_t seq):
        """Due at once. False if it is not there or already queued."""
        cdef int32_t at = self._find(seq)
        if at == NONE or self.slots[at].place == QUEUED:
            return False
        self._leave_waiting(at)
        self.slots[at].place = QUEUED
        return True

    def delay(self, uint64_t seq, int64_t due):
        """Not before `due`, whatever its list says. False if it is not there."""
        cdef int32_t at = self._find(seq)
        if at == NONE:
            return False
        self._leave_waiting(at)
        self._set_delayed(at, due)
        return True

    def is_queued(self, uint64_t seq):
        cdef int32_t at = self._find(seq)
        return at != NONE and self.slots[at].place == QUEUED

    def is_delayed_until(self, uint64_t seq, int64_t due):
        cdef int32_t at = self._find(seq)
        return at != NONE and self.slots[at].place == DELAYED and self.slots[at].due == due

    def touch(self, uint64_t seq, int64_t now):
        """Its wait begins again. False if it is not there."""
        cdef int32_t at = self._find(seq)
        if at == NONE:
            return False
        self._leave_waiting(at)
        self.slots[at].at = now
        self._enter_waiting(at)
        return True

    def delivered_again(self, uint64_t seq, int64_t now):
        """Counts a redelivery and starts its wait; returns the deliveries, 0 if not there."""
        cdef int32_t at = self._find(seq)
        if at == NONE:
            return 0
        self._leave_waiting(at)
        self.slots[at].deliveries += 1
        if self.slots[at].deliveries == 2:
            self.redelivered += 1
        self.slots[at].at = now
        self._enter_waiting(at)
        return self.slots[at].deliveries

    def set_waits(self, waits):
        """New ack_wait or backoff: waiting ones are due by the new rule."""
        cdef int32_t at = self.oldest
        held = []
        while at != NONE:
            if self.slots[at].place >= 0:
                held.append((self.slots[at].at, at))
                self._leave_waiting(at)
            at = self.slots[at].newer
        self._set_levels(waits)
        held.sort()
        for _, slot in held:
            self._enter_waiting(slot)

    # --- inside ----------------------------------------------------------------------------

    cdef int _set_levels(self, waits) except -1:
        cdef int32_t i
        self.levels = len(waits)
        self.waits = <int64_t*>realloc(self.waits, self.levels * sizeof(int64_t))
        self.heads = <int32_t*>realloc(self.heads, self.levels * sizeof(int32_t))
        self.tails = <int32_t*>realloc(self.tails, self.levels * sizeof(int32_t))
        if self.waits == NULL or self.heads == NULL or self.tails == NULL:
            raise MemoryError
        for i in range(self.levels):
            self.waits[i] = waits[i]
            self.heads[i] = self.tails[i] = NONE
        return 0

    cdef inline uint32_t _hash(self, uint64_t seq) noexcept nogil:
        return <uint32_t>((seq * <uint64_t>0x9E3779B97F4A7C15) >> (64 - self.bits))

    cdef int32_t _find(self, uint64_t seq) noexcept nogil:
        if self.count == 0:
            return NONE
        cdef uint32_t mask = (<uint32_t>1 << self.bits) - 1
        cdef uint32_t i = self._hash(seq)
        while self.table[i] != NONE:
            if self.slots[self.table[i]].seq == seq:
                return self.table[i]
            i = (i + 1) & mask
        return NONE

    cdef int _grow(self) except -1:
        cdef int32_t i, old = self.capacity
        cdef int32_t capacity = 8 if old == 0 else old * 2
        cdef Slot* slots = <Slot*>realloc(self.slots, capacity * sizeof(Slot))
        if slots == NULL:
            raise MemoryError
        self.slots = slots
        for i in range(capacity - 1, old - 1, -1):
            self.slots[i].older = self.free_slot
            self.free_slot = i
        cdef uint32_t bits = 4
        while (<int32_t>1 << bits) < capacity * 2:
            bits += 1
        cdef int32_t* table = <int32_t*>malloc((<size_t>1 << bits) * sizeof(int32_t))
        if table == NULL:
            raise MemoryError
        memset(table, 0xFF, (<size_t>1 << bits) * sizeof(int32_t))
        free(self.table)
        self.table = table
        self.bits = bits
        self.capacity = capacity
        i = self.oldest
        while i != NONE:
            self._place_in_table(i)
            i = self.slots[i].newer
        return 0

    cdef void _place_in_table(self, int32_t at) noexcept nogil:
        cdef uint32_t mask = (<uint32_t>1 << self.bits) - 1
        cdef uint32_t i = self._hash(self.slots[at].seq)
        while self.table[i] != NONE:
            i = (i + 1) & mask
        self.table[i] = at

    cdef int32_t _insert(self, uint64_t seq, uint64_t consumer_seq, int64_t at_ns,
                         uint32_t deliveries) except -2:
        cdef int32_t at = self._find(seq), older
        if at != NONE:
            self._remove(at)
        if self.free_slot == NONE:
            self._grow()
        at = self.free_slot
        cdef Slot* slot = &self.slots[at]
        self.free_slot = slot.older
        slot.seq = seq
        slot.consumer_seq = consumer_seq
        slot.at = at_ns
        slot.deliveries = deliveries
        slot.place = NONE
        # Sequences go up nearly always; only lanes and restores come in from behind.
        older = self.newest
        while older != NONE and self.slots[older].seq > seq:
            older = self.slots[older].older
        slot.older = older
        if older == NONE:
            slot.newer = self.oldest
            self.oldest = at
        else:
            slot.newer = self.slots[older].newer
            self.slots[older].newer = at
        if slot.newer == NONE:
            self.newest = at
        else:
            self.slots[slot.newer].older = at
        self._place_in_table(at)
        self.count += 1
        if deliveries > 1:
            self.redelivered += 1
        self._enter_waiting(at)
        return at

    cdef void _remove(self, int32_t at) noexcept nogil:
        cdef Slot* slot = &self.slots[at]
        cdef uint32_t mask = (<uint32_t>1 << self.bits) - 1
        cdef uint32_t hole = self._hash(slot.seq), i, home
        self._leave_waiting(at)
        if slot.older == NONE:
            self.oldest = slot.newer
        else:
            self.slots[slot.older].newer = slot.newer
        if slot.newer == NONE:
            self.newest = slot.older
        else:
            self.slots[slot.newer].older = slot.older
        while self.table[hole] != at:
            hole = (hole + 1) & mask
        # Close the gap, so that a probe never stops too early.
        i = hole
        while True:
            i = (i + 1) & mask
            if self.table[i] == NONE:
                break
            home = self._hash(self.slots[self.table[i]].seq)
            if ((i - home) & mask) >= ((i - hole) & mask):
                self.table[hole] = self.table[i]
                hole = i
        self.table[hole] = NONE
        if slot.deliveries > 1:
            self.redelivered -= 1
        self.count -= 1
        slot.older = self.free_slot
        self.free_slot = at

    cdef void _leave_waiting(self, int32_t at) noexcept nogil:
        cdef Slot* slot = &self.slots[at]
        if slot.place == DELAYED:
            self.delayed -= 1
        elif slot.place >= 0:
            if slot.before == NONE:
                self.heads[slot.place] = slot.after
            else:
                self.slots[slot.before].after = slot.after
            if slot.after == NONE:
                self.tails[slot.place] = slot.before
            else:
                self.slots[slot.after].before = slot.before
        slot.place = NONE

    cdef void _set_delayed(self, int32_t at, int64_t due) noexcept nogil:
        self.slots[at].place = DELAYED
        self.slots[at].due = due
        self.delayed += 1

    cdef void _enter_waiting(self, int32_t at) noexcept nogil:
        cdef Slot* slot = &self.slots[at]
        cdef int32_t level = <int32_t>slot.deliveries - 1, before
        if level >= self.levels:
            level = self.levels - 1
        slot.place = level
        slot.due = slot.at + self.waits[level]
        # Time goes forward nearly always; after a clock set back we walk a few steps.
        before = self.tails[level]
        while before != NONE and self.slots[before].due > slot.due:
            before = self.slots[before].before
        slot.before = before
        if before == NONE:
            slot.after = self.heads[level]
            self.heads[level] = at
        else:
            slot.after = self.slots[before].after
            self.slots[before].after = at
        if slot.after == NONE:
            self.tails[level] = at
        else:
            self.slots[slot.after].before = at


def pack_runs(array.array seqs):
    """Sequences as (first, count) pairs of 64-bit numbers, in their order."""
    cdef Py_ssize_t i, n = len(seqs), used = 0
    cdef array.array out = array.clone(_TEMPLATE, 2 * n, False)
    cdef uint64_t* s = <uint64_t*>seqs.data.as_ulonglongs
    cdef uint64_t* o = <uint64_t*>out.data.as_ulonglongs
    for i in range(n):
        if used and o[used - 2] + o[used - 1] == s[i]:
            o[used - 1] += 1
        else:
            o[used] = s[i]
            o[used + 1] = 1
            used += 2
    array.resize(out, used)
    return out.tobytes()


def unpack_runs(bytes packed):
    """The sequences that `pack_runs` packed."""
    out = _array.array("Q")
    pairs = _array.array("Q", packed)
    for i in range(0, len(pairs), 2):
        out.extend(range(pairs[i], pairs[i] + pairs[i + 1]))
    return out


def fitting(array.array sizes, uint64_t extra, uint64_t room):
    """(how many of `sizes`, each plus `extra`, fit into `room`; what they take)."""
    cdef Py_ssize_t i, n = len(sizes)
    cdef uint64_t used = 0, size
    for i in range(n):
        size = sizes.data.as_ulonglongs[i] + extra
        if used + size > room:
            return i, used
        used += size
    return n, used
