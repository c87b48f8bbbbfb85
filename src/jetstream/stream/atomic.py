"""Atomic batches: messages are staged in memory and stored together at the commit, or not at all.

Almost every rule is evaluated at the commit, against the stream as it is then plus the messages of
the batch that come before (`Draft`).
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from jetstream.errors import ApiError
from jetstream.schema.api_errors import (
    ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE,
    ATOMIC_PUBLISH_DISABLED,
    ATOMIC_PUBLISH_INCOMPLETE_BATCH,
    ATOMIC_PUBLISH_INVALID_BATCH_COMMIT,
    ATOMIC_PUBLISH_INVALID_BATCH_ID,
    ATOMIC_PUBLISH_MISSING_SEQ,
    ATOMIC_PUBLISH_TOO_LARGE_BATCH,
    ATOMIC_PUBLISH_TOO_MANY_INFLIGHT,
    ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH,
    REQUIRED_API_LEVEL,
    STREAM_ROLLUP_FAILED,
    STREAM_WRONG_LAST_SEQUENCE,
    STREAM_WRONG_LAST_SEQUENCE_CONSTANT,
)
from jetstream.schema.requests import API_LEVEL
from jetstream.schema.stream import StreamConfig
from jetstream.stream import admission, counters, schedule
from jetstream.stream import headers as h
from jetstream.stream.admission import Admitted, Ledger, Resources
from jetstream.stream.retention import message_size
from jetstream.subjects.match import matches

IDLE_NS: Final = 10_000_000_000
ID_BYTES_MAX: Final = 64
REQUIRED_LEVEL: Final = b"Nats-Required-Api-Level"


class BatchLimits(Struct, frozen=True):
    messages_max: int = 1000
    inflight_max: int = 50
    idle_ns: int = IDLE_NS


class Staged(Struct):
    """A batch that is being collected: (subject, headers, payload) in order."""

    deadline: int
    messages: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)


class Committed(Struct, frozen=True):
    """A complete batch, to be checked and stored in one go."""

    batch_id: bytes
    messages: list[tuple[bytes, bytes, bytes]]


Abandon = Callable[[bytes, str], None]


class AtomicBatches:
    """The batches in flight of one stream."""

    __slots__ = ("_abandoned", "_staged", "limits")

    def __init__(self, abandoned: Abandon, limits: BatchLimits = BatchLimits()) -> None:
        self._staged: dict[bytes, Staged] = {}
        self._abandoned = abandoned
        self.limits = limits

    def __len__(self) -> int:
        return len(self._staged)

    def take(
        self, config: StreamConfig, subject: bytes, block: bytes, payload: bytes, now: int
    ) -> Committed | None:
        """Stage one message; the whole batch when this one completes it."""
        wants = h.policy_headers(block)
        batch_id = wants[h.BATCH_ID]
        if not config.allow_atomic:
            raise ApiError(ATOMIC_PUBLISH_DISABLED)
        admission.check_sealed(config)
        if len(batch_id) > ID_BYTES_MAX:
            raise ApiError(ATOMIC_PUBLISH_INVALID_BATCH_ID)
        seq_text = wants.get(h.BATCH_SEQ, b"")
        if not seq_text.isdigit():
            raise ApiError(ATOMIC_PUBLISH_MISSING_SEQ)
        seq = int(seq_text)
        commit = wants.get(h.BATCH_COMMIT)
        if commit not in (None, b"1", b"eob"):
            raise ApiError(ATOMIC_PUBLISH_INVALID_BATCH_COMMIT)
        staged = self._staged.get(batch_id) or self._begin(batch_id, seq, now)
        level = wants.get(REQUIRED_LEVEL)
        if level and (not level.isdigit() or int(level) > API_LEVEL):
            self._abandon(batch_id, "unsupported")
            raise ApiError(REQUIRED_API_LEVEL)
        if seq != len(staged.messages) + 1 or (commit == b"eob" and seq == 1):
            self._abandon(batch_id, "incomplete")
            raise ApiError(ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        if commit != b"eob":
            if seq > self.limits.messages_max:
                # Kept as a mark until it goes idle: all that follows is too large as well.
                self._too_large(batch_id, staged)
            staged.messages.append((subject, block, payload))
        staged.deadline = now + self.limits.idle_ns
        if commit is None:
            return None
        del self._staged[batch_id]
        if commit == b"eob":
            last_subject, last_block, last_payload = staged.messages[-1]
            last_block = h.set_header(last_block, h.BATCH_COMMIT, b"1")
            staged.messages[-1] = (last_subject, last_block, last_payload)
        return Committed(batch_id, staged.messages)

    def _begin(self, batch_id: bytes, seq: int, now: int) -> Staged:
        if seq != 1:
            if seq > self.limits.messages_max:
                raise self._size_error()
            raise ApiError(ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        if len(self._staged) >= self.limits.inflight_max:
            raise ApiError(ATOMIC_PUBLISH_TOO_MANY_INFLIGHT)
        staged = self._staged[batch_id] = Staged(now + self.limits.idle_ns)
        return staged

    def _too_large(self, batch_id: bytes, staged: Staged) -> None:
        self._abandon(batch_id, "large")
        raise self._size_error()

    def _size_error(self) -> ApiError:
        return ApiError(ATOMIC_PUBLISH_TOO_LARGE_BATCH, size=self.limits.messages_max)

    def _abandon(self, batch_id: bytes, reason: str) -> None:
        del self._staged[batch_id]
        self._abandoned(batch_id, reason)

    def expire(self, now: int) -> None:
        for batch_id in [i for i, staged in self._staged.items() if staged.deadline <= now]:
            self._abandon(batch_id, "timeout")

    def next_deadline(self) -> int:
        return min((staged.deadline for staged in self._staged.values()), default=0)


class Draft:
    """The stream as it would be with the earlier messages of the batch stored."""

    def __init__(self, ledger: Ledger, config: StreamConfig) -> None:
        self._ledger = ledger
        self._config = config
        self._latest: dict[bytes, tuple[bytes, bytes]] = {}
        self._counts: dict[bytes, int] = {}
        self.last_seq = ledger.last_seq
        self.msgs = ledger.msgs
        self.stored_bytes = ledger.stored_bytes
        self.staged = 0
        self.ids: set[bytes] = set()

    def note(self, message: Admitted) -> None:
        subject = message.subject
        self._latest[subject] = (message.headers, message.payload)
        self._counts[subject] = self._counts.get(subject, 0) + 1
        self.last_seq += 1
        self.msgs += 1
        self.staged += 1
        self.stored_bytes += message_size(
            self._config.storage, subject, message.headers, message.payload
        )

    def has_written(self, pattern: bytes) -> bool:
        return any(matches(pattern, subject) for subject in self._counts)

    def last_for(self, subject: bytes) -> int:
        return self._ledger.last_for(subject)

    def last_match(self, pattern: bytes) -> int:
        return self._ledger.last_match(pattern)

    def count_for(self, subject: bytes) -> int:
        return self._ledger.count_for(subject) + self._counts.get(subject, 0)

    def oldest_size(self, subject: bytes) -> int:
        return self._ledger.oldest_size(subject)

    def last_message(self, subject: bytes) -> tuple[bytes, bytes] | None:
        return self._latest.get(subject) or self._ledger.last_message(subject)


def check_batch(
    config: StreamConfig,
    batch: Committed,
    ledger: Ledger,
    is_duplicate: Callable[[bytes], int],
    now: int,
    resources: Resources,
) -> list[Admitted]:
    """Everything the batch will store, or the first reason why it must not."""
    draft = Draft(ledger, config)
    admitted = []
    for subject, block, payload in batch.messages:
        message = _check_one(config, subject, block, payload, draft, is_duplicate, now)
        resources.check(draft.stored_bytes - ledger.stored_bytes)
        draft.note(message)
        admitted.append(message)
    return admitted


def _check_one(
    config: StreamConfig,
    subject: bytes,
    block: bytes,
    payload: bytes,
    draft: Draft,
    is_duplicate: Callable[[bytes], int],
    now: int,
) -> Admitted:
    wants = h.policy_headers(block)
    if h.REQUEST_INFO in wants:
        block = h.drop_headers(block, (h.REQUEST_INFO,))
    if wants.get(h.EXPECTED_LAST_MSG_ID):
        raise ApiError(
            ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH, header=h.EXPECTED_LAST_MSG_ID.decode()
        )
    increment = counters.increment_of(config, wants, payload)
    _check_sequences(subject, wants, draft)
    admission.check_expectations(config, subject, wants, draft)
    plan = schedule.check(config, subject, wants)
    admission.check_source_header(wants)
    msg_id = wants.get(h.MSG_ID, b"")
    if msg_id:
        if msg_id in draft.ids or is_duplicate(msg_id):
            raise ApiError(ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE)
        draft.ids.add(msg_id)
    rollup = admission.rollup_of(config, wants)
    if rollup == b"sub" and draft.has_written(subject):
        raise ApiError(STREAM_ROLLUP_FAILED, err="batch rollup sub invalid")
    if rollup == b"all" and draft.staged:
        raise ApiError(STREAM_ROLLUP_FAILED, err="batch rollup all invalid")
    counters.missing_increment(config, increment)
    message = Admitted(subject, block, payload, wants, msg_id=msg_id, rollup=rollup, schedule=plan)
    admission.apply_features(config, message, increment, draft, now)
    admission.check_discard_new(config, message, draft)
    return message


def _check_sequences(subject: bytes, wants: dict[bytes, bytes], draft: Draft) -> None:
    expected = wants.get(h.EXPECTED_LAST_SEQ)
    if expected and draft.staged:
        if admission.number(expected) != draft.last_seq:
            raise ApiError(STREAM_WRONG_LAST_SEQUENCE, seq=draft.last_seq)
        raise ApiError(STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
    if wants.get(h.EXPECTED_LAST_SUBJECT_SEQ):
        pattern = wants.get(h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT) or subject
        if draft.has_written(pattern):
            raise ApiError(STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
