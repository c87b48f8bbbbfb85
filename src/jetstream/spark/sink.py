"""Rows of Spark into streams: `format("jetstream")` for writing.

Exactly once: every row gets a message id made of query, batch, partition and row, so whatever is
sent again inside the target's duplicate window is dropped there. For replays that come later, each
task notes the target's last sequence before its first row; a replayed batch reads back what was
stored since and leaves out its own rows. `delivery=at-least-once` does neither.
"""

import hashlib
import logging
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from jetstream.client.pipe import NoResponders, RequestTimeout, Target, header_block
from jetstream.errors import ApiError, JetStreamError
from jetstream.spark.bulk import segments
from jetstream.spark.bulk_publishing import BulkPublisher
from jetstream.spark.control import Control
from jetstream.spark.options import BadOption, Options
from jetstream.spark.progress import BUCKET, ProgressBook
from jetstream.spark.publishing import Publisher, Refused, Rows
from jetstream.spark.readers import Wanted, read_consumer
from jetstream.spark.source import settle

log = logging.getLogger("jetstream.spark")

SPECIAL = {"subject", "data", "headers", "msgid", "ttl", "expected_last_subject_seq"}
WINDOW_LEAST_S = 60.0


class RowRefused(JetStreamError):
    """A row that the server did not take, with no dead-letter stream to send it to."""


class SinkConfig(Struct, frozen=True):
    """The options of a sink, checked."""

    target: Target
    prefix: str
    stream: str = ""
    subject: str = ""
    delivery: str = "exactly-once"
    job: str = ""
    ids: str = "row"
    mode: str = "auto"
    window: int = 8192
    dead_letter: str = ""
    bucket: str = BUCKET
    timeout: float = 20.0

    def control(self) -> Control:
        return Control(self.target, self.prefix, self.timeout)


def sink_config(options: Options) -> SinkConfig:
    return SinkConfig(
        target=options.target(),
        prefix=options.api_prefix(),
        stream=options.text("stream") or options.path,
        subject=options.text("subject"),
        delivery=options.choice("delivery", ("exactly-once", "at-least-once", "fast")),
        job=options.text("jobId"),
        ids=options.choice("messageIds", ("row", "content")),
        mode=options.choice("writeMode", ("auto", "publish", "bulk")),
        window=options.number("window", 8192),
        dead_letter=options.text("deadLetter"),
        bucket=options.text("progressBucket", BUCKET),
        timeout=options.seconds("timeout", 20.0),
    )


class Written(WriterCommitMessage):
    """What one task has done."""

    def __init__(
        self,
        job: str,
        partition: int,
        rows: int,
        stored: int,
        duplicates: int,
        dead: int,
        last_seq: int,
    ) -> None:
        self.job = job
        self.partition = partition
        self.rows = rows
        self.stored = stored
        self.duplicates = duplicates
        self.dead = dead
        self.last_seq = last_seq


