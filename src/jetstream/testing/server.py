"""A server inside the test, with a clock to turn, a disk to break and connections to drop.

    async with LocalServer() as server:
        async with server.connect() as nc:
            …
            await server.advance(31)             # the ack wait is over
            await server.crash()                 # power cut: only what was synced is there again

`connect()` goes through memory; `url` is there for other clients. `BlockingServer` is the same for
tests without an event loop; the fixtures of the pytest plugin give one of those.
"""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Generator
from datetime import timedelta
from random import Random as SeededRandom
from typing import Any, Self

from jetstream.client import blocking
from jetstream.client.connection import Connection
from jetstream.client.portal import Portal, portal
from jetstream.embedding import connect_to
from jetstream.server.server import Server
from jetstream.testing.clock import ManualClock
from jetstream.testing.disk import FaultyDisk

SETTLE_TURNS = 20


class TestDisk(FaultyDisk):
    """A disk in memory whose syncs can be held back: the moment between write and fsync."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    def __init__(self) -> None:
        super().__init__()
        self._may_sync = threading.Event()
        self._may_sync.set()

    def hold_syncs(self) -> None:
        """From now on a sync waits; what is published is written but not acknowledged."""
        self._may_sync.clear()

    def release_syncs(self) -> None:
        self._may_sync.set()

    def _step(self, kind: str, path: str) -> None:
        if kind == "sync":
            self._may_sync.wait(30)
        super()._step(kind, path)

    def after_power_cut(self, variant: str, seed: int) -> "TestDisk":
        found = self.power_cut(variant, SeededRandom(seed))
        disk = TestDisk()
        disk.__dict__.update({k: v for k, v in found.__dict__.items() if k != "_may_sync"})
        return disk

    def free_bytes(self, path: str) -> int:
        used = sum(len(inode.content) for inode in self.files.values())
        return (self.capacity or 1 << 40) - used

    def lock(self, path: str) -> Any:
        return self.open(path, create=True)


class _Connecting:
    """A client on a local server: await it, or enter it."""

    def __init__(self, server: "LocalServer", options: dict[str, Any]) -> None:
        self._server = server
        self._options = options
        self._connection: Connection | None = None

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._server._connect(self._options).__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._server._connect(self._options)
        return self._connection

    async def __aexit__(self, *error: Any) -> None:
        assert self._connection is not None
        await self._connection.__aexit__(*error)


class LocalServer:
    """A JetStream server in this process and event loop, made for tests.

    `disk="memory"` keeps the store on a `TestDisk`, which `crash()` needs; otherwise it lives in
    `store_dir` or a temporary directory. `settings` are those of `jetstream.Server`.
    """

    def __init__(
        self,
        *,
        store_dir: str | os.PathLike[str] | None = None,
        disk: TestDisk | str | None = None,
        clock: ManualClock | None = None,
        **settings: Any,
    ) -> None:
        self.clock = clock if clock is not None else ManualClock(frozen=False)
        self.disk: TestDisk | None = TestDisk() if isinstance(disk, str) else disk
        self._own_directory = store_dir is None
        self._store_dir = os.fspath(store_dir) if store_dir is not None else ""
        self._settings = {"port": 0, "host": "127.0.0.1", **settings}
        self.server: Server | None = None

    # --- its life

    async def start(self) -> Self:
        """Open it; on a restart, on the same port and store."""
        if not self._store_dir:
            self._store_dir = tempfile.mkdtemp(prefix="jetstream-test-")
        if self.disk is not None:
            _make_directories(self.disk, self._store_dir)
        self.server = Server(
            store_dir=self._store_dir, clock=self.clock, files=self.disk, **self._settings
        )
        await self.server.start()
        self._settings["port"] = self.server.port
        return self

    async def stop(self) -> None:
        """Close it for good and remove what it stored."""
        if self.disk is not None:
            self.disk.release_syncs()
        if self.server is not None:
            server, self.server = self.server, None
            await server.stop()
        if self._own_directory and self._store_dir:
            shutil.rmtree(self._store_dir, ignore_errors=True)
            self._store_dir = ""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """Where other clients find it."""
        assert self.server is not None
        return self.server.url

    def connect(self, **options: Any) -> Any:
        """A client through memory: `await` it or use `async with`."""
        return _Connecting(self, options)

    async def _connect(self, options: dict[str, Any]) -> Connection:
        assert self.server is not None
        options.setdefault("reconnect_wait", 0.01)
        return await connect_to(lambda: self.server, **options)

    # --- time

    async def advance(self, duration: timedelta | float) -> None:
        """Let time pass; what became due has happened when this returns."""
        self.clock.advance(duration)
        await self.settle()

    async def settle(self) -> None:
        """Let the loop turn a few times, so that what was set in motion arrives."""
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)

    # --- faults

    def drop_connections(self) -> int:
        """Cut every connection, as a network would; returns how many."""
        assert self.server is not None
        dropped = 0
        for connection in list(self.server.connections.values()):
            if connection.transport is not None:
                connection.transport.abort()
                dropped += 1
        return dropped

    async def restart(self) -> None:
        """Stop in good order and start again on the same store and port."""
        assert self.server is not None
        await self.server.stop()
        await self.start()

    async def crash(self, variant: str = "nothing", *, seed: int = 0) -> None:
        """Power cut, then start again with what the disk really had.

        Variants: "nothing" of what was not synced survives, "all" of it, "some", or "torn" writes.
        Nobody gets an answer that was not sent before.
        """
        if self.disk is None:
            raise RuntimeError('a crash needs LocalServer(disk="memory")')
        assert self.server is not None
        server, old = self.server, self.disk
        self.drop_connections()
        self.disk = old.after_power_cut(variant, seed)
        self.server = None
        old.release_syncs()
        await server.stop()
        await self.start()


def _make_directories(disk: FaultyDisk, path: str) -> None:
    """A disk in memory starts with nothing but its root."""
    parts = path.strip("/").split("/")
    for n in range(1, len(parts) + 1):
        directory = "/" + "/".join(parts[:n])
        if not disk.exists(directory):
            disk.make_directory(directory)
            disk.sync_directory("/" + "/".join(parts[: n - 1]))


class BlockingServer:
    """A `LocalServer` on the background loop, for tests that do not use asyncio."""

    def __init__(self, **settings: Any) -> None:
        self._portal: Portal = portal()
        self.local = LocalServer(**settings)

    def start(self) -> Self:
        self._portal.run(self.local.start())
        return self

    def stop(self) -> None:
        self._portal.run(self.local.stop())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return self.local.url

    @property
    def clock(self) -> ManualClock:
        return self.local.clock

    @property
    def disk(self) -> TestDisk | None:
        return self.local.disk

    def connect(self, **options: Any) -> blocking.Connection:
        """A blocking client through memory."""

        async def open_it() -> Connection:
            connection = await self.local._connect(options)
            connection.message_type = blocking.Message  # type: ignore[assignment]
            connection.delivery_type = blocking.JetStreamMessage
            return connection

        return blocking.Connection(self._portal.run(open_it()), self._portal)

    def advance(self, duration: timedelta | float) -> None:
        """Let time pass; what became due has happened when this returns."""
        self._portal.run(self.local.advance(duration))

    def drop_connections(self) -> int:
        async def drop() -> int:
            return self.local.drop_connections()

        return self._portal.run(drop())

    def restart(self) -> None:
        self._portal.run(self.local.restart())

    def crash(self, variant: str = "nothing", *, seed: int = 0) -> None:
        self._portal.run(self.local.crash(variant, seed=seed))
