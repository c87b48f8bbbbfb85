"""A stream: what it keeps, how it changes over time, and what others must do because of it.

Pure policy over a store: values and the time come in, the store is changed, and everything that
has to be sent or told comes out as `Effects`. Publishing has its own module (`publish.py`); this
one holds the state and everything else that happens to a stream.
"""

from array import array
from collections.abc import Iterable, Sequence

import msgspec

from jetstream.errors import ApiError
from jetstream.schema.advisory import batch_abandoned
from jetstream.schema.api_errors import (
    BAD_REQUEST,
    SEQUENCE_NOT_FOUND,
    STREAM_MSG_DELETE_FAILED,
    STREAM_PURGE_FAILED,
    STREAM_SEALED,
)
from jetstream.schema.requests import StreamPurgeRequest
from jetstream.schema.stream import LostData, StreamConfig, StreamState
from jetstream.schema.times import parse_rfc3339, rfc3339
from jetstream.store.base import StreamStore
from jetstream.stream import headers as h
from jetstream.stream import retention, schedule, ttl
from jetstream.stream._dedupe import Window
from jetstream.stream._recall import recall
from jetstream.stream.admission import Admitted, Resources, StoreLedger, Unlimited
from jetstream.stream.cron import At
from jetstream.stream.publish import Publisher
from jetstream.stream.republish import Republisher
from jetstream.stream.values import Effects, Outcome, no_seqs
from jetstream.subjects.transform import SubjectTransform
from jetstream.wire._parser import Batch

LOST_SHOWN_MAX = 1000


