"""Consumers: a handle on one, and every way of receiving from it.

    fetch(n)      ask once, get a list (perhaps empty)
    next()        one message, or None
    messages()    an async iterator that asks ahead
    consume(f)    the same, calling f

`stop()` ends a flow at once, `drain()` after what has already arrived.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from jetstream.client.config import Seconds, time_to_wire, to_ns
from jetstream.client.errors import ClientError, MissingHeartbeatError, NoRespondersError
from jetstream.client.info import ConsumerInfo, PauseState, read_info
from jetstream.client.message import JetStreamMessage
from jetstream.client.pull import GRACE, Fetch, MessageBatch, PullStream, next_request
from jetstream.schema.addresses import consumer_next

if TYPE_CHECKING:
    from jetstream.client.jetstream import JetStream

FETCH_WAIT = 30.0
MAX_MESSAGES = 500
EXPIRES = 30.0
NO_WAIT_PATIENCE = 5.0
RETRY_WAIT = 0.25


class Messages:
    """A flow of messages: iterate it; leave it with `stop()`, `drain()` or `async with`."""

    def __init__(self, stream: PullStream) -> None:
        self._stream = stream

    def __aiter__(self) -> "Messages":
        return self

    async def __anext__(self) -> JetStreamMessage:
        return await self._stream.__anext__()

    async def next(self, timeout: float | None = None) -> JetStreamMessage | None:
        """The next message, or None when none came in time or the flow has ended."""
        try:
            async with asyncio.timeout(timeout):
                return await self._stream.__anext__()
        except (TimeoutError, StopAsyncIteration):
            return None

    async def take(self, most: int) -> list[JetStreamMessage]:
        """At least one message and as many more as are here; empty at the end."""
        return await self._stream.take(most)

    async def stop(self) -> None:
        self._stream.stop()

    async def drain(self) -> None:
        self._stream.drain()

    async def __aenter__(self) -> "Messages":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stream.stop()


class ConsumeContext:
    """A running `consume()`: stop it, drain it, or wait for its end."""

    def __init__(self, flow: Any, callback: Callable[[JetStreamMessage], Any], owner: Any) -> None:
        self._flow = flow
        self._callback = callback
        self._connection = owner.js.connection
        self.error: Exception | None = None
        self._task: asyncio.Task[None] = self._connection.spawn(self._run())

    async def _run(self) -> None:
        while True:
            try:
                message = await self._flow.__anext__()
            except StopAsyncIteration:
                return
            except MissingHeartbeatError as error:
                self._connection.report_error(error)
                continue
            except ClientError as error:
                self.error = error
                self._connection.report_error(error)
                return
            try:
                result = self._callback(message)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                # One bad message must not end the flow; it will be redelivered.
                self._connection.report_error(error)

    async def stop(self) -> None:
        """No further callback; what was buffered will be redelivered."""
        await self._flow.stop()
        await self._join()

    async def drain(self, timeout: float | None = None) -> None:
        """Let the callback see what has arrived, then end."""
        await self._flow.drain()
        await self._join(timeout)

    async def closed(self, timeout: float | None = None) -> None:
        """Wait until it has ended, and raise what ended it."""
        await self._join(timeout)
        if self.error is not None:
            raise self.error

    async def _join(self, timeout: float | None = None) -> None:
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task], timeout=timeout)

    async def __aenter__(self) -> "ConsumeContext":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class Consumer:
    """A pull consumer of a stream."""

    def __init__(self, js: "JetStream", info: ConsumerInfo) -> None:
        self.js = js
        self.stream_name = info.stream_name
        self.name = info.name
        self._info = info
        self._next = consumer_next(self.stream_name, self.name, js.api.prefix)

    # --- about it

    @property
    def next_subject(self) -> str:
        """Where pull requests go."""
        return self._next

    @property
    def cached_info(self) -> ConsumerInfo:
        """The info fetched last, without asking the server."""
        return self._info

    async def info(self) -> ConsumerInfo:
        """The current info."""
        self._info = await self.js.consumer_info(self.stream_name, self.name)
        return self._info

    async def delete(self) -> None:
        await self.js.delete_consumer(self.stream_name, self.name)

    async def pause(self, until: datetime | Seconds) -> PauseState:
        """Stop deliveries until a time, or for some seconds."""
        return await self.js.pause_consumer(self.stream_name, self.name, until)

    async def resume(self) -> PauseState:
        return await self.js.resume_consumer(self.stream_name, self.name)

    async def reset(self, seq: int | None = None) -> ConsumerInfo:
        """Start again behind the last acknowledged message, or at a sequence (server 2.14)."""
        return await self.js.reset_consumer(self.stream_name, self.name, seq)

    async def unpin(self, group: str) -> None:
        """Let another client of a pinned priority group take over."""
        await self.js.unpin_consumer(self.stream_name, self.name, group)

    # --- one request

    async def fetch(
        self,
        n: int = 1,
        *,
        max_wait: Seconds = FETCH_WAIT,
        heartbeat: Seconds | None = None,
        max_bytes: int | None = None,
        **limits: Any,
    ) -> MessageBatch:
        """Up to `n` messages; waits until they are there or `max_wait` seconds are over.

        Nothing there gives an empty batch. `limits` are those of priority groups: group,
        min_pending, min_ack_pending, priority.
        """
        wait = _seconds(max_wait)
        request = next_request(n, expires=wait, heartbeat=heartbeat, max_bytes=max_bytes, **limits)
        return await self._fetch(request, wait + GRACE)

    async def fetch_bytes(
        self, max_bytes: int, *, max_wait: Seconds = FETCH_WAIT, **limits: Any
    ) -> MessageBatch:
        """Messages of up to `max_bytes` in all, counted with subjects and headers."""
        return await self.fetch(1_000_000, max_wait=max_wait, max_bytes=max_bytes, **limits)

    async def fetch_no_wait(self, n: int, **limits: Any) -> MessageBatch:
        """Up to `n` messages that are there now."""
        request = next_request(n, no_wait=True, **limits)
        return await self._fetch(request, NO_WAIT_PATIENCE)

    async def next(
        self, max_wait: Seconds = FETCH_WAIT, *, heartbeat: Seconds | None = None
    ) -> JetStreamMessage | None:
        """One message, or None when none came in time."""
        batch = await self.fetch(1, max_wait=max_wait, heartbeat=heartbeat)
        return batch[0] if batch else None

    async def fetch_arrow(self, n: int, **options: Any) -> Any:
        """As `fetch`, as a pyarrow table; acknowledged when the consumer wants acks."""
        batch = await self.fetch(n, **options)
        table = batch.to_arrow()
        if self._info.config.ack_policy != "none":
            await batch.ack()
        return table

    async def _fetch(self, request: Any, wait: float) -> MessageBatch:
        connection = self.js.connection
        deadline = connection.loop.time() + wait
        while True:
            batch = await Fetch(connection, self._next, request).run(wait)
            error = batch.error
            if error is None or batch or _harmless(error):
                return batch
            if not isinstance(error, NoRespondersError):
                raise error
            # Nobody listens: either the consumer is gone, which info() tells with a better error,
            # or a cluster is choosing a leader.
            await self.info()
            wait = deadline - connection.loop.time() - RETRY_WAIT
            if wait <= 0:
                return batch
            await asyncio.sleep(RETRY_WAIT)

    # --- a flow

    def messages(
        self,
        *,
        max_messages: int = MAX_MESSAGES,
        max_bytes: int | None = None,
        threshold: int | None = None,
        expires: Seconds = EXPIRES,
        heartbeat: Seconds | None = None,
        stop_after: int | None = None,
        error_handler: Callable[[Exception], None] | None = None,
        **limits: Any,
    ) -> Messages:
        """An async iterator over messages as they come.

        At most `max_messages` (or `max_bytes`) are asked for ahead of use; more are asked for when
        no more than `threshold` are left. Missing heartbeats are raised, or handed to
        `error_handler`; iterating again goes on.
        """
        return Messages(
            self._flow(
                max_messages,
                max_bytes,
                threshold,
                expires,
                heartbeat,
                stop_after,
                error_handler,
                limits,
            )
        )

    async def consume(
        self,
        callback: Callable[[JetStreamMessage], Any],
        **options: Any,
    ) -> ConsumeContext:
        """Call `callback` (a function or coroutine function) with every message, in order.

        Options are those of `messages()`. Exceptions of the callback are reported on the
        connection and the flow goes on.
        """
        return ConsumeContext(self.messages(**options), callback, self)

    def _flow(
        self,
        max_messages: int,
        max_bytes: int | None,
        threshold: int | None,
        expires: Seconds,
        heartbeat: Seconds | None,
        stop_after: int | None,
        error_handler: Callable[[Exception], None] | None,
        limits: dict[str, Any],
    ) -> PullStream:
        expiry = _seconds(expires)
        if expiry < 1.0:
            raise ValueError("expires must be at least one second")
        beat = min(expiry / 2, 30.0) if heartbeat is None else _seconds(heartbeat)
        if beat * 2 > expiry:
            raise ValueError("heartbeat may be at most half of expires")
        flow = PullStream(
            self.js.connection,
            self._next,
            max_messages=max_messages,
            max_bytes=max_bytes,
            threshold=threshold,
            expires=expiry,
            heartbeat=beat,
            limits={name: value for name, value in limits.items() if value is not None},
            on_error=error_handler,
            stop_after=stop_after,
        )
        flow.verify = self.info
        flow.start()
        return flow

    def __aiter__(self) -> AsyncIterator[JetStreamMessage]:
        return self.messages()

    def __repr__(self) -> str:
        return f"<Consumer {self.name!r} of {self.stream_name!r}>"


def _seconds(value: Seconds) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _harmless(error: Exception) -> bool:
    """Ends of a fetch that mean "nothing there" rather than "something is wrong"."""
    from jetstream.client.errors import StatusError

    return (
        isinstance(error, StatusError)
        and error.status == 409
        and ("leadership" in error.description.lower() or "shutdown" in error.description.lower())
    )


def pause_until_text(until: datetime | Seconds, now_ns: int) -> str:
    """A moment, or seconds from now, as the API wants it."""
    if isinstance(until, datetime):
        return time_to_wire(until)
    from jetstream.schema.times import rfc3339

    return rfc3339(now_ns + to_ns(until))


__all__ = ["ConsumeContext", "Consumer", "MessageBatch", "Messages", "read_info"]
