"""A server in your own process, without a socket, and a client on it.

    async with jetstream.embedded() as nc:            # gone afterwards
        js = nc.jetstream()
    async with jetstream.embedded("./data") as nc:    # kept in ./data
        …

The client speaks the ordinary protocol through memory, so everything works as over TCP. Closing the
connection stops the server. This module joins `client` and `server`, which do not know each other.
"""

import os
from collections.abc import Callable, Generator
from typing import Any

from jetstream.client.connection import Connection
from jetstream.client.link import Link
from jetstream.client.options import Address, Options
from jetstream.clock import Random
from jetstream.server.server import Server

ADDRESS = Address("nats", "in-process", 0)


async def connect_to(server: Server | Callable[[], Server | None], **settings: Any) -> Connection:
    """A client of a running server of this process, through memory.

    A function instead of a server is asked at every (re)connect, so that a restarted one is found.
    """

    async def dial(host: Connection, address: Address, options: Options) -> Link:
        running = server if isinstance(server, Server) else server()
        if running is None or not running.running:
            raise ConnectionRefusedError("the server is not running")
        link = Link(host, address)
        running.connect_in_process(link)  # type: ignore[arg-type]
        try:
            await link.greet(options)
        except BaseException:
            link.abort()
            raise
        return link

    connection = Connection([ADDRESS], Options(**settings), Random())
    await connection.open(dial)
    return connection


class EmbeddedConnection(Connection):
    """A connection that owns the server it talks to."""

    server: Server

    async def close(self) -> None:
        await super().close()
        await self.server.stop()


class Embedding:
    """A private server to be: await it, or enter it with `async with`."""

    def __init__(self, store_dir: str | os.PathLike[str] | None, settings: dict[str, Any]) -> None:
        self._store_dir = store_dir
        self._settings = settings
        self._connection: Connection | None = None

    async def _start(self) -> Connection:
        settings = dict(self._settings)
        if self._store_dir is None:
            settings.setdefault("ephemeral", True)
        server = Server(store_dir=self._store_dir, jetstream=True, dont_listen=True, **settings)
        await server.start()
        try:
            connection = await connect_to(server)
        except BaseException:
            await server.stop()
            raise
        connection.__class__ = EmbeddedConnection
        connection.server = server  # type: ignore[attr-defined]
        return connection

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._start().__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._start()
        return self._connection

    async def __aexit__(self, *error: Any) -> None:
        assert self._connection is not None
        await self._connection.__aexit__(*error)


def embedded(store_dir: str | os.PathLike[str] | None = None, **settings: Any) -> Embedding:
    """A private in-process server and a client on it; `settings` are those of `Server`.

    Without `store_dir` everything is gone when the connection closes.
    """
    return Embedding(store_dir, settings)
