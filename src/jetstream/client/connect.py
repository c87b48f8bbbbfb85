"""`jetstream.connect(…)`: awaitable, and a context manager of its own.

nc = await jetstream.connect("nats://127.0.0.1:4222")
async with jetstream.connect(…) as nc: …
async with await jetstream.connect(…) as nc: …
"""

import ssl
from collections.abc import Generator
from pathlib import Path
from typing import Any

from jetstream.client.connection import Connection
from jetstream.client.options import DEFAULT_URL, Credentials, Options, parse_addresses
from jetstream.clock import Random


class Connecting:
    """A connection to be: await it, or enter it with `async with`."""

    def __init__(self, servers: str | list[str], options: Options, random: Random) -> None:
        self._addresses = parse_addresses(servers)
        self._options = options
        self._random = random
        self._connection: Connection | None = None

    async def _connect(self) -> Connection:
        connection = Connection(self._addresses, self._options, self._random)
        await connection.open()
        return connection

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._connect().__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._connect()
        return self._connection

    async def __aexit__(self, *error: Any) -> None:
        assert self._connection is not None
        await self._connection.__aexit__(*error)


def connect(
    servers: str | list[str] = DEFAULT_URL,
    *,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    nkey_seed: str | None = None,
    creds: str | Path | None = None,
    tls: ssl.SSLContext | bool | None = None,
    random: Random | None = None,
    **options: Any,
) -> Connecting:
    """Connect to a server, or to the first reachable one of a cluster.

    `servers` are URLs (`nats://`, `tls://`, `ws://`, `wss://`); credentials may be a user and
    password, a token, an nkey seed (or the file it is in) or a `.creds` file. Everything else is an
    `Options` field: name, connect_timeout, reconnect, max_reconnects (-1: for ever), ping_interval,
    echo, inbox_prefix, pending_msgs, pending_bytes, on_event, on_error, on_disconnect, ….
    """
    credentials = Credentials(
        user=user, password=password, token=token, nkey_seed=nkey_seed, creds=creds
    )
    chosen = Options(credentials=credentials, tls=tls, **options)
    return Connecting(servers, chosen, random or Random())
