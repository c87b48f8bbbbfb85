"""JetStream from the application's side: streams, consumers, publishing, buckets.

    js = nc.jetstream()
    stream = await js.create_stream(name="ORDERS", subjects=["orders.>"])
    await js.publish("orders.new", b"…")
    consumer = await stream.create_or_update_consumer(durable_name="billing")
    async for msg in consumer.messages(): await msg.ack()

This class is the front; the work is in the rooms it inherits from: `publish`, `manage` (streams and
consumers), `push` and `buckets` (key-value and object stores).
"""

from typing import TYPE_CHECKING, Any

from jetstream.client.api import Api
from jetstream.client.batch import AtomicBatch
from jetstream.client.buckets import Buckets
from jetstream.client.info import AccountInfo, read_info
from jetstream.client.manage import ConsumerManager, StreamManager
from jetstream.client.message import JetStreamMessage
from jetstream.client.publish import WINDOW, Publisher
from jetstream.client.pull import MessageBatch
from jetstream.client.push import Subscribing
from jetstream.client.snapshot import Progress, SnapshotResult, restore_snapshot

if TYPE_CHECKING:
    from jetstream.client.connection import Connection
    from jetstream.client.facade import Consumers, Streams


class JetStream(Publisher, StreamManager, ConsumerManager, Subscribing, Buckets):
    """The JetStream of one account, through one connection."""

    def __init__(
        self,
        connection: "Connection",
        *,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float = 5.0,
        publish_window: int = WINDOW,
    ) -> None:
        self.connection = connection
        self.api = Api(connection, domain, prefix, timeout)
        self._init_publisher(publish_window)

    async def account_info(self) -> AccountInfo:
        """Usage and limits of the account."""
        return read_info(AccountInfo, await self.api.request("INFO"))

    def batch(self) -> AtomicBatch:
        """Publish several messages that are stored together or not at all (server 2.12)."""
        return AtomicBatch(self)

    async def restore_stream(
        self,
        source: Any,
        *,
        name: str | None = None,
        config: dict[str, Any] | None = None,
        state: dict[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> SnapshotResult:
        """Make a stream from what `stream.snapshot` wrote (bare ones need config and state)."""
        return await restore_snapshot(self.api, source, name, progress, config, state)

    # --- the older style

    @property
    def streams(self) -> "Streams":
        """`js.streams.add(…)`, `.info`, `.list`, …: aliases in the style of earlier clients."""
        from jetstream.client.facade import Streams

        return Streams(self)

    @property
    def consumers(self) -> "Consumers":
        """`js.consumers.add(…)`, `.info`, `.list`, …."""
        from jetstream.client.facade import Consumers

        return Consumers(self)

    async def find(self, subject: str) -> str:
        """The name of the stream that captures a subject."""
        return await self.stream_name_by_subject(subject)

    async def pull(
        self, stream: str, durable: str, *, expires: float = 5.0
    ) -> JetStreamMessage | None:
        """One message from an existing consumer, or None."""
        return await self.consumer_handle(stream, durable).next(expires)

    async def pull_batch(
        self, stream: str, durable: str, *, batch: int = 1, expires: float = 5.0
    ) -> MessageBatch:
        """Up to `batch` messages from an existing consumer."""
        return await self.consumer_handle(stream, durable).fetch(batch, max_wait=expires)

    def __repr__(self) -> str:
        return f"<JetStream {self.api.prefix} on {self.connection!r}>"
