"""Buckets as tables and change feeds, and rows into buckets: `format("jetstream_kv")`.

A bucket is a stream whose subjects are keys: batch reading gives the latest entry of every key
(as of a revision when asked), streaming gives every change. The sink puts, creates, updates by
revision or deletes, one key per row.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jetstream.client.columns import Taken
from jetstream.client.pipe import header_block
from jetstream.errors import JetStreamError
from jetstream.spark.options import BadOption, Options
from jetstream.spark.plan import Planner, SourceConfig
from jetstream.spark.publishing import Publisher, Rows
from jetstream.spark.readers import Wanted
from jetstream.spark.rows import Layout, parse_headers
from jetstream.spark.source import RangeReader, StreamPartition, StreamReader, reader_for

COLUMNS = {
    "key": "string",
    "value": "binary",
    "revision": "bigint",
    "time": "timestamp",
    "operation": "string",
}
MARKERS = {"MaxAge": "PURGE", "Purge": "PURGE", "Remove": "DEL"}


class KvConfig(Struct, frozen=True):
    bucket: str
    source: SourceConfig
    as_of: int = 0
    include_deletes: bool = False
    mode: str = "upsert"
    window: int = 1024


def kv_config(options: Options) -> KvConfig:
    bucket = options.text("bucket") or options.path
    if not bucket:
        raise BadOption('which bucket? say .option("bucket", "NAME") or .load("NAME")')
    keys = options.names("keys") or options.names("filterSubjects")
    source = SourceConfig(
        target=options.target(),
        prefix=options.api_prefix(),
        streams=(f"KV_{bucket}",),
        filters=tuple(f"$KV.{bucket}.{key}" for key in keys),
        starting=options.offsets("startingOffsets", "earliest"),
        starting_ns=options.time_ns("startingTimestamp"),
        rows_max=options.number("maxOffsetsPerTrigger"),
        bytes_max=options.size("maxBytesPerTrigger"),
        rows_min=options.number("minOffsetsPerTrigger"),
        parts_min=options.number("minPartitions"),
        part_rows_max=options.number("maxRecordsPerPartition"),
        # A newer value replaces the old one: an entry that is gone was superseded, not lost.
        fail_on_loss=options.flag("failOnDataLoss", False),
        read_mode=options.choice("readMode", ("auto", "file", "bulk", "consumer", "direct")),
        batch_rows=options.number("arrowBatchRows", 16_384),
        timeout=options.seconds("timeout", 20.0),
    )
    return KvConfig(
        bucket,
        source,
        options.number("asOf"),
        options.flag("includeDeletes"),
        options.choice("mode", ("upsert", "create", "update")),
        options.number("window", 1024),
    )


class KvSource(DataSource):
    """`format("jetstream_kv")`."""

    @classmethod
    def name(cls) -> str:
        return "jetstream_kv"

    def schema(self) -> str:
        kv_config(Options(self.options, "k"))
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        return KvReader(kv_config(Options(self.options, "k")), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return KvStreamReader(kv_config(Options(self.options, "k")), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return KvBatchWriter(kv_config(Options(self.options, "k")), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        return KvStreamWriter(kv_config(Options(self.options, "k")), schema)


class KvRows:
    """Entries of a bucket out of stream columns."""

    def __init__(self, config: KvConfig, schema: StructType) -> None:
        self.kv = config
        self.out: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        for name in self.out.names:
            if name not in COLUMNS:
                raise BadOption(f"no column named {name!r}; there are {', '.join(COLUMNS)}")
        self.layout = Layout(
            pa.schema(
                [
                    ("subject", pa.string()),
                    ("data", pa.binary()),
                    ("seq", pa.int64()),
                    ("time", pa.timestamp("us", tz="UTC")),
                    ("raw_headers", pa.binary()),
                ]
            )
        )

    def entries(self, taken: Taken) -> pa.RecordBatch:
        raw = self.layout.batch(taken, "")
        front = len(f"$KV.{self.kv.bucket}.")
        operations = [operation(block) for block in raw.column("raw_headers").to_pylist()]
        made = {
            "key": pc.utf8_slice_codeunits(raw.column("subject"), front, 1 << 30),
            "value": raw.column("data"),
            "revision": raw.column("seq"),
            "time": raw.column("time"),
            "operation": pa.array(operations, pa.string()),
        }
        columns = [
            made[f.name] if made[f.name].type.equals(f.type) else made[f.name].cast(f.type)
            for f in self.out
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.out)


def operation(block: bytes) -> str:
    """PUT, DEL or PURGE, by the headers clients and servers write."""
    if not block:
        return "PUT"
    headers = parse_headers(block)
    if "KV-Operation" in headers:
        return headers["KV-Operation"][0]
    reason = headers.get("Nats-Marker-Reason", [""])[0]
    return MARKERS.get(reason, "PUT")


class LatestPartition(InputPartition):
    """Where the latest entries may stand: a range of the bucket's stream."""

    def __init__(self, lo: int, hi: int, mode: str) -> None:
        super().__init__((lo, hi))
        self.lo, self.hi, self.mode = lo, hi, mode


