"""Connections come, are counted, pinged, and leave."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from jetstream.clock import MILLISECOND
from jetstream.server.server import Server

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"protocol":1}\r\n'

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(server: Server, hello: bytes = CONNECT) -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    assert (await reader.readline()).startswith(b"INFO ")
    writer.write(hello + b"PING\r\n")
    assert await line(reader) == b"PONG\r\n"
    if hello == CONNECT:
        assert b'"connect_info":true' in await line(reader)
    return reader, writer


async def line(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.readline(), 20)


def on_a_server(conversation: Callable[[Server], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with Server(port=0, **settings) as server:
            await asyncio.wait_for(conversation(server), 60)

    uvloop.run(run())


def test_one_connection_too_many_is_turned_away() -> None:
    async def conversation(server: Server) -> None:
        held = await connect(server)
        _, second = await connect(server)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        said = await asyncio.wait_for(reader.read(-1), 20)
        assert b"-ERR 'maximum connections exceeded'\r\n" in said
        second.close()
        while len(server.connections) > 1:
            await asyncio.sleep(0.005)
        writer.close()
        await connect(server)
        held[1].close()

    on_a_server(conversation, max_connections=2)


def test_who_does_not_answer_pings_is_stale() -> None:
    async def conversation(server: Server) -> None:
        reader, _ = await connect(server)
        seen = [await line(reader) for _ in range(3)]
        assert seen == [b"PING\r\n", b"PING\r\n", b"-ERR 'Stale Connection'\r\n"]
        assert await line(reader) == b""
        assert server.stale_connections == 1

    on_a_server(conversation, ping_interval_ns=100 * MILLISECOND)


def test_who_answers_pings_stays() -> None:
    async def conversation(server: Server) -> None:
        reader, writer = await connect(server)
        for _ in range(4):
            assert await line(reader) == b"PING\r\n"
            writer.write(b"PONG\r\n")
        (connection,) = server.connections.values()
        while not connection.rtt_ns:
            await asyncio.sleep(0.001)
        assert server.stale_connections == 0

    on_a_server(conversation, ping_interval_ns=50 * MILLISECOND)


def test_too_many_subscriptions_are_refused_and_the_connection_lives() -> None:
    async def conversation(server: Server) -> None:
        reader, writer = await connect(server)
        writer.write(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nPING\r\n")
        assert await line(reader) == b"-ERR 'maximum subscriptions exceeded'\r\n"
        assert await line(reader) == b"PONG\r\n"
        writer.write(b"UNSUB 1\r\nSUB c 3\r\nPING\r\n")
        assert await line(reader) == b"PONG\r\n"

    on_a_server(conversation, max_subscriptions=2)


def test_too_many_tokens_are_refused() -> None:
    async def conversation(server: Server) -> None:
        reader, writer = await connect(server)
        writer.write(b"SUB a.b.c 1\r\n")
        said = await line(reader)
        assert (
            said
            == b"-ERR 'Permissions Violation for Subscription to \"a.b.c\", too many tokens'\r\n"
        )

    on_a_server(conversation, max_sub_tokens=2)


def test_a_subscription_that_is_used_up_is_gone() -> None:
    async def conversation(server: Server) -> None:
        reader, writer = await connect(server)
        base = len(server.accounts.default.tree)
        writer.write(b"SUB a 1\r\nUNSUB 1 2\r\n" + b"PUB a 1\r\nx\r\n" * 3 + b"PING\r\n")
        for _ in range(4):
            await line(reader)
        assert await line(reader) == b"PONG\r\n"
        (connection,) = server.connections.values()
        assert len(connection.subscriptions) == 0
        assert len(server.accounts.default.tree) == base

    on_a_server(conversation)


def test_a_connection_that_leaves_takes_its_subscriptions_along() -> None:
    async def conversation(server: Server) -> None:
        base = len(server.accounts.default.tree)
        _, writer = await connect(server)
        writer.write(b"".join(b"SUB a.%d q %d\r\n" % (i, i) for i in range(100)))
        while len(server.accounts.default.tree) < base + 100:
            await asyncio.sleep(0.005)
        writer.close()
        while server.connections:
            await asyncio.sleep(0.005)
        assert len(server.accounts.default.tree) == base
        assert server.closed[-1].reason == "Client Closed"
        assert len(server.closed[-1].subscriptions) == 100

    on_a_server(conversation)


def test_a_lame_duck_says_so_and_lets_everybody_finish() -> None:
    async def conversation(server: Server) -> None:
        new, old = await connect(server), await connect(server, b'CONNECT {"verbose":false}\r\n')
        leaving = asyncio.create_task(server.lame_duck())
        info = json.loads((await line(new[0]))[5:])
        assert info["ldm"] is True
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", server.port)
        new[1].write(b"SUB a 1\r\nPUB a 1\r\nx\r\n")
        assert await line(new[0]) == b"MSG a 1 1\r\n"
        assert await line(new[0]) == b"x\r\n"
        assert await line(new[0]) == b""
        assert await line(old[0]) == b""
        await asyncio.wait_for(leaving, 20)

    on_a_server(
        conversation,
        lame_duck_grace_ns=300 * MILLISECOND,
        lame_duck_duration_ns=400 * MILLISECOND,
    )


def test_a_server_that_stops_sends_what_it_owes_and_closes() -> None:
    async def run() -> None:
        server = await Server(port=0).start()
        reader, writer = await connect(server)
        writer.write(b"SUB a 1\r\nPUB a 10000\r\n" + b"x" * 10_000 + b"\r\nPING\r\n")
        await reader.readuntil(b"PONG\r\n")
        await server.stop()
        assert await line(reader) == b""
        assert not server.connections
        await server.stop()

    uvloop.run(run())


def test_two_servers_live_in_one_loop() -> None:
    async def run() -> None:
        async with Server(port=0) as one, Server(port=0) as two:
            assert one.port != two.port
            assert one.id != two.id
            (_, writer), (reader, subscriber) = await connect(one), await connect(two)
            subscriber.write(b"SUB > 1\r\nPING\r\n")
            assert await line(reader) == b"PONG\r\n"
            writer.write(b"PUB a 1\r\nx\r\n")
            subscriber.write(b"PING\r\n")
            assert await line(reader) == b"PONG\r\n"

    uvloop.run(run())
