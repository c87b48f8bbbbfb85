"""NATS inside WebSocket frames: a transport in front of a link.

The sans-I/O protocol of `websockets` does the framing; we move bytes between it, the socket and the
link. Frames and protocol lines have nothing to do with each other.
"""

import asyncio
from typing import Any

from jetstream.client.errors import ClientConnectionError
from jetstream.client.link import Link, tls_context
from jetstream.client.options import Address, Options

MESSAGE_BYTES_MAX = 64 * 1024 * 1024


class WebSocketTransport(asyncio.Protocol):
    """The link's transport on one side, the socket's protocol on the other."""

    def __init__(self, link: Link, uri: str, headers: dict[str, str]) -> None:
        from websockets.client import ClientProtocol
        from websockets.uri import parse_uri

        self._link = link
        self._ws = ClientProtocol(parse_uri(uri), max_size=MESSAGE_BYTES_MAX)
        self._headers = headers
        self._socket: Any = None
        self._fragments: list[bytes] = []
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport
        request = self._ws.connect()
        for name, value in self._headers.items():
            request.headers[name] = value
        self._ws.send_request(request)
        self._send()

    def data_received(self, data: bytes) -> None:
        from websockets.frames import Frame, Opcode
        from websockets.http11 import Response

        data_frames = (Opcode.BINARY, Opcode.TEXT, Opcode.CONT)
        self._ws.receive_data(data)
        for event in self._ws.events_received():
            if isinstance(event, Response):
                self._answered(event)
            elif isinstance(event, Frame) and event.opcode in data_frames:
                self._link.feed(bytes(event.data))
        self._send()
        if self._ws.close_expected() and self._socket is not None:
            self._socket.close()

    def _answered(self, response: Any) -> None:
        if self.opened.done():
            return
        error = self._ws.handshake_exc
        if error is not None or response.status_code != 101:
            reason = f"WebSocket upgrade refused: {response.status_code} {response.reason_phrase}"
            self.opened.set_exception(ClientConnectionError(reason))
        else:
            self._link.connection_made(self)  # type: ignore[arg-type]
            self.opened.set_result(None)

    def eof_received(self) -> bool:
        self._ws.receive_eof()
        self._send()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(exc or ClientConnectionError("closed during the upgrade"))
        self._link.connection_lost(exc)

    def pause_writing(self) -> None:
        self._link.pause_writing()

    def resume_writing(self) -> None:
        self._link.resume_writing()

    def _send(self) -> None:
        for data in self._ws.data_to_send():
            if data:
                self._socket.write(data)
            else:
                self._socket.close()

    # a transport, as far as a link needs one

    def write(self, data: bytes) -> None:
        self._ws.send_binary(data)
        self._send()

    def is_closing(self) -> bool:
        return bool(self._socket.is_closing())

    def get_write_buffer_size(self) -> int:
        return int(self._socket.get_write_buffer_size())

    def close(self) -> None:
        if not self._socket.is_closing():
            from websockets.protocol import State

            if self._ws.state is State.OPEN:
                self._ws.send_close(1000)
                self._send()
            self._socket.close()

    def abort(self) -> None:
        self._socket.abort()


async def open_websocket(link: Link, address: Address, options: Options) -> None:
    """Dial, upgrade, and put the result under the link."""
    loop = asyncio.get_running_loop()
    uri = f"{address.scheme}://{address.host}:{address.port}{address.path or '/'}"
    tls: dict[str, Any] = {}
    if address.scheme == "wss":
        tls = {
            "ssl": tls_context(options),
            "server_hostname": options.tls_hostname or address.host,
        }
    transport, protocol = await loop.create_connection(
        lambda: WebSocketTransport(link, uri, options.ws_headers),
        address.host,
        address.port,
        **tls,
    )
    try:
        await protocol.opened
    except BaseException:
        transport.abort()
        raise
