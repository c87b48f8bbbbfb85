"""What a consumer knows: where it stands, what is out, and how it knows after a crash.

`Memory` holds the numbers and keeps them true; `Consumer` decides. Everything that changes them
goes through here and leaves a note, so that a snapshot plus its notes is always the whole truth.
"""

from array import array
from typing import Any

from jetstream.consumer import state
from jetstream.consumer.cursor import Cursor
from jetstream.consumer.lanes import Lanes
from jetstream.consumer.options import Options, parse_options
from jetstream.consumer.pending import Pending
from jetstream.consumer.recorder import Recorder
from jetstream.consumer.redelivery import waits_of
from jetstream.schema.consumer import ConsumerConfig
from jetstream.schema.stream import StreamConfig
from jetstream.store.base import StreamView

FIRST_READ_AHEAD = 256
"""How many sequences are looked at per step while lanes are full."""


class Memory:
    """The numbers of one consumer."""

    __slots__ = (
        "_notes",
        "_seen",
        "config",
        "consumer_seq",
        "created_ns",
        "cursor",
        "lanes",
        "last_ack",
        "last_delivered",
        "name",
        "options",
        "pending",
        "recorder",
        "remember",
        "retains",
        "stream",
        "view",
    )

    def __init__(
        self,
        name: str,
        config: ConsumerConfig,
        stream: StreamConfig,
        view: StreamView,
        created_ns: int,
        remember: bool,
    ) -> None:
        self.name = name
        self.config = config
        self.stream = stream.name
        self.retains = stream.retention != "limits"
        self.view = view
        self.created_ns = created_ns
        self.remember = remember
        self.cursor = Cursor(view, config.filters)
        self.pending = Pending(config)
        self.consumer_seq = 0
        self.last_delivered = 0
        self.last_ack = 0
        self.options: Options = parse_options(config.metadata)
        self.lanes: Lanes | None = None
        self.recorder: Recorder | None = None
        self._notes: list[bytes] = []
        self._seen = state.Head()
        self._apply_options()

    def _apply_options(self) -> None:
        options = self.options
        if options.lane_token >= 0 and self.tracks:
            lanes = Lanes(options.lane_token, options.lane_max, self._subject_of)
            for seq in self.pending.table.seqs():
                lanes.went_out(seq)
            if self.lanes is not None:
                for seq in sorted(self.lanes.held):
                    lanes.hold(seq)
            self.lanes = lanes
        if options.recorder and self.recorder is None:
            self.recorder = Recorder(options.recorder)
        elif not options.recorder:
            self.recorder = None

    def _subject_of(self, seq: int) -> bytes:
        return self.view.subject_of(seq) or b""

    @property
    def tracks(self) -> bool:
        """Do deliveries wait for acks?"""
        return self.config.ack_policy != "none"

    # --- numbers ------------------------------------------------------------------------------

    def num_pending(self) -> int:
        """Stored messages that match and were not delivered yet."""
        left = self.cursor.left()
        return left + len(self.lanes.held) if self.lanes else left

    def room(self) -> int:
        """How many new messages max_ack_pending lets out."""
        most = self.config.max_ack_pending
        if most <= 0 or not self.tracks:
            return 1 << 62
        out = len(self.pending)
        if self.options.park:
            out -= self.pending.table.delayed
        return most - out

    def needs(self, seqs: "array[int]") -> "array[int]":
        """Of these, those this consumer has not settled: out, given up, or still to come.

        Undelivered ones count only if they match the filters.
        """
        delivered = self.cursor.stream_seq
        table, given_up = self.pending.table, self.pending.given_up
        held = self.lanes.held if self.lanes else ()
        out = array("Q")
        if not given_up and not held and seqs and max(seqs) <= delivered:
            # All of it was delivered: only what is out is needed, mostly nothing.
            if len(table.missing(seqs)) == len(seqs):
                return out
            return array("Q", (seq for seq in seqs if seq in table))
        for seq in seqs:
            if seq > delivered:
                if self._matches(seq):
                    out.append(seq)
            elif seq in table or seq in given_up or seq in held:
                out.append(seq)
        return out

    def _matches(self, seq: int) -> bool:
        if self.cursor.firsts and seq < self.cursor.scan:
            return self.cursor.has_first(seq)
        if self.cursor.filter is None:
            return True
        found = self.view.next_seqs(seq, 1, self.cursor.filter)
        return bool(found) and found[0] == seq

    # --- changes ------------------------------------------------------------------------------

    def _note(self, operation: bytes) -> None:
        if self.remember:
            self._notes.append(operation)

    def _went_out(self, seqs: "array[int]", now: int) -> int:
        """Delivered for the first time; returns the consumer sequence of the first."""
        first = self.consumer_seq + 1
        self.consumer_seq += len(seqs)
        self.last_delivered = now
        if self.tracks:
            self.pending.table.add(seqs, first, now)
        else:
            self.pending.floor_consumer = self.consumer_seq
            self.pending.floor_stream = self.cursor.stream_seq
        self._note(state.delivered(seqs, first, now))
        return first

    def _went_out_again(self, seqs: "array[int]", now: int) -> int:
        first = self.consumer_seq + 1
        self.consumer_seq += len(seqs)
        self.last_delivered = now
        self._note(state.delivered_again(seqs, now))
        return first

    def _resolve(self, seqs: "array[int]") -> "array[int]":
        """Take these out of pending and move the floor; returns those that were there."""
        settled = self.pending.settle(seqs, self.consumer_seq, self.cursor.stream_seq)
        if settled:
            self._resolved(settled)
        return settled

    def _resolve_up_to(self, seq: int) -> "array[int]":
        settled = self.pending.settle_up_to(seq, self.consumer_seq, self.cursor.stream_seq)
        if settled:
            self._resolved(settled)
        return settled

    def _resolved(self, settled: "array[int]") -> None:
        if self.lanes is not None:
            self.lanes.came_back(settled)
            first = self.lanes.first_held()
            if first and self.pending.floor_stream >= first:
                self.pending.floor_stream = first - 1
        self._note(state.runs(b"S", settled))

    def _take_from_lanes(self, limit: int) -> "array[int]":
        """New messages whose lanes have room, reading past those that have none."""
        lanes = self.lanes
        assert lanes is not None
        out = lanes.take(limit)
        while len(out) < limit and not lanes.full:
            before = len(lanes.held)
            ahead = self.cursor.take(min(limit - len(out), FIRST_READ_AHEAD))
            if not ahead:
                break
            admitted = lanes.admit(ahead)
            out.extend(admitted)
            if len(lanes.held) > before:
                here = set(admitted)
                self._note(state.runs(b"K", array("Q", (s for s in ahead if s not in here))))
        return out

    def _take_delta(self) -> bytes:
        """What changed since the last time, for the journal."""
        if not self.remember:
            return b""
        now = self._head()
        if not self._notes and now == self._seen:
            return b""
        self._seen = now
        self._notes.append(state.head(now))
        delta = b"".join(self._notes)
        self._notes = []
        return delta

    # --- remembering --------------------------------------------------------------------------

    def _head(self) -> state.Head:
        return state.Head(
            self.consumer_seq,
            self.cursor.stream_seq,
            self.pending.floor_consumer,
            self.pending.floor_stream,
            self.cursor.scan,
            self.last_delivered,
            self.last_ack,
        )

    def snapshot(self) -> bytes:
        """Everything needed to go on after a restart."""
        parts = [state.head(self._head())]
        if self.cursor.firsts:
            parts.append(state.runs(b"F", self.cursor.firsts))
        if len(self.pending):
            parts.append(state.table(self.pending.table.dump()))
        parts.extend(state.pair(b"U", seq, n) for seq, n in self.pending.given_up.items())
        if self.lanes is not None and self.lanes.held:
            parts.append(state.runs(b"K", array("Q", sorted(self.lanes.held))))
        return b"".join(parts)

    def restore(self, snapshot: bytes, deltas: list[bytes]) -> None:
        """Go on from what the journal kept, as far as the log still has it."""
        held: set[int] = set()
        for note in (snapshot, *deltas):
            for operation in state.operations(note):
                self._replay_operation(operation, held)
        self._clamp(held)
        self.cursor.check_firsts()
        if self.lanes is not None:
            for seq in sorted(held):
                if self.cursor.exists(seq):
                    self.lanes.hold(seq)
            for seq in self.pending.table.seqs():
                self.lanes.went_out(seq)
        self._seen = self._head()
        self._notes = []

    def _replay_operation(self, operation: state.Operation, held: set[int]) -> None:
        table, again = self.pending.table, self.pending.again
        what, seqs = operation.what, operation.seqs
        if operation.head is not None:
            self._set_head(operation.head)
        elif what == b"D":
            self.cursor.passed(seqs)
            held.difference_update(seqs)
            if self.tracks:
                table.add(seqs, operation.second, operation.first)
        elif what == b"R":
            for seq in seqs:
                table.delivered_again(seq, operation.first)
        elif what == b"S":
            table.settle(seqs)
            for seq in seqs:
                self.pending.given_up.pop(seq, None)
        elif what == b"G":
            for seq in seqs:
                if seq in table:
                    self.pending.give_up(seq)
        elif what == b"N":
            again.at(operation.first, operation.second)
        elif what == b"T":
            table.touch(operation.first, operation.second)
        elif what == b"K":
            held.update(seqs)
        elif what == b"C":
            self.pending.forget()
            held.clear()
        elif what == b"F":
            self.cursor.firsts = seqs
        elif what == b"U":
            self.pending.given_up[operation.first] = operation.second
        elif what == b"P":
            table.load(operation.dump)
            for seq in table.seqs():
                found = table.get(seq)
                if found is not None and table.is_delayed_until(seq, found[3]):
                    again.restored(seq, found[3])

    def _set_head(self, head: state.Head) -> None:
        self.consumer_seq = head.consumer_seq
        self.cursor.stream_seq = head.stream_seq
        self.cursor.scan = head.scan
        self.pending.floor_consumer = head.floor_consumer
        self.pending.floor_stream = head.floor_stream
        self.last_delivered = head.last_delivered
        self.last_ack = head.last_ack

    def _clamp(self, held: set[int]) -> None:
        """The log may have lost its last messages in a power cut: they will be written again."""
        last = self.view.last_seq
        cursor, pending = self.cursor, self.pending
        starts_later = not self.consumer_seq and self.config.opt_start_seq > 0
        if cursor.stream_seq > last and not starts_later:
            gone = array("Q", (seq for seq in pending.table.seqs() if seq > last))
            pending.table.settle(gone)
            for seq in [seq for seq in pending.given_up if seq > last]:
                del pending.given_up[seq]
            cursor.stream_seq = last
            pending.floor_stream = min(pending.floor_stream, last)
        if not starts_later:
            cursor.scan = min(cursor.scan, last + 1)
        held.difference_update([seq for seq in held if seq > last])

    def _new_waits(self) -> None:
        self.pending.table.set_waits(waits_of(self.config))

    # --- backups ------------------------------------------------------------------------------

    def exported(self) -> dict[str, Any]:
        """The state in the words of a stream backup."""
        pending: dict[str, dict[str, int]] = {}
        redelivered: dict[str, int] = {}
        for seq in self.pending.table.seqs():
            found = self.pending.table.get(seq)
            assert found is not None
            pending[str(seq)] = {"Sequence": found[0], "Timestamp": found[1]}
            if found[2] > 1:
                redelivered[str(seq)] = found[2] - 1
        out: dict[str, Any] = {
            "delivered": {"consumer_seq": self.consumer_seq, "stream_seq": self.cursor.stream_seq},
            "ack_floor": {
                "consumer_seq": self.pending.floor_consumer,
                "stream_seq": self.pending.floor_stream,
            },
        }
        if pending:
            out["pending"] = pending
        if redelivered:
            out["redelivered"] = redelivered
        return out

    def imported(self, state_of: dict[str, Any]) -> None:
        """Go on from the state of a backup."""
        delivered, floor = state_of.get("delivered") or {}, state_of.get("ack_floor") or {}
        self.consumer_seq = int(delivered.get("consumer_seq", 0))
        self.cursor.go_to(int(delivered.get("stream_seq", 0)) + 1)
        self.pending.floor_consumer = int(floor.get("consumer_seq", 0))
        self.pending.floor_stream = int(floor.get("stream_seq", 0))
        again = state_of.get("redelivered") or {}
        for text, entry in (state_of.get("pending") or {}).items():
            seq, at = int(text), int(entry.get("Timestamp", 0))
            self.pending.table.add(array("Q", (seq,)), int(entry.get("Sequence", 0)), at)
            for _ in range(int(again.get(text, 0))):
                self.pending.table.delivered_again(seq, at)
        self._clamp(set())
