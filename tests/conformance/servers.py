"""Starts the real nats-server and ours as processes, with the same arguments, on free ports."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

START_S = 15.0


def reference_binary() -> str | None:
    """The nats-server of the environment the tests run in."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """One server in a process of its own; `with` starts and ends it."""

    def __init__(self, name: str, *arguments: str, config: str = "", port: int = 0) -> None:
        self.name = name
        self.port = port or free_port()
        self.home = tempfile.TemporaryDirectory(prefix=f"conformance-{name}-")
        self.log = Path(self.home.name) / "log"
        self.arguments = [*arguments]
        if config:
            file = Path(self.home.name) / "server.conf"
            file.write_text(config)
            self.arguments += ["-c", str(file)]
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    def start(self) -> Self:
        command = [*self.command(), "-a", "127.0.0.1", "-p", str(self.port), *self.arguments]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=self.home.name,
                env=os.environ | {"TMPDIR": self.home.name},
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                    if probe.recv(4) == b"INFO":
                        return self
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                text = self.log.read_text()
                self.stop()
                raise RuntimeError(f"{self.name} did not start:\n{text}")
            time.sleep(0.02)

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def memory_bytes(self) -> int:
        """Resident memory of the process."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self.home.cleanup()


class Reference(ServerProcess):
    def __init__(self, *arguments: str, config: str = "", port: int = 0) -> None:
        super().__init__("nats-server", *arguments, config=config, port=port)

    def command(self) -> Sequence[str]:
        binary = reference_binary()
        assert binary is not None
        return [binary]


class Ours(ServerProcess):
    def __init__(self, *arguments: str, config: str = "", port: int = 0) -> None:
        super().__init__("jetstream", *arguments, config=config, port=port)

    def command(self) -> Sequence[str]:
        if launcher := os.environ.get("JETSTREAM_LAUNCHER"):
            return [sys.executable, launcher]
        return [sys.executable, "-m", "jetstream.server.main"]
