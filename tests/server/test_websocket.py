"""WebSocket upgrades and frames, without a socket."""

import asyncio
import zlib
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.server.options import WebsocketOptions
from jetstream.server.websocket import (
    BROWSER_FRAME,
    FrameReader,
    Refused,
    Upgrade,
    WebSocketDoor,
    WebSocketTransport,
    fill_from_cookies,
    frame,
    refusal,
    upgrade,
)
from jetstream.wire.operations import Connect

GOOD = {
    "Host": "127.0.0.1:8080",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def a_request(method: str = "GET", **headers: str | None) -> bytes:
    found = dict(GOOD)
    for name, value in headers.items():
        key = name.replace("_", "-")
        if value is None:
            found.pop(key)
        else:
            found[key] = value
    lines = [f"{method} /any/path?x=1 HTTP/1.1", *(f"{k}: {v}" for k, v in found.items())]
    return "\r\n".join(lines).encode()


def ask(request: bytes, **options: Any) -> Upgrade:
    return upgrade(request, WebsocketOptions(**options), tls=False)


def masked(opcode: int, data: bytes, *, fin: bool = True, rsv1: bool = False) -> bytes:
    first = (0x80 if fin else 0) | (0x40 if rsv1 else 0) | opcode
    assert len(data) < 65536
    length = bytes([0x80 | len(data)])
    if len(data) >= 126:
        length = bytes([0x80 | 126]) + len(data).to_bytes(2, "big")
    mask = b"\x01\x02\x03\x04"
    return bytes([first]) + length + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def test_an_upgrade_is_answered_as_the_rfc_says() -> None:
    agreed = ask(a_request(), headers={"X-Foo": "bar"})
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in agreed.response
    assert agreed.response.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert b"X-Foo: bar\r\n" in agreed.response and not agreed.compress


@pytest.mark.parametrize(
    ("request_bytes", "status", "why"),
    [
        (a_request("POST"), 405, "request method must be GET"),
        (a_request(Host=None), 400, "'Host' missing in request"),
        (a_request(Upgrade="h2c"), 400, "invalid value for header 'Upgrade'"),
        (a_request(Connection="close"), 400, "invalid value for header 'Connection'"),
        (a_request(Sec_WebSocket_Key=None), 400, "key missing"),
        (a_request(Sec_WebSocket_Version="12"), 400, "invalid version"),
        (b"nonsense", 400, "malformed HTTP request"),
        (b"GET / HTTP/1.1\r\n bad", 400, "malformed HTTP header"),
    ],
)
def test_what_is_no_upgrade(request_bytes: bytes, status: int, why: str) -> None:
    with pytest.raises(Refused) as caught:
        ask(request_bytes)
    assert (caught.value.status, caught.value.why) == (status, why)
    assert refusal(caught.value).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("origin", "same", "allowed", "welcome"),
    [
        (None, True, [], True),
        ("http://127.0.0.1:8080", True, [], True),
        ("https://127.0.0.1:8080", True, [], False),
        ("http://evil.com", True, [], False),
        ("http://good.com", False, ["http://good.com"], True),
        ("http://good.com:80", False, ["http://good.com"], True),
        ("http://GOOD.com", False, ["http://good.com"], True),
        ("http://evil.com", False, ["http://good.com"], False),
        ("::", False, ["http://good.com"], False),
    ],
)
def test_origins(origin: str | None, same: bool, allowed: list[str], welcome: bool) -> None:
    request = a_request() if origin is None else a_request(Origin=origin)
    if welcome:
        assert ask(request, same_origin=same, allowed_origins=allowed)
        return
    with pytest.raises(Refused) as caught:
        ask(request, same_origin=same, allowed_origins=allowed)
    assert caught.value.status is HTTPStatus.FORBIDDEN
    assert caught.value.why.startswith("origin not allowed")


def test_compression_is_agreed_only_if_both_want_it() -> None:
    offer = a_request(Sec_WebSocket_Extensions="x-foo, permessage-deflate; client_max_window_bits")
    agreed = ask(offer, compression=True)
    assert agreed.compress
    assert b"server_no_context_takeover; client_no_context_takeover" in agreed.response
    assert not ask(offer).compress
    assert not ask(a_request(), compression=True).compress


def test_what_else_a_request_says() -> None:
    agreed = ask(
        a_request(
            User_Agent="Mozilla/5.0",
            X_Forwarded_For="10.1.2.3, 192.168.0.1",
            Cookie='jwt=abc; user="joe"; empty',
        )
    )
    assert agreed.browser and agreed.forwarded_for == "10.1.2.3"
    assert agreed.cookies == {"jwt": "abc", "user": "joe"}
    assert ask(a_request(X_Forwarded_For="unknown")).forwarded_for == ""


def test_cookies_fill_in_what_connect_does_not_say() -> None:
    options = WebsocketOptions(user_cookie="u", pass_cookie="p", jwt_cookie="j")
    connect = Connect(user="said")
    fill_from_cookies(connect, {"u": "cookie", "p": "pw", "other": "x"}, options)
    assert (connect.user, connect.password, connect.jwt) == ("said", "pw", None)


# --- frames ---


