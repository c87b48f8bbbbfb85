"""Reload and lame duck as connected clients live through them."""

import asyncio
from collections.abc import Awaitable, Callable

from jetstream.clock import SECOND
from jetstream.server.options_file import read_config_text
from jetstream.server.server import Server

BASE = "listen: 127.0.0.1:-1\n"


class Raw:
    """A client that shows every line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, server: Server, fields: str = "") -> "Raw":
        client = cls(*await asyncio.open_connection("127.0.0.1", server.port))
        await client.line()
        said = (
            f'CONNECT {{"verbose":false,"protocol":1{"," if fields else ""}{fields}}}\r\nPING\r\n'
        )
        client.writer.write(said.encode())
        await client.until(b"PONG")
        await client.until(b"INFO")
        return client

    def say(self, line: bytes) -> None:
        self.writer.write(line + b"\r\n")

    async def line(self) -> bytes:
        return (await asyncio.wait_for(self.reader.readline(), 5)).rstrip(b"\r\n")

    async def until(self, start: bytes) -> bytes:
        while True:
            line = await self.line()
            if line.startswith(start):
                return line
            assert line, f"closed before {start!r}"

    async def rest(self) -> bytes:
        return await asyncio.wait_for(self.reader.read(), 5)

    async def flush(self) -> None:
        self.say(b"PING")
        await self.until(b"PONG")


def with_server(config: str, scenario: Callable[[Server], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Server(read_config_text(BASE + config)) as server, asyncio.timeout(20):
            await scenario(server)

    asyncio.run(run())


def user(name: str, permissions: str = "") -> str:
    return (
        f"{{user: {name}, password: {name}{', permissions: ' if permissions else ''}{permissions}}}"
    )


def users(*entries: str) -> str:
    return f"authorization {{ users: [ {', '.join(entries)} ] }}\n"


def test_users_that_are_gone_are_disconnected_and_others_stay() -> None:
    async def scenario(server: Server) -> None:
        joe = await Raw.connect(server, '"user":"joe","pass":"joe"')
        ann = await Raw.connect(server, '"user":"ann","pass":"ann"')
        ann.say(b"SUB foo 1")
        await ann.flush()
        await server.reload(read_config_text(BASE + users(user("ann"))))
        assert b"Authorization Violation" in await joe.rest()
        ann.say(b"PUB foo 2\r\nhi")
        assert await ann.until(b"MSG") == b"MSG foo 1 2"

    with_server(users(user("joe"), user("ann")), scenario)


def test_subscriptions_that_are_forbidden_now_are_removed_with_a_word() -> None:
    async def scenario(server: Server) -> None:
        joe = await Raw.connect(server, '"user":"joe","pass":"joe"')
        joe.say(b"SUB foo 1\r\nSUB bar q 2\r\nSUB baz 3")
        await joe.flush()
        new = users(user("joe", "{subscribe: baz}"))
        await server.reload(read_config_text(BASE + new))
        found = {await joe.line(), await joe.line()}
        assert found == {
            b'-ERR \'Permissions Violation for Subscription to "foo" (sid "1")\'',
            b'-ERR \'Permissions Violation for Subscription to "bar" using queue "q" (sid "2")\'',
        }
        joe.say(b"PUB foo 0\r\n\r\nPUB baz 0\r\n")
        assert await joe.until(b"MSG") == b"MSG baz 3 0"

    with_server(users(user("joe")), scenario)


def test_fewer_connections_send_the_youngest_away() -> None:
    async def scenario(server: Server) -> None:
        first, second = await Raw.connect(server), await Raw.connect(server)
        await server.reload(read_config_text(BASE + "max_connections: 1"))
        assert b"maximum connections exceeded" in await second.rest()
        await first.flush()

    with_server("", scenario)


def test_a_new_payload_limit_counts_for_those_who_are_here() -> None:
    async def scenario(server: Server) -> None:
        client = await Raw.connect(server)
        await server.reload(read_config_text(BASE + "max_payload: 10"))
        client.say(b"PUB foo 11\r\n" + b"x" * 11)
        assert b"Maximum Payload Violation" in await client.rest()

    with_server("", scenario)


def test_new_accounts_can_be_used_at_once() -> None:
    async def scenario(server: Server) -> None:
        await server.reload(
            read_config_text(BASE + "accounts { A { users: [ {user: a, password: a} ] } }")
        )
        client = await Raw.connect(server, '"user":"a","pass":"a"')
        client.say(b"SUB _INBOX.1 1\r\nPUB $SYS.REQ.USER.INFO _INBOX.1 0\r\n")
        await client.until(b"MSG _INBOX.1 1")

    with_server("", scenario)


def test_lame_duck_tells_clients_and_ends_the_server() -> None:
    async def scenario(server: Server) -> None:
        server.options.lame_duck_grace_ns = SECOND // 100
        server.options.lame_duck_duration_ns = SECOND // 50
        client = await Raw.connect(server)
        leaving = asyncio.ensure_future(server.lame_duck())
        assert b'"ldm":true' in await client.until(b"INFO")
        assert await client.rest() == b""
        await leaving
        assert not server.running

    with_server("", scenario)
