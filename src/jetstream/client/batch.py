"""Atomic batches: several messages, in one stream, stored together or not at all (server 2.12).

    async with js.batch() as batch:
        await batch.add("orders.1", b"…")
        await batch.add("orders.2", b"…")
    batch.ack.count == 2

Leaving the block commits; an exception inside abandons the batch and the server forgets it.
"""

from typing import TYPE_CHECKING, Any

from jetstream.client.acks import PubAck, read_ack
from jetstream.client.errors import BatchAbandonedError, api_error
from jetstream.client.lines import header_block
from jetstream.client.message import HeadersLike, Payload
from jetstream.client.publish import publish_headers
from jetstream.wire.headers import Headers

if TYPE_CHECKING:
    from jetstream.client.jetstream import JetStream

# The server answers the first message, so that a stream without support is noticed at once; after
# that we ask for an answer now and then, which keeps a long batch from running ahead of errors.
ASK_EVERY = 100


class AtomicBatch:
    """Messages that belong together."""

    def __init__(self, js: "JetStream") -> None:
        self._js = js
        self.id = js.connection.random.nuid()
        self.size = 0
        self.ack: PubAck | None = None
        self._open = True
        self._held: tuple[str, Payload, dict[str, Any]] | None = None

    async def add(
        self,
        subject: str,
        data: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        **wishes: Any,
    ) -> None:
        """One more message; wishes as in `publish`. It goes out with the next one or the commit."""
        self._check()
        if self._held is not None:
            await self._send_held()
        block = publish_headers(headers, **wishes) if wishes or headers else None
        fields = dict(Headers.parse(block).items()) if block else {}
        self._held = (subject, data, fields)

    async def _send_held(self) -> None:
        assert self._held is not None
        subject, data, fields = self._held
        self._held = None
        self.size += 1
        block = self._block(fields)
        if self.size == 1 or self.size % ASK_EVERY == 0:
            answer = await self._js.connection.request(
                subject, data, headers=Headers.parse(block), timeout=self._js.api.timeout
            )
            if answer.data:
                self._open = False
                self._raise(subject, answer.data)
        else:
            self._js.connection.send(subject, None, block, data)
            if self._js.connection.is_full:
                await self._js.connection.writable()

    def _block(self, fields: dict[str, Any], commit: str | None = None) -> bytes:
        marked = {
            **fields,
            "Nats-Batch-Id": self.id,
            "Nats-Batch-Sequence": str(self.size),
        }
        if commit:
            marked["Nats-Batch-Commit"] = commit
        block = header_block(marked)
        assert block is not None
        return block

    async def commit(self) -> PubAck:
        """Store everything that was added; the ack has the last sequence and the count."""
        self._check()
        if self._held is None:
            raise BatchAbandonedError("an empty batch cannot be committed")
        subject, data, fields = self._held
        self._held = None
        self._open = False
        self.size += 1
        answer = await self._js.connection.request(
            subject,
            data,
            headers=Headers.parse(self._block(fields, "1")),
            timeout=self._js.api.timeout,
        )
        self.ack = read_ack(subject, answer.header_block, answer.data)
        return self.ack

    async def discard(self) -> None:
        """Give the batch up: the server drops it after a while, nothing is stored."""
        self._open = False
        self._held = None

    def _check(self) -> None:
        if not self._open:
            raise BatchAbandonedError("this batch is closed")

    def _raise(self, subject: str, payload: bytes) -> None:
        ack = read_ack(subject, b"", payload)
        # An ordinary ack means the server does not know batches and stored the message already.
        raise api_error(
            400, 10174, f"{ack.stream!r} stored the message by itself: no atomic publish here"
        )

    async def __aenter__(self) -> "AtomicBatch":
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            await self.discard()
        elif self._open and self._held is not None:
            await self.commit()
