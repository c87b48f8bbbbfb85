"""One consumer: what goes out, to whom, when again.

A pure state machine. The engine hands in what happened (`on_pull`, `on_acks`, `on_interest`, …)
and the time, asks what should be delivered (`deliver`), and takes what else should be done
(`take_effects`). `next_deadline` says when to come back if nothing happens.
"""

from array import array
from typing import Final

from jetstream.clock import SECOND
from jetstream.consumer import state, statuses
from jetstream.consumer._weights import fitting
from jetstream.consumer.acking import Acking
from jetstream.consumer.config import stored_metadata
from jetstream.consumer.groups import Groups, NewId
from jetstream.consumer.options import parse_options
from jetstream.consumer.pulls import (
    HasInterest,
    Pulls,
    Waiting,
    parse_request,
    refusal_of,
    request_error,
)
from jetstream.consumer.push import Push
from jetstream.consumer.replay import Replay
from jetstream.consumer.values import Delivery, Effects, PullRequest, Status
from jetstream.errors import ApiError
from jetstream.schema.advisory_consumer import ConsumerPause
from jetstream.schema.consumer import ConsumerConfig, ConsumerInfo, NextRequest, SequenceInfo
from jetstream.schema.requests import API_LEVEL
from jetstream.schema.stream import StreamConfig
from jetstream.schema.times import parse_rfc3339, rfc3339
from jetstream.store.base import StreamView

BUDGET: Final = 10_000
INACTIVE_GRACE: Final = SECOND // 10
NEVER: Final = 1 << 62


def _anybody(subject: bytes) -> bool:
    return True


