"""The server as a process: its log, its files, its signals, its exit codes."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

READY = "Server is ready"


class Running:
    """A `jetstream-server` process whose log is read line by line."""

    def __init__(self, *argv: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jetstream.server.main", *argv],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.lines: list[str] = []

    def read_until(self, words: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            if words in line:
                return line
        raise AssertionError(f"the log ended without {words!r}:\n" + "\n".join(self.lines))

    def port(self) -> int:
        line = self.read_until("Listening for client connections on")
        found = int(line.rsplit(":", 1)[1])
        self.read_until(READY)
        return found

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        assert self.process.stderr is not None
        self.lines += self.process.stderr.read().splitlines()
        return self.process.wait(10)


@pytest.fixture
def started() -> Iterator[list[Running]]:
    running: list[Running] = []
    yield running
    for server in running:
        server.process.kill()
        server.process.wait()


def test_start_up_lines_files_and_an_orderly_end(started: list[Running], tmp_path: Path) -> None:
    pid_file = tmp_path / "server.pid"
    server = Running(
        *("-a", "127.0.0.1", "-p", "-1", "-m", "-1", "-js", "-sd", str(tmp_path / "store")),
        *("-P", str(pid_file), "--ports_file_dir", str(tmp_path), "-n", "hub"),
    )
    started.append(server)
    port = server.port()
    assert re.fullmatch(
        r"\[\d+\] \d{4}/\d\d/\d\d [\d:.]{15} \[INF\] Starting nats-server", server.lines[0]
    )
    text = "\n".join(server.lines)
    assert "  Version:  2.15.1" in text and "  Name:     hub" in text
    assert f'Store Directory: "{tmp_path}/store/jetstream"' in text
    deadline = time.monotonic() + 5
    while not list(tmp_path.glob("nats-server_*.ports")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert int(pid_file.read_text()) == server.process.pid
    ports_file = tmp_path / f"nats-server_{server.process.pid}.ports"
    ports = json.loads(ports_file.read_text())
    assert ports["nats"] == [f"nats://127.0.0.1:{port}"]
    assert ports["monitoring"][0].startswith("http://127.0.0.1:")
    assert server.end() == 0
    assert not ports_file.exists()
    tail = [line.split("] ", 2)[-1] for line in server.lines[-3:]]
    assert 'Trapped "terminated" signal' in tail[0] or 'Trapped "terminated" signal' in tail[1]
    assert tail[-1] == "Server Exiting.."


def test_a_taken_port_ends_the_start(started: list[Running]) -> None:
    first = Running("-a", "127.0.0.1", "-p", "-1")
    started.append(first)
    port = first.port()
    second = Running("-a", "127.0.0.1", "-p", str(port))
    started.append(second)
    line = second.read_until("[FTL]")
    assert line.rstrip().endswith(
        f"[FTL] Error listening on port: 127.0.0.1:{port}, "
        f'"listen tcp 127.0.0.1:{port}: bind: address already in use"'
    )
    assert second.process.wait(5) == 1


def test_a_store_that_is_no_directory_ends_the_start(
    started: list[Running], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    server = Running("-a", "127.0.0.1", "-p", "-1", "-js", "-sd", str(file))
    started.append(server)
    line = server.read_until("[FTL]")
    assert "Can't start JetStream: storage directory is not a directory" in line
    assert server.process.wait(5) == 1


def test_reload_and_log_reopen_by_signal(started: list[Running], tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    base = "listen: 127.0.0.1:-1\n"
    config.write_text(base + "authorization { token: old }\n")
    server = Running("-c", str(config))
    started.append(server)
    port = server.port()

    async def knock(token: str) -> bool:
        async def ignore(error: Exception) -> None: ...

        try:
            client = await nats.connect(
                f"nats://127.0.0.1:{port}", token=token, allow_reconnect=False, error_cb=ignore
            )
        except (nats.errors.Error, OSError):
            return False
        await client.close()
        return True

    assert asyncio.run(knock("old"))
    config.write_text(base + "authorization { token: new }\ndebug: true\n")
    server.process.send_signal(signal.SIGHUP)
    server.read_until("Reloaded server configuration (sha256:")
    assert "[INF] Reloaded: debug = true" in "\n".join(server.lines)
    assert not asyncio.run(knock("old")) and asyncio.run(knock("new"))
    config.write_text(base + "nonsense: 1\n")
    server.process.send_signal(signal.SIGHUP)
    line = server.read_until("Failed to reload")
    assert f'{config}:2:1: unknown field "nonsense"' in line
    assert asyncio.run(knock("new"))
    config.write_text("listen: 127.0.0.1:-1, max_subs: 5\n")
    server.process.send_signal(signal.SIGHUP)
    server.read_until("config reload not supported for MaxSubs: old=0, new=5")
    server.process.send_signal(signal.SIGUSR1)
    server.read_until("File log re-open ignored, not a file logger")
    assert server.end(signal.SIGINT) == 0


def test_signal_flag_reaches_another_process(started: list[Running], tmp_path: Path) -> None:
    pid_file = tmp_path / "server.pid"
    server = Running("-a", "127.0.0.1", "-p", "-1", "-P", str(pid_file))
    started.append(server)
    server.port()
    deadline = time.monotonic() + 5
    while not pid_file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    answer = subprocess.run(
        [sys.executable, "-m", "jetstream.server.main", "--signal", f"quit={pid_file}"],
        check=False,
        env=os.environ,
    )
    assert answer.returncode == 0
    assert server.process.wait(10) == 0


def test_lame_duck_by_signal_ends_with_code_zero(started: list[Running]) -> None:
    server = Running("-a", "127.0.0.1", "-p", "-1")
    started.append(server)
    server.port()
    assert server.end(signal.SIGUSR2) == 0
    assert any("Entering lame duck mode" in line for line in server.lines)


def test_checking_a_file(tmp_path: Path) -> None:
    config = tmp_path / "x.conf"
    config.write_text("port: 4222\n")
    answer = subprocess.run(
        [sys.executable, "-m", "jetstream.server.main", "-t", "-c", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0
    assert answer.stderr == (
        f"nats-server: configuration file {config} is valid (sha256:"
        "797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e)\n"
    )
