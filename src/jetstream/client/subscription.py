"""A subscription: what arrives on a subject, as an iterator or through a callback.

The kernel hands over runs of messages; they wait in a bounded queue. When the application is too
slow the newest messages are dropped, counted, and reported once per overflow as
`SlowConsumerError`.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from jetstream.client._inbound import frames, total_size
from jetstream.client.errors import (
    ClientError,
    ConnectionClosedError,
    RequestTimeoutError,
    SlowConsumerError,
)
from jetstream.client.message import Message
from jetstream.wire._parser import Batch

if TYPE_CHECKING:
    from jetstream.client.connection import Connection

MessageCallback = Callable[[Any], Any]


class Subscription:
    """Interest in a subject. Iterate it, ask it for `next()`, or give `subscribe()` a callback."""

    def __init__(
        self,
        connection: "Connection",
        sid: int,
        subject: str,
        queue: str,
        callback: MessageCallback | None,
        pending_msgs: int,
        pending_bytes: int,
        message_type: type[Message] = Message,
    ) -> None:
        self.sid = sid
        self.subject = subject
        self.queue = queue
        self.delivered = 0
        self.dropped = 0
        self._connection = connection
        self._callback = callback
        self._type = message_type
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self._msgs_max = pending_msgs
        self._bytes_max = pending_bytes
        self._overflow = False
        self._max: int | None = None
        self._closed = False
        self._draining = False
        self._wake: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        if callback is not None:
            self._task = connection.spawn(self._call_back(callback))

    # filled by the connection

    def receive(self, batch: Batch, start: int, stop: int) -> None:
        """A run of messages from the wire."""
        made, _ = frames(batch, start, stop, self._type, self._connection)
        self.delivered += len(made)
        self._take(made)
        if self._max is not None and self.delivered >= self._max:
            self._connection.forget(self)
            self._finish()

    def _take(self, made: list[Message]) -> None:
        size = total_size(made)
        waiting = self._waiting
        if (
            len(waiting) + len(made) > self._msgs_max
            or self._waiting_bytes + size > self._bytes_max
        ):
            made, size = self._fitting(made)
        else:
            self._overflow = False
        waiting.extend(made)
        self._waiting_bytes += size
        wake = self._wake
        if wake is not None and made:
            self._wake = None
            if not wake.done():
                wake.set_result(None)

    def _fitting(self, made: list[Message]) -> tuple[list[Message], int]:
        """As many as there is room for; the rest is dropped and reported once."""
        fit: list[Message] = []
        size = 0
        room = self._msgs_max - len(self._waiting)
        bytes_room = self._bytes_max - self._waiting_bytes
        for message in made[: max(room, 0)]:
            if size + message.size > bytes_room:
                break
            size += message.size
            fit.append(message)
        dropped = len(made) - len(fit)
        self.dropped += dropped
        if not self._overflow:
            self._overflow = True
            self._connection.report_slow(SlowConsumerError(self.subject, dropped))
        return fit, size

    def _finish(self) -> None:
        """No more will come; what waits may still be read."""
        self._closed = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
            self._wake = None
        self._check_drained()

    # used by the application

    @property
    def pending(self) -> int:
        """Messages that wait to be read."""
        return len(self._waiting)

    @property
    def pending_bytes(self) -> int:
        return self._waiting_bytes

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def has_callback(self) -> bool:
        return self._callback is not None

    async def next(self, timeout: float | None = None) -> Any:
        """The next message; `RequestTimeoutError` when none came in time."""
        try:
            async with asyncio.timeout(timeout):
                return await self._next()
        except TimeoutError:
            raise RequestTimeoutError(f"no message on {self.subject!r} in {timeout} s") from None

    async def _next(self) -> Message:
        waiting = self._waiting
        while not waiting:
            if self._closed:
                raise ConnectionClosedError(f"the subscription on {self.subject!r} is closed")
            if self._wake is None or self._wake.done():
                self._wake = self._connection.loop.create_future()
            await asyncio.shield(self._wake)
        return self._pop()

    def _pop(self) -> Message:
        message = self._waiting.popleft()
        self._waiting_bytes -= message.size
        if not self._waiting:
            self._check_drained()
        return message

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._waiting:
            return self._pop()
        try:
            return await self._next()
        except ConnectionClosedError:
            raise StopAsyncIteration from None

    async def take(self, most: int) -> list[Any]:
        """At least one message and as many more as are here; empty at the end."""
        try:
            taken = [await self.__anext__()]
        except StopAsyncIteration:
            return []
        while self._waiting and len(taken) < most:
            taken.append(self._pop())
        return taken

    async def unsubscribe(self, max_messages: int | None = None) -> None:
        """Stop, now or after `max_messages` in all."""
        if self._closed:
            return
        if max_messages is not None and self.delivered < max_messages:
            self._max = max_messages
            self._connection.command(b"UNSUB %d %d\r\n" % (self.sid, max_messages))
            return
        self._connection.command(b"UNSUB %d\r\n" % self.sid)
        self._connection.forget(self)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._finish()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def drain(self, timeout: float | None = None) -> None:
        """Stop receiving, but let what has arrived be processed."""
        if self._closed:
            return
        self._draining = True
        self._connection.command(b"UNSUB %d\r\n" % self.sid)
        try:
            # Everything the server sent before our UNSUB comes before its PONG.
            await self._connection.flush(timeout)
        except ClientError:
            pass
        self._connection.forget(self)
        self._finish()
        if self._waiting or (self._task is not None and self._task is not asyncio.current_task()):
            await self._wait_drained(timeout)

    async def _wait_drained(self, timeout: float | None) -> None:
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout)
            return
        self._drained = self._connection.loop.create_future()
        await asyncio.wait([self._drained], timeout=timeout)

    def _check_drained(self) -> None:
        drained = self._drained
        if drained is not None and not drained.done() and self._closed and not self._waiting:
            drained.set_result(None)

    async def _call_back(self, callback: MessageCallback) -> None:
        async for message in self:
            try:
                result = callback(message)
                if inspect.isawaitable(result):
                    await result
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self._connection.report_error(error)

    @property
    def remaining_max(self) -> int | None:
        """For a reconnect: how many messages may still come, or None for any number."""
        return None if self._max is None else max(self._max - self.delivered, 1)

    async def __aenter__(self) -> "Subscription":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.unsubscribe()

    def __repr__(self) -> str:
        queue = f" queue={self.queue!r}" if self.queue else ""
        return f"<Subscription {self.subject!r}{queue} pending={self.pending}>"
