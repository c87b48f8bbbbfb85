"""Runs a checked pipeline: sources become views, steps queries over them, sinks running queries.

The runner reports what happens to a subject and into a KV bucket, so that the command line and the
console see every pipeline wherever it runs, and listens there for the order to stop. A restart
goes on exactly where the checkpoints are.
"""

import importlib.util
import json
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jetstream.client.pipe import lease
from jetstream.errors import JetStreamError
from jetstream.schema.times import rfc3339
from jetstream.spark.control import Control
from jetstream.spark.offsets import from_json, lag
from jetstream.spark.options import Options, parse_seconds
from jetstream.spark.progress import ProgressBook
from jetstream.spark.spec import Pipeline, Sink, Source, Step

PROGRESS_SUBJECT = "spark.progress"
POLL_S = 0.5
STALE_S = 15.0
SPARK_SIDE = {"parquet": "parquet", "json": "json", "csv": "csv"}


class PipelineFailed(JetStreamError):
    """A query of a pipeline ended with an error."""


def control_of(pipeline: Pipeline, servers: str = "") -> Control:
    options = Options({"servers": servers or pipeline.servers, **pipeline.connection}, "s")
    return Control(options.target("jetstream-pipeline"), options.api_prefix())


def checkpoint_of(pipeline: Pipeline) -> Path:
    if pipeline.checkpoint:
        path = Path(pipeline.checkpoint).expanduser()
        return path if path.is_absolute() else Path(pipeline.path).parent / path
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "jetstream" / "pipelines" / pipeline.name


