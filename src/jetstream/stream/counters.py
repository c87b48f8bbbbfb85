"""Counter streams: every message adds to the value of its subject, in arbitrary precision."""

import re
from typing import Final, Protocol

import msgspec

from jetstream.errors import ApiError
from jetstream.schema.api_errors import (
    MESSAGE_COUNTER_BROKEN,
    MESSAGE_INCR_DISABLED,
    MESSAGE_INCR_INVALID,
    MESSAGE_INCR_MISSING,
    MESSAGE_INCR_PAYLOAD,
)
from jetstream.schema.stream import StreamConfig
from jetstream.stream import headers as h

_INCREMENT: Final = re.compile(rb"[+-]?[0-9]+")
_NOT_WITH: Final = (
    h.EXPECTED_STREAM,
    h.EXPECTED_LAST_SEQ,
    h.EXPECTED_LAST_SUBJECT_SEQ,
    h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT,
    h.EXPECTED_LAST_MSG_ID,
    h.ROLLUP,
)
# Counters are of any size, but their text must be bounded by something: a message is.
DIGITS_MAX: Final = 4000


class CounterBody(msgspec.Struct):
    val: str = ""


def increment_of(config: StreamConfig, wants: dict[bytes, bytes], payload: bytes) -> int | None:
    """The increment a message asks for; None on a stream without counters."""
    given = wants.get(h.INCR)
    if not given:
        return None
    if not config.allow_msg_counter:
        raise ApiError(MESSAGE_INCR_DISABLED)
    if payload:
        raise ApiError(MESSAGE_INCR_PAYLOAD)
    if not _INCREMENT.fullmatch(given) or len(given) > DIGITS_MAX:
        raise ApiError(MESSAGE_INCR_INVALID)
    if any(wants.get(name) for name in _NOT_WITH):
        raise ApiError(MESSAGE_INCR_INVALID)
    return int(given)


def missing_increment(config: StreamConfig, increment: int | None) -> None:
    if config.allow_msg_counter and increment is None:
        raise ApiError(MESSAGE_INCR_MISSING)


class Counted(Protocol):
    """A message whose body becomes the new value."""

    headers: bytes
    payload: bytes
    value: int | None


def add(message: Counted, increment: int, last: tuple[bytes, bytes] | None) -> None:
    """Add to the last value of the subject; what is known of sourced counters is carried on."""
    message.value = value_of(last[1] if last else None) + increment
    message.payload = body_of(message.value)
    if last and b"Nats-Counter-Sources:" in last[0]:
        known = h.policy_headers(last[0]).get(h.COUNTER_SOURCES)
        if known and b"Nats-Counter-Sources:" not in message.headers:
            message.headers = h.set_header(message.headers, h.COUNTER_SOURCES, known)


def sourced_increment(
    headers: bytes, payload: bytes, stream: str, subject: str, last: tuple[bytes, bytes] | None
) -> tuple[int, bytes]:
    """What a sourced counter message adds here (the change since last time), and its headers."""
    known: dict[str, dict[str, str]] = {}
    if last:
        noted = h.policy_headers(last[0]).get(h.COUNTER_SOURCES)
        if noted:
            try:
                known = msgspec.json.decode(noted, type=dict[str, dict[str, str]])
            except msgspec.MsgspecError:
                raise ApiError(MESSAGE_COUNTER_BROKEN) from None
    value = value_of(payload)
    change = value - int(known.get(stream, {}).get(subject, "0"))
    known.setdefault(stream, {})[subject] = str(value)
    headers = h.set_header(headers, h.INCR, str(change).encode())
    return change, h.set_header(headers, h.COUNTER_SOURCES, msgspec.json.encode(known))


def value_of(body: bytes | None) -> int:
    """The value in a stored counter message; 0 when there is none yet."""
    if body is None:
        return 0
    try:
        return int(msgspec.json.decode(body, type=CounterBody).val)
    except (msgspec.MsgspecError, ValueError):
        raise ApiError(MESSAGE_COUNTER_BROKEN) from None


def body_of(value: int) -> bytes:
    return b'{"val":"%s"}' % str(value).encode()
