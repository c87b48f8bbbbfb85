"""Consumers: how fast do messages come out, against nats-server in the same run?

    uv run benchmarks/consumers.py            all rows, median of five
    uv run benchmarks/consumers.py --quick    a short look (median of one)
    uv run benchmarks/consumers.py --only pull,push,many,work,create,latency,durables

Acks are prebuilt where the sequences are known beforehand, so that the client is not the
bottleneck; the work queue parses ack subjects because nobody knows who gets which message.
"""

import argparse
import json
import re
import select
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import OURS, REFERENCE, Raw, ServerProcess, Table, interleaved, median

BATCH = 500
MARK = b" 1 $JS.ACK."
REPLY = re.compile(rb" 1 (\$JS\.ACK\.\S+) \d+\r\n")


def ask(client: Raw, subject: str, body: object = None) -> dict[str, object]:
    payload = json.dumps(body).encode() if body is not None else b""
    answer: dict[str, object] = json.loads(client.request(f"$JS.API.{subject}", payload))
    if "error" in answer:
        raise SystemExit(f"{subject}: {answer['error']}")
    return answer


def fill(server: ServerProcess, stream: str, messages: int, **config: object) -> None:
    """A stream with so many messages of 128 bytes, on 1000 subjects."""
    client = Raw(server.port)
    ask(client, f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [f"{stream}.>"], **config})
    body = b"x" * 128
    chunk = 10_000
    for start in range(0, messages, chunk):
        client.send(
            b"".join(
                b"PUB %b.%d 128\r\n%b\r\n" % (stream.encode(), i % 1000, body)
                for i in range(start, min(start + chunk, messages))
            )
        )
        client.flush()
    while True:
        state = ask(client, f"STREAM.INFO.{stream}")["state"]
        if state["messages"] >= messages:  # type: ignore[index]
            break
        time.sleep(0.05)
    client.close()


def make(client: Raw, stream: str, name: str, **config: object) -> None:
    body = {"stream_name": stream, "config": {"name": name, **config}}
    ask(client, f"CONSUMER.CREATE.{stream}.{name}", body)


def drop(server: ServerProcess, stream: str, name: str) -> None:
    client = Raw(server.port)
    client.request(f"$JS.API.CONSUMER.DELETE.{stream}.{name}")
    client.close()


def pull_rate(server: ServerProcess, messages: int, acks: bool) -> float:
    """Pull in batches of 500, acknowledge each message, two requests under way."""
    client = Raw(server.port)
    policy = "explicit" if acks else "none"
    make(client, "B", "pull", durable_name="pull", ack_policy=policy, max_ack_pending=-1)
    ready = [
        b"".join(
            b"PUB $JS.ACK.B.pull.1.%d.%d.0.0 4\r\n+ACK\r\n" % (i, i)
            for i in range(start + 1, start + BATCH + 1)
        )
        for start in range(0, messages, BATCH)
    ]
    request = b'{"batch":%d,"expires":30000000000}' % BATCH
    pull = b"PUB $JS.API.CONSUMER.MSG.NEXT.B.pull in %d\r\n%b\r\n" % (len(request), request)
    client.send(b"SUB in 1\r\n")
    started = time.perf_counter()
    client.send(pull + pull)
    got, batches, tail = 0, 0, b""
    while got < messages:
        data = tail + client.receive()
        got += data.count(MARK)
        tail = data[-(len(MARK) - 1) :]
        while got >= (batches + 1) * BATCH:
            client.send((ready[batches] if acks else b"") + pull)
            batches += 1
    rate = messages / (time.perf_counter() - started)
    client.close()
    drop(server, "B", "pull")
    return rate


def push_rate(server: ServerProcess, messages: int) -> float:
    """Replay of a stream to an ordered kind of consumer: ack none, memory."""
    client = Raw(server.port)
    other = Raw(server.port)
    client.send(b"SUB out 1\r\n")
    client.flush()
    started = time.perf_counter()
    make(other, "B", "push", ack_policy="none", deliver_subject="out", mem_storage=True)
    rate = messages / (_receive(client, messages) - started)
    client.close()
    other.close()
    return rate