class RowWriter:
    """Writes the rows of one task."""

    def __init__(self, config: SinkConfig, schema: StructType) -> None:
        names = set(schema.fieldNames())
        if "subject" not in names and not config.subject:
            raise BadOption("no subject: give a column `subject` or the option subject")
        self.rest = tuple(n for n in schema.fieldNames() if n not in SPECIAL)
        if "data" in names and self.rest:
            raise BadOption(
                f"columns {', '.join(self.rest)} would be lost: the sink takes `data` as it is, or "
                "makes JSON of all other columns when there is no `data`"
            )
        self.config = config
        self.stream, self.duplicate_window_s = _find_target(config)
        self.bulk = config.mode == "bulk" or (config.mode == "auto" and self._has_bulk())
        if self.bulk and not self.stream:
            raise BadOption("writeMode=bulk needs the option stream")
        if config.delivery == "exactly-once" and 0 < self.duplicate_window_s < WINDOW_LEAST_S:
            log.warning(
                "stream %s remembers message ids for %g s only; a replay that takes longer costs a "
                "read-back. Set duplicate_window to at least the restart time of your job.",
                self.stream,
                self.duplicate_window_s,
            )

    def _has_bulk(self) -> bool:
        """Our own server takes whole frames of messages."""
        try:
            return bool(self.stream and segments(self.config.control(), self.stream))
        except (NoResponders, RequestTimeout, ApiError):
            return False

    def write_rows(self, batches: Iterator[pa.RecordBatch], job: str, batch: int) -> Written:
        settle()
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        once = self.config.delivery == "exactly-once"
        prefix = f"{job}.{batch}.{partition}." if batch >= 0 else f"{job}.{partition}."
        stored_ids = self._stored_before(job, batch, partition, prefix) if once else set()
        publisher = self._publisher()
        seen: Counter[str] = Counter()
        total = dead = 0
        try:
            for arrow in batches:
                rows = self._rows(arrow, prefix if once else "", total, seen, stored_ids)
                refused = publisher.publish(rows)
                if refused:
                    dead += self._on_refused(refused, rows, total, partition)
                total += arrow.num_rows
        finally:
            publisher.close()
        return Written(
            job, partition, total, publisher.stored, publisher.duplicates, dead, publisher.last_seq
        )

    def _rows(
        self,
        batch: pa.RecordBatch,
        prefix: str,
        first_row: int,
        seen: "Counter[str]",
        stored: set[str],
    ) -> Rows:
        names = batch.schema.names
        rows = Rows(
            self._payloads(batch), subject=self.config.subject.encode(), first_row=first_row
        )
        if "subject" in names:
            rows.subjects = batch.column("subject").cast(pa.string())
            if rows.subjects.null_count:
                if not self.config.subject:
                    raise RowRefused("a row has no subject, and there is no option subject")
                rows.subjects = rows.subjects.fill_null(self.config.subject)
        if self.stream:
            rows.common_headers = f"Nats-Expected-Stream: {self.stream}\r\n".encode()
        given = [n for n in ("headers", "msgid", "ttl", "expected_last_subject_seq") if n in names]
        by_content = bool(prefix) and self.config.ids == "content"
        if given or by_content:
            rows.headers, own_ids = self._blocks(
                batch, prefix if by_content else "", rows, seen, stored
            )
            if own_ids:
                return rows
        if prefix and not by_content:
            rows.id_prefix = prefix.encode()
            if stored:
                flags = bytearray(batch.num_rows)
                for i in range(batch.num_rows):
                    flags[i] = f"{prefix}{first_row + i}" in stored
                rows.skip = flags
        return rows

    def _publisher(self) -> "Publisher | BulkPublisher":
        config = self.config
        if self.bulk:
            return BulkPublisher(config.target, self.stream, config.timeout)
        return Publisher(config.target, config.window, config.timeout)

    def _payloads(self, batch: pa.RecordBatch) -> pa.Array:
        if "data" in batch.schema.names:
            data = batch.column("data")
            return data.cast(pa.binary()) if not pa.types.is_binary(data.type) else data
        encode = msgspec.json.Encoder(enc_hook=str).encode
        records = batch.select(list(self.rest)).to_pylist() if self.rest else [{}] * batch.num_rows
        return pa.array([encode(_plain(record)) for record in records], pa.binary())

    def _blocks(
        self, batch: pa.RecordBatch, prefix: str, rows: Rows, seen: "Counter[str]", stored: set[str]
    ) -> tuple[list[bytes], bool]:
        """Header blocks by row, for what differs from row to row."""
        columns = {
            n: batch.column(n).to_pylist() for n in batch.schema.names if n in SPECIAL - {"data"}
        }
        payloads = rows.payloads.to_pylist() if prefix else []
        subjects = columns.get("subject")
        blocks: list[bytes] = []
        flags = bytearray(batch.num_rows)
        for i in range(batch.num_rows):
            pairs = _header_pairs(columns["headers"][i]) if "headers" in columns else []
            if "msgid" in columns and columns["msgid"][i]:
                pairs.append(("Nats-Msg-Id", str(columns["msgid"][i])))
            elif prefix:
                subject = (subjects[i] if subjects else None) or self.config.subject
                digest = hashlib.blake2b(
                    f"{subject}\n".encode() + payloads[i], digest_size=12
                ).hexdigest()
                seen[digest] += 1
                identity = f"{prefix}{digest}.{seen[digest]}"
                flags[i] = identity in stored
                pairs.append(("Nats-Msg-Id", identity))
            if "ttl" in columns and columns["ttl"][i] is not None:
                pairs.append(("Nats-TTL", str(columns["ttl"][i])))
            if "expected_last_subject_seq" in columns:
                expected = columns["expected_last_subject_seq"][i]
                if expected is not None:
                    pairs.append(("Nats-Expected-Last-Subject-Sequence", str(expected)))
            blocks.append(header_block(pairs))
        if any(flags):
            rows.skip = flags
        return blocks, bool(prefix) or "msgid" in columns

    def _stored_before(self, job: str, batch: int, partition: int, prefix: str) -> set[str]:
        """The ids of this very batch that are in the target already: only after a replay."""
        if not self.stream:
            return set()
        control = self.config.control()
        book = ProgressBook(control, self.config.bucket)
        key = f"sink.{job}.{partition}"
        record = book.get(key)
        if (
            record is not None
            and record.get("batch") == batch
            and record.get("stream") == self.stream
        ):
            return self._read_back(control, int(record["last"]) + 1, prefix)
        last = control.state(self.stream).last_seq
        if record is None:
            book.ensure()
        book.put(key, {"batch": batch, "stream": self.stream, "last": last})
        return set()

    def _read_back(self, control: Control, first: int, prefix: str) -> set[str]:
        state = control.state(self.stream)
        found: set[str] = set()
        wanted = Wanted(
            self.stream, max(first, 1), state.last_seq, headers=True, data=False, lean=True
        )
        pattern = re.compile(rb"\r\nNats-Msg-Id: (" + re.escape(prefix.encode()) + rb"[^\r]*)\r\n")
        for taken in read_consumer(control, wanted):
            found.update(m.decode() for m in pattern.findall(bytes(taken[8])))
        return found

    def _on_refused(
        self, refused: list[Refused], rows: Rows, first_row: int, partition: int
    ) -> int:
        def subject_of(row: int) -> str:
            return (
                str(rows.subjects[row].as_py())
                if rows.subjects is not None
                else rows.subject.decode()
            )

        if not self.config.dead_letter:
            bad = refused[0]
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise RowRefused(
                f"row {first_row + bad.row} of partition {partition}, subject "
                f"{subject_of(bad.row)!r}, was refused: {bad.text} (err_code {bad.code}){more}"
            )
        control = self.config.control()
        for bad in refused:
            headers = header_block(
                {
                    "Jetstream-Subject": subject_of(bad.row),
                    "Jetstream-Error": f"{bad.text} (err_code {bad.code})",
                    "Nats-Msg-Id": f"dead.{rows.id_prefix.decode()}{first_row + bad.row}",
                }
            )
            body = rows.payloads[bad.row].as_py() or b""
            answer = control.request(self.config.dead_letter, body, headers)
            if b'"error"' in answer.payload:
                raise RowRefused(f"the dead-letter stream refused a row too: {answer.payload!r}")
        return len(refused)


