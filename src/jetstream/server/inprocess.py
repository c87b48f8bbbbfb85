"""A connection without a socket: two transports that hand bytes to each other on the loop.

For embedded use: the client in the same process talks to the server through memory, with the same
protocol and the same limits as over TCP.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from jetstream.server.connection import Connection

if TYPE_CHECKING:
    from jetstream.server.server import Server

HIGH_WATER = 4 * 1024 * 1024


class PipeTransport(asyncio.Transport):
    """One end of the pipe. What is written here arrives at the peer's protocol in a later turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        super().__init__({"peername": ("127.0.0.1", 0), "pipe": name})
        self._loop = loop
        self._peer: PipeTransport | None = None
        self._protocol: Any = None
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._reading = True
        self._closing = False
        self._lost = False
        self._scheduled = False
        self._writer_paused = False
        self._high = HIGH_WATER

    def join(self, peer: "PipeTransport", protocol: Any) -> None:
        self._peer = peer
        self._protocol = protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    # Writing: into the peer's queue of things to read.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        peer = self._peer
        if self._closing or peer is None or peer._lost or not data:
            return
        peer._arrive(bytes(data))
        if peer._size > self._high and not self._writer_paused:
            self._writer_paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self._peer._size if self._peer is not None else 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        # Memory has no EAGAIN; pausing at every byte would only cost turns.
        self._high = max(high or 0, HIGH_WATER)

    def can_write_eof(self) -> bool:
        return False

    # Reading.

    def _arrive(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._reading and not self._lost:
            self._scheduled = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._scheduled = False
        if self._lost or not self._reading or not self._waiting:
            return
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        self._protocol.data_received(data)
        peer = self._peer
        if peer is not None and peer._writer_paused:
            peer._writer_paused = False
            if not peer._lost:
                peer._protocol.resume_writing()

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if self._waiting:
            self._schedule()

    def is_reading(self) -> bool:
        return self._reading

    # The end.

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._lose)

    def abort(self) -> None:
        self.close()

    def _lose(self) -> None:
        if self._lost:
            return
        self._lost = True
        self._closing = True
        protocol, peer = self._protocol, self._peer
        self._peer = None
        if protocol is not None:
            protocol.connection_lost(None)
        if peer is not None and not peer._lost:
            # What was written before the end still arrives.
            self._loop.call_soon(peer._end)

    def _end(self) -> None:
        if self._waiting and self._reading:
            self._hand_over()
        self._lose()


def connect_in_process(server: "Server", protocol: asyncio.Protocol) -> PipeTransport:
    """Join a client protocol to the server; returns the client's transport."""
    ours = PipeTransport(server.loop, "server")
    theirs = PipeTransport(server.loop, "client")
    connection = Connection(server, kind="IN_PROCESS")
    ours.join(theirs, connection)
    theirs.join(ours, protocol)
    protocol.connection_made(theirs)
    connection.connection_made(ours)
    return theirs
