"""A connection to a NATS server or cluster: publish, subscribe, request, and stay connected.

    application ─► OutBuffer ─► one write per loop turn ─► Link ─► socket
    application ◄─ Subscription / request future ◄─ dispatch ◄─ Link ◄─ socket

Publishing never waits for the network unless the transport says it is full; then `publish()` waits
until it has drained. While disconnected, publishes wait in the buffer (bounded), subscriptions are
restored on the new link, and requests keep waiting until their own time is over.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self

import msgspec

from jetstream.client._inbound import frames
from jetstream.client._outbound import OutBuffer
from jetstream.client.errors import (
    ClientConnectionError,
    ClientError,
    ConnectionClosedError,
    DisconnectedError,
    MaxPayloadError,
    NoRespondersError,
    OutboundBufferError,
    PermissionsError,
    RequestTimeoutError,
    ServerError,
    SlowConsumerError,
    StaleConnectionError,
)
from jetstream.client.events import Event, EventKind, Statistics, Status
from jetstream.client.inbox import PullInbox
from jetstream.client.keeper import Dial, Keeper
from jetstream.client.lines import check_queue, check_subject, header_block, sub_line
from jetstream.client.link import Link
from jetstream.client.message import HeadersLike, JetStreamMessage, Message, Payload
from jetstream.client.options import Address, Options
from jetstream.client.subscription import MessageCallback, Subscription
from jetstream.clock import Random
from jetstream.wire._parser import Batch
from jetstream.wire.operations import Info, Kind

if TYPE_CHECKING:
    from jetstream.client.jetstream import JetStream

FLUSH_BYTES = 128 * 1024
SPARE_INBOXES = 8
_decode_info = msgspec.json.Decoder(Info).decode


class Connection:
    """A live connection. Make one with `jetstream.connect()`."""

    def __init__(self, addresses: list[Address], options: Options, random: Random) -> None:
        self.loop = asyncio.get_running_loop()
        self.options = options
        self.statistics = Statistics()
        # What received messages are made of; the blocking twin puts its own kinds here.
        self.message_type: type[Message] = Message
        self.delivery_type: type[Any] = JetStreamMessage
        self.receivers: dict[int, Any] = {}
        self.random = random
        self._keeper = Keeper(self, addresses, options)
        self._out = OutBuffer()
        self._flush_planned = False
        self._writable: asyncio.Future[None] | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._extra_subjects: dict[int, str] = {}
        self._last_sid = 0
        self._pongs: deque[asyncio.Future[None]] = deque()
        self._inbox = f"{options.inbox_prefix}.{random.nuid()}."
        self._inbox_bytes = self._inbox.encode()
        self._inbox_open = False
        self._last_request = 0
        self._requests: dict[int, asyncio.Future[Message]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        # Called after a reconnect, when the subscriptions are back: pulls ask again.
        self.on_restored: set[Callable[[], None]] = set()
        # Called when it is closed for good.
        self.on_finished: set[Callable[[], None]] = set()
        self._spare_inboxes: list[PullInbox] = []

    # --- publish

    async def publish(
        self,
        subject: str | bytes,
        data: Payload = b"",
        *,
        reply: str | None = None,
        headers: HeadersLike | None = None,
    ) -> None:
        """Send a message; returns when it is on its way, not when somebody got it."""
        self.send(subject, reply, header_block(headers) if headers else None, data)
        if self._writable is not None:
            await self.writable()

    def send(
        self,
        subject: str | bytes,
        reply: str | bytes | None,
        headers: bytes | None,
        data: Payload,
    ) -> None:
        """`publish` without its waiting: for those who watch the size of what they send."""
        link = self._keeper.link
        if link is None or len(data) > link.info.max_payload:
            self._may_send(link, data)
        out = self._out
        out.pub(subject, reply, headers, data)
        if out.size >= FLUSH_BYTES:
            self._flush()
        elif not self._flush_planned:
            self._flush_planned = True
            self.loop.call_soon(self._flush)

    def _may_send(self, link: Link | None, data: Payload) -> None:
        if link is None:
            if self.status is Status.CLOSED:
                raise ConnectionClosedError("the connection is closed")
            if self._out.size + len(data) > self.options.reconnect_buffer_bytes:
                raise OutboundBufferError("too much published while disconnected")
        elif len(data) > link.info.max_payload:
            most = link.info.max_payload
            raise MaxPayloadError(f"{len(data)} bytes, but the server accepts {most}")

    def command(self, line: bytes) -> None:
        """Protocol text, in order with what is published."""
        if self.status is Status.CLOSED:
            raise ConnectionClosedError("the connection is closed")
        self._out.raw(line)
        self.plan_flush()

    @property
    def out(self) -> OutBuffer:
        """The outgoing buffer, for kernels that fill it in bulk; call `plan_flush()` after."""
        return self._out

    def plan_flush(self) -> None:
        if self._out.size >= FLUSH_BYTES:
            self._flush()
        elif not self._flush_planned:
            self._flush_planned = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        link = self._keeper.link
        # A transport that is going down takes nothing more; what we keep goes to the next one.
        if link is not None and self._out.size and not link.transport.is_closing():
            link.write(self._out.take())

    @property
    def is_full(self) -> bool:
        """The transport has more waiting than it should; see `writable`."""
        return self._writable is not None

    async def writable(self) -> None:
        """Wait until the transport takes more."""
        while self._writable is not None:
            await asyncio.shield(self._writable)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until the server has seen everything sent so far."""
        await self.wait_connected(timeout)
        await self._in_time(self.ping(), timeout, "flush")

    def ping(self) -> "asyncio.Future[None]":
        """Ask the server for a sign of life; done when it has answered."""
        pong: asyncio.Future[None] = self.loop.create_future()
        self._pongs.append(pong)
        self.command(b"PING\r\n")
        return pong

    async def rtt(self) -> float:
        """Seconds for one trip to the server and back."""
        start = self.loop.time()
        await self.flush()
        return self.loop.time() - start

    # --- subscribe

    async def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        callback: MessageCallback | None = None,
        max_messages: int | None = None,
        pending_msgs: int | None = None,
        pending_bytes: int | None = None,
        message_type: type[Message] | None = None,
    ) -> Subscription:
        """Receive what is published on a subject; with `queue`, share it with that group."""
        check_subject(subject)
        if queue:
            check_queue(queue)
        sid = self._next_sid()
        options = self.options
        subscription = Subscription(
            self,
            sid,
            subject,
            queue,
            callback,
            options.pending_msgs if pending_msgs is None else pending_msgs,
            options.pending_bytes if pending_bytes is None else pending_bytes,
            message_type or self.message_type,
        )
        self._subscriptions[sid] = subscription
        self.receivers[sid] = subscription.receive
        self.command(sub_line(subject, queue, sid))
        if max_messages is not None:
            await subscription.unsubscribe(max_messages)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Nothing more is expected for it."""
        self._subscriptions.pop(subscription.sid, None)
        self.receivers.pop(subscription.sid, None)

    def attach(self, subject: str, receiver: Any) -> int:
        """A bare subscription whose runs go straight to `receiver(batch, start, stop)`."""
        sid = self._next_sid()
        self.receivers[sid] = receiver
        self._extra_subjects[sid] = subject
        self.command(sub_line(subject, "", sid))
        return sid

    def detach(self, sid: int) -> None:
        self.receivers.pop(sid, None)
        if self._extra_subjects.pop(sid, None) is not None and self.status is not Status.CLOSED:
            self.command(b"UNSUB %d\r\n" % sid)

    def take_inbox(self) -> "PullInbox":
        """An inbox for one pull at a time; give it back clean, or drop it."""
        if self._spare_inboxes:
            return self._spare_inboxes.pop()
        inbox = PullInbox(self.new_inbox())
        inbox.sid = self.attach(inbox.subject, inbox.receive)
        return inbox

    def give_inbox(self, inbox: "PullInbox", clean: bool) -> None:
        """`clean`: nothing more can arrive on it, so the next pull may use it."""
        inbox.receiver = None
        if clean and len(self._spare_inboxes) < SPARE_INBOXES and not self.is_closed:
            self._spare_inboxes.append(inbox)
        else:
            self.detach(inbox.sid)

    def _next_sid(self) -> int:
        self._last_sid += 1
        return self._last_sid

    def new_inbox(self) -> str:
        """A subject nobody else uses."""
        return f"{self.options.inbox_prefix}.{self.random.nuid()}"

    # --- request

    async def request(
        self,
        subject: str | bytes,
        data: Payload = b"",
        *,
        timeout: float | None = None,
        headers: HeadersLike | None = None,
    ) -> Message:
        """Publish and wait for one answer; `NoRespondersError` at once if nobody listens."""
        if not self._inbox_open:
            self._inbox_open = True
            self.attach(self._inbox + "*", self._answers)
        self._last_request = token = self._last_request + 1
        answer: asyncio.Future[Message] = self.loop.create_future()
        self._requests[token] = answer
        try:
            reply = b"%b%d" % (self._inbox_bytes, token)
            self.send(subject, reply, header_block(headers) if headers else None, data)
            wait = self.options.request_timeout if timeout is None else timeout
            expiry = self.loop.call_later(wait, expire, answer, subject, wait)
            try:
                message = await answer
            finally:
                expiry.cancel()
        finally:
            self._requests.pop(token, None)
        if message.status == 503:
            raise NoRespondersError(subject if isinstance(subject, str) else subject.decode())
        return message

    def _answers(self, batch: Batch, start: int, stop: int) -> None:
        made, _ = frames(batch, start, stop, self.message_type, self)
        cut = len(self._inbox_bytes)
        for message in made:
            try:
                answer = self._requests.pop(int(message.subject_bytes[cut:]), None)
            except ValueError:
                continue
            if answer is not None and not answer.done():
                answer.set_result(message)

    async def request_many(
        self,
        subject: str,
        data: Payload = b"",
        *,
        timeout: float | None = None,
        max_messages: int | None = None,
        stall: float | None = None,
        headers: HeadersLike | None = None,
    ) -> AsyncIterator[Message]:
        """Several answers: until `max_messages`, a pause of `stall` seconds, or the timeout."""
        wait = self.options.request_timeout if timeout is None else timeout
        deadline = self.loop.time() + wait
        inbox = self.new_inbox()
        async with await self.subscribe(inbox, max_messages=max_messages) as answers:
            await self.publish(subject, data, reply=inbox, headers=headers)
            patience = wait
            while True:
                try:
                    message = await answers.next(min(patience, deadline - self.loop.time()))
                except (RequestTimeoutError, ConnectionClosedError):
                    return
                if message.status == 503:
                    raise NoRespondersError(subject)
                yield message
                if stall is not None:
                    patience = stall

    async def _in_time(
        self, waiting: "asyncio.Future[Any]", timeout: float | None, what: str
    ) -> Any:
        try:
            async with asyncio.timeout(timeout or self.options.request_timeout):
                return await waiting
        except TimeoutError:
            raise RequestTimeoutError(f"{what} timed out") from None

    # --- what the link tells us

    def on_received(self, messages: int, size: int) -> None:
        self.statistics.in_msgs += messages
        self.statistics.in_bytes += size

    def on_control(self, kind: int, text: bytes) -> None:
        if kind == Kind.PING:
            self.command(b"PONG\r\n")
        elif kind == Kind.PONG:
            self._keeper.pong()
            if self._pongs:
                pong = self._pongs.popleft()
                if not pong.done():
                    pong.set_result(None)
        elif kind == Kind.INFO:
            self._keeper.learn(_decode_info(text))
        elif kind == Kind.ERR:
            self._on_error(text.decode(errors="replace").strip(" '"))

    def _on_error(self, text: str) -> None:
        self.statistics.errors_received += 1
        low = text.lower()
        if "permissions violation" in low:
            self.report_error(PermissionsError(text))
        elif "stale connection" in low:
            self._keeper.drop(StaleConnectionError(text))
        else:
            error = ServerError(text)
            self._keeper.last_error = error
            self.report_error(error)

    def on_lost(self, link: Link, error: Exception | None) -> None:
        self._keeper.lost(link, error)

    def on_writable(self, writable: bool) -> None:
        if writable:
            waiting, self._writable = self._writable, None
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        elif self._writable is None:
            self._writable = self.loop.create_future()

    # --- what the keeper asks of us

    def restore(self, link: Link) -> None:
        """On a new link: first the subscriptions, then whatever waited to be sent."""
        lines = [sub_line(subject, "", sid) for sid, subject in self._extra_subjects.items()]
        for sid, subscription in self._subscriptions.items():
            lines.append(sub_line(subscription.subject, subscription.queue, sid))
            if (left := subscription.remaining_max) is not None:
                lines.append(b"UNSUB %d %d\r\n" % (sid, left))
        link.write(b"".join(lines) + self._out.take())
        self.on_writable(True)
        for told in list(self.on_restored):
            told()

    def disconnected(self) -> None:
        """Those who waited for a PONG of the old link will not get it."""
        while self._pongs:
            pong = self._pongs.popleft()
            if not pong.done():
                pong.set_exception(DisconnectedError("disconnected while waiting for the server"))
                pong.exception()
        self.on_writable(True)

    def finished(self) -> None:
        """Closed for good: everybody who waits is told."""
        self.disconnected()
        for answer in list(self._requests.values()):
            if not answer.done():
                answer.set_exception(ConnectionClosedError("the connection was closed"))
                answer.exception()
        for subscription in list(self._subscriptions.values()):
            subscription._finish()
        self._subscriptions.clear()
        self.receivers.clear()
        for told in list(self.on_finished):
            told()

    def report_error(self, error: Exception) -> None:
        """An error nobody waits for."""
        self._keeper.emit(Event(EventKind.ERROR, error=error))

    def report_slow(self, error: SlowConsumerError) -> None:
        self._keeper.emit(Event(EventKind.SLOW_CONSUMER, error=error, detail=error.subject))

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """A task that lives no longer than the connection."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- state and life

    async def open(self, dial: Dial | None = None) -> None:
        """The first connection; `dial` replaces the way a link is made."""
        if dial is not None:
            self._keeper.dial = dial
        await self._keeper.connect()

    async def wait_connected(self, timeout: float | None = None) -> None:
        """Return when there is a link; at once if there is one."""
        await self._keeper.wait_connected(timeout)

    @property
    def status(self) -> Status:
        return self._keeper.status

    @property
    def is_connected(self) -> bool:
        return self._keeper.link is not None

    @property
    def is_closed(self) -> bool:
        return self.status is Status.CLOSED

    @property
    def info(self) -> Info:
        """What the server said about itself."""
        return self._keeper.info

    @property
    def connected_url(self) -> str:
        link = self._keeper.link
        return str(link.address) if link is not None else ""

    @property
    def servers(self) -> list[str]:
        """Every server we know of, given and discovered."""
        return [str(address) for address in self._keeper.addresses]

    @property
    def discovered_servers(self) -> list[str]:
        return [str(address) for address in self._keeper.discovered]

    @property
    def max_payload(self) -> int:
        return self.info.max_payload

    @property
    def last_error(self) -> Exception | None:
        return self._keeper.last_error

    def stats(self) -> Statistics:
        """Messages and bytes in and out, reconnects."""
        self.statistics.out_msgs = self._out.messages
        self.statistics.out_bytes = self._out.payload_bytes
        return self.statistics

    def events(self) -> AsyncIterator[Event]:
        """Connection events from now on, until it is closed."""
        return self._keeper.listen()

    def jetstream(
        self, *, domain: str | None = None, prefix: str | None = None, **options: Any
    ) -> "JetStream":
        """The JetStream of this connection's account (or of a domain)."""
        from jetstream.client.jetstream import JetStream

        return JetStream(self, domain=domain, prefix=prefix, **options)

    async def drain(self, timeout: float | None = None, *, readers: bool = True) -> None:
        """Stop receiving, let everything be processed and sent, then close.

        `readers=False` waits for callbacks only, not for what nobody iterates any more.
        """
        if self.is_closed:
            return
        wait = self.options.drain_timeout if timeout is None else timeout
        self._keeper.status = Status.DRAINING
        await asyncio.gather(
            *(
                subscription.drain(wait)
                for subscription in list(self._subscriptions.values())
                if readers or subscription.has_callback
            )
        )
        if self.is_connected:
            try:
                await self.flush(wait)
            except (ClientError, ClientConnectionError):
                pass
        await self.close()

    async def close(self) -> None:
        """Send what is buffered and close; waiting requests fail."""
        if self.is_closed:
            return
        self._flush()
        await self._keeper.close()
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            await self.drain(readers=False)
        else:
            await self.close()

    def __repr__(self) -> str:
        return f"<Connection {self.status} {self.connected_url or self.servers}>"


def expire(answer: "asyncio.Future[Any]", subject: str | bytes, wait: float) -> None:
    if not answer.done():
        shown = subject.decode(errors="replace") if isinstance(subject, bytes) else subject
        answer.set_exception(RequestTimeoutError(f"no answer on {shown!r} within {wait:g} s"))
