"""May this message come in? Expectations, duplicates, sizes and limits, one message at a time.

The order of the checks is fixed: of several reasons to refuse, every server names the same one.
Nothing is written here; an admitted message says what storing it involves. An atomic batch is
checked against a `Draft`, which pretends that the messages before it were stored already.
"""

from typing import Final, Protocol

from msgspec import Struct

from jetstream.errors import ApiError
from jetstream.schema.api_errors import (
    MESSAGE_SOURCE_HDR_NOT_ALLOWED,
    MESSAGE_TTL_DISABLED,
    STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID,
    STREAM_HEADER_EXCEEDS_MAXIMUM,
    STREAM_MESSAGE_EXCEEDS_MAXIMUM,
    STREAM_NOT_MATCH,
    STREAM_ROLLUP_FAILED,
    STREAM_SEALED,
    STREAM_STORE_FAILED,
    STREAM_WRONG_LAST_MSG_ID,
    STREAM_WRONG_LAST_SEQUENCE,
)
from jetstream.schema.stream import StreamConfig
from jetstream.store.base import StreamStore
from jetstream.stream import counters, schedule, ttl
from jetstream.stream import headers as h
from jetstream.stream.cron import Schedule
from jetstream.stream.retention import message_size
from jetstream.subjects.tokens import has_wildcard

HEADER_BYTES_MAX: Final = 65_535

# Most messages ask for one thing: these say which checks can be left out.
_EXPECTATIONS: Final = frozenset(
    (
        h.EXPECTED_STREAM,
        h.TTL,
        h.EXPECTED_LAST_SEQ,
        h.EXPECTED_LAST_SUBJECT_SEQ,
        h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT,
    )
)
_SCHEDULES: Final = frozenset((h.SCHEDULE, h.SCHEDULE_NEXT, h.SCHEDULER))


class Duplicate(Exception):
    """The message id was seen before, under this sequence."""

    def __init__(self, seq: int) -> None:
        super().__init__(seq)
        self.seq = seq


class Admitted(Struct):
    """A message that may be stored, with everything the headers asked for already understood."""

    subject: bytes
    headers: bytes
    payload: bytes
    wants: dict[bytes, bytes]
    expires_at: int = 0
    msg_id: bytes = b""
    rollup: bytes = b""
    value: int | None = None
    schedule: Schedule | None = None
    wanted: bool = True


class Ledger(Protocol):
    """What the checks need to know of the stream as it would be right before this message."""

    @property
    def last_seq(self) -> int: ...
    @property
    def msgs(self) -> int: ...
    @property
    def stored_bytes(self) -> int: ...
    def last_for(self, subject: bytes) -> int: ...
    def last_match(self, pattern: bytes) -> int: ...
    def count_for(self, subject: bytes) -> int: ...
    def oldest_size(self, subject: bytes) -> int: ...
    def last_message(self, subject: bytes) -> tuple[bytes, bytes] | None:
        """(headers, payload) of the last message on a subject."""


class StoreLedger:
    """The stream as it is."""

    __slots__ = ("store",)

    def __init__(self, store: StreamStore) -> None:
        self.store = store

    @property
    def last_seq(self) -> int:
        return self.store.last_seq

    @property
    def msgs(self) -> int:
        return self.store.msgs

    @property
    def stored_bytes(self) -> int:
        return self.store.bytes

    def last_for(self, subject: bytes) -> int:
        return self.store.last_for(subject)

    def last_match(self, pattern: bytes) -> int:
        return self.store.last_match(self.store.filter([pattern]))

    def count_for(self, subject: bytes) -> int:
        return self.store.subject_state(subject)[0]

    def oldest_size(self, subject: bytes) -> int:
        oldest = self.store.get(self.store.oldest_for(subject))
        return len(oldest.subject) + len(oldest.headers) + len(oldest.payload) if oldest else 0

    def last_message(self, subject: bytes) -> tuple[bytes, bytes] | None:
        seq = self.store.last_for(subject)
        found = self.store.get(seq) if seq else None
        return (found.headers, found.payload) if found else None


def check_sealed(config: StreamConfig) -> None:
    if config.sealed:
        raise ApiError(STREAM_SEALED)


def check_expectations(
    config: StreamConfig, subject: bytes, wants: dict[bytes, bytes], ledger: Ledger
) -> None:
    expected_stream = wants.get(h.EXPECTED_STREAM)
    if expected_stream and expected_stream != config.name.encode():
        raise ApiError(STREAM_NOT_MATCH)
    if wants.get(h.TTL) and not config.allow_msg_ttl:
        raise ApiError(MESSAGE_TTL_DISABLED)
    check_subject_sequence(subject, wants, ledger)
    expected = wants.get(h.EXPECTED_LAST_SEQ)
    if expected and number(expected) != ledger.last_seq:
        raise ApiError(STREAM_WRONG_LAST_SEQUENCE, seq=ledger.last_seq)


