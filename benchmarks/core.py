"""Core NATS, both servers side by side: `python -m benchmarks.core [--quick] [--only WORD]`.

    publish without subscribers, 1→1, 1→8, 8→8      messages per second (delivered, where any are)
    request and reply                               median round trip, one request at a time
    memory                                          per idle connection, per subscription

The load generator is one process of raw sockets. It sends prebuilt buffers, and it counts bytes,
not messages: every frame of a run has the same length, so the total is known beforehand.
"""

import argparse
import platform
import resource
import select
import socket
import time
from collections.abc import Callable

from benchmarks.harness import OURS, REFERENCE, Raw, ServerProcess, Table, both, interleaved, median

SIZES = (16, 128, 1024)
CHUNK_BYTES = 128 * 1024
KINDS = [REFERENCE, OURS]
SUBJECT = b"bench.subject"


class Sender:
    """Publishes `count` messages from one prebuilt buffer, as fast as the socket takes them."""

    def __init__(self, port: int, payload_size: int, count: int, subject: bytes = SUBJECT) -> None:
        self.client = Raw(port)
        frame = b"PUB %b %d\r\n%b\r\n" % (subject, payload_size, b"x" * payload_size)
        per_chunk = max(1, CHUNK_BYTES // len(frame))
        self.chunk = memoryview(frame * per_chunk)
        self.left = len(frame) * count
        self.at = 0
        self.client.socket.setblocking(False)

    def send(self) -> bool:
        """True while there is more to send."""
        piece = self.chunk[self.at : min(len(self.chunk), self.at + self.left)]
        try:
            n = self.client.socket.send(piece)
        except BlockingIOError:
            return True
        self.left -= n
        self.at = (self.at + n) % len(self.chunk)
        return self.left > 0


class Receiver:
    """Subscribes, and knows how many bytes will arrive."""

    def __init__(self, port: int, payload_size: int, count: int, subject: bytes = SUBJECT) -> None:
        self.client = Raw(port)
        self.client.send(b"SUB %b 1\r\n" % subject)
        self.client.flush()
        frame = b"MSG %b 1 %d\r\n%b\r\n" % (subject, payload_size, b"x" * payload_size)
        self.left = len(frame) * count
        self.client.socket.setblocking(False)

    def receive(self) -> bool:
        """True while there is more to come."""
        try:
            n = self.client.receive_size()
        except BlockingIOError:
            return True
        if n == 0:
            raise ConnectionError("the server gave up on a subscriber")
        # A server may have put in a PING or an INFO: a run may end a few bytes early, never late.
        self.left -= n
        return self.left > 0


def flow(port: int, senders: int, receivers: int, payload_size: int, count: int) -> float:
    """Messages per second: published if nobody listens, else delivered."""
    sinks = [Receiver(port, payload_size, count * senders) for _ in range(receivers)]
    sources = [Sender(port, payload_size, count) for _ in range(senders)]
    sending = {one.client.socket.fileno(): one for one in sources}
    receiving = {one.client.socket.fileno(): one for one in sinks}
    poll = select.epoll()
    for fd in sending:
        poll.register(fd, select.EPOLLOUT)
    for fd in receiving:
        poll.register(fd, select.EPOLLIN)
    started = time.perf_counter()
    while sending or receiving:
        events = poll.poll(30)
        if not events:
            raise TimeoutError("nothing moved for 30 s")
        for fd, _ in events:
            if fd in sending:
                if not sending[fd].send():
                    poll.unregister(fd)
                    del sending[fd]
            elif fd in receiving and not receiving[fd].receive():
                poll.unregister(fd)
                del receiving[fd]
    for source in sources:
        source.client.socket.setblocking(True)
        source.client.flush()
    seconds = time.perf_counter() - started
    poll.close()
    for client in [one.client for one in sources] + [one.client for one in sinks]:
        client.close()
    return count * senders * max(1, receivers) / seconds


def round_trip(port: int, payload_size: int, count: int) -> float:
    """Median microseconds of a request and its reply, one at a time."""
    asker, answerer = Raw(port), Raw(port)
    answerer.send(b"SUB svc 1\r\n")
    asker.send(b"SUB inbox 1\r\n")
    answerer.flush()
    asker.flush()
    payload = b"x" * payload_size
    request = b"PUB svc inbox %d\r\n%b\r\n" % (payload_size, payload)
    reply = b"PUB inbox %d\r\n%b\r\n" % (payload_size, payload)
    seen = []
    for _ in range(count):
        started = time.perf_counter_ns()
        asker.socket.sendall(request)
        answerer.receive_size()
        answerer.socket.sendall(reply)
        asker.receive_size()
        seen.append(time.perf_counter_ns() - started)
    asker.close()
    answerer.close()
    return median([float(one) for one in seen]) / 1000


def idle_connections(server: ServerProcess, count: int) -> float:
    """Bytes of the server's memory per idle connection."""
    before = server.memory_bytes()
    held = [Raw(server.port) for _ in range(count)]
    after = server.memory_bytes()
    held[0].flush()
    for one in held:
        one.close()
    return (after - before) / count


def subscriptions(server: ServerProcess, count: int) -> float:
    """Bytes of the server's memory per subscription."""
    client = Raw(server.port)
    before = server.memory_bytes()
    for start in range(0, count, 1000):
        client.send(
            b"".join(b"SUB user.%d.inbox %d\r\n" % (i, i) for i in range(start, start + 1000))
        )
    client.flush()
    after = server.memory_bytes()
    client.close()
    return (after - before) / count


def open_files(wanted: int) -> int:
    """Raise the limit of open files as far as allowed; what it is then."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def measure_flows(rounds: int, scale: float, only: str) -> Table:
    table = Table("Core NATS: messages per second")
    shapes = [("publish, nobody listens", 1, 0), ("1 → 1", 1, 1), ("1 → 8", 1, 8), ("8 → 8", 8, 8)]
    for name, senders, receivers in shapes:
        for size in SIZES:
            title = f"{name}, {size} B"
            if only and only not in title:
                continue
            copies = max(1, receivers)
            count = int(2_000_000 * scale / senders / copies / (1 + size / 256))
            with both(jetstream=False) as servers:

                def one(kind: str) -> float:
                    port = servers[kind].port
                    return flow(port, senders, receivers, size, count)  # noqa: B023

                for kind in KINDS:
                    flow(servers[kind].port, senders, receivers, size, count // 10 + 1)
                found = interleaved(rounds, KINDS, one)
            table.add(title, median(found[REFERENCE]), median(found[OURS]))
    return table


def measure_latency(rounds: int, scale: float, only: str) -> Table:
    table = Table("Request and reply: median round trip", "µs", higher_is_better=False)
    for size in SIZES:
        title = f"request and reply, {size} B"
        if only and only not in title:
            continue
        with both(jetstream=False) as servers:

            def one(kind: str) -> float:
                return round_trip(servers[kind].port, size, int(10_000 * scale))  # noqa: B023

            found = interleaved(rounds, KINDS, one)
        table.add(title, median(found[REFERENCE]), median(found[OURS]))
    return table


def measure_memory(scale: float, only: str) -> Table:
    table = Table("Memory", "bytes", higher_is_better=False)
    most = min(int(10_000 * scale), open_files(24_000) - 500)
    work: dict[str, Callable[[ServerProcess], float]] = {
        f"per idle connection ({most:,} held)": lambda server: idle_connections(server, most),
        "per subscription (100,000 held)": lambda server: subscriptions(server, 100_000),
    }
    for title, measure in work.items():
        if only and only not in title:
            continue
        with both(jetstream=False) as servers:
            table.add(title, measure(servers[REFERENCE]), measure(servers[OURS]))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="one round, few messages")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    arguments = parser.parse_args()
    rounds, scale = (1, 0.2) if arguments.quick else (5, 1.0)
    socket.setdefaulttimeout(60)
    print(f"{platform.machine()}, {platform.system()} {platform.release()}, {rounds} round(s)")
    print(f"{'':54} {'nats-server':>14} {'jetstream':>14}")
    tables = [
        measure_flows(rounds, scale, arguments.only),
        measure_latency(rounds, scale, arguments.only),
        measure_memory(scale, arguments.only),
    ]
    print("\n" + "\n\n".join(table.markdown() for table in tables if table.rows))


if __name__ == "__main__":
    main()