class Runner:
    """One pipeline on one Spark session."""

    def __init__(
        self, pipeline: Pipeline, spark: Any, servers: str = "", once: bool = False
    ) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.servers = servers or pipeline.servers
        self.once = once or pipeline.trigger == "available-now"
        self.control = control_of(pipeline, servers)
        self.book = ProgressBook(self.control, pipeline.progress_bucket)
        self.queries: dict[str, Any] = {}
        self.record: dict[str, Any] = {
            "name": pipeline.name,
            "state": "starting",
            "file": str(Path(pipeline.path).absolute()),
            "pid": os.getpid(),
            "host": platform.node(),
            "started": rfc3339(time.time_ns()),
            "queries": {},
        }
        self._seen: dict[str, int] = {}
        self._dead: dict[str, list[tuple[Step, Any]]] = {}

    # Building

    def start(self) -> None:
        from jetstream.spark.table_sink import TableSink

        self.book.ensure()
        # An order to stop that came after the last run is not meant for this one.
        self._told_to_stop()
        self._write_record()
        self.spark.dataSource.register(TableSink)
        for source in self.pipeline.sources:
            self._source(source).createOrReplaceTempView(source.name)
        dead: list[tuple[Step, Any]] = []
        for step in self.pipeline.steps:
            df = self._step(step)
            good, bad = self._expected(step, df)
            good.createOrReplaceTempView(step.name)
            if bad is not None:
                dead.append((step, bad))
        for sink in self.pipeline.sinks:
            self._sink(sink, self.spark.table(sink.source))
        for step, bad in dead:
            options = {"subject": self.pipeline.dead_letter}
            self._sink(Sink(f"{step.name}_dead", "stream", "", step.name, options), bad)
        self.record["state"] = "running"
        self._write_record()

    def _source(self, source: Source) -> Any:
        ours = {"stream": "jetstream", "kv": "jetstream_kv", "object": "jetstream_object"}
        if source.kind == "sql":
            return self.spark.sql(source.where)
        if source.kind in SPARK_SIDE:
            reader = self.spark.read.format(source.kind).options(**source.options)
            df = (reader.schema(source.schema) if source.schema else reader).load(source.where)
        elif source.kind == "rate":
            rate = {"rowsPerSecond": source.where or "10"} | source.options
            df = self.spark.readStream.format("rate").options(**rate).load()
        else:
            batch = source.batch or source.kind == "object"
            reader = self.spark.read if batch else self.spark.readStream
            options = {"servers": self.servers, **self.pipeline.connection, **source.options}
            reader = reader.format(ours[source.kind]).options(**options)
            df = (reader.schema(source.schema) if source.schema else reader).load(source.where)
        return df.withWatermark(*source.watermark) if source.watermark[0] else df

    def _step(self, step: Step) -> Any:
        if step.sql:
            df = self.spark.sql(step.sql)
        else:
            function = step.function if callable(step.function) else _imported(*step.function)
            df = function(self.spark, *(self.spark.table(name) for name in step.inputs))
        if step.watermark[0]:
            df = df.withWatermark(*step.watermark)
        if step.dedup:
            within = df.isStreaming and hasattr(df, "dropDuplicatesWithinWatermark")
            parts: list[Any] = [*self.pipeline.sources, *self.pipeline.steps]
            marked = any(part.watermark[0] for part in parts)
            columns = list(step.dedup)
            df = (
                df.dropDuplicatesWithinWatermark(columns)
                if within and marked
                else df.dropDuplicates(columns)
            )
        return df

    def _expected(self, step: Step, df: Any) -> tuple[Any, Any]:
        """(rows that pass, rows for the dead letters or None)."""
        bad = None
        for rule in step.expectations:
            holds = f"coalesce({rule.check}, false)"
            if rule.otherwise == "fail":
                where = f"{self.pipeline.name}.{step.name}"
                text = f"expectation {rule.name} of {where} failed: {rule.check}"
                quoted = text.replace("'", "''")
                df = df.where(f"assert_true({holds}, '{quoted}') IS NULL")
            else:
                if rule.otherwise == "deadletter":
                    names = ", ".join(f"`{c}`" for c in df.columns)
                    lost = df.where(f"NOT {holds}").selectExpr(
                        f"to_json(struct({names})) AS data",
                        "map('Jetstream-Pipeline', array('" + self.pipeline.name + "'),"
                        f" 'Jetstream-Step', array('{step.name}'),"
                        f" 'Jetstream-Expectation', array('{rule.name}')) AS headers",
                    )
                    bad = lost if bad is None else bad.unionAll(lost)
                df = df.where(holds)
        return df, bad

    def _sink(self, sink: Sink, df: Any) -> None:
        options = dict(sink.options)
        name = {"stream": "jetstream", "kv": "jetstream_kv"}.get(sink.kind, sink.kind)
        if sink.kind in ("stream", "kv"):
            options = {"servers": self.servers, **self.pipeline.connection, **options}
            if sink.where:
                options["stream" if sink.kind == "stream" else "bucket"] = sink.where
        elif sink.kind in ("parquet", "delta", "iceberg"):
            name = "jetstream_table"
            options |= {"kind": sink.kind, "path": sink.where}
            if sink.partition_by:
                options["partitionBy"] = ",".join(sink.partition_by)
        if not df.isStreaming:
            df.write.format(name).options(**options).mode("append").save()
            self.record["queries"][sink.name] = {"state": "finished"}
            return
        checkpoint = checkpoint_of(self.pipeline) / sink.name
        writer = df.writeStream.outputMode(sink.mode)
        if sink.mode != "append" and sink.kind in ("stream", "kv"):
            # Spark lets Python sinks append only; changed rows go out batch by batch instead.
            writer = writer.foreachBatch(_batch_writer(name, options, checkpoint))
        else:
            writer = writer.format(name).options(**options)
        writer = writer.queryName(f"{self.pipeline.name}_{sink.name}")
        writer = writer.option("checkpointLocation", str(checkpoint))
        if self.once:
            writer = writer.trigger(availableNow=True)
        elif self.pipeline.trigger:
            seconds = parse_seconds("trigger", self.pipeline.trigger)
            writer = writer.trigger(processingTime=f"{int(seconds * 1000)} milliseconds")
        self.queries[sink.name] = query = writer.start()
        # Each query starts Python processes that have ten seconds to report; on a busy machine
        # several at once would not make it.
        until = time.monotonic() + 60.0
        while query.isActive and time.monotonic() < until:
            if "Initializing" not in query.status["message"]:
                break
            time.sleep(0.05)

    # Watching

    def watch(
        self, on_event: Callable[[str, dict[str, Any]], None], should_stop: Callable[[], bool]
    ) -> str:
        """Until the queries end, somebody says stop, or one fails; returns the last state."""
        state = "finished"
        looked = 0.0
        try:
            while any(q.isActive for q in self.queries.values()):
                self._report(on_event)
                if any(not q.isActive and q.exception() for q in self.queries.values()):
                    break
                if should_stop() or (time.monotonic() - looked > 1.0 and self._told_to_stop()):
                    state = "stopped"
                    self.stop()
                    break
                if time.monotonic() - looked > 1.0:
                    looked = time.monotonic()
                time.sleep(POLL_S)
            self._report(on_event)
            errors = {n: q.exception() for n, q in self.queries.items()}
            failed = {n: _told(str(e)) for n, e in errors.items() if e}
            if failed:
                state = "failed"
                for name, text in failed.items():
                    self.record["queries"].setdefault(name, {})["error"] = text[-2000:]
                self.stop()
                raise PipelineFailed("; ".join(f"{n}: {_last_line(t)}" for n, t in failed.items()))
            return state
        finally:
            self.record["state"] = state
            self._write_record()

    def stop(self, patience_s: float = 30.0) -> None:
        """Let the running batches finish, then stop."""
        until = time.monotonic() + patience_s
        for query in self.queries.values():
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
                if "Waiting" in query.status["message"] or not query.status["isDataAvailable"]:
                    break
                time.sleep(0.05)
            query.stop()

    def _told_to_stop(self) -> bool:
        try:
            order = self.book.get(f"control.{self.pipeline.name}")
        except JetStreamError:
            return False
        if order is None or not order.get("stop"):
            return False
        self.book.delete(f"control.{self.pipeline.name}")
        return True

    def _report(self, on_event: Callable[[str, dict[str, Any]], None]) -> None:
        changed = time.time() - self.record.get("_at", 0) > 5
        for name, query in self.queries.items():
            for progress in query.recentProgress:
                if (
                    progress["batchId"] <= self._seen.get(name, -1)
                    and progress["numInputRows"] == 0
                ):
                    continue
                if progress["batchId"] <= self._seen.get(name, -1):
                    continue
                self._seen[name] = progress["batchId"]
                event = summary(progress)
                kept = self.record["queries"].setdefault(name, {"total": 0})
                total = kept.get("total", 0) + event["rows"]
                kept.update(event, total=total)
                on_event(name, kept)
                self._publish(name, event)
                changed = True
        if changed:
            self._write_record()

    def _publish(self, name: str, event: dict[str, Any]) -> None:
        try:
            with lease(self.control.target) as pipe:
                subject = f"{PROGRESS_SUBJECT}.{self.pipeline.name}.{name}"
                pipe.publish(subject, json.dumps(event).encode())
        except JetStreamError:
            pass  # Progress is for onlookers; the data do not wait for them.

    def _write_record(self) -> None:
        self.record["updated"] = rfc3339(time.time_ns())
        self.record["_at"] = time.time()
        shown = {k: v for k, v in self.record.items() if not k.startswith("_")}
        try:
            self.book.put(f"pipeline.{self.pipeline.name}", shown)
        except JetStreamError as error:
            print(f"progress could not be stored: {error}", file=sys.stderr)  # noqa: T201


