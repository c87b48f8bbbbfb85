"""Rows of Spark into Parquet, Delta or Iceberg tables, exactly once and without jars.

Tasks write Parquet files into the table's staging folder; the driver commits them with query and
batch as application id and version, so a repeated batch changes nothing. The folder must be visible
to all workers. `session.register` and the pipeline runner make the format known; it has no module
of its own because it needs none of a server.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jetstream.spark.options import BadOption
from jetstream.spark.tables import FORMATS, DataFile, open_table, stage

FLUSH_BYTES = 64 << 20


class TableConfig(Struct, frozen=True):
    location: str
    kind: str
    partition_by: tuple[str, ...] = ()


class Staged(WriterCommitMessage):
    """The files one task has written."""

    def __init__(self, app: str, files: list[DataFile]) -> None:
        self.app = app
        self.files = files


class TableSink(DataSource):
    """`format("jetstream_table")` with the options path, kind and partitionBy."""

    @classmethod
    def name(cls) -> str:
        return "jetstream_table"

    def _config(self) -> TableConfig:
        kind = self.options.get("kind", "parquet")
        if kind not in FORMATS:
            raise BadOption(f"option kind: {kind!r} is not one of {', '.join(FORMATS)}")
        if "path" not in self.options:
            raise BadOption("which table? say .option('path', LOCATION)")
        columns = self.options.get("partitionBy", "")
        names = tuple(c.strip() for c in columns.split(",") if c.strip())
        if kind == "iceberg" and names:
            raise BadOption("partitionBy is for parquet and delta tables")
        return TableConfig(self.options["path"], kind, names)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return TableBatchWriter(self._config(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return TableStreamWriter(self._config(), schema)


class TableWriter:
    """Writes the rows of one task into staged files."""

    def __init__(self, config: TableConfig, schema: StructType) -> None:
        self.config = config
        self.schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        for name in config.partition_by:
            if name not in self.schema.names:
                raise BadOption(f"partitionBy: no column named {name!r}")

    def stage_rows(self, batches: Iterator[pa.RecordBatch], app: str, name: str) -> Staged:
        location = Path(self.config.location).expanduser()
        files: list[DataFile] = []
        kept: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if batch.num_rows:
                kept.append(batch)
                size += batch.nbytes
            if size > FLUSH_BYTES:
                files += self._flush(location, f"{name}-{len(files)}", kept)
                kept, size = [], 0
        if kept:
            files += self._flush(location, f"{name}-{len(files)}", kept)
        return Staged(app, files)

    def _flush(self, location: Path, name: str, kept: list[pa.RecordBatch]) -> list[DataFile]:
        table = pa.Table.from_batches(kept)
        if not self.config.partition_by:
            return [stage(location, name, table, {})]
        files: list[DataFile] = []
        keys = table.select(list(self.config.partition_by)).group_by(list(self.config.partition_by))
        for values in keys.aggregate([]).to_pylist():
            mask = None
            for column, value in values.items():
                here = pc.equal(table.column(column), pa.scalar(value, table.column(column).type))
                mask = here if mask is None else pc.and_(mask, here)
            rows = table.filter(mask).drop_columns(list(self.config.partition_by))
            texts = {column: str(value) for column, value in values.items()}
            files.append(stage(location, name, rows, texts))
        return files

    def commit_files(self, messages: list[WriterCommitMessage | None], version: int) -> None:
        staged = [m for m in messages if isinstance(m, Staged)]
        files = [file for message in staged for file in message.files]
        if not files:
            return
        table = open_table(self.config.location, self.config.kind, self.config.partition_by)
        table.commit(
            staged[0].app, version, files, self.schema, {"rows": str(sum(f.rows for f in files))}
        )


class TableBatchWriter(TableWriter, DataSourceArrowWriter):
    def __init__(self, config: TableConfig, schema: StructType) -> None:
        super().__init__(config, schema)
        self.app = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.stage_rows(iterator, self.app, f"{self.app[:12]}-{_partition()}")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.commit_files(messages, 0)


class TableStreamWriter(TableWriter, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query = str(context.getLocalProperty("sql.streaming.queryId"))
        batch = int(str(context.getLocalProperty("streaming.sql.batchId")))
        return self.stage_rows(iterator, query, f"{query[:8]}-{batch:09d}-{_partition()}")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.commit_files(messages, batchId)


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