@given(st.binary(max_size=70_000))
def test_our_frames_carry_the_bytes(data: bytes) -> None:
    raw = frame(data)
    assert raw[0] == 0x82 and not raw[1] & 0x80
    head = 2 if len(data) < 126 else 4 if len(data) < 65536 else 10
    assert raw[head:] == data


def test_compression_starts_above_64_bytes() -> None:
    assert frame(b"x" * 64, compress=True)[0] == 0x82
    raw = frame(b"x" * 65, compress=True)
    assert raw[0] == 0xC2 and len(raw) < 65
    assert zlib.decompressobj(-15).decompress(raw[2:] + b"\x00\x00\xff\xff") == b"x" * 65


@given(
    parts=st.lists(st.binary(max_size=200), min_size=1, max_size=5),
    cut=st.integers(0, 400),
    text=st.booleans(),
)
def test_where_frames_are_cut_does_not_matter(parts: list[bytes], cut: int, text: bool) -> None:
    reader = FrameReader(1024, compress=False)
    raw = b"".join(
        masked((1 if text else 2) if i == 0 else 0, part, fin=i == len(parts) - 1)
        for i, part in enumerate(parts)
    )
    found = [piece for chunk in (raw[:cut], raw[cut:]) for piece in reader.feed(chunk)[0]]
    assert b"".join(found) == b"".join(parts) or (text and reader.error)


def test_pings_and_closes_are_answered() -> None:
    reader = FrameReader(1024, compress=False)
    assert reader.feed(masked(9, b"hello")) == ([], b"\x8a\x05hello")
    plain, answer = reader.feed(masked(2, b"PING\r\n") + masked(8, b"\x03\xe8bye"))
    assert plain == [b"PING\r\n"] and answer == b"\x88\x05\x03\xe8bye" and reader.closed


@pytest.mark.parametrize(
    "raw",
    [
        b"\x82\x01x",  # not masked
        masked(8, b"a"),
        masked(3, b""),
        masked(0, b"x"),
        masked(9, b"x" * 200),
        masked(9, b"x", fin=False),
        masked(2, b"a", fin=False) + masked(2, b"b"),
        masked(2, b"x", rsv1=True),
    ],
)
def test_broken_frames_end_the_connection(raw: bytes) -> None:
    reader = FrameReader(1024, compress=False)
    reader.feed(raw)
    assert reader.closed and reader.error


def test_compressed_frames_are_read_and_bounded() -> None:
    def packed(data: bytes) -> bytes:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        return (deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4]

    reader = FrameReader(1024, compress=True)
    assert reader.feed(masked(2, packed(b"y" * 500), rsv1=True))[0] == [b"y" * 500]
    assert reader.feed(masked(2, packed(b"z" * 500), rsv1=True))[0] == [b"z" * 500]
    reader.feed(masked(2, packed(b"bomb" * 50_000), rsv1=True))
    assert reader.closed and reader.error


# --- the door ---


class Socket(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("1.2.3.4", 5) if name == "peername" else default


class Inside:
    """Stands for the server's connection."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.heard = b""
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(b"INFO {}\r\n")  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


def a_door() -> tuple[WebSocketDoor, Socket, Inside, list[str]]:
    inside, errors, socket = Inside(), [], Socket()
    door = WebSocketDoor(
        WebsocketOptions(),
        lambda agreed: inside,
        payload_max=1024,
        tls=False,
        on_error=lambda peer, text: errors.append(text),
    )
    door.connection_made(socket)
    return door, socket, inside, errors


def in_loop(scenario: Any) -> None:
    async def run() -> None:
        scenario()

    asyncio.run(run())


def test_the_door_turns_a_socket_into_a_connection() -> None:
    def scenario() -> None:
        door, socket, inside, _ = a_door()
        head = a_request(X_Forwarded_For="9.9.9.9") + b"\r\n\r\n"
        door.data_received(head[:30])
        assert socket.sent == b""
        door.data_received(head[30:] + masked(2, b"PING\r\n"))
        assert socket.sent.endswith(frame(b"INFO {}\r\n"))
        assert inside.heard == b"PING\r\n"
        assert inside.transport.get_extra_info("peername") == ("9.9.9.9", 5)
        door.connection_lost(None)
        assert inside.lost

    in_loop(scenario)


def test_the_door_refuses_and_reports() -> None:
    def scenario() -> None:
        door, socket, _, errors = a_door()
        door.data_received(a_request("POST") + b"\r\n\r\n")
        assert socket.closed and b"405 Method Not Allowed" in socket.sent
        assert errors == ["websocket handshake error: request method must be GET"]
        door, socket, _, errors = a_door()
        door.data_received(b"x" * 20_000)
        assert socket.closed and b"400 Bad Request" in socket.sent

    in_loop(scenario)


def test_browsers_get_small_frames() -> None:
    socket = Socket()
    transport = WebSocketTransport(socket, Upgrade(b"", browser=True), ("h", 1))
    transport.write(b"x" * (BROWSER_FRAME + 10))
    assert socket.sent == frame(b"x" * BROWSER_FRAME) + frame(b"x" * 10)
    transport.close()
    assert socket.sent.endswith(b"\x88\x02\x03\xe8") and socket.closed
