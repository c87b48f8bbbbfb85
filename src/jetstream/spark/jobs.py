"""Work over whole streams, one Spark job each: verify, stats, replay, redact, diff.

Each takes a session and the connection options and returns plain values; the command line prints
them. All of them read by sequence ranges, so they see a fixed state of the stream while it goes on.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from jetstream.errors import JetStreamError

Options = dict[str, str]


class Check(Struct, frozen=True):
    """One thing that was verified."""

    name: str
    good: bool
    text: str


def table(spark: Any, stream: str, options: Options, **more: str) -> Any:
    return spark.read.format("jetstream").options(**options, **more).load(stream)


def stats(
    spark: Any, stream: str, options: Options, depth: int = 0, top: int = 20
) -> list[dict[str, Any]]:
    """Count, bytes, sizes and times per subject (or per first `depth` tokens)."""
    df = table(spark, stream, options, columns="subject,seq,time,size,tokens")
    key = f"array_join(slice(tokens, 1, {depth}), '.')" if depth else "subject"
    rows = (
        df.selectExpr(f"{key} AS subject", "seq", "time", "size")
        .groupBy("subject")
        .agg(
            *_exprs(
                "count(*) AS messages",
                "sum(CAST(size AS BIGINT)) AS bytes",
                "min(size) AS smallest",
                "max(size) AS largest",
                "CAST(avg(size) AS BIGINT) AS average",
                "min(seq) AS first_seq",
                "max(seq) AS last_seq",
                "CAST(min(time) AS STRING) AS first_time",
                "CAST(max(time) AS STRING) AS last_time",
                "CAST(percentile_approx(size, 0.99) AS BIGINT) AS p99_size",
            )
        )
        .orderBy("messages", ascending=False)
        .limit(top)
    )
    return [row.asDict() for row in rows.collect()]


def verify(spark: Any, stream: str, options: Options, json_payloads: bool = False) -> list[Check]:
    """Read everything once and compare with what the server (or the archive) promises."""
    from jetstream.spark.options import Options as Parsed
    from jetstream.spark.plan import Planner, source_config

    parsed = source_config(Parsed(options | {"stream": stream}, "s"))
    state = Planner(parsed).control.state(stream)
    limit = {"endingOffsets": str(state.last_seq)} if state.last_seq else {}
    df = table(spark, stream, options, columns="seq,time_ns,subject,data,raw_headers", **limit)
    found = (
        df.selectExpr(
            "count(*) AS messages",
            "count(DISTINCT seq) AS distinct",
            "min(seq) AS first",
            "max(seq) AS last",
            "count_if(subject IS NULL OR subject = '') AS nameless",
            "count_if(length(raw_headers) > 0"
            " AND substring(CAST(raw_headers AS STRING), 1, 8) != 'NATS/1.0')"
            " AS bad_headers",
            "count_if(get_json_object(CAST(data AS STRING), '$') IS NULL) AS not_json",
        )
        .collect()[0]
        .asDict()
    )
    archived = "archive" in options
    order = df.selectExpr("seq", "time_ns", "lag(time_ns) OVER (ORDER BY seq) AS before")
    backwards = order.where("before > time_ns").count() if found["messages"] else 0
    expected = state.messages
    checks = [
        Check(
            "distinct sequences",
            found["messages"] == found["distinct"],
            f"{found['distinct']} of {found['messages']}",
        ),
        Check("subjects", found["nameless"] == 0, f"{found['nameless']} without"),
        Check("headers", found["bad_headers"] == 0, f"{found['bad_headers']} damaged"),
        Check("times in order", backwards == 0, f"{backwards} go back"),
    ]
    if not archived:
        ends = (
            (found["first"], found["last"]) == (state.first_seq, state.last_seq)
            or not state.messages
            or state.num_deleted > 0
        )
        checks.insert(
            0,
            Check(
                "messages",
                found["messages"] == expected,
                f"read {found['messages']}, the server counts {expected}",
            ),
        )
        checks.insert(1, Check("sequences", ends, f"{found['first']} to {found['last']}"))
    if json_payloads:
        checks.append(
            Check("JSON payloads", found["not_json"] == 0, f"{found['not_json']} are not JSON")
        )
    return checks


def replay(
    spark: Any,
    stream: str,
    target: str,
    options: Options,
    sql: str = "",
    subject: str = "",
    where: str = "",
    job: str = "",
) -> int:
    """Copy a stream into another, through a query over the view `messages`, exactly once."""
    from jetstream.spark.where import pushed

    df = table(spark, stream, options | (pushed(where) if where else {}), includeHeaders="true")
    df = df.where(where) if where else df
    df.createOrReplaceTempView("messages")
    out = (
        spark.sql(sql) if sql else df.selectExpr("subject", "data", f"{_kept_headers()} AS headers")
    )
    if subject:
        out = out.drop("subject").selectExpr("*", f"{subject} AS subject")
    return _write(spark, out, target, options, job)


def _kept_headers() -> str:
    """Headers without those that mean something for the message they came with only."""
    return (
        "map_filter(headers, (k, v) -> NOT startswith(k, 'Nats-Expected') AND k != 'Nats-Msg-Id')"
    )


def redact(
    spark: Any,
    stream: str,
    target: str,
    options: Options,
    fields: list[str],
    replacement: str | None = None,
    subject: str = "",
    job: str = "",
) -> int:
    """Rewrite a stream into another with JSON fields removed (or replaced) everywhere."""
    paths = [field.split(".") for field in fields]
    df = table(spark, stream, options, includeHeaders="true")
    slim = df.selectExpr("subject", "data", f"{_kept_headers()} AS headers")

    def without(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            data = [
                redacted(value, paths, replacement) for value in batch.column("data").to_pylist()
            ]
            at = batch.schema.get_field_index("data")
            yield batch.set_column(at, batch.schema.field(at), pa.array(data, pa.binary()))

    out = slim.mapInArrow(without, slim.schema)
    if subject:
        out = out.selectExpr(f"{subject} AS subject", "data", "headers")
    return _write(spark, out, target, options, job)


def redacted(payload: bytes, paths: list[list[str]], replacement: str | None) -> bytes:
    """A JSON payload without some fields; anything else stays as it is."""
    try:
        value = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        return payload
    changed = False
    for path in paths:
        changed |= _remove(value, path, replacement)
    return msgspec.json.encode(value) if changed else payload


def _remove(value: Any, path: list[str], replacement: str | None) -> bool:
    if isinstance(value, list):
        # Every element, also when one has changed already.
        return sum(_remove(item, path, replacement) for item in value) > 0
    if not isinstance(value, dict) or path[0] not in value:
        return False
    if len(path) > 1:
        return _remove(value[path[0]], path[1:], replacement)
    if replacement is None:
        del value[path[0]]
    else:
        value[path[0]] = replacement
    return True


def diff(
    spark: Any, left: str, right: str, options: Options, by: str = "seq", top: int = 20
) -> dict[str, Any]:
    """Where two streams differ: by sequence (a mirror), or by content (whatever the order)."""
    if by not in ("seq", "content"):
        raise JetStreamError(f"compare by seq or content, not {by!r}")
    columns = "seq,subject,data"
    sides = [
        table(spark, name, options, columns=columns).selectExpr(
            "seq", "subject", "xxhash64(subject, data) AS hash"
        )
        for name in (left, right)
    ]
    if by == "seq":
        joined = (
            sides[0]
            .alias("a")
            .join(sides[1].alias("b"), on="seq", how="full_outer")
            .selectExpr(
                "seq",
                "coalesce(a.subject, b.subject) AS subject",
                "CASE WHEN a.hash IS NULL THEN 'right only' WHEN b.hash IS NULL THEN 'left only'"
                " WHEN a.hash != b.hash THEN 'different' ELSE 'same' END AS verdict",
            )
        )
    else:
        counts = [
            side.groupBy("hash").agg(
                *_exprs("count(*) AS n", "min(seq) AS seq", "min(subject) AS subject")
            )
            for side in sides
        ]
        joined = (
            counts[0]
            .alias("a")
            .join(counts[1].alias("b"), on="hash", how="full_outer")
            .selectExpr(
                "coalesce(a.seq, b.seq) AS seq",
                "coalesce(a.subject, b.subject) AS subject",
                "CASE WHEN coalesce(a.n, 0) < coalesce(b.n, 0) THEN 'right only'"
                " WHEN coalesce(a.n, 0) > coalesce(b.n, 0) THEN 'left only'"
                " ELSE 'same' END AS verdict",
            )
        )
    joined = joined.cache()
    try:
        counted = {r.verdict: r["count"] for r in joined.groupBy("verdict").count().collect()}
        some = joined.where("verdict != 'same'").orderBy("seq").limit(top).collect()
    finally:
        joined.unpersist()
    return {
        "counts": counted,
        "same": set(counted) <= {"same"},
        "first": [r.asDict() for r in some],
    }


def _write(spark: Any, df: Any, target: str, options: Options, job: str) -> int:
    from jetstream.spark.options import Options as Parsed
    from jetstream.spark.sink import sink_config

    allowed = {k: v for k, v in options.items() if k not in _SOURCE_ONLY}
    control = sink_config(Parsed(allowed | {"stream": target}, "w")).control()
    before = control.state(target).last_seq
    writer = df.write.format("jetstream").options(**allowed).option("stream", target)
    (writer.option("jobId", job) if job else writer).mode("append").save()
    return control.state(target).last_seq - before


_SOURCE_ONLY = {
    "filterSubjects", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "minPartitions", "maxRecordsPerPartition", "readMode", "storeDir", "archive", "archiveFormat",
    "failOnDataLoss",
}  # fmt: skip


def _exprs(*texts: str) -> list[Any]:
    from pyspark.sql.functions import expr

    return [expr(text) for text in texts]


@contextmanager
def watched(spark: Any, on_progress: Callable[[int, int], None]) -> Iterator[None]:
    """Tell how many tasks of the running jobs are done, a few times a second."""
    done = threading.Event()

    def look() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not done.wait(0.2):
            stages = [tracker.getStageInfo(i) for i in tracker.getActiveStageIds()]
            known = [s for s in stages if s is not None]
            if known:
                on_progress(sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known))

    thread = threading.Thread(target=look, daemon=True)
    if hasattr(spark, "sparkContext"):
        thread.start()
    try:
        yield
    finally:
        done.set()
        if thread.is_alive():
            thread.join(1.0)