def _receive(client: Raw, messages: int) -> float:
    got, tail = 0, b""
    while got < messages:
        data = tail + client.receive()
        got += data.count(MARK)
        tail = data[-(len(MARK) - 1) :]
    return time.perf_counter()


def many_rate(server: ServerProcess, consumers: int, messages: int) -> float:
    """Many consumers drain the same stream, ten connections."""
    clients = [Raw(server.port) for _ in range(10)]
    control = Raw(server.port)
    for number in range(consumers):
        subject = f"many.{number % 10}.{number}"
        make(control, "M", f"m{number}", ack_policy="none", deliver_subject=subject)
    # They deliver when somebody listens.
    started = time.perf_counter()
    for number in range(consumers):
        clients[number % 10].send(b"SUB many.%d.%d %d\r\n" % (number % 10, number, number))
    wanted = consumers * messages
    got = 0
    tails = dict.fromkeys(clients, b"")
    by_socket = {client.socket: client for client in clients}
    while got < wanted:
        for one in select.select(list(by_socket), [], [], 30)[0]:
            client = by_socket[one]
            data = tails[client] + client.receive()
            got += data.count(b" $JS.ACK.")
            tails[client] = data[-8:]
    rate = wanted / (time.perf_counter() - started)
    for client in (*clients, control):
        client.close()
    for number in range(consumers):
        drop(server, "M", f"m{number}")
    return rate


def work_rate(server: ServerProcess, messages: int, workers: int = 8) -> float:
    """A work queue: eight clients pull from one consumer and acknowledge."""
    fill(server, "W", messages, retention="workqueue")
    control = Raw(server.port)
    make(control, "W", "w", durable_name="w", ack_policy="explicit", max_ack_pending=-1)
    request = b'{"batch":100,"expires":30000000000}'
    clients = [Raw(server.port) for _ in range(workers)]
    pulls, have, tails = {}, {}, {}
    for number, client in enumerate(clients):
        inbox = b"work.%d" % number
        client.send(b"SUB %b 1\r\n" % inbox)
        client.flush()
        pulls[client] = b"PUB $JS.API.CONSUMER.MSG.NEXT.W.w %b %d\r\n%b\r\n" % (
            inbox,
            len(request),
            request,
        )
        have[client], tails[client] = 0, b""
    by_socket = {client.socket: client for client in clients}
    got = 0
    started = time.perf_counter()
    for client in clients:
        client.send(pulls[client])
    while got < messages:
        for one in select.select(list(by_socket), [], [], 30)[0]:
            client = by_socket[one]
            data = tails[client] + client.receive()
            end = data.rfind(b"\r\n") + 2
            replies = REPLY.findall(data[:end])
            tails[client] = data[end:]
            got += len(replies)
            have[client] += len(replies)
            out = b"".join(b"PUB %b 4\r\n+ACK\r\n" % reply for reply in replies)
            if have[client] >= 100:
                have[client] -= 100
                out += pulls[client]
            if out:
                client.send(out)
    rate = messages / (time.perf_counter() - started)
    for client in clients:
        client.close()
    control.request("$JS.API.STREAM.DELETE.W")
    control.close()
    return rate


def create_ms(server: ServerProcess, stream: str, count: int = 50) -> float:
    """Create a consumer with a filter that matches a thousandth of the stream."""
    client = Raw(server.port)
    started = time.perf_counter()
    for number in range(count):
        make(client, stream, f"f{number}", filter_subject=f"{stream}.{number}", ack_policy="none")
    took = (time.perf_counter() - started) / count * 1000
    for number in range(count):
        client.request(f"$JS.API.CONSUMER.DELETE.{stream}.f{number}")
    client.close()
    return took


