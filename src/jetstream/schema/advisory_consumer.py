"""What the server announces about consumers: advisories and the ack metric.

A room makes these without `id` and `timestamp`; whoever publishes them fills both in with
`stamped`, and only when somebody listens.
"""

from typing import Any, ClassVar

import msgspec
from msgspec import Struct, field

_ADVISORY = "io.nats.jetstream.advisory.v1."


def _kind(name: str) -> Any:
    return field(default_factory=lambda: name)


def _empty() -> Any:
    return field(default_factory=str)


class ConsumerEvent(Struct, omit_defaults=True, kw_only=True):
    """The fields all of them begin with, and the subject they go to."""

    SUBJECT: ClassVar[str] = ""

    type: str = _empty()
    id: str = _empty()
    timestamp: str = _empty()

    def subject(self) -> bytes:
        raise NotImplementedError


class _Of(ConsumerEvent, omit_defaults=True, kw_only=True):
    stream: str = _empty()
    consumer: str = _empty()

    def subject(self) -> bytes:
        return f"$JS.EVENT.{self.SUBJECT}.{self.stream}.{self.consumer}".encode()


class ConsumerAction(_Of, omit_defaults=True, kw_only=True):
    """A consumer came or went."""

    type: str = _kind(_ADVISORY + "consumer_action")
    action: str = _empty()
    domain: str = ""

    def subject(self) -> bytes:
        verb = "CREATED" if self.action == "create" else "DELETED"
        return f"$JS.EVENT.ADVISORY.CONSUMER.{verb}.{self.stream}.{self.consumer}".encode()


class ConsumerPause(_Of, omit_defaults=True, kw_only=True):
    """A consumer was paused or goes on."""

    SUBJECT = "ADVISORY.CONSUMER.PAUSE"
    type: str = _kind(_ADVISORY + "consumer_pause")
    paused: bool = field(default_factory=bool)
    pause_until: str = ""
    domain: str = ""


class MaxDeliver(_Of, omit_defaults=True, kw_only=True):
    """A message was given up."""

    SUBJECT = "ADVISORY.CONSUMER.MAX_DELIVERIES"
    type: str = _kind(_ADVISORY + "max_deliver")
    stream_seq: int = field(default_factory=int)
    deliveries: int = field(default_factory=int)
    domain: str = ""


class MessageNaked(_Of, omit_defaults=True, kw_only=True):
    """A client said it could not process a message now."""

    SUBJECT = "ADVISORY.CONSUMER.MSG_NAKED"
    type: str = _kind(_ADVISORY + "nak")
    consumer_seq: int = field(default_factory=int)
    stream_seq: int = field(default_factory=int)
    deliveries: int = field(default_factory=int)
    domain: str = ""


class MessageTerminated(_Of, omit_defaults=True, kw_only=True):
    """A message will not come again: a client said so, or it left the stream."""

    SUBJECT = "ADVISORY.CONSUMER.MSG_TERMINATED"
    type: str = _kind(_ADVISORY + "terminated")
    consumer_seq: int = field(default_factory=int)
    stream_seq: int = field(default_factory=int)
    deliveries: int = field(default_factory=int)
    reason: str = ""
    domain: str = ""


class AckMetric(_Of, omit_defaults=True, kw_only=True):
    """How long a sampled message took from delivery to ack."""

    SUBJECT = "METRIC.CONSUMER.ACK"
    type: str = _kind("io.nats.jetstream.metric.v1.consumer_ack")
    consumer_seq: int = field(default_factory=int)
    stream_seq: int = field(default_factory=int)
    ack_time: int = field(default_factory=int)
    deliveries: int = field(default_factory=int)
    domain: str = ""


class _OfGroup(ConsumerEvent, omit_defaults=True, kw_only=True):
    account: str = ""
    stream: str = _empty()
    domain: str = ""
    consumer: str = _empty()
    group: str = _empty()

    def subject(self) -> bytes:
        return f"$JS.EVENT.{self.SUBJECT}.{self.stream}.{self.consumer}".encode()


class GroupPinned(_OfGroup, omit_defaults=True, kw_only=True):
    """A client became the one that is served."""

    SUBJECT = "ADVISORY.CONSUMER.PINNED"
    type: str = _kind(_ADVISORY + "consumer_group_pinned")
    pinned_id: str = _empty()


class GroupUnpinned(_OfGroup, omit_defaults=True, kw_only=True):
    """A client lost its place."""

    SUBJECT = "ADVISORY.CONSUMER.UNPINNED"
    type: str = _kind(_ADVISORY + "consumer_group_unpinned")
    reason: str = _empty()


def stamped(
    event: ConsumerEvent, event_id: str, timestamp: str, domain: str = "", account: str = ""
) -> bytes:
    """The JSON of an event, now that it is really published."""
    if isinstance(event, _OfGroup):
        event.account = account
    event.id = event_id
    event.timestamp = timestamp
    if domain:
        event.domain = domain  # type: ignore[attr-defined]  # every concrete event has it
    return msgspec.json.encode(event)
