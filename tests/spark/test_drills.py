"""Kills in the middle of pipelines; afterwards every row is there exactly once."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jetstream.client.pipe import Pipe, frame
from jetstream.errors import JetStreamError
from jetstream.spark.control import Control
from jetstream.spark.readers import Wanted, read_consumer
from jetstream.spark.tables import open_table

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

Make = Callable[..., Any]
DRILL = Path(__file__).parent / "drill.py"
ROWS = 60_000


def _filled(control: Control, name: str, rows: int) -> None:
    control.create_stream({"name": name, "subjects": [f"{name.lower()}.>"], "allow_direct": True})
    with Pipe(control.target) as pipe:
        for at in range(0, rows, 1000):
            some = [frame(f"{name.lower()}.x".encode(), b"row %d" % i) for i in range(at, at + 999)]
            pipe.send(b"".join(some))
            pipe.request(f"{name.lower()}.x", b"row %d" % (at + 999))


@pytest.fixture
def a_drill(tmp_path: Path) -> Iterator[Callable[..., "Drill"]]:
    """Drills that do not outlive their test."""
    made: list[Drill] = []

    def make(*arguments: str) -> Drill:
        made.append(Drill(list(arguments), tmp_path))
        return made[-1]

    yield make
    for drill in made:
        if drill.process is not None and drill.process.poll() is None:
            drill.kill()


class Drill:
    """Runs drill.py until it ends by itself, killing it as often as asked."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self.command = [sys.executable, str(DRILL), *arguments]
        self.log = folder / "drill.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        out = self.log.open("ab")
        self.process = subprocess.Popen(
            self.command, stdout=out, stderr=out, start_new_session=True
        )

    def kill(self) -> None:
        """Driver, JVM and workers at once, without a word."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def told(self) -> str:
        return self.log.read_text()[-4000:]

    def finish(self, seconds: float) -> None:
        assert self.process is not None
        code = self.process.wait(seconds)
        assert code == 0, self.told()


def _payloads(control: Control, stream: str) -> Iterator[bytes]:
    state = control.state(stream)
    for taken in read_consumer(control, Wanted(stream, 1, state.last_seq)):
        ends = memoryview(taken[3]).cast("B").cast("i")
        data = bytes(memoryview(taken[4]))
        yield from (data[ends[i] : ends[i + 1]] for i in range(taken[0]))


def _checksum(rows: Iterator[bytes]) -> tuple[int, int]:
    count = total = 0
    for row in rows:
        count += 1
        total ^= int.from_bytes(hashlib.sha256(row).digest()[:8], "big")
    return count, total


def more_than(control: Control, count: int) -> Callable[[], bool]:
    return lambda: control.state("OUT").messages > count


def committed(folder: Path, count: int) -> Callable[[], bool]:
    return lambda: len(list(folder.glob("*.json"))) > count


def _wait_for(what: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if what():
                return True
        except JetStreamError:
            pass
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("program", ["nats-server", "jetstream-server"])
def test_a_driver_killed_three_times_stores_every_row_once(
    a_server: Make, a_drill: Make, tmp_path: Path, program: str
) -> None:
    server = a_server(program)
    control = server.control()
    _filled(control, "IN", ROWS)
    control.create_stream({"name": "OUT", "subjects": ["out.>"], "duplicate_window": 2_000_000_000})
    drill = a_drill(server.url, "IN", "OUT", str(tmp_path / "cp"), "stream", "4000")
    chance = random.Random(7)
    for _ in range(3):
        before = control.state("OUT").messages
        drill.start()
        assert _wait_for(more_than(control, before + 500), 240), drill.told()
        time.sleep(chance.random() * 0.8)
        drill.kill()
        # Longer than the duplicate window: only the read-back can tell what was stored.
        time.sleep(2.5)
    drill.start()
    drill.finish(300)
    assert _checksum(_payloads(control, "OUT")) == _checksum(_payloads(control, "IN"))


@pytest.mark.parametrize("program", ["nats-server", "jetstream-server"])
def test_a_server_killed_in_the_middle_costs_time_only(
    a_server: Make, a_drill: Make, tmp_path: Path, program: str
) -> None:
    server = a_server(program)
    control = server.control()
    _filled(control, "IN", ROWS)
    control.create_stream({"name": "OUT", "subjects": ["out.>"]})
    drill = a_drill(server.url, "IN", "OUT", str(tmp_path / "cp"), "stream", "10000")
    drill.start()
    for goal in (3000, 30_000):
        assert _wait_for(more_than(control, goal), 120), drill.told()
        server.kill()
        time.sleep(1.0)
        server.start()
    drill.finish(300)
    stored = list(_payloads(control, "OUT"))
    expected = {b"row %d" % i for i in range(ROWS)}
    if program == "jetstream-server":
        # What was acknowledged is on disk: nothing is lost and nothing is stored twice.
        assert len(stored) == ROWS
    # The reference acknowledges before the disk; what a kill took away cannot come back.
    assert len(set(stored)) == len(stored)
    assert set(stored) <= expected


def test_a_driver_killed_three_times_writes_every_parquet_row_once(
    a_server: Make, a_drill: Make, tmp_path: Path
) -> None:
    server = a_server("nats-server")
    control = server.control()
    _filled(control, "IN", ROWS)
    lake = tmp_path / "lake"
    drill = a_drill(server.url, "IN", str(lake), str(tmp_path / "cp"), "parquet", "4000")
    commits = lake / "_commits"
    for _ in range(3):
        before = len(list(commits.glob("*.json")))
        drill.start()
        assert _wait_for(committed(commits, before), 240), drill.told()
        drill.kill()
    drill.start()
    drill.finish(300)
    import pyarrow.dataset as ds

    files = [str(lake / f.path) for f in open_table(str(lake), "parquet").files()]
    seqs = ds.dataset(files, format="parquet").to_table(columns=["seq"]).column("seq").to_pylist()
    assert sorted(seqs) == list(range(1, ROWS + 1))
