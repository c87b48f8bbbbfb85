"""Every test of the client runs against the real nats-server and against ours.

A coroutine test runs in an event loop of its own. It may ask for `nc` (a connection), `js` (its
JetStream) or `url`; the servers are processes that live as long as the test run, and every test
leaves them without streams.
"""

import asyncio
import inspect
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import jetstream

KINDS = ["reference", "ours"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """One server; it can be stopped and started again on the same port and store."""

    def __init__(self, kind: str, *arguments: str, store: str | None = None) -> None:
        self.kind = kind
        self.port = free_port()
        self.store = store or tempfile.mkdtemp(prefix=f"client-{kind}-")
        self._arguments = list(arguments)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> "ServerProcess":
        if self.kind == "reference":
            beside = Path(sys.executable).parent / "nats-server"
            found = str(beside) if beside.exists() else shutil.which("nats-server")
            if found is None:
                pytest.skip("nats-server is not installed")
            command = [found]
        else:
            command = [sys.executable, "-m", "jetstream.server.main"]
        command += ["-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self.store]
        with Path(self.store, "log").open("ab") as log:
            self._process = subprocess.Popen([*command, *self._arguments], stdout=log, stderr=log)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                    if probe.recv(4) == b"INFO":
                        return self
            except OSError:
                pass
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(Path(self.store, "log").read_text()[-3000:])

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                os.kill(self._process.pid, how)
            self._process.wait(15)
            self._process = None

    def remove(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.store, ignore_errors=True)


_running: dict[str, ServerProcess] = {}


@pytest.fixture(params=KINDS)
def server_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def server(server_kind: str) -> ServerProcess:
    """A shared server of this kind."""
    if server_kind not in _running:
        _running[server_kind] = ServerProcess(server_kind).start()
    return _running[server_kind]


@pytest.fixture
def own_server(server_kind: str) -> Iterator[ServerProcess]:
    """A server for this test alone: it may be killed and restarted."""
    made = ServerProcess(server_kind).start()
    yield made
    made.remove()


def pytest_sessionfinish() -> None:
    for made in _running.values():
        made.remove()


@pytest.fixture
def url(server: ServerProcess) -> str:
    return server.url


class Slot:
    """Something that is opened inside the test's event loop."""

    def __init__(self, server: ServerProcess, kind: str) -> None:
        self.server = server
        self.url = server.url
        self.kind = kind

    async def open(self, stack: AsyncExitStack) -> Any:
        nc = await stack.enter_async_context(jetstream.connect(self.url, request_timeout=10))
        if self.kind == "nc":
            return nc
        js = nc.jetstream(timeout=10)
        setattr(js, "create_stream", patient(js.create_stream))  # noqa: B010
        stack.push_async_callback(remove_streams, js, self.server)
        return js


async def remove_streams(js: Any, server: ServerProcess) -> None:
    if js.connection.is_connected:
        for name in [name async for name in js.stream_names()]:
            await js.delete_stream(name)
        await gone(server)


def patient(create: Any) -> Any:
    """The same race shows as "error creating store" now and then: ask again."""

    async def create_stream(*args: Any, **fields: Any) -> Any:
        for _ in range(20):
            try:
                return await create(*args, **fields)
            except jetstream.ApiError as error:
                if error.err_code != 10049:
                    raise
            await asyncio.sleep(0.05)
        return await create(*args, **fields)

    return create_stream


async def gone(server: ServerProcess) -> None:
    """The reference removes files in the background, and a stream of the same name created
    meanwhile finds the old messages again; so we wait until they are really gone."""
    directory = Path(server.store, "jetstream", "$G", "streams")
    for _ in range(500):
        if server.kind != "reference" or not directory.exists() or not any(directory.iterdir()):
            return
        await asyncio.sleep(0.01)


@pytest.fixture
def nc(server: ServerProcess) -> Slot:
    return Slot(server, "nc")


@pytest.fixture
def js(server: ServerProcess) -> Slot:
    return Slot(server, "js")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    given = {name: pyfuncitem.funcargs[name] for name in wanted}

    async def run() -> None:
        async with AsyncExitStack() as stack:
            for name, value in given.items():
                if isinstance(value, Slot):
                    given[name] = await value.open(stack)
            async with asyncio.timeout(60):
                await pyfuncitem.obj(**given)

    asyncio.run(run())
    return True


@pytest.fixture(params=["reference"])
def reference_server(request: pytest.FixtureRequest) -> ServerProcess:
    if "reference" not in _running:
        _running["reference"] = ServerProcess("reference").start()
    return _running["reference"]
