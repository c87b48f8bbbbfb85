"""Serves the console in a running loop, beside a server or on its own.

Only loopback unless the NATS server asks for a log-in: whoever reaches this page acts as the user
who logged in.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from jetstream.client.connect import connect
from jetstream.client.connection import Connection
from jetstream.console.app import make_app
from jetstream.console.sessions import Sessions
from jetstream.errors import JetStreamError

DEFAULT_PORT = 8280


class ConsoleRefused(JetStreamError):
    """The console will not be opened like this."""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


class ConsoleServer:
    """The page at `url`, until `stop()`."""

    def __init__(
        self,
        nats_url: str,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        needs_login: bool = False,
        **connect_options: Any,
    ) -> None:
        if not is_loopback(host) and not needs_login:
            raise ConsoleRefused(
                f"the console is not opened on {host}: the server asks nobody for a log-in, so "
                "everybody who reaches the page could change everything; configure users first"
            )
        self.nats_url = nats_url
        self.host = host
        self.port = port
        self._options = connect_options
        self._needs_login = needs_login
        self._make: Callable[[], Awaitable[Connection]] | None = None
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/"

    async def start(self) -> None:
        self._sessions = Sessions(self._connect)
        app = make_app(self._sessions, open_door=not self._needs_login)
        listener = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, max(self.port, 0)))
        except OSError:
            listener.close()
            raise
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server._serve(sockets=[listener]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.005)

    def connect_with(self, make: Callable[[], Awaitable[Connection]]) -> None:
        """Let those who give no credentials in through this connection maker."""
        self._make = make

    async def _connect(self, credentials: dict[str, str]) -> Connection:
        if not credentials and self._make is not None:
            return await self._make()
        options = {**self._options, **credentials}
        return await connect(self.nats_url, name="jetstream console", **options)

    async def stop(self) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            self._server.force_exit = True
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._server = None
            await self._sessions.close()
