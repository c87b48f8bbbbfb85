"""Streams: how fast is a durable publish, against nats-server in the same run?

    python -m benchmarks.streams            all rows, median of five
    python -m benchmarks.streams --quick    a short look (median of one)
    python -m benchmarks.streams --only publish,kv,get,recovery

Our default (ack after fdatasync) runs against the reference's default (no fsync) and against the
reference with `sync_interval: always`.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.harness import OURS, REFERENCE, Raw, ServerProcess, Table, interleaved, median, pump

SYNC_ALWAYS = 'jetstream { sync_interval: always, store_dir: "%s" }\n'
RELAXED = 'jetstream { sync_interval: "2m", store_dir: "%s" }\n'
ACK = b'"seq":'
WINDOW = 4096


def create(server: ServerProcess, name: str, subjects: str, **config: object) -> None:
    client = Raw(server.port)
    body = {"name": name, "subjects": [subjects], "num_replicas": 1, **config}
    answer = json.loads(client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(body).encode()))
    if "error" in answer:
        raise SystemExit(f"{server.kind}: {answer['error']}")
    client.close()


def delete(server: ServerProcess, name: str) -> None:
    client = Raw(server.port)
    client.request(f"$JS.API.STREAM.DELETE.{name}")
    client.close()


def publishers(server: ServerProcess, n: int) -> list[Raw]:
    clients = [Raw(server.port) for _ in range(n)]
    for i, client in enumerate(clients):
        client.send(b"SUB _INBOX.p%d.* 1\r\n" % i)
        client.flush()
    return clients


def one(i: int, serial: int, subject: str, size: int, headers: str = "") -> bytes:
    reply = b"_INBOX.p%d.%d" % (i, serial)
    payload = b"x" * size
    if not headers:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply, size, payload)
    block = f"NATS/1.0\r\n{headers}\r\n\r\n".encode()
    total = len(block) + size
    head = b"HPUB %b %b %d %d\r\n" % (subject.encode(), reply, len(block), total)
    return head + block + payload + b"\r\n"


def publish_rate(
    server: ServerProcess, size: int, senders: int, window: int, messages: int, **config: object
) -> float:
    """Messages per second, each acknowledged."""
    create(server, "BENCH", "bench.>", **config)
    clients = publishers(server, senders)
    per_chunk = min(window, 256)
    chunks = max(1, messages // senders // per_chunk)
    buffers = [
        b"".join(one(i, k, "bench.a", size) for k in range(per_chunk)) for i in range(senders)
    ]
    seconds = pump(clients, buffers, per_chunk, chunks, window, ACK)
    for client in clients:
        client.close()
    delete(server, "BENCH")
    return per_chunk * chunks * senders / seconds


def special_rate(
    server: ServerProcess, make: Callable[[int], bytes], messages: int, **config: object
) -> float:
    """Pipelined publishes that carry a header or a subject of their own; prebuilt, window 4096."""
    create(server, "BENCH", "bench.>", **config)
    client = publishers(server, 1)[0]
    chunk = 1024
    buffers = [b"".join(make(k + j) for j in range(chunk)) for k in range(0, messages, chunk)]
    sent = answered = 0
    tail = b""
    started = time.perf_counter()
    while answered < len(buffers) * chunk:
        while sent < len(buffers) and sent * chunk - answered < WINDOW:
            client.send(buffers[sent])
            sent += 1
        data = tail + client.receive()
        answered += data.count(ACK)
        tail = data[-(len(ACK) - 1) :]
    seconds = time.perf_counter() - started
    client.close()
    delete(server, "BENCH")
    return len(buffers) * chunk / seconds


def hundred_streams(server: ServerProcess, messages: int) -> float:
    for k in range(100):
        create(server, f"S{k}", f"bench.{k}")
    client = publishers(server, 1)[0]
    chunk = b"".join(one(0, k, f"bench.{k % 100}", 128) for k in range(1000))
    seconds = pump([client], [chunk], 1000, messages // 1000, WINDOW, ACK)
    client.close()
    for k in range(100):
        delete(server, f"S{k}")
    return messages // 1000 * 1000 / seconds


def get_rate(server: ServerProcess, by_subject: bool, messages: int) -> float:
    create(server, "BENCH", "bench.>", allow_direct=True)
    client = publishers(server, 1)[0]
    fill = b"".join(one(0, k, f"bench.{k % 1000}", 128) for k in range(1000))
    pump([client], [fill], 1000, 20, WINDOW, ACK)
    if by_subject:
        parts = [
            b"PUB $JS.API.DIRECT.GET.BENCH.bench.%d _INBOX.p0.g 0\r\n\r\n" % (k % 1000)
            for k in range(1000)
        ]
    else:
        bodies = [b'{"seq":%d}' % (1 + k * 17 % 20000) for k in range(1000)]
        parts = [
            b"PUB $JS.API.DIRECT.GET.BENCH _INBOX.p0.g %d\r\n%b\r\n" % (len(b), b) for b in bodies
        ]
    seconds = pump([client], [b"".join(parts)], 1000, messages // 1000, WINDOW, b"Nats-Sequence")
    client.close()
    delete(server, "BENCH")
    return messages // 1000 * 1000 / seconds


def recovery(kind: str, messages: int, table: Table, sizes: Table) -> dict[str, float]:
    """Fill a stream over 100,000 subjects, restart, and wait until it answers."""
    server = ServerProcess(kind)
    create(server, "BENCH", "bench.>")
    client = publishers(server, 1)[0]
    chunk = 1000
    for k in range(0, messages, 100_000):
        buffers = [
            b"".join(one(0, j, f"bench.{(k + j + i) % 100_000}", 128) for j in range(chunk))
            for i in range(0, min(100_000, messages - k), chunk)
        ]
        for buffer in buffers:
            pump([client], [buffer], chunk, 1, WINDOW, ACK)
    client.close()
    rss, disk = server.memory_bytes(), server.disk_bytes()
    directory = server.directory
    server.stop(keep=True)
    started = time.perf_counter()
    again = ServerProcess(kind, keep=directory)
    client = Raw(again.port)
    while (
        json.loads(client.request("$JS.API.STREAM.INFO.BENCH")).get("state", {}).get("messages")
        != messages
    ):
        time.sleep(0.01)
    seconds = time.perf_counter() - started
    client.close()
    after = again.memory_bytes()
    again._keep = False
    again.stop()
    return {"seconds": seconds, "rss": rss, "rss_after": after, "disk": disk / messages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--markdown", default="")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 5)
    scale = 0.1 if options.quick else 1.0
    only = set(filter(None, options.only.split(",")))
    tables: list[Table] = []

    def wanted(name: str) -> bool:
        return not only or name in only

    def rows(
        title: str, config: str = "", ours_config: str = ""
    ) -> tuple[Table, dict[str, ServerProcess]]:
        print(f"\n{title}\n{'':54} {'reference':>14} {'ours':>14} {'ratio':>9}")
        table = Table(title)
        tables.append(table)
        servers = {}
        for kind, text in ((REFERENCE, config), (OURS, ours_config)):
            import tempfile

            directory = tempfile.mkdtemp(prefix=f"bench-{kind}-")
            servers[kind] = ServerProcess(
                kind, config=text % directory if text else "", jetstream=not text
            )
        return table, servers

    def run(
        table: Table,
        servers: dict[str, ServerProcess],
        name: str,
        measure: Callable[[ServerProcess], float],
    ) -> None:
        found = interleaved(rounds, [REFERENCE, OURS], lambda kind: measure(servers[kind]))
        table.add(name, median(found[REFERENCE]), median(found[OURS]))

    def stop(servers: dict[str, ServerProcess]) -> None:
        for server in servers.values():
            server.stop()

    n = int(400_000 * scale)
    if wanted("publish"):
        table, servers = rows(
            "Pipelined publish, file, ours fsync before ack, reference without fsync"
        )
        for size in (128, 1024):
            for senders in (1, 8):
                run(
                    table,
                    servers,
                    f"{size} B, {senders} publisher(s), window {WINDOW}",
                    partial(
                        publish_rate,
                        size=size,
                        senders=senders,
                        window=WINDOW,
                        messages=n if size < 1000 else n // 2,
                    ),
                )
        for size in (128, 1024):
            run(
                table,
                servers,
                f"{size} B, 1 publisher, memory storage",
                partial(
                    publish_rate,
                    size=size,
                    senders=1,
                    window=WINDOW,
                    messages=n,
                    storage="memory",
                ),
            )
        stop(servers)
    if wanted("special"):
        table, servers = rows("Publishes with policy, file, defaults")
        run(table, servers, "100 streams at once", lambda s: hundred_streams(s, n // 2))
        run(
            table,
            servers,
            "Nats-Msg-Id",
            lambda s: special_rate(
                s, lambda k: one(0, k, "bench.a", 128, f"Nats-Msg-Id: id-{k}"), n // 2
            ),
        )
        run(
            table,
            servers,
            "expected last subject sequence",
            lambda s: special_rate(
                s,
                lambda k: one(0, k, f"bench.{k}", 128, "Nats-Expected-Last-Subject-Sequence: 0"),
                n // 2,
            ),
        )
        run(
            table,
            servers,
            "KV pattern: 100,000 subjects, one message each",
            lambda s: special_rate(
                s,
                lambda k: one(0, k, f"bench.{k * 7919 % 100_000}", 128),
                n,
                max_msgs_per_subject=1,
            ),
        )
        stop(servers)
    if wanted("get"):
        table, servers = rows("Direct get, pipelined")
        run(table, servers, "by sequence", lambda s: get_rate(s, False, n // 2))
        run(table, servers, "last by subject", lambda s: get_rate(s, True, n // 2))
        stop(servers)
    if wanted("sync"):
        table, servers = rows(
            "Both fsync before ack (reference: sync_interval always)", SYNC_ALWAYS
        )
        run(
            table,
            servers,
            "128 B, 1 publisher, window 4096",
            lambda s: publish_rate(s, 128, 1, WINDOW, n // 20 if s.kind == REFERENCE else n),
        )
        run(
            table,
            servers,
            "128 B, 1 publisher, one at a time",
            lambda s: publish_rate(s, 128, 1, 1, int(3000 * scale)),
        )
        run(
            table,
            servers,
            "128 B, 64 publishers, one at a time each",
            lambda s: publish_rate(s, 128, 64, 1, int(64 * 400 * scale)),
        )
        stop(servers)
    if wanted("relaxed"):
        table, servers = rows("One at a time, neither fsyncs (ours: sync_interval 2m)", "", RELAXED)
        run(
            table,
            servers,
            "128 B, 1 publisher, one at a time",
            lambda s: publish_rate(s, 128, 1, 1, int(20_000 * scale)),
        )
        stop(servers)
    if wanted("recovery"):
        count = int(1_000_000 * scale)
        found = {kind: recovery(kind, count, Table(""), Table("")) for kind in (REFERENCE, OURS)}
        print(f"\n{count:,} messages over 100,000 subjects")
        table = Table("Recovery and size", "s, MB, B", higher_is_better=False)
        tables.append(table)
        for name, key, unit in (
            ("restart until served, s", "seconds", 1.0),
            ("RSS after filling, MB", "rss", 1e6),
            ("RSS after restart, MB", "rss_after", 1e6),
            ("disk bytes per message", "disk", 1.0),
        ):
            table.add(name, found[REFERENCE][key] / unit, found[OURS][key] / unit)
    if options.markdown:
        Path(options.markdown).write_text("\n\n".join(table.markdown() for table in tables) + "\n")


if __name__ == "__main__":
    main()
