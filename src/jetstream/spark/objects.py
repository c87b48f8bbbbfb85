"""Objects as rows, like Spark's binaryFile, and rows into objects: `format("jetstream_object")`.

Contents are read only when the column `content` is asked for, one task per object, and checked
against their digest.
"""

import base64
import fnmatch
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jetstream.client.pipe import Target, header_block
from jetstream.clock import Random
from jetstream.errors import JetStreamError
from jetstream.spark.control import Control
from jetstream.spark.options import BadOption, Options
from jetstream.spark.readers import Wanted, read_consumer

COLUMNS = {
    "name": "string",
    "size": "bigint",
    "mtime": "timestamp",
    "digest": "string",
    "chunks": "int",
    "description": "string",
    "content": "binary",
}


class ObjectConfig(Struct, frozen=True):
    target: Target
    prefix: str
    bucket: str
    names: str = "*"
    chunk_bytes: int = 128 << 10
    timeout: float = 20.0

    def control(self) -> Control:
        return Control(self.target, self.prefix, self.timeout)


def object_config(options: Options) -> ObjectConfig:
    bucket = options.text("bucket") or options.path
    if not bucket:
        raise BadOption('which bucket? say .option("bucket", "NAME") or .load("NAME")')
    return ObjectConfig(
        options.target(),
        options.api_prefix(),
        bucket,
        options.text("names", "*"),
        options.size("chunkSize", 128 << 10),
        options.seconds("timeout", 20.0),
    )


class ObjectSource(DataSource):
    """`format("jetstream_object")`."""

    @classmethod
    def name(cls) -> str:
        return "jetstream_object"

    def schema(self) -> str:
        object_config(Options(self.options, "o"))
        return ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        return ObjectReader(object_config(Options(self.options, "o")), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return ObjectWriter(object_config(Options(self.options, "o")), schema)


class ObjectPartition(InputPartition):
    """One object, as its metadata describe it."""

    def __init__(self, meta: dict[str, Any], time_ns: int) -> None:
        super().__init__(meta["name"])
        self.meta = meta
        self.time_ns = time_ns


class ObjectReader(DataSourceReader):
    def __init__(self, config: ObjectConfig, schema: StructType) -> None:
        self.config = config
        self.out: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        for name in self.out.names:
            if name not in COLUMNS:
                raise BadOption(f"no column named {name!r}; there are {', '.join(COLUMNS)}")

    def partitions(self) -> Sequence[InputPartition]:
        control = self.config.control()
        state = control.state(f"OBJ_{self.config.bucket}")
        found = [
            ObjectPartition(meta, time_ns)
            for meta, time_ns in metas(control, self.config.bucket, state.last_seq)
            if fnmatch.fnmatchcase(meta["name"], self.config.names)
        ]
        return found or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ObjectPartition):
            return
        meta = partition.meta
        values: dict[str, Any] = {
            "name": meta["name"],
            "size": meta.get("size", 0),
            "mtime": partition.time_ns // 1000,
            "digest": meta.get("digest"),
            "chunks": meta.get("chunks", 0),
            "description": meta.get("description"),
        }
        if "content" in self.out.names:
            values["content"] = content(self.config.control(), self.config.bucket, meta)
        columns = [pa.array([values[f.name]], f.type) for f in self.out]
        yield pa.RecordBatch.from_arrays(columns, schema=self.out)


def metas(control: Control, bucket: str, up_to: int) -> Iterator[tuple[dict[str, Any], int]]:
    """The newest metadata of every object that is not deleted."""
    wanted = Wanted(f"OBJ_{bucket}", 1, up_to, (f"$O.{bucket}.M.>",))
    newest: dict[str, tuple[dict[str, Any], int]] = {}
    for taken in read_consumer(control, wanted):
        ends = memoryview(taken[3]).cast("B").cast("i")
        times = memoryview(taken[6]).cast("B").cast("q")
        data = bytes(memoryview(taken[4]))
        for i in range(taken[0]):
            meta = json.loads(data[ends[i] : ends[i + 1]])
            newest[meta["name"]] = (meta, times[i])
    for meta, time_ns in newest.values():
        if not meta.get("deleted") and not (meta.get("options") or {}).get("link"):
            yield meta, time_ns


def content(control: Control, bucket: str, meta: dict[str, Any]) -> bytes:
    """The bytes of an object, checked against its digest."""
    if not meta.get("size"):
        return b""
    state = control.state(f"OBJ_{bucket}")
    wanted = Wanted(f"OBJ_{bucket}", 1, state.last_seq, (f"$O.{bucket}.C.{meta['nuid']}",))
    whole = b"".join(bytes(memoryview(taken[4])) for taken in read_consumer(control, wanted))
    digest = "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(whole).digest()).decode()
    if meta.get("digest") and digest.rstrip("=") != str(meta["digest"]).rstrip("="):
        raise JetStreamError(f"object {meta['name']!r}: content does not match its digest")
    return whole


class ObjectWriter(DataSourceArrowWriter):
    """Rows `name`, `content` (and `description`) into objects."""

    def __init__(self, config: ObjectConfig, schema: StructType) -> None:
        names = set(schema.fieldNames())
        if not {"name", "content"} <= names:
            raise BadOption("rows for an object bucket need the columns `name` and `content`")
        self.config = config
        config.control().info(f"OBJ_{config.bucket}")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        control = self.config.control()
        for batch in iterator:
            described = (
                batch.column("description").to_pylist()
                if "description" in batch.schema.names
                else [None] * batch.num_rows
            )
            for name, body, text in zip(
                batch.column("name").to_pylist(),
                batch.column("content").cast(pa.binary()).to_pylist(),
                described,
                strict=True,
            ):
                put_object(
                    control, self.config.bucket, name, body or b"", text, self.config.chunk_bytes
                )
        return WriterCommitMessage()


def put_object(
    control: Control, bucket: str, name: str, body: bytes, description: str | None, chunk_bytes: int
) -> None:
    """Chunks, then metadata, then the old chunks away: a reader never sees half an object."""
    stream = f"OBJ_{bucket}"
    nuid = Random().nuid()
    encoded = base64.urlsafe_b64encode(name.encode()).decode()
    meta_subject = f"$O.{bucket}.M.{encoded}"
    old = control.last_message(stream, meta_subject)
    chunk_subject = f"$O.{bucket}.C.{nuid}"
    chunks = range(0, len(body), chunk_bytes)
    try:
        for at in chunks:
            _stored(control, chunk_subject, body[at : at + chunk_bytes], b"")
        meta: dict[str, Any] = {
            "name": name,
            "options": {"max_chunk_size": chunk_bytes},
            "bucket": bucket,
            "nuid": nuid,
            "size": len(body),
            "mtime": "0001-01-01T00:00:00Z",
            "chunks": len(chunks),
            "digest": "SHA-256=" + base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode(),
        }
        if description:
            meta["description"] = description
        _stored(
            control, meta_subject, json.dumps(meta).encode(), header_block({"Nats-Rollup": "sub"})
        )
    except JetStreamError:
        control.ask(f"STREAM.PURGE.{stream}", {"filter": chunk_subject})
        raise
    if old is not None:
        before = json.loads(old["data"])
        if before.get("nuid") and before["nuid"] != nuid:
            control.ask(f"STREAM.PURGE.{stream}", {"filter": f"$O.{bucket}.C.{before['nuid']}"})


def _stored(control: Control, subject: str, body: bytes, headers: bytes) -> None:
    answer = json.loads(control.request(subject, body, headers).payload)
    if "error" in answer:
        raise JetStreamError(f"{subject}: {answer['error'].get('description')}")
