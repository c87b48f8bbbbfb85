"""Push consumers: the server sends to a subject, we subscribe to it.

`subscribe()` finds the stream by subject, creates the consumer (or binds to a durable that exists)
and subscribes. Heartbeats and flow control are answered here: a flow-control request is answered
when everything that came before it was handed to the application, which is what makes it work.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from jetstream.client.config import ConsumerConfig, merged
from jetstream.client.consumer import Consumer, _seconds
from jetstream.client.errors import ConsumerNotFoundError, MissingHeartbeatError
from jetstream.client.info import ConsumerInfo
from jetstream.client.message import ACK, JetStreamMessage
from jetstream.client.pull import MessageBatch, next_request
from jetstream.client.subscription import Subscription
from jetstream.schema.encoding import to_json
from jetstream.wire.headers import get_header

if TYPE_CHECKING:
    from jetstream.client.jetstream import JetStream


class PushSubscription:
    """A subscription on a push consumer: iterate it, or give a callback.

    `unsubscribe()` keeps the consumer so that one can come back; `destroy()` removes it.
    """

    def __init__(self, js: "JetStream", info: ConsumerInfo, manual_ack: bool) -> None:
        self.js = js
        self.stream_name = info.stream_name
        self.consumer_name = info.name
        self._info = info
        self._auto_ack = not manual_ack and info.config.ack_policy not in (None, "none")
        self._subscription: Subscription | None = None
        self._unacked: JetStreamMessage | None = None
        self._task: asyncio.Task[None] | None = None
        self._last_heard = js.connection.loop.time()
        self._watch: asyncio.TimerHandle | None = None
        beat = info.config.idle_heartbeat
        self._heartbeat = _seconds(beat) if beat else 0.0

    async def start(self, callback: Callable[[JetStreamMessage], Any] | None) -> None:
        config = self._info.config
        assert config.deliver_subject
        self._subscription = await self.js.connection.subscribe(
            config.deliver_subject,
            queue=config.deliver_group or "",
            message_type=self.js.connection.delivery_type,
        )
        if self._heartbeat:
            self._plan_watch()
        if callback is not None:
            self._task = self.js.connection.spawn(self._call_back(callback))

    def _plan_watch(self) -> None:
        loop = self.js.connection.loop
        self._watch = loop.call_later(2 * self._heartbeat, self._check)

    def _check(self) -> None:
        subscription = self._subscription
        if subscription is None or subscription.is_closed:
            return
        loop = self.js.connection.loop
        if subscription.delivered != self._seen_by_watch:
            self._seen_by_watch = subscription.delivered
            self._last_heard = loop.time()
        elif not self.js.connection.is_connected:
            self._last_heard = loop.time()
        elif loop.time() - self._last_heard >= 2 * self._heartbeat:
            text = f"no heartbeat from {self.consumer_name!r}"
            self.js.connection.report_error(MissingHeartbeatError(text))
            self._last_heard = loop.time()
        self._plan_watch()

    _seen_by_watch = 0

    # --- receiving

    async def next(self, timeout: float | None = None) -> JetStreamMessage | None:
        """The next message, or None when none came in time or the subscription has ended."""
        try:
            async with asyncio.timeout(timeout):
                return await self.__anext__()
        except (TimeoutError, StopAsyncIteration):
            return None

    def __aiter__(self) -> AsyncIterator[JetStreamMessage]:
        return self

    async def __anext__(self) -> JetStreamMessage:
        if self._unacked is not None:
            last, self._unacked = self._unacked, None
            last._answer(ACK)
        assert self._subscription is not None
        while True:
            message: JetStreamMessage = await self._subscription.__anext__()
            if message.status:
                self._on_status(message)
                continue
            if self._auto_ack:
                self._unacked = message
            return message

    def _on_status(self, message: JetStreamMessage) -> None:
        if message.status != 100:
            return
        connection = self.js.connection
        if message.reply_bytes:
            connection.send(message.reply_bytes, None, None, b"")
            return
        stalled = get_header(message.header_block, b"Nats-Consumer-Stalled")
        if stalled:
            connection.send(stalled, None, None, b"")

    async def _call_back(self, callback: Callable[[JetStreamMessage], Any]) -> None:
        import inspect

        auto_ack, self._auto_ack = self._auto_ack, False
        async for message in self:
            try:
                result = callback(message)
                if inspect.isawaitable(result):
                    await result
                if auto_ack:
                    await message.ack()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self.js.connection.report_error(error)

    # --- its life

    @property
    def pending(self) -> int:
        """Messages that wait to be read here."""
        return self._subscription.pending if self._subscription is not None else 0

    async def consumer_info(self) -> ConsumerInfo:
        self._info = await self.js.consumer_info(self.stream_name, self.consumer_name)
        return self._info

    async def unsubscribe(self) -> None:
        """Stop receiving; the consumer stays."""
        self._stop()
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    async def drain(self) -> None:
        """Stop receiving after what has arrived; the consumer stays."""
        if self._watch is not None:
            self._watch.cancel()
        if self._subscription is not None:
            await self._subscription.drain()
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task], timeout=self.js.connection.options.drain_timeout)

    async def destroy(self) -> None:
        """Stop receiving and delete the consumer with all it remembers."""
        await self.unsubscribe()
        try:
            await self.js.delete_consumer(self.stream_name, self.consumer_name)
        except ConsumerNotFoundError:
            pass

    def _stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def __aenter__(self) -> "PushSubscription":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._info.config.durable_name:
            await self.unsubscribe()
        else:
            await self.destroy()

    def __repr__(self) -> str:
        return f"<PushSubscription {self.consumer_name!r} of {self.stream_name!r}>"


class PullSubscription:
    """A pull consumer found by subject: `fetch` and `next`, or iterate and `pull()` when ready.

    Iterating gives what earlier `pull()`s asked for; nothing comes that was not asked for, so the
    application sets the pace.
    """

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self._subscription: Subscription | None = None
        self._inbox = consumer.js.connection.new_inbox()
        self._left: int | None = None

    async def _subscribed(self) -> Subscription:
        if self._subscription is None:
            connection = self.consumer.js.connection
            self._subscription = await connection.subscribe(
                self._inbox, message_type=connection.delivery_type
            )
        return self._subscription

    async def pull(
        self, *, batch: int = 1, expires: float | None = None, no_wait: bool = False
    ) -> None:
        """Ask for messages; they come to whoever iterates."""
        await self._subscribed()
        request = next_request(batch, expires=expires, no_wait=no_wait)
        self.consumer.js.connection.send(
            self.consumer.next_subject, self._inbox, None, to_json(request)
        )

    def __aiter__(self) -> AsyncIterator[JetStreamMessage]:
        return self

    async def __anext__(self) -> JetStreamMessage:
        subscription = await self._subscribed()
        while True:
            if self._left == 0:
                await subscription.unsubscribe()
                raise StopAsyncIteration
            message: JetStreamMessage = await subscription.__anext__()
            if not message.status:
                break
        if self._left is not None:
            self._left -= 1
        return message

    async def fetch(self, batch: int = 1, *, expires: float = 5.0) -> MessageBatch:
        """Ask once and get a list, perhaps empty."""
        return await self.consumer.fetch(batch, max_wait=expires)

    async def next(self, expires: float = 5.0) -> JetStreamMessage | None:
        return await self.consumer.next(expires)

    async def unsubscribe(self, max_messages: int | None = None) -> None:
        """Stop, now or after so many messages; the consumer stays."""
        if max_messages is not None:
            self._left = max_messages
        else:
            await (await self._subscribed()).unsubscribe()

    async def destroy(self) -> None:
        """Stop and delete the consumer."""
        if self._subscription is not None:
            await self._subscription.unsubscribe()
        await self.consumer.delete()


class Subscribing:
    """`subscribe` and `pull_subscribe`; `JetStream` inherits it."""

    async def subscribe(
        self: Any,
        subject: str,
        *,
        stream: str | None = None,
        durable: str | None = None,
        deliver_to: str | None = None,
        queue: str | None = None,
        manual_ack: bool = False,
        callback: Callable[[JetStreamMessage], Any] | None = None,
        config: ConsumerConfig | Any = None,
        **fields: Any,
    ) -> PushSubscription:
        """Receive a stream's messages on a subject by push.

        The stream is found by `subject` unless named. A durable that exists is used as it is.
        Without `manual_ack` a message is acknowledged when the callback has returned, or when the
        iteration asks for the next one.
        """
        where = stream or await self.stream_name_by_subject(subject)
        name = durable or fields.get("name")
        info = await self._existing(where, name)
        if info is None:
            wire = merged(ConsumerConfig, config, fields)
            if durable:
                wire.setdefault("durable_name", durable)
            elif queue and "name" not in wire:
                # Members of a queue group share one consumer, so it is named after the group.
                wire.setdefault("durable_name", queue)
                info = await self._existing(where, queue)
            if queue:
                wire["deliver_group"] = queue
            wire.setdefault("deliver_subject", deliver_to or self.connection.new_inbox())
            if "filter_subjects" not in wire:
                wire.setdefault("filter_subject", subject)
            if info is None:
                info = await self.make_consumer(where, wire, "create")
        if not info.config.deliver_subject:
            raise ValueError(f"{info.name!r} is a pull consumer: use pull_subscribe or fetch")
        subscription = PushSubscription(self, info, manual_ack)
        await subscription.start(callback)
        return subscription

    async def _existing(self: Any, stream: str, name: str | None) -> ConsumerInfo | None:
        if not name:
            return None
        try:
            found: ConsumerInfo = await self.consumer_info(stream, name)
        except ConsumerNotFoundError:
            return None
        return found

    async def pull_subscribe(
        self: Any,
        subject: str,
        *,
        durable: str | None = None,
        stream: str | None = None,
        config: ConsumerConfig | Any = None,
        **fields: Any,
    ) -> PullSubscription:
        """A pull consumer for a subject: created if it is missing."""
        where = stream or await self.stream_name_by_subject(subject)
        info = await self._existing(where, durable)
        if info is None:
            wire = merged(ConsumerConfig, config, fields)
            if durable:
                wire.setdefault("durable_name", durable)
            if "filter_subjects" not in wire:
                wire.setdefault("filter_subject", subject)
            info = await self.make_consumer(where, wire, "create")
        return PullSubscription(Consumer(self, info))
