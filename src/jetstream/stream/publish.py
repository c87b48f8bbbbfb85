"""The way in: a run of messages from the wire becomes sequences and answers.

Three ways, from fast to thorough:

- plain: nothing in the run asks for a decision; one append for all of them.
- admitted: message ids and expected subject sequences, walked by a kernel that stops at the first
  message needing more.
- one by one: everything else, in Python, with the checks of `admission.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetstream.errors import ApiError, StoreError
from jetstream.schema.api_errors import STREAM_STORE_FAILED, STREAM_WRONG_LAST_SEQUENCE
from jetstream.schema.encoding import to_json
from jetstream.schema.requests import error_detail
from jetstream.stream import _admit, admission, atomic, fast_ingest
from jetstream.stream import headers as h
from jetstream.stream.admission import Duplicate
from jetstream.stream.values import Answered, Outcome, Stored
from jetstream.wire._parser import Batch

if TYPE_CHECKING:
    from jetstream.stream.stream import Stream

NO_LIMIT: Final = 2**62


class Publisher:
    """How messages enter one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._admitter = _admit.Admitter(None)
        self._one_by_one = False
        self._head = self._error_tail = b""
        self.atomic = atomic.AtomicBatches(stream.note_batch_abandoned)
        self.fast = fast_ingest.FastBatches()

    def configure(self) -> None:
        """The stream's configuration or interest changed."""
        stream = self._stream
        config = stream.config
        self._admitter.window = stream.window
        self._one_by_one = bool(
            config.sealed
            or config.allow_msg_counter
            or config.discard_new_per_subject
            or stream.republisher is not None
        )
        name = to_json(config.name)
        domain = b',"domain":' + to_json(stream.domain) if stream.domain else b""
        self._head = b'{"stream":' + name + domain + b',"seq":'
        self._error_tail = b',"stream":' + name + b',"seq":0}'

    # -- answers ------------------------------------------------------------------------------

    @property
    def ack_head(self) -> bytes:
        """What a plain ack starts with; the sequence and `}` follow."""
        return self._head

    def _ack(self, seq: int, tail: bytes = b"") -> bytes:
        return self._head + b"%d" % seq + tail + b"}"

    def _error(self, error: ApiError) -> bytes:
        return b'{"error":' + to_json(error_detail(error)) + self._error_tail

    # -- the three ways -----------------------------------------------------------------------

    def publish(self, batch: Batch, start: int, stop: int, now: int) -> list[Outcome]:
        stream = self._stream
        if stream.transform is not None:
            return self._transformed(batch, start, stop, now)
        outcomes: list[Outcome] = []
        at = start
        while at < stop:
            # Replies that end in .$FI are answered even by streams without fast ingest.
            fast_at = _admit.fast_ingest_at(batch, at, stop)
            if fast_at > at:
                self._ordinary(batch, at, fast_at, now, outcomes)
            at = fast_at
            if fast_at < stop:
                at = self._fast_run(batch, fast_at, stop, now, outcomes)
        return outcomes

    def _ordinary(
        self, batch: Batch, start: int, stop: int, now: int, outcomes: list[Outcome]
    ) -> None:
        stream = self._stream
        if self._must_look(batch, start, stop):
            for i in range(start, stop):
                outcomes.append(self._one(batch, i, now))
        elif _admit.all_plain(batch, start, stop, stream.config.max_msg_size):
            if self._append(batch, start, stop, now, outcomes):
                stream.last_msg_id = b""
        else:
            self._admitted(batch, start, stop, now, outcomes)

    def _must_look(self, batch: Batch, start: int, stop: int) -> bool:
        """Is there something that every message of this run has to be asked?"""
        stream = self._stream
        config = stream.config
        if self._one_by_one:
            return True
        if config.retention == "interest" and not stream.interest.everything:
            return True
        size = _admit.total_size(batch, start, stop)
        if config.discard == "new":
            store = stream.store
            if 0 < config.max_msgs < store.msgs + stop - start:
                return True
            if 0 < config.max_bytes < store.bytes + size:
                return True
        try:
            stream.resources.check(size)
        except ApiError:
            return True
        return False

    def _append(
        self, batch: Batch, start: int, stop: int, now: int, outcomes: list[Outcome]
    ) -> bool:
        """Store a run; when the disk refuses, every message of it is answered so."""
        stream = self._stream
        try:
            first = stream.store.append_run(batch, start, stop, now)
        except StoreError as error:
            if stream.window is not None:
                stream.window.forget_after(stream.store.last_seq)
            refused = self._error(ApiError(STREAM_STORE_FAILED, err=str(error)))
            outcomes += [Answered(i, refused, False) for i in range(start, stop)]
            return False
        stream.note_stored_run()
        outcomes.append(Stored(start, stop, first))
        return True

    def _admitted(
        self, batch: Batch, start: int, stop: int, now: int, outcomes: list[Outcome]
    ) -> None:
        stream = self._stream
        store, config, admitter = stream.store, stream.config, self._admitter
        longest = config.max_msgs if config.max_msgs > 0 else NO_LIMIT
        at = start
        while at < stop:
            next_seq = max(store.last_seq, store.first_seq - 1) + 1
            admitter.admit(
                batch, at, stop, next_seq, now, config.max_msg_size, store.last_for, longest
            )
            reached = admitter.stop
            if reached > at and self._append(batch, at, reached, now, outcomes):
                stream.last_msg_id = admitter.last_id
            at = reached
            if admitter.reason == _admit.END:
                continue
            if admitter.reason == _admit.POLICY:
                outcomes.append(self._one(batch, at, now))
            elif admitter.reason == _admit.DUPLICATE:
                outcomes.append(Answered(at, self._ack(admitter.seq, b',"duplicate": true')))
            else:
                wrong = ApiError(STREAM_WRONG_LAST_SEQUENCE, seq=admitter.seq)
                outcomes.append(Answered(at, self._error(wrong), False))
            at += 1

    def _one(self, batch: Batch, i: int, now: int) -> Outcome:
        """One message, by all rules."""
        subject, block, payload = batch.subject(i), batch.headers(i), batch.payload(i)
        if b"\r\nNats-Batch-Id:" in block:
            wants = h.policy_headers(block)
            if wants.get(h.BATCH_ID):
                return self._staged(i, subject, block, payload, now)
        try:
            seq, value = self._store_one(subject, block, payload, now)
        except Duplicate as duplicate:
            return Answered(i, self._ack(duplicate.seq, b',"duplicate": true'))
        except ApiError as error:
            return Answered(i, self._error(error), False)
        if value is None:
            return Stored(i, i + 1, seq)
        return Answered(i, self._ack(seq, b',"val":"%d"' % value))

    def _store_one(
        self, subject: bytes, block: bytes, payload: bytes, now: int
    ) -> tuple[int, int | None]:
        stream = self._stream
        message = admission.understand(
            stream.config,
            subject,
            block,
            payload,
            stream.ledger,
            stream.last_msg_id,
            self._earlier(block, now),
            now,
            stream.resources,
        )
        try:
            return stream.keep(message, now), message.value
        except StoreError as error:
            raise ApiError(STREAM_STORE_FAILED, err=str(error)) from error

    def _earlier(self, block: bytes, now: int) -> int:
        window = self._stream.window
        if window is None or b"\r\nNats-Msg-Id:" not in block:
            return 0
        msg_id = h.policy_headers(block).get(h.MSG_ID)
        return window.lookup(msg_id, now) if msg_id else 0

    def _transformed(self, batch: Batch, start: int, stop: int, now: int) -> list[Outcome]:
        """The same run under the subjects it will be stored with."""
        stream = self._stream
        transform = stream.transform
        assert transform is not None
        changed = []
        for i in range(start, stop):
            subject = batch.subject(i)
            made = transform.transform(subject.decode("utf-8", "surrogateescape"))
            if made is not None:
                subject = made.encode("utf-8", "surrogateescape")
            changed.append((subject, batch.reply(i), batch.headers(i), batch.payload(i)))
        stream.transform = None
        try:
            outcomes = self.publish(Batch.of(changed), 0, stop - start, now)
        finally:
            stream.transform = transform
        return [
            Stored(o.start + start, o.stop + start, o.first_seq)
            if isinstance(o, Stored)
            else Answered(o.index + start, o.ack, o.durable)
            for o in outcomes
        ]

    # -- batches ------------------------------------------------------------------------------

    def _staged(self, i: int, subject: bytes, block: bytes, payload: bytes, now: int) -> Outcome:
        stream = self._stream
        try:
            batch = self.atomic.take(stream.config, subject, block, payload, now)
            if batch is None:
                return Answered(i, b"", False)
            messages = atomic.check_batch(
                stream.config,
                batch,
                stream.ledger,
                lambda msg_id: stream.window.lookup(msg_id, now) if stream.window else 0,
                now,
                stream.resources,
            )
            seq = 0
            for message in messages:
                seq = stream.keep(message, now)
        except ApiError as error:
            return Answered(i, self._error(error), False)
        except StoreError as error:
            refused = ApiError(STREAM_STORE_FAILED, err=str(error))
            return Answered(i, self._error(refused), False)
        shown = to_json(batch.batch_id.decode("utf-8", "replace"))
        return Answered(i, self._ack(seq, b',"batch":%s,"count":%d' % (shown, len(messages))))

    def _fast_run(
        self, batch: Batch, start: int, stop: int, now: int, outcomes: list[Outcome]
    ) -> int:
        """One step of a fast batch, and as many plain ones after it as go on in order."""
        self._fast_one(batch, start, now, outcomes)
        fast = self.fast.of_reply(batch.reply(start))
        at = start + 1
        if fast is None or at == stop or not self._stream.config.allow_batched:
            return at
        reached = _admit.fast_run(batch, at, stop, fast.next_seq, self._stream.config.max_msg_size)
        if reached == at or self._must_look(batch, at, reached):
            return at
        # Stored, but answered by the batch's own rules and not message by message.
        stored: list[Outcome] = []
        if not self._append(batch, at, reached, now, stored):
            return at
        self._stream.last_msg_id = b""
        assert isinstance(stored[0], Stored)
        fast.last_stored = stored[0].first_seq + reached - at - 1
        for seq in range(fast.next_seq, fast.next_seq + reached - at):
            if ack := fast.due_ack(seq):
                outcomes.append(Answered(at + seq - fast.next_seq, ack))
        fast.next_seq += reached - at
        fast.deadline = now + fast_ingest.IDLE_NS
        return reached

    def _fast_one(self, batch: Batch, i: int, now: int, outcomes: list[Outcome]) -> None:
        stream = self._stream
        name = stream.config.name
        try:
            step = fast_ingest.parse_step(batch.reply(i))
            fast, answers = self.fast.enter(stream.config, step, now)
        except ApiError as error:
            outcomes.append(Answered(i, self._error(error), False))
            return
        outcomes += [Answered(i, answer, False) for answer in answers]
        if step.op == fast_ingest.PING:
            outcomes.append(Answered(i, fast.ack()))
            return
        if step.seq != fast.next_seq:
            outcomes.append(Answered(i, fast_ingest.gap(fast.next_seq, step.seq), False))
            if not step.tolerant or step.seq < fast.next_seq:
                self.fast.end(fast)
                outcomes.append(Answered(i, fast.final(name, fast.next_seq - 1)))
                return
        if step.op == fast_ingest.COMMIT_EOB:
            self.fast.end(fast)
            outcomes.append(Answered(i, fast.final(name, step.seq - 1)))
            return
        block = batch.headers(i)
        repeated = False
        try:
            fast.last_stored, _ = self._store_one(batch.subject(i), block, batch.payload(i), now)
        except Duplicate as duplicate:
            repeated = True
            fast.last_stored = max(fast.last_stored, duplicate.seq)
        except ApiError as error:
            if not step.tolerant and not fast.last_stored:
                self.fast.end(fast)
                outcomes.append(Answered(i, self._error(error), False))
                return
            outcomes.append(Answered(i, fast_ingest.refused(step.seq, error), False))
            if not step.tolerant:
                self.fast.end(fast)
                outcomes.append(Answered(i, fast.final(name, step.seq - 1)))
                return
            if step.op == fast_ingest.COMMIT:
                self.fast.end(fast)
                outcomes.append(Answered(i, fast.final(name, step.seq - 1)))
            fast.next_seq = step.seq + 1
            return
        fast.next_seq = step.seq + 1
        commits = step.op == fast_ingest.COMMIT
        if (repeated or not commits) and (ack := fast.due_ack(step.seq)):
            outcomes.append(Answered(i, ack))
        if commits:
            self.fast.end(fast)
            outcomes.append(Answered(i, fast.final(name, step.seq)))

    # -- time ---------------------------------------------------------------------------------

    def expire(self, now: int) -> None:
        self.atomic.expire(now)
        self.fast.expire(now)

    def next_deadline(self) -> int:
        due = [self.atomic.next_deadline(), self.fast.next_deadline()]
        return min((time for time in due if time), default=0)