def check_subject_sequence(subject: bytes, wants: dict[bytes, bytes], ledger: Ledger) -> None:
    expected = wants.get(h.EXPECTED_LAST_SUBJECT_SEQ)
    pattern = wants.get(h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
    if not expected:
        if pattern:
            raise ApiError(STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID)
        return
    if pattern and has_wildcard(pattern):
        actual = ledger.last_match(pattern)
    else:
        actual = ledger.last_for(pattern or subject)
    if number(expected) != actual:
        raise ApiError(STREAM_WRONG_LAST_SEQUENCE, seq=actual)


def number(text: bytes) -> int:
    """A header's number; -1, which nothing equals, when it is none."""
    return int(text) if text.isdigit() else -1


def check_source_header(wants: dict[bytes, bytes]) -> None:
    if wants.get(h.STREAM_SOURCE):
        raise ApiError(MESSAGE_SOURCE_HDR_NOT_ALLOWED)


def check_last_msg_id(wants: dict[bytes, bytes], last_msg_id: bytes) -> None:
    expected = wants.get(h.EXPECTED_LAST_MSG_ID)
    if expected and expected != last_msg_id:
        raise ApiError(STREAM_WRONG_LAST_MSG_ID, id=last_msg_id.decode("utf-8", "replace"))


def rollup_of(config: StreamConfig, wants: dict[bytes, bytes]) -> bytes:
    """`sub`, `all` or nothing."""
    given = wants.get(h.ROLLUP)
    if not given:
        return b""
    if not config.allow_rollup_hdrs or config.deny_purge:
        raise ApiError(STREAM_ROLLUP_FAILED, err="rollup not permitted")
    kind = given.lower()
    if kind not in (b"sub", b"all"):
        shown = given.decode("utf-8", "replace")
        raise ApiError(STREAM_ROLLUP_FAILED, err=f'rollup value invalid: "{shown}"')
    return kind


def apply_features(
    config: StreamConfig, message: Admitted, increment: int | None, ledger: Ledger, now: int
) -> None:
    """Counters, schedules and TTL: what is stored may differ from what was sent."""
    if increment is not None:
        counters.add(message, increment, ledger.last_message(message.subject))
    check_sizes(config, message)
    given = message.wants.get(h.TTL)
    if given:
        message.headers, message.expires_at = ttl.apply_ttl(config, message.headers, given, now)
    if message.schedule is not None:
        message.headers = h.set_header(message.headers, h.ROLLUP, b"sub")
        message.rollup = b"sub"


def check_sizes(config: StreamConfig, message: Admitted) -> None:
    if 0 <= config.max_msg_size < len(message.headers) + len(message.payload):
        raise ApiError(STREAM_MESSAGE_EXCEEDS_MAXIMUM)
    if len(message.headers) > HEADER_BYTES_MAX:
        raise ApiError(STREAM_HEADER_EXCEEDS_MAXIMUM)


def check_discard_new(config: StreamConfig, message: Admitted, ledger: Ledger) -> None:
    """Refuse what discard-new streams have no room for."""
    if config.discard != "new":
        return
    per_subject = config.max_msgs_per_subject
    full = 0 < per_subject <= ledger.count_for(message.subject)
    if full and config.discard_new_per_subject and message.rollup != b"sub":
        raise ApiError(STREAM_STORE_FAILED, err="maximum messages per subject exceeded")
    if 0 < config.max_msgs <= ledger.msgs and not full:
        raise ApiError(STREAM_STORE_FAILED, err="maximum messages exceeded")
    if config.max_bytes > 0:
        size = message_size(config.storage, message.subject, message.headers, message.payload)
        if ledger.stored_bytes + size > config.max_bytes:
            plain = len(message.subject) + len(message.headers) + len(message.payload)
            if not full or ledger.oldest_size(message.subject) < plain:
                raise ApiError(STREAM_STORE_FAILED, err="maximum bytes exceeded")


def understand(
    config: StreamConfig,
    subject: bytes,
    block: bytes,
    payload: bytes,
    ledger: Ledger,
    last_msg_id: bytes,
    duplicate_of: int,
    now: int,
    resources: "Resources",
) -> Admitted:
    """All checks for a message from a client, in order; `duplicate_of` is its id's earlier seq."""
    check_sealed(config)
    wants = h.policy_headers(block)
    if not wants and not config.allow_msg_counter:
        message = Admitted(subject, block, payload, wants)
        check_sizes(config, message)
        resources.check(message_size(config.storage, subject, block, payload))
        check_discard_new(config, message, ledger)
        return message
    if h.REQUEST_INFO in wants:
        block = h.drop_headers(block, (h.REQUEST_INFO,))
    increment = counters.increment_of(config, wants, payload)
    if not _EXPECTATIONS.isdisjoint(wants):
        check_expectations(config, subject, wants, ledger)
    plan = None
    if not _SCHEDULES.isdisjoint(wants):
        plan = schedule.check(config, subject, wants)
    check_source_header(wants)
    if duplicate_of:
        raise Duplicate(duplicate_of)
    check_last_msg_id(wants, last_msg_id)
    rollup = rollup_of(config, wants)
    counters.missing_increment(config, increment)
    message = Admitted(
        subject,
        block,
        payload,
        wants,
        msg_id=wants.get(h.MSG_ID, b""),
        rollup=rollup,
        schedule=plan,
    )
    apply_features(config, message, increment, ledger, now)
    resources.check(message_size(config.storage, subject, message.headers, message.payload))
    check_discard_new(config, message, ledger)
    return message


class Resources(Protocol):
    """What the account and the server still allow."""

    def check(self, size: int) -> None:
        """Raise ApiError when there is no room for this many bytes."""


class Unlimited:
    """Room for everything."""

    def check(self, size: int) -> None:
        return None
