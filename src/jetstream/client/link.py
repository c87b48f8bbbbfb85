"""One socket to one server: dial, handshake, then bytes both ways.

    dial ─► INFO ─► (TLS) ─► CONNECT + PING ─► PONG ─► live

A `Link` is a `BufferedProtocol` with a receive buffer of its own. While it shakes hands, control
lines answer its futures; once live, everything goes to the connection above it, whole buffers at
a time. TCP, TLS, WebSocket and the in-process pipe differ only in how the transport is made.
"""

import asyncio
import ssl
from typing import Any, Protocol

import msgspec

from jetstream import __version__
from jetstream.client._inbound import dispatch
from jetstream.client.errors import AuthorizationError, ClientConnectionError, ServerError
from jetstream.client.options import Address, Options
from jetstream.wire._parser import Batch, Parser
from jetstream.wire.operations import Info, Kind, Role

RECEIVE_BYTES = 256 * 1024
WRITE_HIGH_WATER = 1024 * 1024

_decode_info = msgspec.json.Decoder(Info).decode
_encode = msgspec.json.Encoder().encode


class Host(Protocol):
    """What a link needs from the connection above it."""

    receivers: dict[int, Any]

    def on_control(self, kind: int, text: bytes) -> None: ...
    def on_received(self, messages: int, size: int) -> None: ...
    def on_lost(self, link: "Link", error: Exception | None) -> None: ...
    def on_writable(self, writable: bool) -> None: ...


class Link(asyncio.BufferedProtocol):
    """A transport and the parser of what arrives on it."""

    def __init__(self, host: Host, address: Address) -> None:
        self.address = address
        self.info = Info()
        self.transport: Any = None
        self._host = host
        self._parser = Parser(Role.CLIENT)
        self._room = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._room)
        self._live = False
        self._lost = False
        loop = asyncio.get_running_loop()
        self._info_here: asyncio.Future[Info] = loop.create_future()
        self._pong_here: asyncio.Future[None] = loop.create_future()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if isinstance(transport, asyncio.WriteTransport):
            transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self.feed(self._view[:nbytes])

    def data_received(self, data: bytes) -> None:
        """For transports that hand over bytes: the in-process pipe."""
        self.feed(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc)

    def pause_writing(self) -> None:
        self._host.on_writable(False)

    def resume_writing(self) -> None:
        self._host.on_writable(True)

    # what arrives

    def feed(self, data: memoryview | bytes) -> None:
        """Bytes from the server, cut anywhere."""
        parser = self._parser
        parser.feed(data)
        while (batch := parser.next_batch()) is not None:
            try:
                self._handle(batch)
            finally:
                Parser.done(batch)
        if parser.fault:
            self._fail(ClientConnectionError("the server sent something that is not NATS"))
            self.close()

    def _handle(self, batch: Batch) -> None:
        host = self._host
        if self._live:
            messages, size = dispatch(batch, host.receivers, host.on_control)
            host.on_received(messages, size)
            return
        for i in range(len(batch)):
            self._greeting(batch.kind(i), batch.payload(i))

    def _greeting(self, kind: int, text: bytes) -> None:
        if kind == Kind.INFO:
            self.info = _decode_info(text)
            if not self._info_here.done():
                self._info_here.set_result(self.info)
            elif self._live:
                self._host.on_control(kind, text)
        elif kind == Kind.PONG:
            # Whatever follows the PONG in this buffer belongs to the connection already.
            self._live = True
            if not self._pong_here.done():
                self._pong_here.set_result(None)
        elif kind == Kind.ERR:
            self._fail(greeting_error(text.decode(errors="replace").strip(" '")))
        elif kind == Kind.PING:
            self.write(b"PONG\r\n")

    def _fail(self, error: Exception | None) -> None:
        reason = error or ClientConnectionError(f"{self.address} closed the connection")
        for waiting in (self._info_here, self._pong_here):
            if not waiting.done():
                waiting.set_exception(reason)
                waiting.exception()  # somebody may have stopped waiting; that is no bug
        if self._live and not self._lost:
            self._lost = True
            self._host.on_lost(self, error)

    # what we do

    async def greet(self, options: Options) -> Info:
        """Everything between dialling and the first message of our own."""
        info = await self._info_here
        if not self.address.is_websocket and not options.tls_first:
            if info.tls_required or self.address.wants_tls or (options.tls and info.tls_available):
                await self._start_tls(options)
            elif options.tls:
                raise ClientConnectionError(f"{self.address} does not offer TLS")
        hello = {
            "verbose": options.verbose,
            "pedantic": options.pedantic,
            "tls_required": bool(options.tls),
            "lang": "python-jetstream",
            "version": __version__,
            "protocol": 1,
            "echo": options.echo,
            "headers": True,
            "no_responders": True,
            **options.credentials.answer(self.address, info.nonce),
        }
        if options.name:
            hello["name"] = options.name
        self.write(b"CONNECT " + _encode(hello) + b"\r\nPING\r\n")
        await self._pong_here
        return self.info

    async def _start_tls(self, options: Options) -> None:
        loop = asyncio.get_running_loop()
        self.transport = await loop.start_tls(
            self.transport,
            self,
            tls_context(options),
            server_hostname=options.tls_hostname or self.address.host,
        )

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        """Finish writing, then close."""
        self._live = False
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Drop the connection at once."""
        self._live = False
        if self.transport is not None:
            self.transport.abort()


def tls_context(options: Options) -> ssl.SSLContext:
    if isinstance(options.tls, ssl.SSLContext):
        return options.tls
    return ssl.create_default_context()


def greeting_error(text: str) -> Exception:
    low = text.lower()
    if "authorization" in low or "authentication" in low:
        return AuthorizationError(text)
    return ServerError(text)


async def dial(host: Host, address: Address, options: Options) -> Link:
    """A link to this server that has said hello, or an error."""
    link = Link(host, address)
    try:
        async with asyncio.timeout(options.connect_timeout):
            await _open(link, address, options)
            await link.greet(options)
    except BaseException:
        link.abort()
        raise
    return link


async def _open(link: Link, address: Address, options: Options) -> None:
    loop = asyncio.get_running_loop()
    if address.is_websocket:
        from jetstream.client.websocket import open_websocket

        await open_websocket(link, address, options)
        return
    tls: dict[str, Any] = {}
    if options.tls_first:
        tls = {
            "ssl": tls_context(options),
            "server_hostname": options.tls_hostname or address.host,
        }
    await loop.create_connection(lambda: link, address.host, address.port, **tls)