class BatchWriter(RowWriter, DataSourceArrowWriter):
    """`df.write`: one job; the same `jobId` again writes nothing twice."""

    def __init__(self, config: SinkConfig, schema: StructType) -> None:
        super().__init__(config, schema)
        self.job = config.job or uuid.uuid4().hex[:20]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.write_rows(iterator, self.job, -1)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self.config.job or self.config.delivery != "exactly-once" or not self.stream:
            return
        # Nobody can repeat a job without a name: its notes are of no use any more.
        book = ProgressBook(self.config.control(), self.config.bucket)
        for message in messages:
            if isinstance(message, Written):
                book.delete(f"sink.{self.job}.{message.partition}")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log.error("the write was aborted; rows already stored stay in the stream")


class StreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """`df.writeStream`: ids from query and batch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        if query is None or batch is None:
            raise JetStreamError("this writer works inside a streaming query only")
        return self.write_rows(iterator, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        done = [m for m in messages if isinstance(m, Written)]
        if not done or self.config.delivery != "exactly-once" or not self.stream:
            return
        record = {
            "batch": batchId,
            "stream": self.stream,
            "rows": sum(m.rows for m in done),
            "stored": sum(m.stored for m in done),
            "duplicates": sum(m.duplicates for m in done),
            "dead": sum(m.dead for m in done),
            "last_seq": max(m.last_seq for m in done),
        }
        ProgressBook(self.config.control(), self.config.bucket).put(f"query.{done[0].job}", record)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log.error("batch %d was aborted; its replay will write only what is missing", batchId)


def _find_target(config: SinkConfig) -> tuple[str, float]:
    """The stream behind the sink and how long it remembers ids; ("", 0) when it cannot be known."""
    control = config.control()
    stream = config.stream
    if not stream and config.subject:
        names = control.stream_names(config.subject)
        if not names:
            raise JetStreamError(f"no stream takes the subject {config.subject!r}")
        stream = names[0]
    if not stream:
        return "", 0.0
    info = control.info(stream)
    return stream, info["config"].get("duplicate_window", 0) / 1e9


def _header_pairs(value: Any) -> list[tuple[str, str]]:
    """A map column (of strings or lists of strings) as pairs."""
    pairs: list[tuple[str, str]] = []
    for name, given in value or []:
        for text in given if isinstance(given, list) else [given]:
            clean = str(text).replace("\r", " ").replace("\n", " ")
            pairs.append((str(name), clean))
    return pairs


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Fields without a value are left out, as Spark's to_json does."""
    return {name: value for name, value in record.items() if value is not None}
