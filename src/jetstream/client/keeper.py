"""Keeps a connection connected: chooses servers, reconnects, pings, tells what happened.

One round tries every known server once; between rounds it waits, longer each time, with jitter, so
that a thousand clients do not come back in the same millisecond.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from jetstream.client.errors import (
    AuthorizationError,
    ConnectionClosedError,
    NoServersError,
    RequestTimeoutError,
    StaleConnectionError,
)
from jetstream.client.events import Event, EventKind, Status
from jetstream.client.link import Link, dial
from jetstream.client.options import Address, Options, back_off, parse_address
from jetstream.wire.operations import Info

if TYPE_CHECKING:
    from jetstream.client.connection import Connection

EVENTS_KEPT = 1024
Dial = Callable[["Connection", Address, Options], Awaitable[Link]]

_log = logging.getLogger("jetstream.client")


class Keeper:
    """The life of one connection across many links."""

    def __init__(
        self, connection: "Connection", addresses: list[Address], options: Options
    ) -> None:
        self.status = Status.CONNECTING
        self.link: Link | None = None
        self.info = Info()
        self.addresses = list(addresses)
        self.discovered: list[Address] = []
        self.last_error: Exception | None = None
        self.dial: Dial = dial
        self._connection = connection
        self._options = options
        self._listeners: list[asyncio.Queue[Event | None]] = []
        self._reconnecting: asyncio.Task[None] | None = None
        self._pinging: asyncio.Task[None] | None = None
        self._pings_out = 0
        self._connected = asyncio.Event()
        self._in_aftercare: set[asyncio.Task[Any]] = set()
        if options.randomize and len(self.addresses) > 1:
            self._shuffle()

    def _shuffle(self) -> None:
        random = self._connection.random
        keyed = [(random.random(), address) for address in self.addresses]
        self.addresses = [address for _, address in sorted(keyed, key=lambda pair: pair[0])]

    # --- connecting

    async def connect(self) -> None:
        """The first connection: one round over the servers, or as many as allowed."""
        rounds = self._options.max_reconnects if self._options.retry_first_connect else 0
        attempt = 0
        while True:
            if await self._round():
                self.emit(Event(EventKind.CONNECTED, server=str(self._link_address())))
                return
            attempt += 1
            if isinstance(self.last_error, AuthorizationError) or 0 <= rounds < attempt:
                break
            await asyncio.sleep(self._pause(attempt))
        self.status = Status.CLOSED
        if isinstance(self.last_error, AuthorizationError):
            raise self.last_error
        names = ", ".join(map(str, self.addresses))
        error = NoServersError(f"no server could be reached ({names}): {self.last_error}")
        raise error from self.last_error

    async def _round(self) -> bool:
        for address in list(self.addresses):
            try:
                link = await self.dial(self._connection, address, self._options)
            except Exception as error:
                self.last_error = error
                if self.status is Status.CLOSED:
                    return False
                continue
            if self.status is Status.CLOSED:
                link.abort()
                return False
            self._adopt(link)
            return True
        return False

    def _adopt(self, link: Link) -> None:
        self.link = link
        self.info = link.info
        self.status = Status.CONNECTED
        self._learn_servers(link.info)
        self._connection.restore(link)
        self._connected.set()
        self._pings_out = 0
        if self._pinging is None:
            self._pinging = self._connection.spawn(self._ping())

    def _link_address(self) -> Address:
        assert self.link is not None
        return self.link.address

    def _pause(self, attempt: int) -> float:
        return back_off(attempt, self._options, self._connection.random.random())

    async def wait_connected(self, timeout: float | None) -> None:
        if self.status is Status.CLOSED:
            raise ConnectionClosedError("the connection is closed")
        if self.link is not None:
            return
        try:
            async with asyncio.timeout(timeout or self._options.request_timeout):
                await self._connected.wait()
        except TimeoutError:
            raise RequestTimeoutError("not connected") from None
        if self.link is None:
            raise ConnectionClosedError("the connection is closed")

    # --- losing and finding it again

    def lost(self, link: Link, error: Exception | None) -> None:
        """The link broke without our doing."""
        if link is not self.link:
            return
        self.link = None
        self._connected.clear()
        if error is not None:
            self.last_error = error
        if self.status is Status.CLOSED:
            return
        draining = self.status is Status.DRAINING
        self.status = Status.RECONNECTING
        self._connection.disconnected()
        self.emit(Event(EventKind.DISCONNECTED, server=str(link.address), error=error))
        if not self._options.reconnect or draining:
            self._reconnecting = self._after(self._give_up())
        else:
            self._reconnecting = self._after(self._reconnect())

    def drop(self, error: Exception) -> None:
        """We no longer trust the link."""
        link = self.link
        if link is not None:
            self.last_error = error
            link.abort()
            self.lost(link, error)

    async def _reconnect(self) -> None:
        attempt = 0
        refused = 0
        most = self._options.max_reconnects
        while self.status is not Status.CLOSED:
            await asyncio.sleep(self._pause(attempt))
            if await self._round():
                self._connection.statistics.reconnects += 1
                self.emit(Event(EventKind.RECONNECTED, server=str(self._link_address())))
                return
            attempt += 1
            refused = refused + 1 if isinstance(self.last_error, AuthorizationError) else 0
            self.emit(Event(EventKind.RECONNECT_FAILED, error=self.last_error))
            if 0 <= most < attempt or refused >= 2:
                break
        await self._give_up()

    async def _give_up(self) -> None:
        await self.close()

    # --- pings

    async def _ping(self) -> None:
        while self.status is not Status.CLOSED:
            await asyncio.sleep(self._options.ping_interval)
            if self.link is None:
                continue
            if self._pings_out >= self._options.max_outstanding_pings:
                self.drop(StaleConnectionError("the server does not answer our pings"))
                continue
            self._pings_out += 1
            self._connection.ping()

    def pong(self) -> None:
        self._pings_out = 0

    # --- what the server tells about itself and others

    def learn(self, info: Info) -> None:
        """A later INFO: new servers, new limits, or goodbye."""
        self.info = info
        if self.link is not None:
            self.link.info = info
        self._learn_servers(info)
        if info.ldm:
            self.emit(Event(EventKind.LAME_DUCK, server=self._connection.connected_url))

    def _learn_servers(self, info: Info) -> None:
        if not self._options.use_discovered:
            return
        scheme = self._link_address().scheme if self.link is not None else "nats"
        urls = info.ws_connect_urls if scheme in ("ws", "wss") else info.connect_urls
        known = {(address.host, address.port) for address in self.addresses}
        found = []
        for url in urls:
            address = parse_address(url, scheme)
            if (address.host, address.port) not in known:
                found.append(address)
        if found:
            self.discovered += found
            self.addresses += found
            names = ", ".join(map(str, found))
            self.emit(Event(EventKind.SERVERS_DISCOVERED, detail=names))

    # --- telling

    def emit(self, event: Event) -> None:
        """To every listener and to the callbacks that want this kind."""
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(event)
        options = self._options
        if event.error is not None and not (options.on_event or options.on_error):
            # Nobody asked to hear of it; it must not be lost all the same.
            _log.warning("%s: %s", event.kind.value, event.error or event.detail)
        self._call(options.on_event, event)
        if event.kind is EventKind.DISCONNECTED:
            self._call(options.on_disconnect, event)
        elif event.kind is EventKind.RECONNECTED:
            self._call(options.on_reconnect, event)
        elif event.kind is EventKind.CLOSED:
            self._call(options.on_close, event)
        elif event.error is not None:
            self._call(options.on_error, event.error)

    def _call(self, callback: Any, argument: Any) -> None:
        if callback is None:
            return
        try:
            result = callback(argument)
        except Exception:
            _log.exception("a callback of the connection failed")
            return
        if inspect.isawaitable(result):
            self._after(_awaited(result))

    def _after(self, work: Any) -> "asyncio.Task[Any]":
        """A task that outlives close(): reconnecting, or a user's last callback."""
        task = self._connection.loop.create_task(work)
        self._in_aftercare.add(task)
        task.add_done_callback(self._in_aftercare.discard)
        return task

    async def listen(self) -> AsyncIterator[Event]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue(EVENTS_KEPT)
        self._listeners.append(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._listeners.remove(queue)

    # --- the end

    async def close(self) -> None:
        if self.status is Status.CLOSED:
            return
        self.status = Status.CLOSED
        task, self._reconnecting = self._reconnecting, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        link, self.link = self.link, None
        if link is not None:
            link.close()
        self._connected.set()
        self._connection.finished()
        self.emit(Event(EventKind.CLOSED))
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)


async def _awaited(work: Any) -> None:
    try:
        await work
    except Exception:
        _log.exception("a callback of the connection failed")
