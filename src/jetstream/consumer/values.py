"""What goes into a consumer and what comes out of it: plain values, no behaviour.

A turn of the engine is `on_pull` / `on_acks` / `on_new_messages` / …, then `deliver`, then
`take_effects`. Deliveries go out first, then the statuses, in the order given: a status always
talks about messages that came before it.
"""

from array import array

from msgspec import Struct, field

from jetstream.schema.advisory_consumer import ConsumerEvent


def no_seqs() -> "array[int]":
    return array("Q")


class PullRequest(Struct, kw_only=True):
    """One `CONSUMER.MSG.NEXT`: where the messages go, and what was asked for, unread."""

    reply: bytes
    payload: bytes = b""
    received_ns: int = 0
    """When it arrived; the engine may hand in several at once."""
    required_level: bytes | None = None
    """Value of the `Nats-Required-Api-Level` header, if there was one."""


class Delivery(Struct):
    """These stored messages, in this order, to this subject.

    Message i has the consumer sequence `first_consumer_seq + i * step` and tells
    `pending - i * countdown` in its ack subject. Several waiting requests take turns message by
    message; `step` is how many of them share, so that each still is one Delivery.
    """

    to: bytes
    seqs: "array[int]"
    first_consumer_seq: int
    pending: int
    deliveries: "array[int] | None" = None
    """How often each was delivered, this time included; None: all for the first time."""
    step: int = 1
    countdown: int = 1
    extra_headers: bytes = b""
    """Header lines to add, each with its CRLF, for example `Nats-Pin-Id: …\\r\\n`."""
    headers_only: bool = False
    """Leave the body out and add `Nats-Msg-Size`."""


class Status(Struct, frozen=True):
    """A header-only message to a client."""

    to: bytes
    headers: bytes
    reply: bytes = b""


class Confirm(Struct, frozen=True):
    """An empty answer to an ack that was a request; after the disk if the state has changed."""

    to: bytes
    after_sync: bool


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A message that leaves the consumer without having been processed; copy it, then settle it."""

    stream: str
    """The dead-letter stream to copy to."""
    stream_seq: int
    consumer_seq: int
    deliveries: int
    reason: str
    """`max_deliver` or `terminated`."""
    detail: str = ""
    """What the client said with its +TERM."""
    history: str = ""
    """When it was delivered and refused, oldest first."""


class Effects(Struct):
    """What should be done after a turn."""

    statuses: list[Status] = field(default_factory=list)
    advisories: list[ConsumerEvent] = field(default_factory=list)
    settled: "array[int]" = field(default_factory=no_seqs)
    """Acked or terminated: what retention may remove, if nobody else needs it."""
    replies: list[Confirm] = field(default_factory=list)
    state_delta: bytes = b""
    """To be noted in the journal before the replies marked `after_sync` go out."""
    dead_letters: list[DeadLetter] = field(default_factory=list)
    deleted: bool = False
    """The consumer was inactive for too long: delete it."""
