"""What an acknowledgement, a refusal or the loss of a message changes."""

from array import array

from jetstream.consumer import acks, state
from jetstream.consumer.acks import AckRun
from jetstream.consumer.config import sample_percent
from jetstream.consumer.memory import Memory
from jetstream.consumer.recorder import Event
from jetstream.consumer.redelivery import is_over
from jetstream.consumer.values import Confirm, DeadLetter, Effects, Status
from jetstream.schema.advisory_consumer import (
    AckMetric,
    MaxDeliver,
    MessageNaked,
    MessageTerminated,
)
from jetstream.schema.consumer import ConsumerConfig
from jetstream.schema.stream import StreamConfig
from jetstream.store.base import StreamView

DELETED = "Unacknowledged message was deleted"
DELETED_BY_LIMITS = "Message deleted by stream limits"


class Acking(Memory):
    """The half of a consumer that settles deliveries."""

    __slots__ = ("_effects", "_sample", "_sampled")

    def __init__(
        self,
        name: str,
        config: ConsumerConfig,
        stream: StreamConfig,
        view: StreamView,
        created_ns: int,
        remember: bool,
    ) -> None:
        super().__init__(name, config, stream, view, created_ns, remember)
        self._effects = Effects()
        self._sampled = 0
        self._set_sampling()

    def _set_sampling(self) -> None:
        self._sample = min(sample_percent(self.config.sample_freq), 100)

    def _say(self, to: bytes, block: bytes) -> None:
        self._effects.statuses.append(Status(to, block))

    def _on_next(self, argument: bytes, reply: bytes, now: int) -> None:
        raise NotImplementedError

    # --- acks ---------------------------------------------------------------------------------

    def on_acks(self, run: AckRun, now: int) -> None:
        """Clients answered deliveries; row by row, or all at once if they are plain acks."""
        if not self.tracks or not len(run):
            return
        self._touched(now)
        plain = run.plain and not self._sample and self.recorder is None
        if plain and self.config.ack_policy == "explicit":
            self.last_ack = now
            self._on_plain_acks(run)
            return
        for row in range(len(run)):
            self._on_ack(run, row, now)

    def _touched(self, now: int) -> None:
        """A client showed that it is alive."""

    def _on_plain_acks(self, run: AckRun) -> None:
        seqs = run.stream_seqs
        settled = self._resolve(seqs)
        if self.retains:
            self._effects.settled.extend(settled)
        if self.pending.given_up:
            self._forgive(seqs)
        if run.replies:
            delivered = self.cursor.stream_seq
            for row, reply in run.replies.items():
                if seqs[row] <= delivered:
                    self._effects.replies.append(Confirm(reply, self.remember))

    def _forgive(self, seqs: "array[int]") -> None:
        """A late ack for a message that was given up counts after all."""
        late = self._forget_given_up(seqs)
        if self.retains:
            self._effects.settled.extend(late)

    def _on_ack(self, run: AckRun, row: int, now: int) -> None:
        kind, seq = run.kinds[row], run.stream_seqs[row]
        reply = run.replies.get(row, b"")
        if seq > self.cursor.stream_seq:
            return
        body = run.bodies.get(row, b"")
        argument = acks.parse_kind(body)[1] if body[:1] in (b"+", b"-") else body
        consumer_seq, deliveries = run.consumer_seqs[row], run.deliveries[row]
        if kind == acks.ACK:
            self._on_plus_ack(seq, consumer_seq, deliveries, now)
        elif kind == acks.NAK:
            self._on_nak(seq, consumer_seq, deliveries, argument, now)
        elif kind == acks.PROGRESS:
            if self.pending.table.touch(seq, now):
                self._note(state.pair(b"T", seq, now))
                self._record("progress", seq, now)
        elif kind == acks.NEXT:
            self._on_plus_ack(seq, consumer_seq, deliveries, now)
            if reply:
                self._on_next(argument, reply, now)
            return
        elif kind == acks.TERM:
            self._on_term(seq, consumer_seq, deliveries, argument, now)
        if reply:
            self._effects.replies.append(Confirm(reply, self.remember))

    def _on_plus_ack(self, seq: int, consumer_seq: int, deliveries: int, now: int) -> None:
        if self._sample:
            self._sample_ack(seq, consumer_seq, deliveries, now)
        self._settle_one(seq, consumer_seq, now)
        self._record("acked", seq, now)

    def _settle_one(self, seq: int, consumer_seq: int, now: int) -> None:
        self.last_ack = now
        if self.config.ack_policy == "explicit":
            self._settled(self._resolve(array("Q", (seq,))), now)
        elif seq > self.pending.floor_stream:
            # Everything up to this message; the reference takes the ack's own numbers as floor.
            settled = self._resolve_up_to(seq)
            if len(self.pending):
                self.pending.floor_consumer = consumer_seq
                self.pending.floor_stream = seq
            self._settled(settled, now)
        if self.pending.given_up:
            self._forgive(array("Q", (seq,)))

    def _settled(self, seqs: "array[int]", now: int) -> None:
        if self.retains:
            self._effects.settled.extend(seqs)

    def _delivered_unacked(self, seqs: "array[int]") -> None:
        """Without acks a delivery is all a stream with interest waits for."""
        if self.retains and not self.tracks:
            self._effects.settled.extend(seqs)

    def _sample_ack(self, seq: int, consumer_seq: int, deliveries: int, now: int) -> None:
        found = self.pending.table.get(seq)
        if found is None:
            return
        self._sampled += self._sample
        if self._sampled < 100:
            return
        self._sampled -= 100
        self._effects.advisories.append(
            AckMetric(
                stream=self.stream,
                consumer=self.name,
                consumer_seq=consumer_seq,
                stream_seq=seq,
                ack_time=now - found[1],
                deliveries=deliveries,
            )
        )

    def _on_nak(
        self, seq: int, consumer_seq: int, deliveries: int, argument: bytes, now: int
    ) -> None:
        found = self.pending.table.get(seq)
        if found is None:
            return
        self._effects.advisories.append(
            MessageNaked(
                stream=self.stream,
                consumer=self.name,
                consumer_seq=consumer_seq,
                stream_seq=seq,
                deliveries=deliveries,
            )
        )
        self._record("naked", seq, now, argument.decode("utf-8", "replace"))
        if is_over(found[2], self.config.max_deliver):
            self._give_up(seq, now)
            return
        delay = acks.nak_delay(argument) or self.options.nak_delay
        if delay:
            due = now + self._spread(delay, seq, found[2])
            self.pending.again.at(seq, due)
            self._note(state.pair(b"N", seq, due))
        else:
            self.pending.again.now(seq)
            self._note(state.pair(b"N", seq, 1))

    def _spread(self, delay: int, seq: int, deliveries: int) -> int:
        """The delay with its jitter, different for each message and attempt, but not by chance."""
        if not self.options.nak_jitter:
            return delay
        mixed = (seq * 0x9E3779B97F4A7C15 + deliveries * 0xC2B2AE3D27D4EB4F) & (2**64 - 1)
        return delay + int(delay * self.options.nak_jitter * (mixed >> 32) / 2**32)

    def _on_term(
        self, seq: int, consumer_seq: int, deliveries: int, argument: bytes, now: int
    ) -> None:
        reason = argument.decode("utf-8", "replace")
        found = self.pending.table.get(seq)
        if found is not None:
            self._effects.advisories.append(self._terminated(seq, consumer_seq, deliveries, reason))
            self._record("terminated", seq, now, reason)
            self._bury(seq, found[0], found[2], "terminated", reason)
        self._settle_one(seq, consumer_seq, now)

    def _terminated(
        self, seq: int, consumer_seq: int, deliveries: int, reason: str
    ) -> MessageTerminated:
        return MessageTerminated(
            stream=self.stream,
            consumer=self.name,
            consumer_seq=consumer_seq,
            stream_seq=seq,
            deliveries=deliveries,
            reason=reason,
        )

    # --- again, or never ----------------------------------------------------------------------

    def _expire_deliveries(self, now: int) -> None:
        """Deliveries whose time is over are queued, or given up."""
        if not len(self.pending):
            return
        due = self.pending.again.expire(now)
        most = self.config.max_deliver
        if most > 0:
            for seq in due:
                found = self.pending.table.get(seq)
                if found is not None and is_over(found[2], most):
                    self._give_up(seq, now)

    def _give_up(self, seq: int, now: int) -> None:
        """Delivered max_deliver times and not acknowledged."""
        consumer_seq, deliveries = self.pending.give_up(seq)
        if self.lanes is not None:
            self.lanes.came_back(array("Q", (seq,)))
        self._effects.advisories.append(
            MaxDeliver(
                stream=self.stream, consumer=self.name, stream_seq=seq, deliveries=deliveries
            )
        )
        self._record("given up", seq, now)
        self._note(state.runs(b"G", array("Q", (seq,))))
        if self.options.dead_letter_stream:
            self._bury(seq, consumer_seq, deliveries, "max_deliver", "")
            self._forgive(array("Q", (seq,)))

    def _bury(self, seq: int, consumer_seq: int, deliveries: int, reason: str, detail: str) -> None:
        """Have the message copied to the dead letters before it is settled."""
        if not self.options.dead_letter_stream:
            return
        self._effects.dead_letters.append(
            DeadLetter(
                stream=self.options.dead_letter_stream,
                stream_seq=seq,
                consumer_seq=consumer_seq,
                deliveries=deliveries,
                reason=reason,
                detail=detail,
                history=self.recorder.history_of(seq) if self.recorder is not None else "",
            )
        )

    def _take_again(self, limit: int, now: int) -> "tuple[array[int], array[int]]":
        """Up to `limit` deliveries that are due again, and their counts."""
        seqs, counts = array("Q"), array("Q")
        while len(seqs) < limit:
            seq = self._peek_again(now)
            if not seq:
                break
            self.pending.again.take()
            seqs.append(seq)
            counts.append(self.pending.table.delivered_again(seq, now))
        return seqs, counts

    def _peek_again(self, now: int) -> int:
        """The next one that is due; those beyond hope are dealt with on the way."""
        again = self.pending.again
        while seq := again.take():
            found = self.pending.table.get(seq)
            assert found is not None, "take gives pending ones only"
            if is_over(found[2], self.config.max_deliver):
                self._give_up(seq, now)
            elif not self.cursor.exists(seq):
                self._lose(array("Q", (seq,)), DELETED_BY_LIMITS, now)
            else:
                again.put_back(seq)
                return seq
        return 0

    # --- the stream changed -------------------------------------------------------------------

    def on_removed(self, seqs: "array[int]", now: int) -> bool:
        """Messages left the stream by limits, age or deletion; announced if they were out.

        True if that concerned this consumer.
        """
        self.cursor.removed(seqs)
        if self.lanes is not None:
            self.lanes.drop(seqs)
        if self.pending.given_up:
            self._forget_given_up(seqs)
        if not len(self.pending) or len(self.pending.table.missing(seqs)) == len(seqs):
            return bool(self._notes)
        self._lose(seqs, DELETED, now)
        return True

    def _forget_given_up(self, seqs: "array[int]") -> "array[int]":
        """These no longer count as given up; returns those that did."""
        known = array("Q", (seq for seq in seqs if seq in self.pending.given_up))
        for seq in known:
            del self.pending.given_up[seq]
        if known:
            self._note(state.runs(b"S", known))
        return known

    def _lose(self, seqs: "array[int]", reason: str, now: int) -> None:
        if reason:
            for seq in seqs:
                found = self.pending.table.get(seq)
                if found is not None:
                    event = self._terminated(seq, found[0], found[2], reason)
                    self._effects.advisories.append(event)
                    self._record("deleted", seq, now)
                    self.last_ack = now
        self._resolve(seqs)

    def on_purged(self, now: int) -> None:
        """A purge or rollup happened: what is gone is forgotten quietly."""
        self.cursor.check_firsts()
        out = self.pending.table.seqs()
        gone = array("Q", (seq for seq in out if not self.cursor.exists(seq)))
        if self.lanes is not None:
            self.lanes.drop(array("Q", [s for s in self.lanes.held if not self.cursor.exists(s)]))
        lost = [seq for seq in self.pending.given_up if not self.cursor.exists(seq)]
        self._forget_given_up(array("Q", lost))
        first = self._first_after_purge()
        if first - 1 > self.cursor.stream_seq:
            self.cursor.go_to(first)
        if self._resolve(gone):
            self.last_ack = now
        if not len(self.pending):
            self.pending.floor_consumer = self.consumer_seq
            self.pending.floor_stream = self.cursor.stream_seq
        elif self.pending.floor_stream < first - 1:
            self.pending.floor_stream = first - 1

    def _first_after_purge(self) -> int:
        """Where this consumer's part of the stream begins now."""
        first = max(self.view.first_seq, 1)
        if self.cursor.filter is not None and not self.view.count_from(first, self.cursor.filter):
            return self.view.last_seq + 1
        return first

    def _record(self, what: str, seq: int, now: int, detail: str = "") -> None:
        if self.recorder is not None:
            self.recorder.note(Event(now, seq, what, detail=detail))