class Consumer(Acking):
    """A consumer of one stream. Nothing here waits, writes or sends."""

    __slots__ = (
        "_active_at",
        "_asked_pause",
        "_has_interest",
        "_late",
        "_new_id",
        "_replay",
        "groups",
        "paused_until",
        "pulls",
        "push",
    )

    def __init__(
        self,
        name: str,
        config: ConsumerConfig,
        stream: StreamConfig,
        view: StreamView,
        created_ns: int,
        *,
        now: int,
        new_id: NewId,
        remember: bool = True,
        fresh: bool = True,
    ) -> None:
        super().__init__(name, config, stream, view, created_ns, remember)
        self.pulls = Pulls(config.max_waiting)
        self.push: Push | None = None
        if not config.is_pull:
            self.push = Push(config, f"$JS.FC.{stream.name}.{name}.".encode())
        self._new_id = new_id
        self.groups: Groups | None = None
        self._update_groups(config)
        self._late: list[tuple[NextRequest, bytes]] = []
        self._has_interest: HasInterest = _anybody
        self._active_at = now
        self._replay = Replay(view) if config.replay_policy == "original" else None
        until = parse_rfc3339(config.pause_until) if config.pause_until else 0
        self.paused_until = until if until > now else 0
        self._asked_pause = until
        if fresh and self.paused_until:
            self._announce_pause(until, True)
        if fresh:
            self.cursor.start(config, stream.max_msgs_per_subject == 1)
            self.pending.floor_stream = self.cursor.stream_seq
            self._seen = self._head()

    # --- pulling ------------------------------------------------------------------------------

    def on_pull(self, request: PullRequest, now: int) -> None:
        """A client asks for messages; what it hears comes with `deliver` or in the effects."""
        self._active_at = now
        if self.push is not None:
            self._say(request.reply, statuses.PUSH_BASED)
            return
        if request.required_level is not None and not _level_is_served(request.required_level):
            self._say(request.reply, statuses.REQUIRED_API_LEVEL)
            return
        try:
            asked = parse_request(request.payload)
        except ApiError as error:
            self._say(request.reply, request_error(error))
            return
        refusal = refusal_of(asked, self.config, bare=not request.payload)
        if refusal is None and self.groups is not None:
            refusal = self.groups.refusal_of(asked, now)
        if refusal is not None:
            self._say(request.reply, refusal)
        elif len(self.pulls) >= self.pulls.limit:
            # Perhaps a waiting client is gone; `deliver` knows who listens.
            self._late.append((asked, request.reply))
        else:
            self._accept(asked, request.reply, now)

    def _accept(self, asked: NextRequest, reply: bytes, now: int) -> None:
        if asked.no_wait:
            available = self.num_pending() + len(self.pending.again)
            if not available and asked.expires <= 0:
                self._say(reply, statuses.NO_MESSAGES)
                return
            if available and self.pulls.queue and available <= self.pulls.asked:
                self._say(reply, statuses.REQUESTS_PENDING)
                return
        self.pulls.accept(asked, reply, now)

    def _accept_late(self, now: int) -> None:
        late, self._late = self._late, []
        for asked, reply in late:
            if len(self.pulls) < self.pulls.limit:
                self._accept(asked, reply, now)
            elif not asked.idle_heartbeat:
                self._say(reply, statuses.EXCEEDED_MAX_WAITING)

    def _touched(self, now: int) -> None:
        self._active_at = now
        if self.groups is not None and self.groups.pin:
            self.groups.pinned_at = now

    def _on_next(self, argument: bytes, reply: bytes, now: int) -> None:
        self.on_pull(PullRequest(reply=reply, payload=argument), now)

    # --- delivering ---------------------------------------------------------------------------

    def deliver(
        self, now: int, has_interest: HasInterest = _anybody, budget: int = BUDGET
    ) -> list[Delivery]:
        """What goes out now, at most `budget` messages. Call again while something comes."""
        self._has_interest = has_interest
        out = self._deliver_pulls(now, budget) if self.push is None else self._push_out(now, budget)
        if self.config.headers_only:
            for delivery in out:
                delivery.headers_only = True
        if self.recorder is not None:
            for delivery in out:
                what = "delivered" if delivery.countdown else "redelivered"
                self.recorder.note_all(what, delivery.seqs, now, delivery.to)
        return out

    @property
    def is_waiting(self) -> bool:
        """Would a new message go somewhere?"""
        return self.push.bound if self.push is not None else bool(self.pulls.queue or self._late)

    @property
    def paused(self) -> bool:
        return self.paused_until > 0

    def _deliver_pulls(self, now: int, budget: int) -> list[Delivery]:
        pulls = self.pulls
        if not pulls.queue and not self._late:
            return []
        pulls.drop_dead(self._has_interest)
        # A request that is over gets nothing, even if its timer comes late.
        self._effects.statuses.extend(pulls.expire(now, self._heartbeat))
        if self._late:
            self._accept_late(now)
        if self.groups is not None:
            kept, told = self.groups.wrong_pins(pulls.queue)
            if told:
                pulls.keep(kept)
                self._effects.statuses.extend(told)
        if not pulls.queue:
            return []
        if self.paused:
            self._effects.statuses.extend(pulls.end_dry())
            return []
        if self.groups is not None:
            return self._deliver_one_by_one(now, budget)
        if pulls.careful:
            out = self._deliver_what_fits(now, budget)
            rest = budget - sum(len(delivery.seqs) for delivery in out)
            # A few messages at the end of the budget are better left to the next turn.
            if rest < min(len(pulls.queue), budget // 2):
                return out
            return out + self._deliver_one_by_one(now, rest)
        return self._deliver_in_turns(now, budget)

    def _deliver_what_fits(self, now: int, budget: int) -> list[Delivery]:
        """Whole turns of new messages that leave every request bytes to spare.

        What comes to the end of a request is left to the careful way.
        """
        pulls, out = self.pulls, list[Delivery]()
        while budget > 0 and pulls.queue and not len(self.pending.again) and self.lanes is None:
            seqs = self.cursor.look(min(pulls.asked, budget, self.room()))
            if self._replay is not None or len(seqs) < len(pulls.queue):
                break
            ends = [self.view.get(seq) for seq in (seqs[0], seqs[-1])]
            digits = {len(str(message.time_ns)) for message in ends if message is not None}
            if len(digits) != 1:
                break
            pending = self.num_pending() - 1
            turns, spent = fitting(
                seqs,
                self.view.sizes(seqs),
                len(f"$JS.ACK.{self.stream}.{self.name}."),
                digits.pop(),
                self.consumer_seq + 1,
                pending,
                [waiting.left for waiting in pulls.queue],
                [w.bytes_left if w.counts_bytes else -1 for w in pulls.queue],
            )
            if not turns:
                break
            seqs = seqs[: turns * len(pulls.queue)]
            for waiting, size in zip(pulls.queue, spent, strict=True):
                if waiting.counts_bytes:
                    waiting.bytes_left -= size
            self.cursor.passed(seqs)
            first = self._went_out(seqs, now)
            out += pulls.share(seqs, None, first, pending, now)
            self._delivered_unacked(seqs)
            budget -= len(seqs)
        return out

    def _deliver_in_turns(self, now: int, budget: int) -> list[Delivery]:
        """The plain way: whole runs, shared by those who wait."""
        pulls = self.pulls
        out: list[Delivery] = []
        asked = min(pulls.asked, budget)
        again, counts = self._take_again(asked, now)
        if again:
            first = self._went_out_again(again, now)
            out += pulls.share(again, counts, first, self.num_pending(), now)
        wanted = asked - len(again)
        allowed = min(wanted, self.room())
        if allowed > 0:
            seqs = self._take_new(allowed, now)
            if seqs:
                first = self._went_out(seqs, now)
                out += pulls.share(seqs, None, first, self.num_pending() + len(seqs) - 1, now)
                self._delivered_unacked(seqs)
            if len(seqs) < allowed and pulls.queue and self._is_dry():
                self._effects.statuses.extend(pulls.end_dry())
        elif wanted <= 0 and pulls.queue and self._is_dry() and self.room() > 0:
            self._effects.statuses.extend(pulls.end_dry())
        return out

    def _is_dry(self) -> bool:
        """Is there nothing for anybody, now? (A replay, or a lane, may hold something back.)"""
        return self._replay is None or not self.cursor.peek()

    def _deliver_one_by_one(self, now: int, budget: int) -> list[Delivery]:
        """The careful way: bytes are counted, or groups decide who may have which message."""
        out: list[Delivery] = []
        pending = self.num_pending()
        while budget > 0 and self.pulls.queue:
            again = bool(len(self.pending.again))
            if not again and self.room() <= 0:
                break
            if not again and not pending:
                self._effects.statuses.extend(self.pulls.end_dry())
                break
            waiting = self._choose(pending, now)
            if waiting is None:
                break
            taken = self._take_for(waiting, again, now)
            if taken is None:
                continue
            seq, deliveries = taken
            if not seq:
                if again:
                    continue
                break
            pending -= deliveries == 1
            pin = self.groups.headers if self.groups is not None else b""
            self.pulls.serve_one(
                waiting, seq, deliveries, self.consumer_seq, pending, now, out, pin
            )
            if waiting.counts_bytes and waiting.left == 0 and waiting.bytes_left > 0:
                self._effects.statuses.append(waiting.pending_status(409, "Batch Completed"))
            budget -= 1
        return out

    def _choose(self, pending: int, now: int) -> Waiting | None:
        if self.groups is None:
            return self.pulls.queue[0]
        waiting, events = self.groups.choose(self.pulls.queue, pending, len(self.pending), now)
        self._effects.advisories.extend(events)
        return waiting

    def _take_for(self, waiting: Waiting, again: bool, now: int) -> tuple[int, int] | None:
        """One message for one request: (seq, deliveries); seq 0: there is none after all.

        None: the next message is too large for the request, which is over.
        """
        if waiting.counts_bytes and self.lanes is None:
            seq = self._peek_again(now) if again else self.cursor.peek()
            if not seq:
                return 0, 0
            size = self.view.sizes(array("Q", (seq,)))[0] + self._reply_bytes(seq)
            if size > waiting.bytes_left:
                self._effects.statuses.append(
                    waiting.pending_status(409, "Message Size Exceeds MaxBytes")
                )
                self.pulls.keep(w for w in self.pulls.queue if w is not waiting)
                return None
            waiting.bytes_left -= size
            if not waiting.bytes_left:
                waiting.left = 1
        if again:
            seqs, counts = self._take_again(1, now)
            if not seqs:
                return 0, 0
            self._went_out_again(seqs, now)
            return seqs[0], counts[0]
        seqs = self._take_new(1, now)
        if not seqs:
            return 0, 0
        self._went_out(seqs, now)
        self._delivered_unacked(seqs)
        return seqs[0], 1

    def _reply_bytes(self, seq: int) -> int:
        """Length of the ack subject this message will carry."""
        found = self.pending.table.get(seq)
        deliveries = found[2] + 1 if found else 1
        stamp = self.view.time_of(seq)
        pending = max(self.num_pending() - (deliveries == 1), 0)
        return len(
            f"$JS.ACK.{self.stream}.{self.name}.{deliveries}.{seq}."
            f"{self.consumer_seq + 1}.{stamp}.{pending}"
        )

    def _take_new(self, limit: int, now: int) -> "array[int]":
        """New messages, at most `limit`, as lanes, replay and the window allow."""
        if self.lanes is not None:
            return self._take_from_lanes(limit)
        push = self.push
        if self._replay is None and (push is None or not push.counts_bytes):
            return self.cursor.take(limit)
        seqs = self.cursor.look(limit)
        if self._replay is not None:
            seqs = seqs[: self._replay.due(seqs, now)]
        if push is not None and push.counts_bytes and seqs:
            # The ack subject counts too; its length hardly varies.
            seqs = seqs[: push.room(self.view.sizes(seqs), self._reply_bytes(seqs[0]), now)]
        self.cursor.passed(seqs)
        return seqs

    def _push_out(self, now: int, budget: int) -> list[Delivery]:
        push = self.push
        assert push is not None
        if not push.bound or self.paused:
            return []
        out: list[Delivery] = []
        again, counts = self._take_again(budget, now)
        if again:
            first = self._went_out_again(again, now)
            out.append(Delivery(push.to, again, first, self.num_pending(), counts, 1, 0))
        allowed = min(budget - len(again), self.room())
        seqs = self._take_new(allowed, now) if allowed > 0 else array("Q")
        if seqs:
            first = self._went_out(seqs, now)
            out.append(Delivery(push.to, seqs, first, self.num_pending() + len(seqs) - 1))
            self._delivered_unacked(seqs)
        if out:
            asking = push.sent(self.cursor.stream_seq, now)
            if asking is None and self.config.ack_policy == "flow_control" and self.room() <= 0:
                asking = push.ask_when_idle(self.cursor.stream_seq)
            if asking is not None:
                self._effects.statuses.append(asking)
        return out

    # --- the rest of the world ----------------------------------------------------------------

    def on_interest(self, bound: bool, now: int) -> None:
        """Somebody began, or the last one ceased, to listen on the deliver subject."""
        if self.push is not None:
            if bound != self.push.bound:
                self._active_at = now
            self.push.bind(bound, now)

    def on_flow_control(self, subject: bytes, now: int) -> None:
        """A client answered a flow-control request."""
        if self.push is None:
            return
        seq = self.push.answered(subject)
        if seq and self.config.ack_policy == "flow_control":
            self.last_ack = now
            self._settled(self._resolve_up_to(seq), now)

    def on_new_messages(self, now: int) -> None:
        """Messages were stored; `deliver` will look."""

    def pause(self, until: int, now: int) -> None:
        """Deliver nothing before `until`; 0 or the past: go on."""
        paused = until > now
        if until != self._asked_pause:
            self._announce_pause(until, paused)
        self._asked_pause = until
        self.paused_until = until if paused else 0
        self.config.pause_until = rfc3339(until) if paused else ""
        self.config.metadata = stored_metadata(self.config)

    def _announce_pause(self, until: int, paused: bool) -> None:
        self._effects.advisories.append(
            ConsumerPause(
                stream=self.stream,
                consumer=self.name,
                paused=paused,
                pause_until=rfc3339(until),
            )
        )

    def update(self, config: ConsumerConfig, now: int) -> None:
        """A checked new configuration; the position stays."""
        old, self.config = self.config, config
        if old.filters != config.filters:
            self.cursor.set_filters(config.filters)
        if (old.ack_wait, old.backoff) != (config.ack_wait, config.backoff):
            self._new_waits()
        self.options = parse_options(config.metadata)
        self._apply_options()
        self._set_sampling()
        self._update_groups(config)
        if self.push is not None and old.deliver_subject != config.deliver_subject:
            # What is out went to somebody who is gone: it comes again, to the new subject.
            for seq in self.pending.table.seqs():
                self.pending.again.now(seq)
            self.push.bind(False, now)
        if self.push is not None:
            self.push.update(config)
        self._active_at = now

    def _update_groups(self, config: ConsumerConfig) -> None:
        if not config.priority_policy:
            self.groups = None
        elif self.groups is None:
            self.groups = Groups(config, self.stream, self.name, self._new_id)
        else:
            self.groups.update(config)

    def reset(self, to_seq: int, now: int) -> None:
        """Start over: consumer sequences at 0, nothing out, the next message at `to_seq`."""
        self.pending.forget()
        if self.lanes is not None:
            self.lanes = None
            self._apply_options()
        self.consumer_seq = 0
        self.cursor.go_to(to_seq)
        self.pending.floor_consumer = 0
        self.pending.floor_stream = self.cursor.stream_seq
        self.last_delivered = self.last_ack = 0
        self._note(state.CLEARED)
        self._active_at = now

    def close(self, now: int) -> None:
        """The consumer, or its stream, is deleted: those who wait are told."""
        self._effects.statuses.extend(self.pulls.end_all(statuses.CONSUMER_DELETED))

    def unpin(self, group: str) -> None:
        """An administrator lets the pinned client go."""
        if self.groups is not None:
            self._effects.advisories.extend(self.groups.unpin("admin"))

    # --- time ---------------------------------------------------------------------------------

    def expire(self, now: int) -> None:
        """Time has passed: everything that was due happens."""
        if self.paused_until and now >= self.paused_until:
            self._asked_pause = 0
            self.pause(self.paused_until, now)
        self._expire_deliveries(now)
        effects = self._effects
        if self.pulls.queue:
            effects.statuses.extend(self.pulls.expire(now, self._heartbeat))
        if self.groups is not None:
            effects.advisories.extend(self.groups.expire(now))
        push = self.push
        if push is not None and push.heartbeat_at and now >= push.heartbeat_at:
            if self.config.ack_policy == "flow_control":
                asking = push.ask_when_idle(self.cursor.stream_seq)
                if asking is not None:
                    effects.statuses.append(asking)
            effects.statuses.append(Status(push.to, self._heartbeat()))
            push.heartbeat_at = now + push.heartbeat
        inactive = self._inactive_at()
        if inactive and now >= inactive:
            self._end_if_inactive(now)

    def _heartbeat(self) -> bytes:
        stalled = self.push.stalled if self.push is not None else b""
        return statuses.idle_heartbeat(self.consumer_seq, self.cursor.stream_seq, stalled)

    def _inactive_at(self) -> int:
        threshold = self.config.inactive_threshold
        if threshold <= 0 or (self.push is not None and self.push.bound):
            return 0
        return self._active_at + threshold + (INACTIVE_GRACE if self.push is None else 0)

    def _end_if_inactive(self, now: int) -> None:
        self.pulls.drop_dead(self._has_interest)
        if self.pulls.queue:
            self._active_at = now
        else:
            self._effects.deleted = True
            self._active_at = now

    def next_deadline(self) -> int:
        """When `expire` should be called if nothing happens before; 0: never."""
        soon = self.paused_until or NEVER
        if self.pending.table.count:
            soon = min(soon, self.pending.again.next_deadline() or NEVER)
        if self.pulls.queue:
            soon = min(soon, self.pulls.next_deadline() or NEVER)
        if self.config.inactive_threshold > 0:
            soon = min(soon, self._inactive_at() or NEVER)
        if self.groups is not None:
            soon = min(soon, self.groups.next_deadline() or NEVER)
        if self.push is not None:
            soon = min(soon, self.push.heartbeat_at or NEVER, self.push.rate_at or NEVER)
        if self._replay is not None:
            soon = min(soon, self._replay.next_at or NEVER)
        return 0 if soon == NEVER else soon

    # --- telling ------------------------------------------------------------------------------

    def take_effects(self) -> Effects:
        """What should be done after this turn; asking twice gives nothing the second time."""
        effects, self._effects = self._effects, Effects()
        effects.state_delta = self._take_delta()
        return effects

    def info(self, now: int) -> ConsumerInfo:
        """Everything a client may know, exact at `now`."""
        self.pulls.drop_dead(self._has_interest)
        push = self.push
        return ConsumerInfo(
            stream_name=self.stream,
            name=self.name,
            created=rfc3339(self.created_ns),
            config=self.config,
            delivered=SequenceInfo(
                self.consumer_seq,
                self.cursor.stream_seq,
                rfc3339(self.last_delivered) if self.last_delivered else "",
            ),
            ack_floor=SequenceInfo(
                self.pending.floor_consumer,
                self.pending.floor_stream,
                rfc3339(self.last_ack) if self.last_ack else "",
            ),
            num_ack_pending=len(self.pending),
            num_redelivered=self.pending.redelivered,
            num_waiting=len(self.pulls),
            num_pending=self.num_pending(),
            push_bound=push is not None and push.bound,
            paused=self.paused_until > now,
            pause_remaining=max(self.paused_until - now, 0) if self.paused_until else 0,
            ts=rfc3339(now),
            priority_groups=self.groups.state() if self.groups is not None else [],
        )


def _level_is_served(level: bytes) -> bool:
    return level.isdigit() and int(level) <= API_LEVEL