class Stream:
    """One stream of one account. `domain` shows up in publish acks when the server has one."""

    def __init__(
        self,
        config: StreamConfig,
        store: StreamStore,
        *,
        domain: str = "",
        resources: Resources | None = None,
    ) -> None:
        self.store = store
        self.domain = domain
        self.resources: Resources = resources or Unlimited()
        self.ledger = StoreLedger(store)
        self.window: Window | None = None
        self.interest = retention.Interest()
        self.schedules = schedule.Schedules()
        self.republisher: Republisher | None = None
        self.transform: SubjectTransform | None = None
        self.last_msg_id = b""
        self._interest_filters: list[Sequence[bytes]] = []
        self._follower_filters: list[Sequence[bytes]] = []
        self._effects = Effects()
        self.publisher = Publisher(self)
        self._take_config(config)

    # -- publishing ---------------------------------------------------------------------------

    def publish(self, batch: Batch, start: int, stop: int, now: int) -> list[Outcome]:
        """Messages [start, stop) of a wire batch were captured by this stream."""
        return self.publisher.publish(batch, start, stop, now)

    def keep(self, message: Admitted, now: int) -> int:
        """Store an admitted message and do what its headers asked for; returns its sequence."""
        store, subject = self.store, message.subject
        if not message.wanted or not self.wants(subject):
            store.skip(1, now)
            seq = store.last_seq
        else:
            previous = store.last_for(subject) if self.republisher else 0
            seq = store.append(
                subject, message.headers, message.payload, now, expires_at=message.expires_at
            )
            self._after_stored(message, seq, now, previous)
        self.last_msg_id = message.msg_id
        if message.msg_id and self.window is not None:
            self.window.remember(message.msg_id, seq, now)
        return seq

    def _after_stored(self, message: Admitted, seq: int, now: int, previous: int) -> None:
        store, subject, wants = self.store, message.subject, message.wants
        self._effects.appended = True
        if self.config.max_msgs_per_subject > 0:
            self._effects.evicted.extend(store.take_evicted())
        if message.rollup:
            chosen = store.filter([subject]) if message.rollup == b"sub" else None
            if store.purge(filter=chosen, keep=1):
                self._effects.purged = True
        if message.schedule is not None:
            # A time in the past is due at once.
            due = message.schedule.next_after(now) or now
            self.schedules.put(subject, seq, due)
        elif wants.get(h.SCHEDULE_NEXT) == b"purge" and wants.get(h.SCHEDULER):
            self._cancel_schedule(wants[h.SCHEDULER])
        if self.republisher is not None:
            made = self.republisher.make(
                subject, message.headers, message.payload, seq, now, previous
            )
            if made is not None:
                self._effects.republish.append(made)
        if self._limited:
            retention.enforce_limits(store, self.config, self._effects.evicted)

    def _cancel_schedule(self, subject: bytes) -> None:
        seq = self.store.last_for(subject)
        found = self.store.get(seq) if seq else None
        if found is not None and h.policy_headers(found.headers).get(h.SCHEDULE):
            self.schedules.drop(subject)
            self.store.remove(seq)
            self._effects.evicted.append(seq)

    # -- mirrored and sourced messages --------------------------------------------------------

    def keep_mirrored(
        self, seq: int, subject: bytes, block: bytes, payload: bytes, time_ns: int
    ) -> None:
        """An exact copy of an origin's message: same sequence, same time."""
        expires_at = 0
        if self.config.allow_msg_ttl and b"Nats-TTL:" in block:
            expires_at = self._sourced_expiry(block, time_ns)
        previous = self.store.last_for(subject) if self.republisher else 0
        self.store.append(subject, block, payload, time_ns, seq=seq, expires_at=expires_at)
        self._after_stored(Admitted(subject, block, payload, {}), seq, time_ns, previous)

    def keep_sourced(self, subject: bytes, block: bytes, payload: bytes, now: int) -> None:
        """A message taken over from another stream, under a sequence of our own."""
        wants = h.policy_headers(block)
        msg_id = wants.get(h.MSG_ID, b"")
        if msg_id and self.window is not None and self.window.lookup(msg_id, now):
            return
        expires_at = 0
        if self.config.allow_msg_ttl and wants.get(h.TTL):
            expires_at = self._sourced_expiry(block, now)
        rollup = b""
        if self.config.allow_rollup_hdrs and not self.config.deny_purge:
            rollup = wants.get(h.ROLLUP, b"").lower()
        rollup = rollup if rollup in (b"sub", b"all") else b""
        self.keep(Admitted(subject, block, payload, {}, expires_at, msg_id, rollup), now)

    def _sourced_expiry(self, block: bytes, now: int) -> int:
        try:
            return ttl.apply_ttl(self.config, block, h.policy_headers(block)[h.TTL], now)[1]
        except (ApiError, KeyError):
            return 0

    # -- interest and consumption -------------------------------------------------------------

    def set_interest(self, filters: Iterable[Sequence[bytes]]) -> None:
        """The filters of every consumer (an empty one means everything); for interest streams."""
        self._interest_filters = list(filters)
        self._set_interest()

    def set_followers(self, filters: Iterable[Sequence[bytes]]) -> None:
        """Mirrors and sources of this stream want messages as consumers do."""
        self._follower_filters = list(filters)
        self._set_interest()

    def _set_interest(self) -> None:
        wanted = [*self._interest_filters, *self._follower_filters]
        self.interest.set(wanted, self.config.subjects)

    def wants(self, subject: bytes) -> bool:
        return self.config.retention != "interest" or self.interest.wants(subject)

    def on_consumed(self, seqs: "array[int]") -> int:
        """Nobody needs these any more (interest and workqueue retention)."""
        return self.store.remove_many(seqs)

    # -- time ---------------------------------------------------------------------------------

    def expire(self, now: int) -> None:
        """Do what is due: ages, TTLs, schedules, abandoned batches; bounded, so ask again."""
        self._expire_messages(now)
        retention.enforce_limits(self.store, self.config, self._effects.evicted)
        self._fire_schedules(now)
        self.publisher.expire(now)

    def next_deadline(self) -> int:
        """When `expire` has something to do next, 0 for never."""
        if retention.is_over(self.store, self.config):
            return 1
        due = [
            self.store.next_expiry(self.config.max_age),
            self.schedules.next_due(),
            self.publisher.next_deadline(),
        ]
        return min((time for time in due if time > 0), default=0)

    def _expire_messages(self, now: int) -> None:
        seqs = self.store.expired(now, self.config.max_age, retention.SLICE)
        if not seqs:
            return
        self._effects.evicted.extend(seqs)
        if not self.config.subject_delete_marker_ttl:
            self.store.remove_many(seqs)
            return
        gone: dict[bytes, bytes] = {}
        for seq in seqs:
            message = self.store.get(seq)
            self.store.remove(seq)
            if message is not None:
                gone[message.subject] = message.headers
        for subject, last_headers in gone.items():
            if ttl.leaves_marker(last_headers) and not self.store.last_for(subject):
                self._leave_marker(subject, now)

    def _leave_marker(self, subject: bytes, now: int) -> None:
        block = ttl.marker_headers(self.config)
        wants = h.policy_headers(block)
        _, expires_at = ttl.apply_ttl(self.config, block, wants[h.TTL], now)
        self.keep(Admitted(subject, block, b"", wants, expires_at), now)

    def _fire_schedules(self, now: int) -> None:
        if not len(self.schedules):
            return
        alive = self.store.get
        for subject, seq in self.schedules.take_due(now, lambda s: alive(s) is not None):
            message = self.store.get(seq)
            assert message is not None
            wants = h.policy_headers(message.headers)
            try:
                plan = schedule.schedule_of(wants)
            except ApiError:
                continue  # The time zone data it was made with is gone.
            next_ns = 0 if isinstance(plan, At) else plan.next_after(now)
            origin = message
            if wants.get(h.SCHEDULE_SOURCE):
                last = self.store.last_for(wants[h.SCHEDULE_SOURCE])
                found = self.store.get(last) if last else None
                origin = found if found is not None else message
            target, block = schedule.produced(subject, wants, origin.headers, next_ns)
            made = h.policy_headers(block)
            expires_at = 0
            if made.get(h.TTL):
                block, expires_at = ttl.apply_ttl(self.config, block, made[h.TTL], now)
            rollup = made.get(h.ROLLUP, b"").lower()
            # The header that names the schedule must not cancel it here; next_ns decides below.
            self.keep(Admitted(target, block, origin.payload, {}, expires_at, rollup=rollup), now)
            if next_ns:
                self.schedules.put(subject, seq, next_ns)
            else:
                self.store.remove(seq)
                self._effects.evicted.append(seq)

    # -- removing -----------------------------------------------------------------------------

    def purge(self, request: StreamPurgeRequest) -> int:
        """Remove as asked; how many went."""
        if self.config.sealed:
            raise ApiError(STREAM_SEALED)
        if self.config.deny_purge:
            raise ApiError(STREAM_PURGE_FAILED, err="stream purge not permitted")
        if request.seq and request.keep:
            raise ApiError(BAD_REQUEST)
        chosen = self.store.filter([request.filter.encode()]) if request.filter else None
        removed = self.store.purge(filter=chosen, seq=request.seq, keep=request.keep)
        self._effects.purged = True
        return removed

    def delete_msg(self, seq: int, erase: bool) -> None:
        """Remove one message; ApiError when that is denied or it is not there."""
        if self.config.sealed:
            raise ApiError(STREAM_SEALED)
        if self.config.deny_delete:
            raise ApiError(STREAM_MSG_DELETE_FAILED, err="message delete not permitted")
        if seq > self.store.last_seq:
            raise ApiError(STREAM_MSG_DELETE_FAILED, err="stream store EOF")
        if seq < self.store.first_seq or not self.store.msgs:
            raise ApiError(STREAM_MSG_DELETE_FAILED, err="no message found")
        if not self.store.remove(seq, erase):
            raise ApiError(SEQUENCE_NOT_FOUND, seq=seq)
        self._effects.evicted.append(seq)

    # -- configuration and state --------------------------------------------------------------

    def update(self, config: StreamConfig) -> None:
        """Take a checked configuration; lower limits hold at once."""
        self._take_config(config)
        retention.enforce_limits(self.store, config, self._effects.evicted)
        if config.max_msgs_per_subject > 0:
            self._effects.evicted.extend(self.store.take_evicted())

    def _take_config(self, config: StreamConfig) -> None:
        self.config = config
        self._limited = config.max_msgs > 0 or config.max_bytes > 0
        self.store.set_limits(max_msgs_per_subject=self._per_subject_limit())
        window = config.duplicate_window
        if not window:
            self.window = None
        elif self.window is None:
            self.window = Window(window)
        else:
            self.window.window_ns = window
        change = config.subject_transform
        self.transform = SubjectTransform(change.src, change.dest) if change else None
        again = config.republish
        self.republisher = Republisher(config.name, again) if again else None
        self._set_interest()
        self.publisher.configure()

    def _per_subject_limit(self) -> int:
        limit = self.config.max_msgs_per_subject
        return limit if limit > 0 else 0

    def state(self) -> StreamState:
        """The counters every info shows; the caller adds consumers, subjects and gaps."""
        store = self.store
        lost = store.lost()
        return StreamState(
            messages=store.msgs,
            bytes=store.bytes,
            first_seq=store.first_seq,
            first_ts=rfc3339(store.first_ts),
            last_seq=store.last_seq,
            last_ts=rfc3339(store.last_ts),
            num_subjects=store.num_subjects,
            num_deleted=store.num_deleted,
            lost=LostData(lost.seqs(LOST_SHOWN_MAX), lost.bytes) if lost else None,
        )

    def take_effects(self) -> Effects:
        """What happened since last asked; the caller carries it out."""
        effects = self._effects
        if effects:
            self._effects = Effects()
        return effects

    def note_batch_abandoned(self, batch_id: bytes, reason: str) -> None:
        shown = batch_id.decode("utf-8", "replace")
        self._effects.advisories.append(batch_abandoned(self.config.name, shown, reason))

    def note_purged(self) -> None:
        self._effects.purged = True

    def note_stored_run(self) -> None:
        """A run was appended by the kernel: collect evictions and hold the limits."""
        effects = self._effects
        effects.appended = True
        if self.config.max_msgs_per_subject > 0:
            effects.evicted.extend(self.store.take_evicted())
        if self._limited:
            retention.enforce_limits(self.store, self.config, effects.evicted)

    # -- restart ------------------------------------------------------------------------------

    def recover(self, now: int) -> None:
        """Rebuild what lives in memory only: message ids, schedules; undo half a batch."""
        self._drop_torn_batch()
        self._recover_ids(now)
        if self.config.allow_msg_schedules:
            self._recover_schedules(now)
        self.take_effects()

    def _recover_ids(self, now: int) -> None:
        store = self.store
        last = store.get(store.last_seq) if store.msgs else None
        if last is not None:
            self.last_msg_id = h.policy_headers(last.headers).get(h.MSG_ID, b"")
        if self.window is None or not store.msgs:
            return
        start = store.seq_at_time(now - self.config.duplicate_window)
        while seqs := store.next_seqs(start, 100_000):
            recall(store, self.window, seqs)
            start = seqs[-1] + 1

    def _recover_schedules(self, now: int) -> None:
        for seq in self.store.last_seqs(None):
            message = self.store.get(seq)
            if message is None or b"Nats-Schedule:" not in message.headers:
                continue
            wants = h.policy_headers(message.headers)
            if not wants.get(h.SCHEDULE):
                continue
            try:
                plan = schedule.schedule_of(wants)
            except ApiError:
                continue
            due = self._fired_until(message.subject, wants) or plan.next_after(message.time_ns)
            self.schedules.put(message.subject, seq, due or now)

    def _fired_until(self, subject: bytes, wants: dict[bytes, bytes]) -> int:
        """What the last message this schedule produced says about the next one."""
        last = self.store.last_for(wants.get(h.SCHEDULE_TARGET, b""))
        made = self.store.get(last) if last else None
        if made is None:
            return 0
        told = h.policy_headers(made.headers)
        if told.get(h.SCHEDULER) != subject or not told.get(h.SCHEDULE_NEXT):
            return 0
        try:
            return parse_rfc3339(told[h.SCHEDULE_NEXT].decode("utf-8", "replace"))
        except ValueError:
            return 0

    def _drop_torn_batch(self) -> None:
        """A crash in the middle of a commit must not leave part of an atomic batch behind."""
        store = self.store
        seq = store.last_seq
        last = store.get(seq) if store.msgs else None
        if last is None:
            return
        wants = h.policy_headers(last.headers)
        batch_id = wants.get(h.BATCH_ID)
        if not self.config.allow_atomic or not batch_id or wants.get(h.BATCH_COMMIT):
            return
        torn = no_seqs()
        while seq >= store.first_seq:
            message = store.get(seq)
            if message is None or h.policy_headers(message.headers).get(h.BATCH_ID) != batch_id:
                break
            torn.append(seq)
            seq -= 1
        store.remove_many(array("Q", sorted(torn)))

    def config_json(self) -> bytes:
        return msgspec.json.encode(self.config)
