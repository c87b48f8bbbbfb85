"""The Spark connector beside a plain nats-py data source, Parquet and JSON files.

    python -m benchmarks.spark [--quick] [--rows 1000000] [--flat] [--only read,write,latency]

Reads: JSON messages of 200 bytes on 1,000 subjects into a groupBy and into a no-op sink, best of
`--rounds`. Writes: rows from Parquet into a file stream with exactly-once on. Latency: 200 messages
a second through stream → Spark → stream, from the time in the payload to the time in the target.
`--flat` repeats the reads with 100 thousand and 10 million rows.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from benchmarks.harness import OURS, REFERENCE, ServerProcess, median
from jetstream.client.pipe import Pipe, Target, frame
from jetstream.spark.control import Control
from jetstream.spark.session import session

TEXT = "x" * 130


class NatsPySource(DataSource):
    """What one writes first: nats-py, a pull consumer, a tuple per message."""

    @classmethod
    def name(cls) -> str:
        return "natspy"

    def schema(self) -> str:
        return "subject string, data binary, seq bigint"

    def reader(self, schema: Any) -> DataSourceReader:
        return NatsPyReader(self.options["servers"], int(self.options["rows"]))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return NatsPyWriter(self.options["servers"])


class NatsPyReader(DataSourceReader):
    def __init__(self, servers: str, rows: int) -> None:
        self.servers, self.rows = servers, rows

    def partitions(self) -> list[InputPartition]:
        half = self.rows // 2
        return [InputPartition((1, half)), InputPartition((half + 1, self.rows))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        import nats
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        first, last = partition.value
        loop = asyncio.new_event_loop()
        client = loop.run_until_complete(nats.connect(self.servers))
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=first,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=300,
        )
        sub = loop.run_until_complete(
            client.jetstream().pull_subscribe("", stream="BENCH", config=config)
        )
        seq = first - 1
        while seq < last:
            for message in loop.run_until_complete(sub.fetch(min(500, last - seq))):
                seq = message.metadata.sequence.stream
                yield message.subject, message.data, seq
        loop.run_until_complete(client.close())


class NatsPyWriter(DataSourceWriter):
    def __init__(self, servers: str) -> None:
        self.servers = servers

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        import nats

        async def publish() -> None:
            client = await nats.connect(self.servers)
            js = client.jetstream()
            for row in iterator:
                await js.publish(row.subject, bytes(row.data))
            await client.close()

        asyncio.run(publish())
        return WriterCommitMessage()


def fill(control: Control, stream: str, rows: int) -> None:
    """`rows` JSON messages of about 200 bytes on 1,000 subjects."""
    low = stream.lower()
    control.create_stream({"name": stream, "subjects": [f"{low}.>"], "allow_direct": True})
    with Pipe(control.target) as pipe:
        for at in range(0, rows, 2000):
            frames = []
            for i in range(at, min(at + 2000, rows)):
                body = b'{"id": %d, "device": %d, "value": %d.5, "text": "%b"}' % (
                    i, i % 1000, i % 97, TEXT.encode(),
                )  # fmt: skip
                frames.append((f"{low}.{i % 1000}".encode(), body))
            pipe.send(b"".join(frame(s, b) for s, b in frames[:-1]))
            pipe.request(frames[-1][0].decode(), frames[-1][1])


def worker_memory() -> tuple[Callable[[], float], Callable[[], None]]:
    """Watches the Python workers; gives the largest resident size in MB above an idle worker."""
    stop = threading.Event()
    sizes: list[int] = []
    idle: list[int] = []

    def look() -> None:
        while not stop.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if b"pyspark.daemon" in path.read_bytes():
                        pages = int((path.parent / "statm").read_text().split()[1])
                        (sizes if sizes or idle else idle).append(
                            pages * os.sysconf("SC_PAGE_SIZE")
                        )
                except (OSError, IndexError):
                    continue

    threading.Thread(target=look, daemon=True).start()
    return lambda: (max(sizes, default=0) - min([*sizes, *idle], default=0)) / 1e6, stop.set


def best(rounds: int, work: Callable[[], Any]) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def grouped(load: Callable[[], Any]) -> None:
    load().groupBy("subject").count().write.format("noop").mode("overwrite").save()


def swallowed(load: Callable[[], Any]) -> None:
    load().write.format("noop").mode("overwrite").save()


def read_ways(
    spark: Any, servers: dict[str, ServerProcess], rows: int
) -> dict[str, Callable[[], Any]]:
    urls = {kind: f"nats://127.0.0.1:{server.port}" for kind, server in servers.items()}

    def ours(kind: str, mode: str) -> Callable[[], Any]:
        def load() -> Any:
            reader = spark.read.format("jetstream").option("servers", urls[kind])
            return reader.option("readMode", mode).option("minPartitions", 2).load("BENCH")

        return load

    return {
        "consumer, nats-server": ours(REFERENCE, "consumer"),
        "direct get, nats-server": ours(REFERENCE, "direct"),
        "consumer, our server": ours(OURS, "consumer"),
        "bulk, our server": ours(OURS, "bulk"),
        "file, our server": ours(OURS, "file"),
    }


def reads(
    spark: Any, servers: dict[str, ServerProcess], rows: int, rounds: int, folder: Path
) -> None:
    ways = read_ways(spark, servers, rows)
    parquet, lines = str(folder / "parquet"), str(folder / "json")
    source = ways["bulk, our server"]()
    source.write.parquet(parquet)
    source.selectExpr("CAST(data AS STRING) AS value").write.text(lines)
    few = min(rows, 100_000)
    url = f"nats://127.0.0.1:{servers[REFERENCE].port}"
    results: dict[str, tuple[float, float, float]] = {}

    def measure(name: str, load: Callable[[], Any], count: int, times: int) -> None:
        swallowed(load)
        peak, done = worker_memory()
        by_group = count / best(times, lambda: grouped(load))
        plain = count / best(times, lambda: swallowed(load))
        done()
        results[name] = (by_group, plain, peak())
        print(f"{name:28} {by_group:>14,.0f} {plain:>14,.0f} {results[name][2]:>8,.0f}", flush=True)

    print(f"\nread {rows:,} x 200 B        {'groupBy rows/s':>14} {'no-op rows/s':>14} {'MB':>8}")
    plain_source = spark.read.format("natspy").option("servers", url).option("rows", few)
    measure("nats-py data source", plain_source.load, few, 1)
    for name, load in ways.items():
        measure(name, load, rows, rounds)
    measure("Parquet", lambda: spark.read.parquet(parquet), rows, rounds)
    schema = "id long, device int, value double, text string, subject string"
    measure("JSON files", lambda: spark.read.schema(schema).json(lines), rows, rounds)
    base, columnar = results["nats-py data source"], results["Parquet"]
    for name, goal, against in (
        ("consumer, nats-server", 12.0, base),
        ("bulk, our server", 0.8, columnar),
        ("file, our server", 1.0, columnar),
    ):
        ratio = results[name][0] / against[0]
        print(f"{name}: {ratio:.2f} times (goal {goal})")


def flat(spark: Any, servers: dict[str, ServerProcess], rounds: int) -> None:
    """Rows per second at three sizes: they should not fall."""
    control = Control(Target(servers=(f"nats://127.0.0.1:{servers[OURS].port}",)))
    fill(control, "FLAT", 10_000_000)
    for rows in (100_000, 1_000_000, 10_000_000):
        peak, done = worker_memory()

        def load(rows: int = rows) -> Any:
            reader = spark.read.format("jetstream").option("minPartitions", 2)
            url = f"nats://127.0.0.1:{servers[OURS].port}"
            return reader.option("servers", url).option("endingOffsets", rows).load("FLAT")

        seconds = best(rounds, lambda: swallowed(load))
        done()
        print(f"{rows:>12,} rows: {rows / seconds:>12,.0f} rows/s, {peak():.0f} MB", flush=True)


def writes(spark: Any, servers: dict[str, ServerProcess], rows: int, folder: Path) -> None:
    df = spark.range(rows).selectExpr(
        "concat('out.', id % 1000) AS subject",
        f"CAST(concat(id, '{TEXT}', '{'y' * 60}') AS BINARY) AS data",
    )
    path = str(folder / "rows")
    df.repartition(2).write.parquet(path)
    controls = {
        k: Control(Target(servers=(f"nats://127.0.0.1:{s.port}",))) for k, s in servers.items()
    }
    print(f"\nwrite {rows:,} x 200 B, 2 tasks {'msg/s':>14}")
    few = min(rows, 10_000)
    made: dict[str, float] = {}

    def measure(name: str, kind: str, work: Callable[[Any], None], source: Any, count: int) -> None:
        controls[kind].create_stream({"name": "OUT", "subjects": ["out.>"]})
        began = time.perf_counter()
        work(source.write)
        made[name] = count / (time.perf_counter() - began)
        stored = controls[kind].state("OUT").messages
        controls[kind].ask("STREAM.DELETE.OUT")
        print(f"{name:40} {made[name]:>14,.0f}  ({stored:,} stored)", flush=True)

    def url(kind: str) -> str:
        return f"nats://127.0.0.1:{servers[kind].port}"

    def plain(writer: Any) -> None:
        writer = writer.format("natspy").option("servers", url(REFERENCE)).option("rows", 0)
        writer.mode("append").save()

    def connector(kind: str, mode: str, delivery: str) -> Callable[[Any], None]:
        def write(writer: Any) -> None:
            writer = writer.format("jetstream").option("servers", url(kind)).option("stream", "OUT")
            writer.option("writeMode", mode).option("delivery", delivery).mode("append").save()

        return write

    sample = spark.read.parquet(path).limit(few).repartition(2)
    measure("nats-py, a publish per row", REFERENCE, plain, sample, few)
    for kind, mode in ((REFERENCE, "publish"), (OURS, "publish"), (OURS, "bulk")):
        for delivery in ("exactly-once", "at-least-once"):
            name = f"{kind}, {mode}, {delivery}"
            work = connector(kind, mode, delivery)
            measure(name, kind, work, spark.read.parquet(path), rows)
    slow = made["nats-py, a publish per row"]
    for name in (f"{REFERENCE}, publish, exactly-once", f"{OURS}, bulk, exactly-once"):
        print(f"{name}: {made[name] / slow:.1f} times the nats-py sink (goal 20)")


def latency(spark: Any, servers: dict[str, ServerProcess], seconds: float, folder: Path) -> None:
    for kind, server in servers.items():
        url = f"nats://127.0.0.1:{server.port}"
        control = Control(Target(servers=(url,)))
        for name in ("LIN", "LOUT"):
            control.create_stream(
                {"name": name, "subjects": [f"{name.lower()}.>"], "allow_direct": True}
            )
        query = (
            spark.readStream.format("jetstream").option("servers", url).load("LIN")
            .selectExpr("'lout.x' AS subject", "data")
            .writeStream.format("jetstream").option("servers", url).option("stream", "LOUT")
            .option("checkpointLocation", str(folder / f"latency-{kind}")).start()
        )  # fmt: skip
        with Pipe(control.target) as pipe:
            pipe.request("lin.x", b"%d" % time.time_ns())
            query.processAllAvailable()
            for _ in range(400):
                pipe.publish("lin.x", b"%d" % time.time_ns())
                time.sleep(0.005)
            warm = control.state("LIN").last_seq
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                pipe.publish("lin.x", b"%d" % time.time_ns())
                time.sleep(0.005)
            query.processAllAvailable()
        phases = [p.durationMs for p in query.recentProgress if p.numInputRows][-50:]
        query.stop()
        rows = (
            spark.read.format("jetstream")
            .option("servers", url)
            .option("columns", "data,time_ns,seq")
            .load("LOUT")
        )
        waits = sorted(
            (r.time_ns - int(bytes(r.data))) / 1e6 for r in rows.where(f"seq > {warm}").collect()
        )
        middle = (
            {k: statistics.median(p.get(k, 0) for p in phases) for k in phases[-1]}
            if phases
            else {}
        )
        print(
            f"\nlatency over {kind}, 200 msg/s, {len(waits)} messages: p50 {median(waits):.0f} ms, "
            f"p99 {waits[int(len(waits) * 0.99)]:.0f} ms (goal p50 120)\n"
            f"  median phases in ms: {json.dumps(middle)}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--only", default="read,write,latency")
    options = parser.parse_args()
    rows = options.rows or (100_000 if options.quick else 1_000_000)
    rounds = options.rounds or (2 if options.quick else 3)
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    servers = {kind: ServerProcess(kind) for kind in (REFERENCE, OURS)}
    spark = session("benchmark", "local[2]")
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(NatsPySource)
    try:
        for server in servers.values():
            server.wait_ready()
        if "read" in options.only:
            for server in servers.values():
                fill(Control(Target(servers=(f"nats://127.0.0.1:{server.port}",))), "BENCH", rows)
            reads(spark, servers, rows, rounds, folder)
        if options.flat:
            flat(spark, servers, rounds)
        if "write" in options.only:
            writes(spark, servers, rows, folder)
        if "latency" in options.only:
            latency(spark, servers, 5.0 if options.quick else 20.0, folder)
    finally:
        spark.stop()
        for server in servers.values():
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
