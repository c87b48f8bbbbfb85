"""One Spark session and one real server for all tests of the connector."""

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jetstream.client.pipe import ConnectionLost, Pipe, Target, frame
from jetstream.spark.control import Control

_names = itertools.count(1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A server process that can be killed and started again on the same store."""

    def __init__(self, folder: Path, *extra: str, program: str = "nats-server") -> None:
        self.folder = folder
        self.extra = extra
        self.program = program
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Server":
        binary = Path(sys.executable).parent / self.program
        command = [str(binary), "-js", "-sd", str(self.folder), "-p", str(self.port)]
        command += ["-a", "127.0.0.1", *self.extra]
        log = (self.folder.parent / f"{self.folder.name}.log").open("ab")
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 20
        while True:
            try:
                Pipe(Target(servers=(self.url,))).close()
                return self
            except ConnectionLost:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def control(self) -> Control:
        return Control(Target(servers=(self.url,)))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("nats")).start()
    yield running
    running.kill()


@pytest.fixture(scope="session")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Our own server, for the ways to read that only it has."""
    running = Server(tmp_path_factory.mktemp("own"), program="jetstream-server").start()
    yield running
    running.kill()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from jetstream.spark.session import session

    # Spark starts many short Python processes; compiling everything in each is not what we test.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    made = session("tests", "local[2]", quick=True, spark_sql_shuffle_partitions="2")
    yield made
    with contextlib.suppress(Exception):
        made.stop()


@pytest.fixture
def control(server: Server) -> Control:
    return server.control()


@pytest.fixture
def a_stream(control: Control) -> Callable[..., str]:
    """Make a stream with a fresh name that takes `<name in lower case>.>`."""

    def make(**config: Any) -> str:
        name = f"S{next(_names)}"
        subjects = [f"{name.lower()}.>"]
        control.create_stream({"name": name, "subjects": subjects, "allow_direct": True} | config)
        return name

    return make


def _publish(control: Control, messages: list[tuple[str, bytes]], headers: bytes = b"") -> None:
    with Pipe(control.target) as pipe:
        for at in range(0, len(messages), 1000):
            some = messages[at : at + 1000]
            pipe.send(b"".join(frame(s.encode(), p, b"", headers) for s, p in some[:-1]))
            answer = pipe.request(some[-1][0], some[-1][1], headers)
            assert b'"seq"' in answer.payload, answer


@pytest.fixture
def publish(control: Control) -> Callable[..., None]:
    """Store (subject, payload) pairs in order, without waiting for each."""
    return lambda messages, headers=b"": _publish(control, messages, headers)


@pytest.fixture
def fill(control: Control) -> Callable[..., None]:
    """Store `count` numbered JSON messages on `subjects` subjects of a stream."""

    def store(stream: str, count: int, subjects: int = 10, first: int = 0) -> None:
        low = stream.lower()
        numbers = range(first, first + count)
        _publish(control, [(f"{low}.{i % subjects}", b'{"id": %d}' % i) for i in numbers])

    return store


@pytest.fixture
def table(spark: Any, server: Server) -> Callable[..., Any]:
    """A batch DataFrame of a stream."""

    def load(stream: str, schema: str = "", **options: Any) -> Any:
        reader = spark.read.format("jetstream").option("servers", server.url).options(**options)
        return (reader.schema(schema) if schema else reader).load(stream)

    return load


@pytest.fixture
def run_stream(spark: Any, server: Server, tmp_path: Path) -> Callable[..., Any]:
    """Run a stream to its end into a memory table; returns (rows, query)."""

    def run(stream: str, checkpoint: str = "checkpoint", sink: Any = None, **options: Any) -> Any:
        reader = spark.readStream.format("jetstream").option("servers", server.url)
        rows: list[Any] = []
        query = (
            reader.options(**options)
            .load(stream)
            .writeStream.foreachBatch(sink or (lambda df, _: rows.extend(df.collect())))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return rows, query

    return run


@pytest.fixture
def a_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Servers of a test's own, ours or the reference, ended with it."""
    running: list[Server] = []

    def start(program: str = "nats-server", *extra: str) -> Server:
        folder = tmp_path / f"store{len(running)}"
        folder.mkdir()
        running.append(Server(folder, *extra, program=program).start())
        return running[-1]

    yield start
    for server in running:
        server.kill()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test with Spark pays for the JVM; on a busy machine that takes minutes."""
    for item in items:
        is_ours = "tests/spark" in str(item.path)
        if is_ours and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))