class KvReader(DataSourceReader):
    """The latest entry of every key. One partition: which entry is the last one is known only at
    the end, and a bucket of a million keys still passes in a second or two."""

    def __init__(self, config: KvConfig, schema: StructType) -> None:
        self.rows = KvRows(config, schema)
        self.config = config

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self.config.source)
        state = planner.control.state(f"KV_{self.config.bucket}")
        high = min(state.last_seq, self.config.as_of or state.last_seq)
        return [LatestPartition(max(state.first_existing, 1), high, planner.choose_mode())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LatestPartition)
        source = self.config.source
        stream = f"KV_{self.config.bucket}"
        wanted = Wanted(
            stream, partition.lo, partition.hi, source.filters, True, True, source.batch_rows
        )
        control = source.control()
        latest: dict[str, int] = {}
        batches: list[pa.RecordBatch] = []
        every = KvRows(self.config, _all_columns()).entries
        for taken in reader_for(partition.mode, source)(control, wanted):
            batch = every(taken)
            latest.update(
                zip(
                    batch.column("key").to_pylist(),
                    batch.column("revision").to_pylist(),
                    strict=True,
                )
            )
            batches.append(batch)
        kept = pa.array(sorted(latest.values()), pa.int64())
        for batch in batches:
            mask = pc.is_in(batch.column("revision"), kept)
            if not self.config.include_deletes:
                mask = pc.and_(mask, pc.equal(batch.column("operation"), "PUT"))
            left = batch.filter(mask)
            if left.num_rows:
                columns = [left.column(f.name).cast(f.type) for f in self.rows.out]
                yield pa.RecordBatch.from_arrays(columns, schema=self.rows.out)


def _all_columns() -> StructType:
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, TimestampType

    kinds = {
        "string": StringType(),
        "binary": BinaryType(),
        "bigint": LongType(),
        "timestamp": TimestampType(),
    }
    return StructType([StructField(n, kinds[k]) for n, k in COLUMNS.items()])


class KvStreamReader(StreamReader):
    """Every change of the bucket, in order: ready for change-data-capture flows."""

    def __init__(self, config: KvConfig, schema: StructType) -> None:
        self.rows = KvRows(config, schema)
        StreamReader.__init__(self, config.source, StructType())
        self.kv = config

    def shape(self) -> Layout:
        return self.rows.layout

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"rows": self.rows, "kv": self.kv}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPartition)
        for taken in RangeReader._chunks(self, partition, self.rows.layout):
            yield self.rows.entries(taken)


class KvWriter:
    """Puts rows: `key` and `value` (or JSON of the other columns), `operation` and `revision`."""

    def __init__(self, config: KvConfig, schema: StructType) -> None:
        names = schema.fieldNames()
        if "key" not in names:
            raise BadOption("rows for a bucket need a column `key`")
        if config.mode == "update" and "revision" not in names:
            raise BadOption("mode=update compares revisions: give a column `revision`")
        self.config = config
        self.others = [n for n in names if n not in COLUMNS]
        if "value" in names and self.others:
            raise BadOption(f"columns {', '.join(self.others)} would be lost beside `value`")
        config.source.control().info(f"KV_{config.bucket}")

    def put_rows(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        source = self.config.source
        publisher = Publisher(source.target, self.config.window, source.timeout)
        try:
            for batch in batches:
                refused = publisher.publish(self._rows(batch))
                if refused:
                    bad = refused[0]
                    key = batch.column("key")[bad.row]
                    why = "wrong revision" if bad.code in (10071, 10164) else bad.text
                    raise JetStreamError(
                        f"bucket {self.config.bucket}, key {key}: {why} "
                        f"({bad.text}, err_code {bad.code})"
                    )
        finally:
            publisher.close()
        return WriterCommitMessage()

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        import msgspec

        keys = batch.column("key").cast(pa.string()).to_pylist()
        names = batch.schema.names
        operations = (
            batch.column("operation").to_pylist() if "operation" in names else [None] * len(keys)
        )
        revisions = (
            batch.column("revision").to_pylist() if "revision" in names else [None] * len(keys)
        )
        if "value" in names:
            values = batch.column("value").cast(pa.binary()).to_pylist()
        else:
            encode = msgspec.json.Encoder(enc_hook=str).encode
            values = [encode(record) for record in batch.select(self.others).to_pylist()]
        blocks = [self._headers(op, rev) for op, rev in zip(operations, revisions, strict=True)]
        deleted = [op in ("DEL", "PURGE") for op in operations]
        payloads = [
            b"" if gone else (value or b"") for gone, value in zip(deleted, values, strict=True)
        ]
        return Rows(
            pa.array(payloads, pa.binary()),
            subjects=pa.array([f"$KV.{self.config.bucket}.{key}" for key in keys], pa.string()),
            headers=blocks,
        )

    def _headers(self, operation: str | None, revision: int | None) -> bytes:
        pairs: list[tuple[str, str]] = []
        if operation == "DEL":
            pairs.append(("KV-Operation", "DEL"))
        elif operation == "PURGE":
            pairs += [("KV-Operation", "PURGE"), ("Nats-Rollup", "sub")]
        elif operation not in (None, "PUT"):
            raise JetStreamError(f"operation {operation!r} is not PUT, DEL or PURGE")
        if self.config.mode == "create":
            pairs.append(("Nats-Expected-Last-Subject-Sequence", "0"))
        elif self.config.mode == "update":
            pairs.append(("Nats-Expected-Last-Subject-Sequence", str(revision or 0)))
        return header_block(pairs)


class KvBatchWriter(KvWriter, DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.put_rows(iterator)


class KvStreamWriter(KvWriter, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.put_rows(iterator)