def summary(progress: Any) -> dict[str, Any]:
    """One progress event of Spark as the few facts people look at."""
    behind, modes, lost = 0, set(), ""
    for source in progress["sources"]:
        try:
            latest, end = source["latestOffset"], source["endOffset"]
            latest = json.loads(latest) if isinstance(latest, str) else latest
            end = json.loads(end) if isinstance(end, str) else end
            behind += lag(from_json(end), from_json(latest))
            modes.add(latest.get("readMode", ""))
            lost = lost or latest.get("lost", "")
        except (JetStreamError, ValueError, TypeError, KeyError, AttributeError):
            continue
    event = {
        "batch": progress["batchId"],
        "rows": progress["numInputRows"],
        "rows_per_s": round(progress["processedRowsPerSecond"] or 0.0, 1),
        "lag": behind,
        "phases": dict(progress["durationMs"]),
        "read_mode": ",".join(sorted(m for m in modes if m)),
        "at": progress["timestamp"],
    }
    return event | ({"lost": lost} if lost else {})


def status(control: Control, bucket: str, name: str = "") -> list[dict[str, Any]]:
    """What is known about pipelines; a record that is not refreshed any more is `gone`."""
    book = ProgressBook(control, bucket)
    found: list[dict[str, Any]] = []
    for key in book.keys():  # noqa: SIM118 - a question to the server, not a dictionary
        if not key.startswith("pipeline.") or (name and key != f"pipeline.{name}"):
            continue
        record = book.get(key)
        if record is None:
            continue
        if record["state"] in ("running", "starting") and not _is_fresh(record):
            record["state"] = "gone"
        found.append(record)
    return found