def latency_us(server: ServerProcess, count: int) -> tuple[float, float]:
    """From publish to delivery on a push consumer, one at a time: p50 and p99."""
    client, sender = Raw(server.port), Raw(server.port)
    ask(sender, "STREAM.CREATE.L", {"name": "L", "subjects": ["L.>"]})
    client.send(b"SUB late 1\r\n")
    client.flush()
    make(sender, "L", "l", ack_policy="none", deliver_subject="late")
    times = []
    for _ in range(count):
        started = time.perf_counter()
        sender.send(b"PUB L.a 5\r\nhello\r\n")
        client.read_until(b"hello\r\n")
        times.append(time.perf_counter() - started)
    sender.request("$JS.API.STREAM.DELETE.L")
    client.close()
    sender.close()
    times.sort()
    return times[len(times) // 2] * 1e6, times[len(times) * 99 // 100] * 1e6


def durables(kind: str, count: int) -> tuple[float, float]:
    """Create so many durable consumers; (seconds, MiB more than before)."""
    server = ServerProcess(kind)
    client = Raw(server.port)
    ask(client, "STREAM.CREATE.D", {"name": "D", "subjects": ["D.>"], "max_consumers": count + 1})
    before = server.memory_bytes()
    started = time.perf_counter()
    for number in range(count):
        make(client, "D", f"d{number}", durable_name=f"d{number}", ack_policy="explicit")
    took = time.perf_counter() - started
    grown = (server.memory_bytes() - before) / 2**20
    client.close()
    server.stop()
    return took, grown


def rows(quick: bool) -> dict[str, Callable[[dict[str, ServerProcess], Table], None]]:
    rounds = 1 if quick else 5
    messages = 100_000 if quick else 500_000
    kinds = [REFERENCE, OURS]

    def compare(
        table: Table, name: str, servers: dict[str, ServerProcess], measure: Callable[..., float]
    ) -> None:
        found = interleaved(rounds, kinds, lambda kind: measure(servers[kind]))
        table.add(name, median(found[REFERENCE]), median(found[OURS]))

    def pull(servers: dict[str, ServerProcess], table: Table) -> None:
        for server in servers.values():
            fill(server, "B", messages)
        compare(table, "pull 500, explicit acks", servers, lambda s: pull_rate(s, messages, True))
        compare(table, "pull 500, no acks", servers, lambda s: pull_rate(s, messages, False))

    def push(servers: dict[str, ServerProcess], table: Table) -> None:
        compare(table, "push replay, no acks", servers, lambda s: push_rate(s, messages))

    def many(servers: dict[str, ServerProcess], table: Table) -> None:
        each = messages // 50
        for server in servers.values():
            fill(server, "M", each)
        compare(table, "100 consumers, same stream", servers, lambda s: many_rate(s, 100, each))

    def work(servers: dict[str, ServerProcess], table: Table) -> None:
        compare(table, "work queue, 8 workers", servers, lambda s: work_rate(s, messages // 5))

    return {"pull": pull, "push": push, "many": many, "work": work}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="pull,push,many,work,create,latency,durables")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    wanted = options.only.split(",")
    if "push" in wanted and "pull" not in wanted:
        wanted.insert(0, "pull")
    tables = [Table("Consumers")]
    servers = {kind: ServerProcess(kind) for kind in (REFERENCE, OURS)}
    try:
        for name, row in rows(options.quick).items():
            if name in wanted:
                row(servers, tables[0])
        if "create" in wanted:
            tables.append(Table("Consumer creation with a selective filter", "ms", False))
            for size in (10_000, 100_000 if options.quick else 1_000_000):
                for server in servers.values():
                    fill(server, f"F{size}", size)
                theirs, ours = (create_ms(servers[k], f"F{size}") for k in (REFERENCE, OURS))
                tables[-1].add(f"{size:,} messages", theirs, ours)
        if "latency" in wanted:
            tables.append(Table("Publish to delivery", "µs", False))
            count = 300 if options.quick else 3000
            measured = {kind: latency_us(server, count) for kind, server in servers.items()}
            for at, name in enumerate(("p50", "p99")):
                tables[-1].add(name, measured[REFERENCE][at], measured[OURS][at])
    finally:
        for server in servers.values():
            server.stop()
    if "durables" in wanted:
        count = 1_000 if options.quick else 10_000
        tables.append(Table(f"{count:,} durable consumers", "s or MiB", False))
        reference, own = durables(REFERENCE, count), durables(OURS, count)
        tables[-1].add("create, seconds", reference[0], own[0])
        tables[-1].add("memory, MiB", reference[1], own[1])
    if options.markdown:
        options.markdown.write_text("\n\n".join(table.markdown() for table in tables) + "\n")


if __name__ == "__main__":
    main()
