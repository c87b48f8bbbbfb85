"""WebSocket in front of a connection: the NATS byte stream travels in binary frames.

    bytes ──► WebSocketDoor: HTTP upgrade ──► frames ──► connection.data_received(plain bytes)
    bytes ◄── WebSocketTransport.write(plain bytes) ◄── connection

The frames of the peer are read by the sans-I/O protocol of `websockets`; ours are written here,
because a server's frame is only a short header, and compression starts above 64 bytes.
Frame boundaries mean nothing: an operation may be spread over frames, a frame may hold many.
"""

import asyncio
import base64
import hashlib
import zlib
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from msgspec import Struct

from jetstream.clock import SECOND
from jetstream.server.options import WebsocketOptions
from jetstream.wire.operations import Connect

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_EXTENSION = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
_BINARY = 0x82
_BINARY_COMPRESSED = 0xC2
_CLOSE = 0x88
REQUEST_BYTES_MAX = 16 * 1024
COMPRESS_OVER = 64
BROWSER_FRAME = 4096
INBOUND_MAX = 64 * 1024 * 1024


class Refused(Exception):
    """The upgrade is refused; `why` goes to the log, the peer sees only the status."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Upgrade(Struct):
    """An accepted upgrade: what to answer, and what is agreed."""

    response: bytes
    compress: bool = False
    browser: bool = False
    forwarded_for: str = ""
    cookies: dict[str, str] = {}


# --- the handshake ---


def parse_request(head: bytes) -> tuple[str, dict[str, list[str]]]:
    """Method and headers (names in lower case) of an HTTP request head."""
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refused(HTTPStatus.BAD_REQUEST, "malformed HTTP request")
    headers: dict[str, list[str]] = {}
    for line in lines[1:]:
        if not line:
            continue
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise Refused(HTTPStatus.BAD_REQUEST, "malformed HTTP header")
        headers.setdefault(name.lower(), []).append(value.strip())
    return words[0], headers


def upgrade(head: bytes, options: WebsocketOptions, *, tls: bool) -> Upgrade:
    """Answer an upgrade request; raises Refused."""
    method, headers = parse_request(head)
    if method != "GET":
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "request method must be GET")
    if "host" not in headers:
        raise Refused(HTTPStatus.BAD_REQUEST, "'Host' missing in request")
    for name, wanted in (("upgrade", "websocket"), ("connection", "upgrade")):
        if not _contains(headers, name, wanted):
            raise Refused(HTTPStatus.BAD_REQUEST, f"invalid value for header '{name.capitalize()}'")
    key = _first(headers, "sec-websocket-key")
    if not key:
        raise Refused(HTTPStatus.BAD_REQUEST, "key missing")
    if not _contains(headers, "sec-websocket-version", "13"):
        raise Refused(HTTPStatus.BAD_REQUEST, "invalid version")
    _check_origin(headers, options, tls=tls)
    compress = options.compression and any(
        offer.split(";")[0].strip().lower() == "permessage-deflate"
        for line in headers.get("sec-websocket-extensions", ())
        for offer in line.split(",")
    )
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept_key(key)}",
    ]
    if compress:
        lines.append(f"Sec-WebSocket-Extensions: {_EXTENSION}")
    lines += [f"{name}: {value}" for name, value in options.headers.items()]
    return Upgrade(
        ("\r\n".join(lines) + "\r\n\r\n").encode(),
        compress,
        browser=_first(headers, "user-agent").startswith("Mozilla/"),
        forwarded_for=_forwarded_for(headers),
        cookies=_cookies(headers),
    )


def refusal(error: Refused) -> bytes:
    """The HTTP answer to a request that is no upgrade we like."""
    body = error.status.phrase + "\n"
    return (
        f"HTTP/1.1 {error.status.value} {error.status.phrase}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        "Sec-Websocket-Version: 13\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n"
        f"\r\n{body}"
    ).encode()


def accept_key(key: str) -> str:
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


def _first(headers: dict[str, list[str]], name: str) -> str:
    values = headers.get(name)
    return values[0] if values else ""


def _contains(headers: dict[str, list[str]], name: str, wanted: str) -> bool:
    return any(
        part.strip().lower() == wanted for line in headers.get(name, ()) for part in line.split(",")
    )


def _check_origin(headers: dict[str, list[str]], options: WebsocketOptions, *, tls: bool) -> None:
    """Browsers say where the page came from; other clients say nothing and are welcome."""
    if not options.same_origin and not options.allowed_origins:
        return
    origin = _first(headers, "origin") or _first(headers, "sec-websocket-origin")
    if not origin:
        return
    why = "origin not allowed: "
    try:
        found = _origin(origin)
    except ValueError as error:
        raise Refused(HTTPStatus.FORBIDDEN, f"{why}{error}") from None
    if options.same_origin:
        scheme = "https" if tls else "http"
        try:
            here = _origin(f"{scheme}://{_first(headers, 'host')}")
        except ValueError as error:
            raise Refused(HTTPStatus.FORBIDDEN, f"{why}{error}") from None
        if found != here:
            raise Refused(HTTPStatus.FORBIDDEN, f"{why}not same origin")
    if options.allowed_origins:
        allowed = []
        for text in options.allowed_origins:
            try:
                allowed.append(_origin(text))
            except ValueError:
                continue
        if found not in allowed:
            raise Refused(HTTPStatus.FORBIDDEN, f"{why}not in the allowed list")


def _origin(text: str) -> tuple[str, str, int]:
    """Scheme, host and port of an origin."""
    parts = urlsplit(text)
    if not parts.scheme or not parts.hostname:
        raise ValueError(f'parse "{text}": missing protocol scheme')
    default = 443 if parts.scheme.lower() == "https" else 80
    return parts.scheme.lower(), parts.hostname.lower(), parts.port or default


def _forwarded_for(headers: dict[str, list[str]]) -> str:
    """The first address a proxy reports, if it is one."""
    import ipaddress

    for line in headers.get("x-forwarded-for", ()):
        first = line.split(",")[0].strip()
        try:
            return str(ipaddress.ip_address(first))
        except ValueError:
            return ""
    return ""


def _cookies(headers: dict[str, list[str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in headers.get("cookie", ()):
        for part in line.split(";"):
            name, equals, value = part.strip().partition("=")
            if equals:
                found.setdefault(name, value.strip('"'))
    return found


def fill_from_cookies(connect: Connect, cookies: dict[str, str], options: WebsocketOptions) -> None:
    """Browsers keep credentials in cookies; they stand in for what CONNECT does not say."""
    for field, cookie in (
        ("jwt", options.jwt_cookie),
        ("user", options.user_cookie),
        ("password", options.pass_cookie),
        ("auth_token", options.token_cookie),
    ):
        if cookie and not getattr(connect, field) and cookies.get(cookie):
            setattr(connect, field, cookies[cookie])


# --- frames ---


def frame(data: bytes | bytearray | memoryview, *, compress: bool = False) -> bytes:
    """One unmasked binary frame."""
    first = _BINARY
    if compress and len(data) > COMPRESS_OVER:
        # A fresh compressor per message: no context is kept on either side.
        deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
        data = (deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4]
        first = _BINARY_COMPRESSED
    return _header(first, len(data)) + data


def _header(first: int, length: int) -> bytes:
    if length < 126:
        return bytes((first, length))
    if length < 65536:
        return bytes((first, 126)) + length.to_bytes(2, "big")
    return bytes((first, 127)) + length.to_bytes(8, "big")


class FrameReader:
    """Frames of the peer → plain bytes, and what has to be answered (pong, close)."""

    def __init__(self, payload_max: int, *, compress: bool) -> None:
        from websockets.extensions.permessage_deflate import PerMessageDeflate
        from websockets.frames import Frame, Opcode
        from websockets.protocol import OPEN, SERVER
        from websockets.protocol import Protocol as Frames

        limit = min(8 * payload_max, INBOUND_MAX)
        self._frames = Frames(SERVER, state=OPEN, max_size=limit)
        if compress:
            self._frames.extensions = [PerMessageDeflate(True, True, 15, 15)]
        self._data_kinds = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)
        self._frame = Frame
        self.error: str = ""
        self.closed = False

    def feed(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Plain bytes in order, and bytes to send back. `closed` tells that it is over."""
        frames = self._frames
        frames.receive_data(data)
        plain = [
            bytes(event.data)
            for event in frames.events_received()
            if isinstance(event, self._frame) and event.opcode in self._data_kinds
        ]
        answer = b"".join(frames.data_to_send())
        problem = frames.parser_exc
        if problem is not None:
            self.error = str(problem)
        if problem is not None or frames.close_expected():
            self.closed = True
        return plain, answer