def _is_fresh(record: dict[str, Any]) -> bool:
    from jetstream.schema.times import parse_rfc3339

    return time.time_ns() - parse_rfc3339(record["updated"]) < STALE_S * 1e9


def order_stop(control: Control, bucket: str, name: str) -> None:
    ProgressBook(control, bucket).put(f"control.{name}", {"stop": True})


def reset(pipeline: Pipeline, control: Control) -> Path:
    """Forget checkpoints and progress: the next run starts from the beginning."""
    records = status(control, pipeline.progress_bucket, pipeline.name)
    if any(r["state"] in ("running", "starting") for r in records):
        raise JetStreamError(f"pipeline {pipeline.name} is running; stop it first")
    path = checkpoint_of(pipeline)
    shutil.rmtree(path, ignore_errors=True)
    if records:
        ProgressBook(control, pipeline.progress_bucket).delete(f"pipeline.{pipeline.name}")
    return path


def check_server(pipeline: Pipeline, control: Control) -> list[tuple[int, str]]:
    """What the server does not have: (line, text) for every stream or bucket that is missing."""
    missing: list[tuple[int, str]] = []
    names = set(control.stream_names())
    prefix = {"stream": "", "kv": "KV_", "object": "OBJ_"}
    parts: list[Any] = [*pipeline.sources, *pipeline.sinks]
    for part in parts:
        if part.kind in prefix and part.where and prefix[part.kind] + part.where not in names:
            what = {"stream": "stream", "kv": "bucket", "object": "object bucket"}[part.kind]
            missing.append((part.line, f"{part.name}: there is no {what} named {part.where!r}"))
    if pipeline.dead_letter and not control.stream_names(pipeline.dead_letter):
        missing.append((1, f"dead_letter: no stream takes the subject {pipeline.dead_letter!r}"))
    return missing


def _batch_writer(
    name: str, options: dict[str, str], checkpoint: Path
) -> Callable[[Any, int], None]:
    """Writes one batch of a query; a replayed one has the same job id and stores nothing twice."""

    def write(batch: Any, number: int) -> None:
        writer = batch.write.format(name).options(**options)
        if name == "jetstream":
            query = json.loads((checkpoint / "metadata").read_text())["id"]
            # Behind an aggregation rows come in any order: ids are made of what they say.
            writer = writer.option("jobId", f"{query}.{number}").option("messageIds", "content")
        writer.mode("append").save()

    return write


def _imported(path: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def _told(error: str) -> str:
    """What Spark reports without the plans and stack traces behind it."""
    text = error.split("=== Streaming Query ===")[0].split("JVM stacktrace")[0]
    return re.sub(r"\s*SQLSTATE: \w+\s*", "\n", text).strip()


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else text


TEMPLATE = """\
# A pipeline: `jetstream pipeline check {file}` checks it, `jetstream pipeline run {file}` runs it.
name: {name}
servers: nats://127.0.0.1:4222
# trigger: 1s            # as fast as possible when absent; available-now runs once to the end
# dead_letter: dead.{name}

sources:
  orders:
    stream: ORDERS
    format: json
    schema: id long, customer string, amount double
    # maxOffsetsPerTrigger: 100000
    # badRows: deadletter

steps:
  large:
    sql: |
      SELECT id, customer, amount
      FROM orders
      WHERE amount >= 100
    expect:
      has_customer: {{check: customer IS NOT NULL, otherwise: drop}}

sinks:
  out:
    from: large
    stream: LARGE_ORDERS
    subject: large.orders
"""
