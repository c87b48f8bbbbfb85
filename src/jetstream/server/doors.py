"""Opens the doors of a server: clients (plain and TLS), WebSocket, monitoring, system account.

A plain client port hands sockets straight to asyncio. Where TLS is configured the socket is held
back first, because the INFO line (or the wait for a TLS handshake) comes before there is any
transport:

    accept ─► [handshake_first? wait for the first byte] ─► INFO in clear ─► TLS ─► connection
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetstream.clock import SECOND
from jetstream.errors import JetStreamError
from jetstream.server.closed import Reason
from jetstream.server.connection import Connection
from jetstream.server.options import TlsOptions

if TYPE_CHECKING:
    from jetstream.server.server import Server
    from jetstream.server.websocket import Upgrade

BACKLOG = 4096
_SCHEMES = {True: "wss", False: "ws"}
TLS_REQUIRED = "Secure Connection - TLS Required"
THROTTLED = "Connection throttling is active. Please try again later."


class DoorError(JetStreamError):
    """A port could not be opened; the text is the last line of the log."""


async def open_doors(server: "Server") -> None:
    """Listen on every configured port; fills in those that were really taken."""
    options = server.options
    await _open_monitoring(server)
    await _open_system_services(server)
    if options.websocket.port:
        await _open_websocket(server)
    await _open_clients(server)
    server.log.info("Server is ready")


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why(error: OSError | OverflowError, host: str, port: int) -> str:
    """As Go reports it: `listen tcp 0.0.0.0:4222: bind: address already in use`."""
    if isinstance(error, OverflowError):
        return f"listen tcp: address {port}: invalid port"
    if isinstance(error, socket.gaierror):
        return f"listen tcp: lookup {host}: no such host"
    text = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"listen tcp {address(host, port)}: bind: {text}"


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket; -1 and 0 take a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, max(0, port)))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def advertised(text: str, port: int) -> tuple[str, int] | None:
    """The address that clients are told instead of our own: `host` or `host:port`."""
    if not text:
        return None
    what = f"Error setting server INFO with ClientAdvertise value of {text}, err="
    host, colon, given = text.rpartition(":")
    if not colon:
        return text, port
    if ":" in host and not host.startswith("["):
        raise DoorError(f"{what}address {text}: too many colons in address")
    try:
        return host.strip("[]"), int(given)
    except ValueError:
        raise DoorError(f'{what}strconv.Atoi: parsing "{given}": invalid syntax') from None


# --- clients ---


async def _open_clients(server: "Server") -> None:
    options = server.options
    if options.dont_listen:
        return
    host = options.host or "0.0.0.0"
    if host == "localhost":
        host = "127.0.0.1"
    try:
        sock = _listen(host, options.port)
    except (OSError, OverflowError) as error:
        where = address(options.host, options.port)
        why = _why(error, options.host, options.port)
        raise DoorError(f'Error listening on port: {where}, "{why}"') from None
    server.port = sock.getsockname()[1]
    try:
        server.advertised = advertised(options.client_advertise, server.port)
    except DoorError:
        sock.close()
        raise
    if options.tls is None:
        listener = await server.loop.create_server(
            lambda: Connection(server), sock=sock, backlog=BACKLOG
        )
        server.listeners.append(listener)
    else:
        server.listeners.append(TlsListener(server, sock))  # type: ignore[arg-type]
    server.log.info("Listening for client connections on %s", address(server.host, server.port))
    if options.tls is not None:
        word = "available" if options.allow_non_tls else "required"
        server.log.info("TLS %s for client connections", word)
        if options.tls.handshake_first and not options.tls.handshake_first_fallback_ns:
            server.log.warning(
                'Clients that are not using "TLS Handshake First" option will fail to connect'
            )


class TlsListener:
    """Accepts sockets that will speak TLS sooner or later."""

    def __init__(self, server: "Server", sock: socket.socket) -> None:
        from jetstream.server.tls import RateLimit, server_context

        assert server.options.tls is not None
        self.server = server
        self.sock = sock
        self.sockets = [sock]
        self.context = server_context(server.options.tls)
        self.rate = RateLimit(server.options.tls.connection_rate_limit)
        self._accepting = server.spawn(self._accept())

    def reload(self, tls: TlsOptions) -> None:
        """New certificates for those who come from now on."""
        from jetstream.server.tls import server_context

        self.context = server_context(tls)
        self.rate.per_second = tls.connection_rate_limit

    def close(self) -> None:
        self._accepting.cancel()
        self.sock.close()

    async def _accept(self) -> None:
        loop = self.server.loop
        while True:
            try:
                sock, peer = await loop.sock_accept(self.sock)
            except OSError:
                if self.sock.fileno() < 0:
                    return
                await asyncio.sleep(0.05)  # out of files: let some go first
                continue
            self.server.spawn(self._receive(sock, peer))

    async def _receive(self, sock: socket.socket, peer: Any) -> None:
        server, tls = self.server, self.server.options.tls
        if tls is None:  # switched off by a reload
            await server.loop.connect_accepted_socket(lambda: Connection(server), sock)
            return
        connection = Connection(server)
        connection.host, connection.port = str(peer[0]), int(peer[1])
        if not server.enroll(connection):
            with contextlib.suppress(OSError):
                await server.loop.sock_sendall(sock, server.info_line(connection))
            await _say_and_close(server, sock, "maximum connections exceeded")
            connection.ended(Reason.MAX_CONNECTIONS)
            return
        try:
            await self._start(connection, sock, tls)
        except (TimeoutError, OSError, ssl.SSLError) as error:
            sock.close()
            if not connection.closed:
                server.log.error("%s - TLS handshake error: %s", connection, _tls_words(error))
                connection.ended(Reason.TLS_HANDSHAKE)

    async def _start(self, connection: Connection, sock: socket.socket, tls: TlsOptions) -> None:
        server = self.server
        speaks_tls = not server.options.allow_non_tls
        greeted = False
        if tls.handshake_first:
            wait_s = (tls.handshake_first_fallback_ns or tls.timeout_ns) / SECOND
            first = await _peek(server.loop, sock, wait_s)
            if first is None and not tls.handshake_first_fallback_ns:
                raise TimeoutError
            connection.tls_first = first is not None and first == b"\x16"
            if (
                first is not None
                and not connection.tls_first
                and not tls.handshake_first_fallback_ns
            ):
                raise ssl.SSLError("first record does not look like a TLS handshake")
        if not connection.tls_first:
            await server.loop.sock_sendall(sock, server.info_line(connection))
            greeted = True
            if server.options.allow_non_tls:
                first = await _peek(server.loop, sock, server.options.auth_timeout / SECOND)
                speaks_tls = first == b"\x16"
        if not speaks_tls:
            connection.greeted = True
            await server.loop.connect_accepted_socket(lambda: connection, sock)
            return
        if not self.rate.allow(server.clock.monotonic()):
            await _say_and_close(server, sock, THROTTLED)
            connection.ended(Reason.TLS_HANDSHAKE)
            return
        connection.greeted = greeted
        # A plain client that goes on in clear gets a word before it is closed.
        first = await _peek(server.loop, sock, tls.timeout_ns / SECOND)
        if first is not None and first not in (b"\x16", b""):
            with contextlib.suppress(OSError):
                sock.recv(65536)  # unread bytes would turn the close into a reset
            raise ssl.SSLError("first record does not look like a TLS handshake")
        await server.loop.connect_accepted_socket(
            lambda: connection,
            sock,
            ssl=self.context,
            ssl_handshake_timeout=max(0.05, tls.timeout_ns / SECOND),
        )


async def _peek(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, wait_s: float
) -> bytes | None:
    """The first byte without taking it; b"" at the end of the stream, None when none came."""
    ready: asyncio.Future[None] = loop.create_future()
    number = sock.fileno()

    def on_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(number, on_ready)
    try:
        await asyncio.wait_for(ready, wait_s)
    except TimeoutError:
        return None
    finally:
        loop.remove_reader(number)
    try:
        return sock.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, ConnectionError):
        return b""


async def _say_and_close(server: "Server", sock: socket.socket, text: str) -> None:
    with contextlib.suppress(OSError):
        await server.loop.sock_sendall(sock, f"-ERR '{text}'\r\n".encode())
    sock.close()


def _tls_words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "read timeout"
    reason = getattr(error, "reason", None) or (error.args[0] if error.args else error)
    return str(reason).lower().replace("_", " ")


# --- websocket ---


async def _open_websocket(server: "Server") -> None:
    options = server.options.websocket
    host = options.host or "0.0.0.0"
    context = None
    if options.tls is not None:
        from jetstream.server.tls import server_context

        context = server_context(options.tls)
    try:
        sock = _listen(host, options.port)
    except (OSError, OverflowError) as error:
        why = _why(error, host, options.port)
        raise DoorError(f"Unable to listen for websocket connections: {why}") from None
    port = sock.getsockname()[1]
    listener = await server.loop.create_server(
        _websocket_door(server, tls=context is not None),
        sock=sock,
        ssl=context,
        ssl_handshake_timeout=options.tls.timeout_ns / SECOND if options.tls else None,
        backlog=BACKLOG,
    )
    server.listeners.append(listener)
    scheme = _SCHEMES[context is not None]
    server.open_ports["websocket"] = (scheme, host, port)
    server.log.info("Listening for websocket clients on %s://%s", scheme, address(host, port))
    if context is None:
        server.log.warning("Websocket not configured with TLS. DO NOT USE IN PRODUCTION!")


def _websocket_door(server: "Server", *, tls: bool) -> Callable[[], asyncio.BaseProtocol]:
    def make_connection(agreed: "Upgrade") -> Connection:
        connection = Connection(server, "WEBSOCKET")
        connection.cookies = agreed.cookies
        return connection

    def on_error(peer: str, text: str) -> None:
        server.log.error("%s - %s", peer, text)

    def door() -> asyncio.BaseProtocol:
        from jetstream.server.websocket import WebSocketDoor

        return WebSocketDoor(
            server.options.websocket,
            make_connection,
            payload_max=server.options.max_payload,
            tls=tls,
            on_error=on_error,
        )

    return door


# --- the rest ---


async def _open_monitoring(server: "Server") -> None:
    options = server.options
    if not options.http_port and not options.https_port:
        return
    if options.http_port and options.https_port:
        both = f"HTTP ({options.http_port}) and HTTPs ({options.https_port})"
        raise DoorError(f"Can't start monitoring: can't specify both {both} ports")
    from jetstream.server.monitor_http import MonitorDoor

    host = options.http_host or options.host or "0.0.0.0"
    context = None
    port = options.http_port
    if options.https_port:
        if options.tls is None or not options.tls.cert_file:
            raise DoorError("Can't start monitoring: TLS cert and key required for HTTPS")
        from jetstream.server.tls import server_context

        context, port = server_context(options.tls), options.https_port
    scheme = "https" if context is not None else "http"
    try:
        sock = _listen(host, port)
    except (OSError, OverflowError) as error:
        why = _why(error, host, port)
        raise DoorError(
            f"Can't start monitoring: can't listen to the monitor port: {why}"
        ) from None
    door = MonitorDoor(server)
    listener = await server.loop.create_server(door.accept, sock=sock, ssl=context)
    server.listeners.append(listener)
    taken = sock.getsockname()[1]
    server.open_ports["monitoring"] = (scheme, host, taken)
    server.log.info("Starting %s monitor on %s", scheme, address(host, taken))


def connect_callout(server: "Server") -> None:
    """Let the authenticator ask the callout service, if one is configured."""
    options = server.options.callout
    if options is None:
        return
    from jetstream.server.callout import Callout

    server.authenticator.ask_callout = Callout(server, options).ask


async def _open_system_services(server: "Server") -> None:
    from jetstream.server.system import SystemServices

    connect_callout(server)

    services = SystemServices(server)
    services.start()
    server.services.append(services)
