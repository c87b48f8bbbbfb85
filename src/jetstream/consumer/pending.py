"""What is out: deliveries, their counts and times, and the ack floor.

The table itself is a kernel (`_pending.pyx`); this is what its numbers mean. The ack floor is the
highest pair of sequences up to which everything is resolved. It moves when the lowest pending
delivery is resolved, and to `delivered` when nothing is pending. A message that was given up leaves
the table without moving the floor: it was not resolved.
"""

from array import array

from jetstream.consumer._pending import PendingTable
from jetstream.consumer.redelivery import Redelivery, waits_of
from jetstream.schema.consumer import ConsumerConfig


class Pending:
    """The deliveries of one consumer that wait for their acks."""

    __slots__ = ("again", "floor_consumer", "floor_stream", "given_up", "table")

    def __init__(self, config: ConsumerConfig) -> None:
        self.table = PendingTable(waits_of(config))
        self.again = Redelivery(self.table)
        self.floor_consumer = 0
        self.floor_stream = 0
        self.given_up: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.table)

    @property
    def redelivered(self) -> int:
        """num_redelivered: out again, or given up after several deliveries."""
        return self.table.redelivered + sum(1 for count in self.given_up.values() if count > 1)

    def settle(self, seqs: "array[int]", consumer_seq: int, stream_seq: int) -> "array[int]":
        """These are resolved. `consumer_seq`, `stream_seq`: what was delivered so far."""
        lowest, lowest_consumer = self.table.first()
        follows = lowest_consumer == self.floor_consumer + 1
        settled = self.table.settle(seqs)
        self._move_floor(lowest, follows, consumer_seq, stream_seq)
        return settled

    def settle_up_to(self, seq: int, consumer_seq: int, stream_seq: int) -> "array[int]":
        """Everything up to `seq` is resolved."""
        lowest, lowest_consumer = self.table.first()
        follows = lowest_consumer == self.floor_consumer + 1
        settled = self.table.settle_up_to(seq)
        self._move_floor(lowest, follows, consumer_seq, stream_seq)
        return settled

    def _move_floor(self, lowest: int, follows: bool, consumer_seq: int, stream_seq: int) -> None:
        first, first_consumer = self.table.first()
        if not first:
            self.floor_consumer, self.floor_stream = consumer_seq, stream_seq
        elif follows and first != lowest:
            self.floor_consumer, self.floor_stream = first_consumer - 1, first - 1

    def give_up(self, seq: int) -> tuple[int, int]:
        """Out of the table for good; (consumer_seq, deliveries)."""
        found = self.table.get(seq)
        assert found is not None, "only pending deliveries are given up"
        self.table.settle(array("Q", (seq,)))
        self.given_up[seq] = found[2]
        return found[0], found[2]

    def forget(self) -> None:
        """Back to nothing, for a reset."""
        self.table.clear()
        self.again.clear()
        self.given_up.clear()
