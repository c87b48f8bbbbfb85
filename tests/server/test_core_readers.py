"""Readers that do not read: they harm themselves, never others."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from jetstream.clock import MILLISECOND
from jetstream.server.server import Server

MIB = 1024 * 1024
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"protocol":1}\r\n'


class Peer:
    """A client with hands on its socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, server: Server, *, receive_bytes: int = 0) -> "Peer":
        raw = socket.socket()
        if receive_bytes:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.connect(("127.0.0.1", server.port))
        raw.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=raw, limit=64 * MIB)
        peer = cls(reader, writer)
        await reader.readline()
        writer.write(CONNECT)
        await peer.flush()
        return peer

    async def flush(self) -> None:
        self.writer.write(b"PING\r\n")
        while await self.reader.readline() != b"PONG\r\n":
            pass

    async def until(self, mark: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(mark), 20)

    def close(self) -> None:
        self.writer.close()


def on_a_server(conversation: Callable[[Server], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with Server(port=0, **settings) as server:
            await asyncio.wait_for(conversation(server), 60)

    uvloop.run(run())


def stuck(server: Server) -> Any:
    """The connection of the reader that does not read."""
    return min(server.connections.values(), key=lambda one: one.cid)


async def a_stuck_reader(server: Server) -> Peer:
    peer = await Peer.connect(server, receive_bytes=4096)
    peer.writer.write(b"SUB flood 1\r\n")
    await peer.flush()
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    return peer


def test_a_stuck_reader_is_sent_away_and_others_get_everything() -> None:
    async def conversation(server: Server) -> None:
        held = await a_stuck_reader(server)
        slow = stuck(server)
        good, publisher = await Peer.connect(server), await Peer.connect(server)
        good.writer.write(b"SUB flood 1\r\n")
        await good.flush()
        frame = b"PUB flood 1000\r\n" + b"x" * 1000 + b"\r\n"
        most = 0
        for _ in range(40):
            publisher.writer.write(frame * 500)
            await publisher.flush()
            most = max(most, len(slow.outbox) + slow.in_transport)
            for _ in range(500):
                await good.until(b"\r\n")
                await good.reader.readexactly(1002)
        assert slow.gone
        assert slow.close_reason == "Slow Consumer (Pending Bytes)"
        assert most <= 2 * MIB
        assert server.slow_consumers == 1
        held.close()
        assert [one.reason for one in server.closed] == ["Slow Consumer (Pending Bytes)"]

    on_a_server(conversation, max_pending=2 * MIB)


def test_a_write_that_takes_too_long_ends_the_connection() -> None:
    async def conversation(server: Server) -> None:
        held = await a_stuck_reader(server)
        slow = stuck(server)
        publisher = await Peer.connect(server)
        publisher.writer.write((b"PUB flood 1000\r\n" + b"x" * 1000 + b"\r\n") * 10_000)
        await publisher.flush()
        while not slow.gone:
            await asyncio.sleep(0.02)
        assert slow.close_reason == "Slow Consumer (Write Deadline)"
        assert server.slow_deadline == 1
        held.close()

    on_a_server(conversation, write_deadline_ns=200 * MILLISECOND)


def test_a_publisher_is_slowed_down_rather_than_a_reader_cut_off() -> None:
    """A reader that keeps reading, slower than the publisher writes, loses nothing."""

    async def conversation(server: Server) -> None:
        reader, publisher = await Peer.connect(server), await Peer.connect(server)
        reader.writer.write(b"SUB flood 1\r\n")
        await reader.flush()
        count, frame = 40_000, b"PUB flood 1000\r\n" + b"x" * 1000 + b"\r\n"
        size = count * len(b"MSG flood 1 1000\r\n" + b"x" * 1000 + b"\r\n")

        async def publish() -> None:
            for _ in range(count // 500):
                publisher.writer.write(frame * 500)
                await publisher.writer.drain()

        task = asyncio.create_task(publish())
        got = 0
        while got < size:
            got += len(await reader.reader.read(65536))
            await asyncio.sleep(0)
        await task
        assert got == size
        assert server.slow_consumers == 0

    on_a_server(conversation)


def test_everything_owed_is_sent_before_an_error_closes() -> None:
    async def conversation(server: Server) -> None:
        peer = await Peer.connect(server)
        peer.writer.write(
            b"SUB big 1\r\n" + b"PUB big 1000000\r\n" + b"x" * 1_000_000 + b"\r\nBOGUS\r\n"
        )
        received = await asyncio.wait_for(peer.reader.read(-1), 20)
        assert b"MSG big 1 1000000\r\n" in received
        assert received.endswith(b"-ERR 'Unknown Protocol Operation'\r\n")
        assert len(received) > 1_000_000

    on_a_server(conversation)
