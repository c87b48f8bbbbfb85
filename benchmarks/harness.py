"""What the benchmarks share: servers as processes, cheap raw clients, medians, a table.

Both servers run in the same benchmark run and take turns, so that what the machine does meanwhile
hits both. The load generator sends prebuilt buffers and only counts what comes back: the server
should be the bottleneck, not the generator.
"""

import contextlib
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

REFERENCE = "nats-server"
OURS = "jetstream"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """One server under test, in a process and a store directory of its own."""

    def __init__(
        self, kind: str, *, jetstream: bool = True, config: str = "", keep: str = ""
    ) -> None:
        self.kind = kind
        self.port = free_port()
        self.directory = keep or tempfile.mkdtemp(prefix=f"bench-{kind}-")
        self._keep = bool(keep)
        arguments = ["-a", "127.0.0.1", "-p", str(self.port)]
        if config:
            path = Path(self.directory) / "bench.conf"
            path.write_text(config)
            arguments += ["-c", str(path)]
        if jetstream:
            arguments += ["-js", "-sd", self.directory]
        if kind == REFERENCE:
            beside = Path(sys.executable).parent / "nats-server"
            found = str(beside) if beside.exists() else shutil.which("nats-server")
            if found is None:
                raise SystemExit("nats-server is not installed (make setup)")
            command = [found, *arguments]
        else:
            command = [sys.executable, "-m", "jetstream.server.main", *arguments]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        self.started = time.perf_counter()
        self.wait_ready()
        self.ready_seconds = time.perf_counter() - self.started

    def wait_ready(self, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.kind} ended with {self.process.returncode}")
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            time.sleep(0.005)
        raise SystemExit(f"{self.kind} did not open its port")

    def memory_bytes(self) -> int:
        """Resident memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def disk_bytes(self) -> int:
        return sum(p.stat().st_blocks * 512 for p in Path(self.directory).rglob("*") if p.is_file())

    def stop(self, keep: bool = False) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if not keep and not self._keep:
            shutil.rmtree(self.directory, ignore_errors=True)


class Raw:
    """A client that is nothing but a socket."""

    def __init__(self, port: int, timeout: float = 60.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._room = bytearray(1 << 20)
        self.read_until(b"\r\n")
        self.send(
            b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
            b'"protocol":1,"lang":"bench","version":"1"}\r\n'
        )
        self.flush()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        n = self.socket.recv_into(self._room)
        if n == 0:
            raise ConnectionError("the server closed the connection")
        return bytes(memoryview(self._room)[:n])

    def receive_size(self) -> int:
        return self.socket.recv_into(self._room)

    def read_until(self, mark: bytes) -> bytes:
        data = b""
        while mark not in data:
            data += self.receive()
        return data

    def flush(self) -> None:
        self.send(b"PING\r\n")
        self.read_until(b"PONG\r\n")

    def request(self, subject: str, payload: bytes = b"") -> bytes:
        """One request on an inbox of its own; the payload of the answer."""
        inbox = f"_INBOX.bench.{time.perf_counter_ns()}".encode()
        self.send(b"SUB " + inbox + b" 9\r\nUNSUB 9 1\r\nPUB " + subject.encode() + b" " + inbox)
        self.send(b" %d\r\n%b\r\n" % (len(payload), payload))
        data = self.read_until(b"MSG ")
        while b"\r\n" not in data[data.index(b"MSG ") :]:
            data += self.receive()
        head, _, rest = data[data.index(b"MSG ") :].partition(b"\r\n")
        size = int(head.split()[-1])
        while len(rest) < size + 2:
            rest += self.receive()
        return rest[:size]

    def close(self) -> None:
        self.socket.close()


def pump(
    clients: list[Raw], chunk: list[bytes], per_chunk: int, chunks: int, window: int, mark: bytes
) -> float:
    """Each client sends `chunks` prebuilt buffers with at most `window` messages unanswered.

    Answers are counted by `mark`. Returns the seconds until the last answer.
    """
    sent = [0] * len(clients)
    answered = [0] * len(clients)
    tails = [b""] * len(clients)
    total = per_chunk * chunks
    by_socket = {client.socket: i for i, client in enumerate(clients)}
    started = time.perf_counter()
    waiting = set(range(len(clients)))
    while waiting:
        for i in waiting:
            while sent[i] < total and sent[i] - answered[i] + per_chunk <= max(window, per_chunk):
                clients[i].send(chunk[i])
                sent[i] += per_chunk
        ready, _, _ = select.select([clients[i].socket for i in waiting], [], [], 30)
        if not ready:
            raise TimeoutError("no answers for 30 s")
        for one in ready:
            i = by_socket[one]
            data = tails[i] + clients[i].receive()
            answered[i] += data.count(mark)
            tails[i] = data[-(len(mark) - 1) :] if len(mark) > 1 else b""
            if answered[i] >= total:
                waiting.discard(i)
    return time.perf_counter() - started


def interleaved(
    rounds: int, kinds: list[str], measure: Callable[[str], float]
) -> dict[str, list[float]]:
    """Measure each kind in turn, `rounds` times."""
    results: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        order = kinds if number % 2 == 0 else list(reversed(kinds))
        for kind in order:
            results[kind].append(measure(kind))
    return results


def median(values: list[float]) -> float:
    return statistics.median(values)


class Table:
    """Rows of `name, reference, ours, ratio`, printed as they come and as Markdown at the end."""

    def __init__(self, title: str, unit: str = "msg/s", higher_is_better: bool = True) -> None:
        self.title = title
        self.unit = unit
        self.higher = higher_is_better
        self.rows: list[tuple[str, float, float]] = []

    def add(self, name: str, reference: float, ours: float) -> None:
        self.rows.append((name, reference, ours))
        ratio = self._ratio(reference, ours)
        print(f"{name:54} {reference:>14,.1f} {ours:>14,.1f} {ratio:>8.2f}x", flush=True)

    def _ratio(self, reference: float, ours: float) -> float:
        top, bottom = (ours, reference) if self.higher else (reference, ours)
        return top / bottom if bottom else 0.0

    def markdown(self) -> str:
        lines = [
            f"### {self.title}",
            "",
            f"| | reference ({self.unit}) | ours ({self.unit}) | ratio |",
        ]
        lines.append("| --- | ---: | ---: | ---: |")
        for name, reference, ours in self.rows:
            lines.append(
                f"| {name} | {reference:,.0f} | {ours:,.0f} | {self._ratio(reference, ours):.2f} |"
            )
        return "\n".join(lines)


@contextlib.contextmanager
def both(*, jetstream: bool = True, config: str = "") -> Iterator[dict[str, ServerProcess]]:
    """The reference and ours, side by side."""
    servers = {
        kind: ServerProcess(kind, jetstream=jetstream, config=config) for kind in (REFERENCE, OURS)
    }
    try:
        yield servers
    finally:
        for server in servers.values():
            server.stop()
