"""Pulling: one request at a time (`fetch`), or a steady flow that asks ahead (`PullStream`).

    fetch       request ─► messages … ─► enough, or a status that ends it
    PullStream  keeps `max_messages` asked for or waiting; asks again when half of them are used up

A status (a header-only message) ends or explains a request: 404 nothing there, 408 time is up, 409
limits and deletions, 100 a heartbeat. Its `Nats-Pending-*` headers tell what of it is left.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from jetstream.client._inbound import frames
from jetstream.client.config import Seconds, to_ns
from jetstream.client.errors import (
    BadRequestError,
    ClientError,
    ConnectionClosedError,
    ConsumerDeletedError,
    MissingHeartbeatError,
    NoRespondersError,
    StatusError,
)
from jetstream.client.message import ACK, JetStreamMessage
from jetstream.errors import ApiError
from jetstream.schema.consumer import NextRequest
from jetstream.schema.encoding import to_json
from jetstream.wire._parser import Batch
from jetstream.wire.headers import get_header

if TYPE_CHECKING:
    from jetstream.client.connection import Connection
    from jetstream.client.inbox import PullInbox

VERIFY_WAIT = 0.25
GRACE = 1.0  # how much longer than the server we wait before we stop a request ourselves
FATAL_409 = ("consumer deleted", "consumer is push based", "exceeded maxrequest")


def status_text(message: JetStreamMessage) -> str:
    first = message.header_block.split(b"\r\n", 1)[0]
    return first[13:].decode(errors="replace").strip()


def status_error(message: JetStreamMessage, subject: str) -> ClientError:
    """What a status means for somebody who waits."""
    text = status_text(message)
    if message.status == 503:
        return NoRespondersError(subject, "the consumer does not exist (any more)")
    if message.status == 400:
        return BadRequestError(400, text)
    if message.status == 409 and "consumer deleted" in text.lower():
        return ConsumerDeletedError(409, text)
    return StatusError(message.status, text)


class MessageBatch(list[JetStreamMessage]):
    """The messages of one fetch. `error` tells why it ended early, if that was no ordinary end."""

    error: ClientError | None = None

    async def ack(self) -> None:
        """Acknowledge every message of the batch, in one write."""
        if self:
            connection: Connection = self[0].connection
            connection.out.acks(self, ACK)
            connection.plan_flush()

    async def ack_sync(self, timeout: float | None = None) -> None:
        """As `ack`, and wait until the server confirmed the last of them."""
        if self:
            connection: Connection = self[0].connection
            connection.out.acks(list(self[:-1]), ACK)
            await self[-1].ack_sync(timeout)

    def to_arrow(self) -> Any:
        """A pyarrow table: subject, seq, time, deliveries, headers, data (needs pyarrow)."""
        from jetstream.client.arrow import messages_to_arrow

        return messages_to_arrow(self)


class Fetch:
    """One pull request and what came back."""

    def __init__(self, connection: "Connection", subject: str, request: NextRequest) -> None:
        self.messages = MessageBatch()
        self.clean = False
        self._connection = connection
        self._subject = subject
        self._request = request
        self._done: asyncio.Future[None] = connection.loop.create_future()
        self._last_heard = connection.loop.time()

    def receive(self, batch: Batch, start: int, stop: int) -> None:
        made, statuses = frames(
            batch, start, stop, self._connection.delivery_type, self._connection
        )
        self._last_heard = self._connection.loop.time()
        if statuses:
            for message in made:
                if message.status:
                    self._on_status(message)
                else:
                    self.messages.append(message)
        else:
            self.messages.extend(made)
        # With max_bytes a full batch is followed by a status of its own.
        if len(self.messages) >= self._request.batch and not self._request.max_bytes:
            self._end(clean=True)

    def _on_status(self, message: JetStreamMessage) -> None:
        if message.status == 100:
            return
        text = status_text(message).lower()
        ordinary = message.status in (404, 408) or (
            message.status == 409 and ("batch completed" in text or "exceeds maxbytes" in text)
        )
        if not ordinary or (message.status == 409 and not self.messages):
            self.messages.error = status_error(message, self._subject)
        self._end(clean=True)

    def _end(self, clean: bool) -> None:
        self.clean = clean
        if not self._done.done():
            self._done.set_result(None)

    async def run(self, wait: float) -> MessageBatch:
        connection = self._connection
        inbox: PullInbox = connection.take_inbox()
        inbox.receiver = self.receive
        connection.on_restored.add(self._restored)
        connection.on_finished.add(self._closed)
        try:
            connection.send(self._subject, inbox.subject_bytes, None, to_json(self._request))
            await self._until(wait)
        finally:
            connection.on_restored.discard(self._restored)
            connection.on_finished.discard(self._closed)
            connection.give_inbox(inbox, self.clean)
        return self.messages

    def _closed(self) -> None:
        self.messages.error = ConnectionClosedError("the connection was closed")
        self._end(clean=False)

    def _restored(self) -> None:
        # The request died with the old link; what we have is what there is.
        if self.messages or self._request.no_wait:
            self._end(clean=False)

    async def _until(self, wait: float) -> None:
        heartbeat = self._request.idle_heartbeat / 1e9
        loop = self._connection.loop
        deadline = loop.time() + wait
        while not self._done.done():
            left = deadline - loop.time()
            if left <= 0:
                return
            patience = min(left, 2 * heartbeat) if heartbeat else left
            await asyncio.wait([self._done], timeout=patience)
            if (
                heartbeat
                and not self._done.done()
                and (loop.time() - self._last_heard > 2 * heartbeat)
            ):
                self.messages.error = MissingHeartbeatError("two heartbeats were missed")
                return


def next_request(
    batch: int,
    *,
    expires: Seconds | None = None,
    heartbeat: Seconds | None = None,
    max_bytes: int | None = None,
    no_wait: bool = False,
    group: str | None = None,
    min_pending: int | None = None,
    min_ack_pending: int | None = None,
    priority: int | None = None,
    pin_id: str | None = None,
) -> NextRequest:
    """A pull request from seconds and names."""
    if batch < 1:
        raise ValueError("ask for at least one message")
    return NextRequest(
        batch=batch,
        expires=to_ns(expires) if expires else 0,
        idle_heartbeat=to_ns(heartbeat) if heartbeat else 0,
        max_bytes=max_bytes or 0,
        no_wait=no_wait,
        group=group or "",
        min_pending=min_pending or 0,
        min_ack_pending=min_ack_pending or 0,
        priority=priority or 0,
        id=pin_id or "",
    )


class PullStream:
    """A steady flow of messages from a pull consumer, asked for ahead of use."""

    def __init__(
        self,
        connection: "Connection",
        subject: str,
        *,
        max_messages: int,
        max_bytes: int | None,
        threshold: int | None,
        expires: float,
        heartbeat: float,
        limits: dict[str, Any],
        on_error: Callable[[Exception], None] | None,
        stop_after: int | None = None,
    ) -> None:
        self._connection = connection
        self._subject = subject
        self._messages_max = max_messages
        self._bytes_max = max_bytes or 0
        limit = self._bytes_max or max_messages
        self._threshold = limit // 2 if threshold is None else min(threshold, limit - 1)
        self._expires = expires
        self._heartbeat = heartbeat
        self._limits = limits
        self._on_error = on_error
        self._left = stop_after
        self._buffer: deque[JetStreamMessage] = deque()
        self._buffer_bytes = 0
        self._asked = 0
        self._asked_bytes = 0
        self._pin_id = ""
        self._wake: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._fatal = False
        self._stopped = False
        self._draining = False
        self._inbox: PullInbox | None = None
        self._last_heard = connection.loop.time()
        self._watch: asyncio.TimerHandle | None = None
        self.accept: Callable[[list[JetStreamMessage]], list[JetStreamMessage]] | None = None
        self.on_fatal: Callable[[Exception], None] | None = None
        self.on_restored: Callable[[], None] | None = None
        # Asks the server whether the consumer exists; raises if it does not.
        self.verify: Callable[[], Awaitable[Any]] | None = None
        self._verifying = False

    # --- asking

    def start(self) -> None:
        connection = self._connection
        self._inbox = connection.take_inbox()
        self._inbox.receiver = self.receive
        connection.on_restored.add(self._restored)
        connection.on_finished.add(self._tell)
        self._pull()
        self._plan_watch()

    def _restored(self) -> None:
        if self.on_restored is not None:
            self.on_restored()
        else:
            self.restart()

    def redirect(self, subject: str) -> None:
        """Go on with another consumer (an ordered one was made anew)."""
        self._subject = subject
        if self._inbox is not None:
            # Late messages of the old consumer must not reach us: a new inbox.
            self._connection.give_inbox(self._inbox, clean=False)
            self._inbox = self._connection.take_inbox()
            self._inbox.receiver = self.receive
        self._fatal = False
        self._failure = None
        self.restart()

    def restart(self) -> None:
        """Whatever was asked for is lost; ask again."""
        self._asked = self._asked_bytes = 0
        self._last_heard = self._connection.loop.time()
        if not self._stopped and not self._fatal:
            self._pull()

    def _pull(self) -> None:
        if self._stopped or self._draining or self._inbox is None or self._connection.is_closed:
            return
        if self._bytes_max:
            have = self._asked_bytes + self._buffer_bytes
            batch = 1_000_000
            max_bytes = self._bytes_max - have
        else:
            have = self._asked + len(self._buffer)
            batch = self._messages_max - have
            max_bytes = 0
        if self._left is not None:
            batch = min(batch, self._left - self._asked - len(self._buffer))
        if batch <= 0 or have > self._threshold or not self._connection.is_connected:
            return
        request = next_request(
            batch,
            expires=self._expires,
            heartbeat=self._heartbeat,
            max_bytes=max_bytes,
            pin_id=self._pin_id,
            **self._limits,
        )
        self._asked += batch
        self._asked_bytes += max_bytes
        self._connection.send(self._subject, self._inbox.subject_bytes, None, to_json(request))

    def _plan_watch(self) -> None:
        if self._heartbeat and not self._stopped:
            self._watch = self._connection.loop.call_later(2 * self._heartbeat, self._check)

    def _check(self) -> None:
        """Two heartbeats without a sound while something is asked for: tell, and ask again."""
        loop = self._connection.loop
        if not self._connection.is_connected:
            self._last_heard = loop.time()
        elif self._asked > 0 and loop.time() - self._last_heard >= 2 * self._heartbeat:
            self._report(MissingHeartbeatError("two heartbeats were missed"))
            self.restart()
        self._plan_watch()

    # --- receiving

    def receive(self, batch: Batch, start: int, stop: int) -> None:
        made, statuses = frames(
            batch, start, stop, self._connection.delivery_type, self._connection
        )
        self._last_heard = self._connection.loop.time()
        if statuses:
            for message in made:
                if message.status:
                    self._on_status(message)
            made = [message for message in made if not message.status]
        if not made:
            return
        self._asked -= len(made)
        if self.accept is not None:
            made = self.accept(made)
        if self._bytes_max:
            size = sum(message.size for message in made)
            self._asked_bytes -= size
            self._buffer_bytes += size
        if self._limits and made and made[-1].header_block:
            pin = get_header(made[-1].header_block, b"Nats-Pin-Id")
            if pin is not None:
                self._pin_id = pin.decode()
        self._buffer.extend(made)
        self._tell()

    def _on_status(self, message: JetStreamMessage) -> None:
        status = message.status
        if status == 100:
            return
        if status == 423:
            self._pin_id = ""
        block = message.header_block
        self._asked -= int(get_header(block, b"Nats-Pending-Messages") or 0)
        self._asked_bytes -= int(get_header(block, b"Nats-Pending-Bytes") or 0)
        text = status_text(message).lower()
        if status == 503 and self.verify is not None and self.on_fatal is None:
            self._asked = self._asked_bytes = 0
            if not self._verifying:
                self._verifying = True
                self._connection.spawn(self._verify())
            return
        if status == 503 or status == 400 or (status == 409 and text.startswith(FATAL_409)):
            self._fatal = True
            self._asked = self._asked_bytes = 0
            error = status_error(message, self._subject)
            if self.on_fatal is not None:
                self.on_fatal(error)
            else:
                self.fail(error)
            return
        if status == 409 and ("exceeds maxbytes" not in text and "batch completed" not in text):
            # Leadership change, server shutdown, too many waiting: the request is gone.
            self._asked = self._asked_bytes = 0
            self._report(status_error(message, self._subject), quiet=True)
            self._connection.loop.call_later(0.1, self._pull)
            return
        if self._bytes_max and self._asked_bytes <= 0:
            self._asked = 0
        self._pull()

    async def _verify(self) -> None:
        """Nobody listens: the consumer is gone, or its cluster is choosing a leader."""
        assert self.verify is not None
        try:
            while not self._stopped and not self._connection.is_closed:
                await asyncio.sleep(VERIFY_WAIT)
                try:
                    await self.verify()
                except ApiError as error:
                    if error.code == 404:
                        self._fatal = True
                        self.fail(ConsumerDeletedError(409, str(error)))
                        return
                except ClientError:
                    continue  # not now; ask again
                else:
                    break
        finally:
            self._verifying = False
        self.restart()

    def fail(self, error: Exception) -> None:
        """Raised to whoever reads next, after what is buffered."""
        self._failure = error
        self._tell()

    def _report(self, error: Exception, quiet: bool = False) -> None:
        if self._on_error is not None:
            self._on_error(error)
        elif not quiet:
            self.fail(error)

    def _tell(self) -> None:
        wake = self._wake
        if wake is not None:
            self._wake = None
            if not wake.done():
                wake.set_result(None)

    # --- using

    def __aiter__(self) -> "PullStream":
        return self

    async def __anext__(self) -> JetStreamMessage:
        while not self._buffer:
            if self._failure is not None:
                error = self._failure
                if not self._fatal:
                    self._failure = None
                raise error
            if self._stopped or self._draining or self._left == 0:
                raise StopAsyncIteration
            if self._connection.is_closed:
                raise StopAsyncIteration
            if self._wake is None:
                self._wake = self._connection.loop.create_future()
            await asyncio.shield(self._wake)
        message = self._buffer.popleft()
        if self._left is not None:
            self._left -= 1
        if self._bytes_max:
            self._buffer_bytes -= message.size
            if self._asked_bytes + self._buffer_bytes <= self._threshold:
                self._pull()
        elif self._asked + len(self._buffer) <= self._threshold:
            self._pull()
        return message

    async def take(self, most: int) -> list[JetStreamMessage]:
        """At least one message and as many more as are here; empty at the end."""
        try:
            taken = [await self.__anext__()]
        except StopAsyncIteration:
            return []
        while self._buffer and len(taken) < most:
            taken.append(await self.__anext__())
        return taken

    def stop(self) -> None:
        """End at once; what is buffered is dropped and will be redelivered."""
        self._buffer.clear()
        self._close()

    def drain(self) -> None:
        """End after what is buffered."""
        self._close()

    def _close(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        if self._watch is not None:
            self._watch.cancel()
        self._connection.on_restored.discard(self._restored)
        self._connection.on_finished.discard(self._tell)
        if self._inbox is not None and not self._connection.is_closed:
            self._connection.give_inbox(self._inbox, clean=False)
        self._inbox = None
        self._tell()
