"""Messages as an application sees them.

`Message` is what any subscription gets. `JetStreamMessage` came from a stream: it knows its place
there and can be acknowledged. Both are made in the kernel, a whole run at a time, and read their
headers and numbers when asked.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from jetstream.client._inbound import Frame
from jetstream.client.config import moment
from jetstream.client.errors import NotJetStreamMessageError
from jetstream.wire.headers import Headers

if TYPE_CHECKING:
    from jetstream.client.connection import Connection

Payload = bytes | bytearray | memoryview | str
HeadersLike = Mapping[str, str | list[str]] | Headers

ACK = b"+ACK"
NAK = b"-NAK"
IN_PROGRESS = b"+WPI"
TERM = b"+TERM"


class BaseMessage(Frame):
    """What every received message has: `subject`, `reply`, `data`, `headers`."""

    __slots__ = ()
    connection: "Connection"

    @property
    def headers(self) -> Headers | None:
        """The headers, or None. Names are case-sensitive, as on the server."""
        return Headers.parse(self.header_block) if self.header_block else None

    @property
    def text(self) -> str:
        """The payload as UTF-8 text."""
        return self.data.decode()

    def json(self, type: Any = Any) -> Any:
        """The payload as JSON, optionally as a given type."""
        return msgspec.json.decode(self.data, type=type)

    def __repr__(self) -> str:
        shown = self.data[:60]
        more = "…" if len(self.data) > 60 else ""
        return f"<{type(self).__name__} {self.subject!r} {len(self.data)} B {shown!r}{more}>"


class Message(BaseMessage):
    """A received message."""

    __slots__ = ()

    async def respond(self, data: Payload = b"", headers: HeadersLike | None = None) -> None:
        """Answer a request."""
        await self.connection.publish(self.reply_bytes, data, headers=headers)


class Metadata(Struct, frozen=True, kw_only=True):
    """Where a delivered message stands in its stream and consumer."""

    stream: str
    consumer: str
    stream_seq: int
    consumer_seq: int
    deliveries: int
    pending: int
    time_ns: int
    domain: str = ""

    @property
    def time(self) -> datetime:
        """When the stream stored it (microseconds; `time_ns` has all digits)."""
        return moment(self.time_ns)


class Delivery(BaseMessage):
    """What every delivery from a stream knows about itself."""

    __slots__ = ()

    @property
    def metadata(self) -> Metadata:
        """Sequences, delivery count, pending and time, from the ack subject."""
        parts = self.ack_parts()
        if parts is None:
            raise NotJetStreamMessageError(f"{self.subject!r} did not come from a stream")
        domain, stream, consumer = parts
        return Metadata(
            stream=stream,
            consumer=consumer,
            stream_seq=self.seq,
            consumer_seq=self.consumer_seq,
            deliveries=self.deliveries,
            pending=self.pending,
            time_ns=self.time_ns,
            domain=domain,
        )

    @property
    def redelivered(self) -> bool:
        return self.deliveries > 1

    def _answer(self, body: bytes) -> None:
        if not self.reply_bytes:
            raise NotJetStreamMessageError("this message cannot be acknowledged")
        self.connection.send(self.reply_bytes, None, None, body)


def nak_body(delay: float | None) -> bytes:
    return NAK if delay is None else b'-NAK {"delay":%d}' % round(delay * 1e9)


def term_body(reason: str) -> bytes:
    return TERM + b" " + reason.encode() if reason else TERM


class JetStreamMessage(Delivery, Message):
    """A message a consumer delivered. Acknowledge it once, in one of the five ways."""

    __slots__ = ()

    async def ack(self) -> None:
        """It is done; do not deliver it again."""
        self._answer(ACK)

    async def ack_sync(self, timeout: float | None = None) -> None:
        """As `ack`, and wait until the server has confirmed it."""
        if not self.reply_bytes:
            raise NotJetStreamMessageError("this message cannot be acknowledged")
        await self.connection.request(self.reply, ACK, timeout=timeout)

    async def nak(self, delay: float | None = None) -> None:
        """It failed: deliver it again, now or after `delay` seconds."""
        self._answer(nak_body(delay))

    async def in_progress(self) -> None:
        """Still working on it: start the ack timer again."""
        self._answer(IN_PROGRESS)

    async def term(self, reason: str = "") -> None:
        """Give up on it: never deliver it again, whatever max_deliver says."""
        self._answer(term_body(reason))


def to_jetstream(message: Message) -> JetStreamMessage:
    """A plain message from a subscription on a deliver subject, as what it is."""
    if isinstance(message, JetStreamMessage):
        return message
    made = JetStreamMessage(
        message.subject_bytes,
        message.reply_bytes,
        message.header_block,
        message.data,
        message.connection,
    )
    if not made.is_delivery:
        raise NotJetStreamMessageError(f"{message.subject!r} did not come from a stream")
    return made