# --- the door ---


class Plain(Protocol):
    """What stands behind the door: the server's connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class WebSocketTransport(asyncio.Transport):
    """Looks like a transport of plain bytes and writes frames."""

    def __init__(self, inner: asyncio.Transport, agreed: Upgrade, peer: tuple[str, int]) -> None:
        super().__init__()
        self._inner = inner
        self._compress = agreed.compress
        self._browser = agreed.browser
        self._peer = peer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self._peer
        return self._inner.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._browser or len(data) <= BROWSER_FRAME:
            self._inner.write(frame(data, compress=self._compress))
            return
        # Browsers hand a frame to the page only when it is complete: keep them small.
        view = memoryview(data)
        parts = [
            frame(view[at : at + BROWSER_FRAME], compress=self._compress)
            for at in range(0, len(view), BROWSER_FRAME)
        ]
        self._inner.write(b"".join(parts))

    def close(self) -> None:
        if not self._inner.is_closing():
            self._inner.write(bytes((_CLOSE, 2, 0x03, 0xE8)))
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()

    def is_closing(self) -> bool:
        return self._inner.is_closing()

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._inner.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._inner.set_write_buffer_limits(high, low)


class WebSocketDoor(asyncio.Protocol):
    """An accepted socket until it has become a connection, and its frames afterwards."""

    def __init__(
        self,
        options: WebsocketOptions,
        make_connection: Callable[[Upgrade], Plain],
        *,
        payload_max: int,
        tls: bool,
        on_error: Callable[[str, str], None],
    ) -> None:
        self.options = options
        self.make_connection = make_connection
        self.payload_max = payload_max
        self.tls = tls
        self.on_error = on_error
        self._head = bytearray()
        self._transport: asyncio.Transport | None = None
        self._connection: Plain | None = None
        self._reader: FrameReader | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an instance under uvloop, whose transports only look like one.
        self._transport = cast(asyncio.Transport, transport)
        timeout = self.options.handshake_timeout_ns / SECOND
        self._timer = asyncio.get_running_loop().call_later(timeout, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._reader is not None:
            self._on_frames(data)
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0 and len(self._head) <= REQUEST_BYTES_MAX:
            return
        if self._timer is not None:
            self._timer.cancel()
        rest = bytes(self._head[end + 4 :]) if end >= 0 else b""
        self._shake_hands(bytes(self._head[:end]) if end >= 0 else b"")
        self._head.clear()
        if rest and self._reader is not None:
            self._on_frames(rest)

    def _shake_hands(self, head: bytes) -> None:
        transport = self._transport
        assert transport is not None
        try:
            agreed = upgrade(head, self.options, tls=self.tls)
        except Refused as error:
            self.on_error(_shown(transport), f"websocket handshake error: {error.why}")
            transport.write(refusal(error))
            transport.close()
            return
        transport.write(agreed.response)
        peer = transport.get_extra_info("peername") or ("", 0)
        host = agreed.forwarded_for or str(peer[0])
        self._reader = FrameReader(self.payload_max, compress=agreed.compress)
        self._connection = self.make_connection(agreed)
        self._connection.connection_made(
            WebSocketTransport(transport, agreed, (host, int(peer[1])))
        )

    def _on_frames(self, data: bytes) -> None:
        assert self._reader is not None and self._connection is not None
        transport = self._transport
        assert transport is not None
        if self._reader.closed:
            return
        plain, answer = self._reader.feed(data)
        for part in plain:
            self._connection.data_received(part)
        if self._reader.error:
            # Broken framing ends the connection; there is nothing left to say in frames.
            self.on_error(_shown(transport), f"read error: {self._reader.error}")
        elif answer and not transport.is_closing():
            transport.write(answer)
        if self._reader.closed:
            transport.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()


def _shown(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if peer else "?"
