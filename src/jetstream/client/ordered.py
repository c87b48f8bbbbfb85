"""An ordered consumer: a stream's messages in order, without gap or repeat, whatever happens.

It is a construct of the client: a short-lived consumer on the server without acknowledgements,
whose deliveries are numbered. When a number is missing, heartbeats stay out, after a reconnect,
or when the consumer is gone, another is made that starts behind the last message we accepted.

    consumer P_1: 1 2 3 ─ ─ 6   gap!  ─►  delete P_1, create P_2 at stream sequence of 3, plus one
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jetstream.client._inbound import in_order
from jetstream.client.config import ConsumerConfig, DeliverPolicy, ReplayPolicy, Seconds
from jetstream.client.consumer import (
    EXPIRES,
    FETCH_WAIT,
    MAX_MESSAGES,
    NO_WAIT_PATIENCE,
    ConsumeContext,
    _seconds,
)
from jetstream.client.errors import (
    ClientError,
    ConsumerNotFoundError,
    RequestTimeoutError,
    StreamNotFoundError,
)
from jetstream.client.info import ConsumerInfo
from jetstream.client.message import JetStreamMessage
from jetstream.client.pull import GRACE, Fetch, MessageBatch, PullStream, next_request
from jetstream.errors import JetStreamError
from jetstream.schema.addresses import consumer_next

if TYPE_CHECKING:
    from jetstream.client.jetstream import JetStream

RETRY_WAIT = 0.1
RETRY_WAIT_MAX = 5.0
INACTIVE = 300.0
CREATE_ATTEMPTS = 3


class OrderedConsumer:
    """Reads a stream in order. One flow at a time: `messages()`, `consume()` or `fetch()`."""

    def __init__(
        self,
        js: "JetStream",
        stream: str,
        *,
        filter_subjects: list[str] | str | None = None,
        deliver_policy: DeliverPolicy = "all",
        opt_start_seq: int | None = None,
        opt_start_time: datetime | None = None,
        replay_policy: ReplayPolicy | None = None,
        headers_only: bool | None = None,
        inactive_threshold: Seconds = INACTIVE,
        name_prefix: str | None = None,
        metadata: dict[str, str] | None = None,
    ) -> None:
        filters = [filter_subjects] if isinstance(filter_subjects, str) else filter_subjects or []
        self.js = js
        self.stream_name = stream
        self._prefix = name_prefix or js.connection.random.nuid()
        self._serial = 0
        self._config = ConsumerConfig(
            deliver_policy=deliver_policy,
            opt_start_seq=opt_start_seq,
            opt_start_time=opt_start_time,
            ack_policy="none",
            max_deliver=1,
            filter_subject=filters[0] if len(filters) == 1 else None,
            filter_subjects=filters if len(filters) > 1 else None,
            replay_policy=replay_policy,
            headers_only=headers_only,
            inactive_threshold=inactive_threshold,
            num_replicas=1,
            mem_storage=True,
            metadata=metadata,
        )
        if opt_start_seq is not None:
            self._config.deliver_policy = "by_start_sequence"
        elif opt_start_time is not None:
            self._config.deliver_policy = "by_start_time"
        self._info: ConsumerInfo | None = None
        self._expected = 1
        self.last_seq = 0
        """Stream sequence of the last message that was accepted."""

    @property
    def name(self) -> str:
        """The name of the consumer behind it now; it changes with every new start."""
        return f"{self._prefix}_{self._serial}"

    @property
    def cached_info(self) -> ConsumerInfo | None:
        return self._info

    async def info(self) -> ConsumerInfo:
        """The info of the consumer that is behind it now."""
        if self._info is None:
            await self.create()
        self._info = await self.js.consumer_info(self.stream_name, self.name)
        return self._info

    async def create(self) -> ConsumerInfo:
        """Make the next consumer, from where we are.

        A cluster may place it on a node that has just died and never answer; then another name
        gets another place.
        """
        for _ in range(CREATE_ATTEMPTS - 1):
            try:
                return await self._create()
            except RequestTimeoutError:
                continue
        return await self._create()

    async def _create(self) -> ConsumerInfo:
        self._serial += 1
        config = self._config.replace(name=self.name)
        if self.last_seq:
            config = config.replace(
                deliver_policy="by_start_sequence",
                opt_start_seq=self.last_seq + 1,
                opt_start_time=None,
            )
        self._info = await self.js.make_consumer(self.stream_name, config, action="create")
        self._expected = 1
        return self._info

    async def delete(self) -> None:
        """Remove the consumer from the server; the next use makes another."""
        if self._info is None:
            return
        self._info = None
        if self.js.connection.is_closed:
            return
        try:
            await self.js.delete_consumer(self.stream_name, self.name)
        except (JetStreamError, TimeoutError):
            pass  # it goes by itself when nobody asks it any more

    @property
    def next_subject(self) -> str:
        return consumer_next(self.stream_name, self.name, self.js.api.prefix)

    def accept(self, made: list[JetStreamMessage]) -> list[JetStreamMessage]:
        """The part of a run that follows what we have without a gap."""
        fit = in_order(made, self._expected)
        if fit:
            self._expected += fit
            self.last_seq = made[fit - 1].seq
        return made if fit == len(made) else made[:fit]

    # --- one request

    async def fetch(self, n: int = 1, *, max_wait: Seconds = FETCH_WAIT) -> MessageBatch:
        """Up to `n` messages, in order; an empty batch when none came in time."""
        wait = _seconds(max_wait)
        return await self._fetch(next_request(n, expires=wait), wait)

    async def fetch_bytes(self, max_bytes: int, *, max_wait: Seconds = FETCH_WAIT) -> MessageBatch:
        """Messages of up to `max_bytes` in all."""
        wait = _seconds(max_wait)
        return await self._fetch(next_request(1_000_000, expires=wait, max_bytes=max_bytes), wait)

    async def fetch_no_wait(self, n: int) -> MessageBatch:
        """Up to `n` messages that are there now."""
        return await self._fetch(next_request(n, no_wait=True), NO_WAIT_PATIENCE)

    async def next(self, max_wait: Seconds = FETCH_WAIT) -> JetStreamMessage | None:
        batch = await self.fetch(1, max_wait=max_wait)
        return batch[0] if batch else None

    async def fetch_arrow(self, n: int, **options: Any) -> Any:
        """As `fetch`, as a pyarrow table."""
        return (await self.fetch(n, **options)).to_arrow()

    async def _fetch(self, request: Any, wait: float) -> MessageBatch:
        connection = self.js.connection
        deadline = connection.loop.time() + wait + GRACE
        while True:
            if self._info is None:
                await self.create()
            left = max(deadline - connection.loop.time(), 0.01)
            batch = await Fetch(connection, self.next_subject, request).run(left)
            fit = MessageBatch(self.accept(batch))
            if len(fit) == len(batch) and batch.error is None:
                return fit
            await self.delete()
            if fit or connection.loop.time() >= deadline:
                return fit

    # --- a flow

    async def messages(
        self,
        *,
        max_messages: int = MAX_MESSAGES,
        max_bytes: int | None = None,
        threshold: int | None = None,
        expires: Seconds = EXPIRES,
        heartbeat: Seconds | None = None,
        stop_after: int | None = None,
        error_handler: Callable[[Exception], None] | None = None,
    ) -> "OrderedMessages":
        """An async iterator over the stream, in order, that repairs itself."""
        if self._info is None:
            await self.create()
        expiry = _seconds(expires)
        flow = PullStream(
            self.js.connection,
            self.next_subject,
            max_messages=max_messages,
            max_bytes=max_bytes,
            threshold=threshold,
            expires=expiry,
            heartbeat=expiry / 6 if heartbeat is None else _seconds(heartbeat),
            limits={},
            on_error=None,
            stop_after=stop_after,
        )
        return OrderedMessages(self, flow, error_handler)

    async def consume(
        self, callback: Callable[[JetStreamMessage], Any], **options: Any
    ) -> ConsumeContext:
        """Call `callback` with every message, in order."""
        return ConsumeContext(await self.messages(**options), callback, self)

    def __aiter__(self) -> AsyncIterator[JetStreamMessage]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[JetStreamMessage]:
        async with await self.messages() as flow:
            async for message in flow:
                yield message

    def __repr__(self) -> str:
        return f"<OrderedConsumer of {self.stream_name!r} at {self.last_seq}>"


class OrderedMessages:
    """The flow of an ordered consumer. Leaving it removes the consumer from the server."""

    def __init__(
        self,
        consumer: OrderedConsumer,
        flow: PullStream,
        error_handler: Callable[[Exception], None] | None,
    ) -> None:
        self._consumer = consumer
        self._flow = flow
        self._error_handler = error_handler
        self._repair: asyncio.Task[None] | None = None
        self._stopped = False
        flow.accept = self._accept
        flow.on_fatal = self._broken
        flow.on_restored = self._reconnected
        flow._on_error = self._broken
        flow.start()

    def _accept(self, made: list[JetStreamMessage]) -> list[JetStreamMessage]:
        if self._repair is not None:
            return []
        fit = self._consumer.accept(made)
        if len(fit) < len(made):
            self._broken(None)
        return fit

    def _reconnected(self) -> None:
        # What was on its way is lost, and its last messages may have been among it.
        self._broken(None)

    def _broken(self, error: Exception | None) -> None:
        if error is not None and self._error_handler is not None:
            self._error_handler(error)
        if self._repair is None and not self._stopped:
            self._repair = self._consumer.js.connection.spawn(self._start_again())

    async def _start_again(self) -> None:
        consumer = self._consumer
        wait = RETRY_WAIT
        await consumer.delete()
        while not self._stopped and not consumer.js.connection.is_closed:
            try:
                await consumer.create()
            except StreamNotFoundError as error:
                self._repair = None
                self._flow._fatal = True
                self._flow.fail(error)
                return
            except (ClientError, ConsumerNotFoundError, JetStreamError):
                await asyncio.sleep(wait)
                wait = min(wait * 2, RETRY_WAIT_MAX)
                continue
            self._repair = None
            if not self._stopped:
                self._flow.redirect(consumer.next_subject)
            return

    def __aiter__(self) -> "OrderedMessages":
        return self

    async def __anext__(self) -> JetStreamMessage:
        return await self._flow.__anext__()

    async def next(self, timeout: float | None = None) -> JetStreamMessage | None:
        """The next message, or None when none came in time."""
        try:
            async with asyncio.timeout(timeout):
                return await self._flow.__anext__()
        except (TimeoutError, StopAsyncIteration):
            return None

    async def take(self, most: int) -> list[JetStreamMessage]:
        """At least one message and as many more as are here; empty at the end."""
        return await self._flow.take(most)

    async def stop(self) -> None:
        """End at once and remove the consumer."""
        self._flow.stop()
        await self._end()

    async def drain(self) -> None:
        """End after what has arrived."""
        self._flow.drain()
        await self._end()

    async def _end(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        if self._repair is not None:
            self._repair.cancel()
        await self._consumer.delete()

    async def __aenter__(self) -> "OrderedMessages":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
