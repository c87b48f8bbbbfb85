"""Which sequence comes next: deliver policy, filters, and what is left to deliver.

    |- delivered ----------|- looked at, nothing for us -|- not looked at ----|
                       stream_seq                      scan              last_seq

`stream_seq` is the highest sequence delivered once; `scan` is where the next look begins, so that a
filter that matches little does not walk the same gap twice. For `last_per_subject` a list of
sequences found at creation comes first.
"""

from array import array
from bisect import bisect_right

from jetstream.schema.consumer import ConsumerConfig
from jetstream.schema.times import parse_rfc3339
from jetstream.store.base import Filter, StreamView


class Cursor:
    """Where a consumer stands in its stream."""

    __slots__ = ("_gone", "filter", "firsts", "scan", "stream_seq", "view")

    def __init__(self, view: StreamView, filters: list[str]) -> None:
        self.view = view
        self.filter: Filter | None = None
        self.firsts: array[int] = array("Q")
        self._gone: set[int] = set()
        self.stream_seq = 0
        self.scan = 1
        self.set_filters(filters)

    def set_filters(self, filters: list[str]) -> None:
        """Read with other filters from here on."""
        everything = not filters or filters == [">"]
        self.filter = None if everything else self.view.filter([f.encode() for f in filters])
        self.scan = self.stream_seq + 1

    def go_to(self, next_seq: int) -> None:
        """The next message is the first at or after `next_seq`."""
        self.stream_seq = max(next_seq - 1, 0)
        self.scan = self.stream_seq + 1
        self.firsts = array("Q")
        self._gone.clear()

    def start(self, config: ConsumerConfig, single_per_subject: bool = False) -> None:
        """Find the starting point of a new consumer.

        A stream that keeps one message per subject needs no list for `last_per_subject`.
        """
        view, policy = self.view, config.deliver_policy
        start = view.first_seq
        if policy == "last":
            start = view.last_match(self.filter) if self.filter else view.last_seq
        elif policy == "new":
            start = view.last_seq + 1
        elif policy == "by_start_sequence":
            start = config.opt_start_seq
        elif policy == "by_start_time":
            start = self._first_at(parse_rfc3339(config.opt_start_time))
        elif policy == "last_per_subject" and not single_per_subject:
            self._start_with_last_of_each()
            return
        self.go_to(max(start, view.first_seq, 1))

    def _first_at(self, time_ns: int) -> int:
        found = self.view.seq_at_time(time_ns)
        if not self.filter or found > self.view.last_seq:
            return found
        # The reference closes the gap to the first match, but only a gap inside the stream.
        matching = self.view.next_seqs(found, 1, self.filter)
        if matching and matching[0] < self.view.last_seq:
            return matching[0]
        return found

    def _start_with_last_of_each(self) -> None:
        firsts = self.view.last_seqs(self.filter)
        self.go_to(firsts[0] if firsts else max(self.view.last_seq, 1))
        self.firsts = firsts
        self.scan = self.view.last_seq + 1

    def take(self, limit: int) -> "array[int]":
        """The next sequences, at most `limit`; they count as delivered from now on."""
        seqs = self.look(limit)
        if len(seqs) < limit:
            # Nothing else matches up to the end of the stream.
            self.passed(seqs)
            self.scan = max(self.scan, self.view.last_seq + 1)
        else:
            self.passed(seqs)
        return seqs

    def look(self, limit: int) -> "array[int]":
        """The next sequences, at most `limit`, without taking them."""
        if limit <= 0:
            return array("Q")
        if not self.firsts:
            if self.scan > self.view.last_seq:
                return array("Q")
            return self.view.next_seqs(self.scan, limit, self.filter)
        seqs = array("Q", (seq for seq in self.firsts[:limit] if self.exists(seq)))
        if len(seqs) < limit and len(self.firsts) > limit:
            # Some of them were deleted meanwhile; the rest of the list comes first.
            return array("Q", [seq for seq in self.firsts if self.exists(seq)][:limit])
        if len(seqs) < limit and self.scan <= self.view.last_seq:
            seqs.extend(self.view.next_seqs(self.scan, limit - len(seqs), self.filter))
        return seqs

    def passed(self, seqs: "array[int]") -> None:
        """These, which came from `look`, were delivered. Also plays a journal back."""
        if not seqs:
            return
        last = seqs[-1]
        if self.firsts:
            self.firsts = self.firsts[bisect_right(self.firsts, last) :]
            if self._gone:
                self._gone = {seq for seq in self._gone if seq > last} if self.firsts else set()
        self.stream_seq = max(self.stream_seq, last)
        self.scan = max(self.scan, last + 1)

    def peek(self) -> int:
        """The next sequence without taking it; 0 if there is none."""
        for seq in self.firsts:
            if self.exists(seq):
                return seq
        if self.scan > self.view.last_seq:
            return 0
        seqs = self.view.next_seqs(self.scan, 1, self.filter)
        if not seqs:
            self.scan = self.view.last_seq + 1
            return 0
        self.scan = seqs[0]
        return seqs[0]

    def exists(self, seq: int) -> bool:
        return self.view.exists(seq)

    def has_first(self, seq: int) -> bool:
        """Is this one of the list that comes first?"""
        at = bisect_right(self.firsts, seq)
        return at > 0 and self.firsts[at - 1] == seq

    def removed(self, seqs: "array[int]") -> None:
        """These left the stream; the list is not rewritten for it."""
        if self.firsts:
            self._gone.update(seq for seq in seqs if self.has_first(seq))

    def check_firsts(self) -> None:
        """Many left the stream at once: look at the whole list."""
        if self.firsts:
            self._gone = {seq for seq in self.firsts if not self.exists(seq)}

    def left(self) -> int:
        """How many messages are still to be delivered for the first time: num_pending."""
        count = len(self.firsts) - len(self._gone)
        if self.scan <= self.view.last_seq:
            count += self.view.count_from(self.scan, self.filter)
        return count
