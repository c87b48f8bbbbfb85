# cython: language_level=3
"""Where every message is, and which messages share a subject.

    sequence ──► page (8192 sequences) ──► Slot: place, size, subject id, distance to the
                                                  previous and the next message of that subject

Twenty bytes per message and no Python object. Pages exist only where messages are, so a gap of any
size costs nothing, and an emptied page is freed. The distances make a doubly linked list through
the messages of each subject: eviction of a subject's oldest, the message before a deleted last one
and reading one subject never search. Filters remember how many messages they match in each page;
a page's version says whether that count is still right.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memmove, memset

from jetstream.store._subjects cimport Filter, Subject, SubjectTable, filter_has


cdef enum:
    FAR = 0xFFFFFFFF
    FIRST_SLOTS = 32


cdef class Index:
    def __cinit__(self):
        self.table = SubjectTable()

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.pages_used):
            free(self.pages[i].slots)
            free(self.pages[i])
        free(self.pages)

    @property
    def memory_bytes(self):
        cdef uint64_t total = self.pages_room * sizeof(Page*)
        cdef uint32_t i
        for i in range(self.pages_used):
            total += sizeof(Page) + self.pages[i].room * sizeof(Slot)
        return total + self.table.memory_bytes

    # ── pages ────────────────────────────────────────────────────────────────────────────────

    cdef Py_ssize_t page_at(self, uint64_t number) noexcept nogil:
        """Position of the first page whose number is >= `number`."""
        cdef Py_ssize_t low = 0, high = self.pages_used, middle
        cdef uint64_t guess
        if high == 0 or number > self.pages[high - 1].number:
            return high
        if number <= self.pages[0].number:
            return 0
        guess = number - self.pages[0].number    # right when no page is missing
        if guess < self.pages_used and self.pages[guess].number == number:
            return <Py_ssize_t>guess
        while low < high:
            middle = (low + high) >> 1
            if self.pages[middle].number < number:
                low = middle + 1
            else:
                high = middle
        return low

    cdef Slot* at(self, uint64_t seq) noexcept nogil:
        """The slot of an existing message, or NULL."""
        cdef uint64_t number = seq >> PAGE_BITS
        cdef Py_ssize_t i = self.page_at(number)
        cdef uint32_t offset = <uint32_t>(seq & (PAGE_SLOTS - 1))
        cdef Page* page
        if i >= self.pages_used:
            return NULL
        page = self.pages[i]
        if page.number != number or offset >= page.room or page.slots[offset].place == 0:
            return NULL
        return &page.slots[offset]

    cdef Page* _page_for(self, uint64_t number) except NULL:
        cdef Page** grown
        cdef Page* page
        cdef uint32_t room
        if self.pages_used and self.pages[self.pages_used - 1].number == number:
            return self.pages[self.pages_used - 1]
        if self.pages_used and self.pages[self.pages_used - 1].live == 0:
            self.pages_used -= 1
            free(self.pages[self.pages_used].slots)
            free(self.pages[self.pages_used])
        if self.pages_used == self.pages_room:
            room = self.pages_room * 2 + 4
            grown = <Page**>realloc(self.pages, room * sizeof(Page*))
            if grown == NULL:
                raise MemoryError
            self.pages = grown
            self.pages_room = room
        page = <Page*>calloc(1, sizeof(Page))
        if page == NULL:
            raise MemoryError
        self.serials += 1
        page.serial = self.serials
        page.number = number
        page.version = 1
        self.pages[self.pages_used] = page
        self.pages_used += 1
        return page

    # ── messages ─────────────────────────────────────────────────────────────────────────────

    cdef int put(self, uint64_t seq, uint32_t place, uint32_t size, uint32_t sid) except -1:
        """Add the newest message: `seq` is above every sequence put before."""
        cdef Page* page = self._page_for(seq >> PAGE_BITS)
        cdef uint32_t offset = <uint32_t>(seq & (PAGE_SLOTS - 1))
        cdef uint32_t room
        cdef uint64_t distance
        cdef Slot* slot
        cdef Slot* grown
        cdef Subject* subject
        if offset >= page.room:
            room = max(page.room * 2, <uint32_t>FIRST_SLOTS)
            while room <= offset:
                room *= 2
            grown = <Slot*>realloc(page.slots, room * sizeof(Slot))
            if grown == NULL:
                raise MemoryError
            memset(grown + page.room, 0, (room - page.room) * sizeof(Slot))
            page.slots = grown
            page.room = room
        slot = &page.slots[offset]
        slot.place = place
        slot.size = size
        slot.sid = sid
        slot.next = 0
        slot.prev = 0
        page.live += 1
        page.version += 1
        subject = &self.table.entries[sid]
        if subject.count:
            distance = seq - subject.last
            slot.prev = <uint32_t>distance if distance < FAR else FAR
            self.at(subject.last).next = slot.prev
        else:
            subject.first = seq
        subject.last = seq
        subject.count += 1
        self.msgs += 1
        self.bytes += size & SIZE_MASK
        return 0

    cdef uint64_t before(self, uint64_t seq, Slot* slot) noexcept nogil:
        """The previous message of the same subject, or 0."""
        cdef Slot* other
        if slot.prev == 0:
            return 0
        if slot.prev != FAR:
            return seq - slot.prev
        while True:
            seq = self.prev_live(seq - 1)
            if seq == 0:
                return 0
            other = self.at(seq)
            if other.sid == slot.sid:
                return seq

    cdef uint64_t after(self, uint64_t seq, Slot* slot) noexcept nogil:
        """The next message of the same subject, or 0."""
        cdef Slot* other
        if slot.next == 0:
            return 0
        if slot.next != FAR:
            return seq + slot.next
        while True:
            seq = self.next_live(seq + 1)
            if seq == 0:
                return 0
            other = self.at(seq)
            if other.sid == slot.sid:
                return seq

    cdef void drop(self, uint64_t seq, Slot* slot) noexcept nogil:
        """Take one existing message out; the subject's id is given back with its last message."""
        cdef Subject* subject = &self.table.entries[slot.sid]
        cdef uint64_t before = self.before(seq, slot)
        cdef uint64_t after = self.after(seq, slot)
        cdef uint32_t link = 0
        cdef Py_ssize_t i
        cdef Page* page
        if before and after:
            link = <uint32_t>(after - before) if after - before < FAR else FAR
        if before:
            self.at(before).next = link
        else:
            subject.first = after
        if after:
            self.at(after).prev = link
        else:
            subject.last = before
        subject.count -= 1
        self.msgs -= 1
        self.bytes -= slot.size & SIZE_MASK
        if subject.count == 0:
            self.table.forget(slot.sid)
        slot.place = 0
        i = self.page_at(seq >> PAGE_BITS)
        page = self.pages[i]
        page.live -= 1
        page.version += 1
        if page.live == 0 and i + 1 < self.pages_used:
            # The newest page stays: it is still being filled.
            free(page.slots)
            free(page)
            self.pages_used -= 1
            memmove(&self.pages[i], &self.pages[i + 1], (self.pages_used - i) * sizeof(Page*))

    cdef uint64_t next_live(self, uint64_t seq) noexcept nogil:
        """The first existing message >= seq, or 0."""
        cdef Py_ssize_t i = self.page_at(seq >> PAGE_BITS)
        cdef uint32_t offset = <uint32_t>(seq & (PAGE_SLOTS - 1))
        cdef Page* page
        while i < self.pages_used:
            page = self.pages[i]
            if page.number != seq >> PAGE_BITS:
                offset = 0
            if page.live:
                while offset < page.room:
                    if page.slots[offset].place:
                        return (page.number << PAGE_BITS) + offset
                    offset += 1
            i += 1
            offset = 0
        return 0

    cdef uint64_t prev_live(self, uint64_t seq) noexcept nogil:
        """The last existing message <= seq, or 0."""
        cdef Py_ssize_t i = self.page_at(seq >> PAGE_BITS)
        cdef Py_ssize_t offset
        cdef Page* page
        if i < self.pages_used and self.pages[i].number == seq >> PAGE_BITS:
            offset = <Py_ssize_t>(seq & (PAGE_SLOTS - 1))
        else:
            i -= 1
            offset = PAGE_SLOTS - 1
        while i >= 0:
            page = self.pages[i]
            if page.live:
                offset = min(offset, <Py_ssize_t>page.room - 1)
                while offset >= 0:
                    if page.slots[offset].place:
                        return (page.number << PAGE_BITS) + <uint64_t>offset
                    offset -= 1
            i -= 1
            offset = PAGE_SLOTS - 1
        return 0

    # ── filters ──────────────────────────────────────────────────────────────────────────────

    cdef uint32_t page_count(self, Page* page, Filter filter) noexcept nogil:
        """How many messages of a page the filter takes; counted once per page version."""
        cdef uint32_t at = <uint32_t>(page.serial - filter.pages_base)
        cdef uint32_t offset, found = 0
        if filter.versions[at] == page.version:
            return filter.pages[at]
        for offset in range(page.room):
            if page.slots[offset].place and filter_has(filter, page.slots[offset].sid):
                found += 1
        filter.pages[at] = found
        filter.versions[at] = page.version
        return found

    cdef int _prepare(self, Filter filter) except -1:
        filter.refresh()
        if self.pages_used and not filter.everything and not filter.single:
            filter.cover(self.pages[0].serial, self.pages[self.pages_used - 1].serial)
        return 0

    cdef uint64_t count(self, uint64_t start, Filter filter) except? 0xFFFFFFFFFFFFFFFF:
        cdef uint64_t total = 0
        cdef Py_ssize_t i
        cdef uint32_t offset
        cdef Page* page
        cdef bint all = filter is None or filter.everything
        if not self.pages_used:
            return 0
        if not all:
            self._prepare(filter)
            if filter.single:
                return self._count_single(start, filter.sid)
        i = self.page_at(start >> PAGE_BITS)
        if i < self.pages_used and self.pages[i].number == start >> PAGE_BITS and start & (PAGE_SLOTS - 1):
            page = self.pages[i]
            for offset in range(<uint32_t>(start & (PAGE_SLOTS - 1)), page.room):
                if page.slots[offset].place and (all or filter_has(filter, page.slots[offset].sid)):
                    total += 1
            i += 1
        while i < self.pages_used:
            total += self.pages[i].live if all else self.page_count(self.pages[i], filter)
            i += 1
        return total

    cdef uint64_t _count_single(self, uint64_t start, uint32_t sid) noexcept nogil:
        """Walk the subject's list from whichever end is nearer to `start`."""
        cdef Subject* subject
        cdef uint64_t low, high, below = 0, above = 0
        if sid == 0:
            return 0
        subject = &self.table.entries[sid]
        low = subject.first
        high = subject.last
        if start <= low:
            return subject.count
        while True:
            if low == 0 or low >= start:
                return subject.count - below
            if high < start:
                return above
            below += 1
            low = self.after(low, self.at(low))
            above += 1
            high = self.before(high, self.at(high))

    cdef uint64_t _next_single(self, uint64_t start, uint32_t sid) noexcept nogil:
        cdef Subject* subject
        cdef uint64_t low, high
        cdef Slot* slot
        if sid == 0:
            return 0
        subject = &self.table.entries[sid]
        if start <= subject.first:
            return subject.first
        if start > subject.last:
            return 0
        slot = self.at(start - 1)     # a reader that goes on where it stopped
        if slot != NULL and slot.sid == sid:
            return self.after(start - 1, slot)
        low = subject.first
        high = subject.last
        while True:
            if low >= start:
                return low
            low = self.after(low, self.at(low))
            if self.before(high, self.at(high)) < start:
                return high
            high = self.before(high, self.at(high))

    cdef uint64_t next_match(self, uint64_t start, Filter filter) except? 0xFFFFFFFFFFFFFFFF:
        cdef uint64_t found = 0
        self.collect(start, &found, 1, filter)
        return found

    cdef size_t collect(self, uint64_t start, uint64_t* out, size_t limit, Filter filter) except? 0xFFFFFFFFFFFFFFF:
        """The existing sequences >= start that the filter takes, ascending, at most `limit`."""
        cdef size_t n = 0
        cdef Py_ssize_t i
        cdef uint32_t offset, room
        cdef uint64_t seq
        cdef Page* page
        cdef Slot* slots
        cdef bint all = filter is None or filter.everything
        if not self.pages_used or limit == 0:
            return 0
        if not all:
            self._prepare(filter)
            if filter.single:
                seq = self._next_single(start, filter.sid)
                while seq and n < limit:
                    out[n] = seq
                    n += 1
                    seq = self.after(seq, self.at(seq))
                return n
        i = self.page_at(start >> PAGE_BITS)
        with nogil:
            while i < self.pages_used:
                page = self.pages[i]
                offset = 0
                if page.number == start >> PAGE_BITS:
                    offset = <uint32_t>(start & (PAGE_SLOTS - 1))
                i += 1
                if page.live == 0:
                    continue
                # The newest page changes all the time: looking is cheaper than counting first.
                if not all and offset == 0 and i < self.pages_used and self.page_count(page, filter) == 0:
                    continue
                slots = page.slots
                room = page.room
                while offset < room:
                    if slots[offset].place and (all or filter_has(filter, slots[offset].sid)):
                        out[n] = (page.number << PAGE_BITS) + offset
                        n += 1
                        if n == limit:
                            break
                    offset += 1
                if n == limit:
                    break
        return n

    cdef uint64_t last_match(self, uint64_t before, Filter filter) except? 0xFFFFFFFFFFFFFFFF:
        """The highest matching sequence below `before`, or 0."""
        cdef uint64_t top = before - 1
        cdef Py_ssize_t i, offset
        cdef Page* page
        cdef Subject* subject
        cdef uint64_t seq
        if not self.pages_used or before == 0:
            return 0
        if filter is None or filter.everything:
            return self.prev_live(top)
        self._prepare(filter)
        if filter.single:
            if filter.sid == 0:
                return 0
            subject = &self.table.entries[filter.sid]
            seq = subject.last
            while seq > top:
                seq = self.before(seq, self.at(seq))
            return seq
        i = self.page_at(top >> PAGE_BITS)
        if i >= self.pages_used or self.pages[i].number != top >> PAGE_BITS:
            i -= 1
        while i >= 0:
            page = self.pages[i]
            if page.live and (i + 1 == self.pages_used or self.page_count(page, filter)):
                offset = <Py_ssize_t>page.room - 1
                if page.number == top >> PAGE_BITS:
                    offset = min(offset, <Py_ssize_t>(top & (PAGE_SLOTS - 1)))
                while offset >= 0:
                    if page.slots[offset].place and filter_has(filter, page.slots[offset].sid):
                        return (page.number << PAGE_BITS) + <uint64_t>offset
                    offset -= 1
            i -= 1
        return 0
