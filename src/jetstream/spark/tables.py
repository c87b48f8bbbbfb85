"""Ready Parquet files committed into a table: plain Parquet, Delta or Iceberg, without any jar.

Whoever writes files puts them under `_staging/` of the table; `commit` moves them into place and
makes them part of the table in one step, together with who wrote them (`app`) and how far that
writer has come (`version`). Committing the same version again does nothing, so a repeated batch is
harmless. Plain Parquet keeps its own log of commits, one small JSON file each:

    day=2026-11-15/000000000001-0.parquet     data, readable by anything
    _commits/000000000001.json                {"app", "version", "facts", "add": […], "remove": […]}
"""

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from jetstream.errors import JetStreamError

FORMATS = ("parquet", "delta", "iceberg")
STAGING = "_staging"


class DataFile(Struct, frozen=True):
    """One Parquet file of a table, its path relative to the table."""

    path: str
    rows: int
    bytes: int
    values: dict[str, str] = {}
    first: int = 0
    last: int = 0


class Commit(Struct, frozen=True):
    """What one commit of a plain Parquet table did."""

    app: str
    version: int
    facts: dict[str, str] = {}
    add: list[DataFile] = []
    remove: list[str] = []


class Table(Protocol):
    """What every kind of table can do for us."""

    location: Path

    def version(self, app: str) -> int:
        """The last version `app` has committed, -1 when none."""

    def facts(self, app: str) -> dict[str, str]:
        """What `app` noted with its last commit."""

    def commit(
        self,
        app: str,
        version: int,
        files: list[DataFile],
        schema: pa.Schema,
        facts: dict[str, str],
    ) -> bool:
        """Make staged files part of the table; False when this version was committed before."""

    def files(self) -> list[DataFile]:
        """The files that make up the table now."""


def open_table(location: str, kind: str, partition_by: tuple[str, ...] = ()) -> Table:
    path = Path(location).expanduser()
    if kind == "parquet":
        return ParquetTable(path)
    if kind == "delta":
        return DeltaTable(path, partition_by)
    if kind == "iceberg":
        return IcebergTable(path)
    raise JetStreamError(f"no table format {kind!r}; there are {', '.join(FORMATS)}")


def stage(table_location: Path, name: str, batch: pa.Table, values: dict[str, str]) -> DataFile:
    """Write one file under the staging folder; the same name again replaces it."""
    folder = "/".join(f"{key}={value}" for key, value in values.items())
    relative = f"{folder}/{name}.parquet" if folder else f"{name}.parquet"
    path = table_location / STAGING / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(batch, path, compression="zstd", row_group_size=131_072)
    first = last = 0
    if "seq" in batch.schema.names and batch.num_rows:
        seqs = batch.column("seq")
        first, last = seqs[0].as_py(), seqs[-1].as_py()
    return DataFile(relative, batch.num_rows, path.stat().st_size, values, first, last)


def _move_in(location: Path, files: list[DataFile]) -> None:
    for file in files:
        target = location / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            # Absent: moved by an earlier attempt at the very same commit.
            (location / STAGING / file.path).replace(target)


class ParquetTable:
    """Files and a log of commits beside them."""

    def __init__(self, location: Path) -> None:
        self.location = location
        self._log = location / "_commits"

    def commits(self) -> Iterator[Commit]:
        if self._log.is_dir():
            for path in sorted(self._log.glob("[0-9]*.json")):
                yield msgspec.json.decode(path.read_bytes(), type=Commit)

    def version(self, app: str) -> int:
        return max((c.version for c in self.commits() if c.app == app), default=-1)

    def facts(self, app: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for commit in self.commits():
            if commit.app == app:
                found = commit.facts
        return found

    def commit(
        self,
        app: str,
        version: int,
        files: list[DataFile],
        schema: pa.Schema,
        facts: dict[str, str],
    ) -> bool:
        return self.change(app, version, files, [], facts)

    def change(
        self, app: str, version: int, add: list[DataFile], remove: list[str], facts: dict[str, str]
    ) -> bool:
        if app and version <= self.version(app):
            return False
        _move_in(self.location, add)
        self._log.mkdir(parents=True, exist_ok=True)
        body = msgspec.json.encode(Commit(app, version, facts, add, remove))
        draft = self._log / f".{uuid.uuid4().hex}"
        with draft.open("wb") as out:
            out.write(body)
            out.flush()
            os.fsync(out.fileno())
        try:
            while True:
                numbers = [int(p.stem) for p in self._log.glob("[0-9]*.json")]
                name = f"{max(numbers, default=0) + 1:012d}.json"
                try:
                    # A hard link fails when the name is taken: two writers cannot both win.
                    (self._log / name).hardlink_to(draft)
                    return True
                except FileExistsError:
                    if app and version <= self.version(app):
                        return False
        finally:
            draft.unlink()

    def files(self) -> list[DataFile]:
        found: dict[str, DataFile] = {}
        for commit in self.commits():
            for path in commit.remove:
                found.pop(path, None)
            found |= {file.path: file for file in commit.add}
        return list(found.values())


class DeltaTable:
    """A Delta table through `deltalake`; the app transaction makes commits idempotent."""

    def __init__(self, location: Path, partition_by: tuple[str, ...] = ()) -> None:
        self.location = location
        self.partition_by = list(partition_by)

    def _table(self) -> Any:
        import deltalake

        if not deltalake.DeltaTable.is_deltatable(str(self.location)):
            return None
        return deltalake.DeltaTable(str(self.location))

    def version(self, app: str) -> int:
        table = self._table()
        found = table.transaction_version(app) if table is not None else None
        return -1 if found is None else int(found)

    def facts(self, app: str) -> dict[str, str]:
        table = self._table()
        for entry in table.history() if table is not None else []:
            if entry.get("jetstream_app") == app:
                return dict(json.loads(entry["jetstream_facts"]))
        return {}

    def commit(
        self,
        app: str,
        version: int,
        files: list[DataFile],
        schema: pa.Schema,
        facts: dict[str, str],
    ) -> bool:
        from deltalake import CommitProperties, Schema, Transaction
        from deltalake.transaction import AddAction, create_table_with_add_actions

        if version <= self.version(app):
            return False
        self.location.mkdir(parents=True, exist_ok=True)
        _move_in(self.location, files)
        actions = [
            AddAction(
                f.path,
                f.bytes,
                f.values,
                int((self.location / f.path).stat().st_mtime * 1000),
                True,
                json.dumps({"numRecords": f.rows, **_seq_stats(f)}),
            )
            for f in files
        ]
        properties = CommitProperties(
            custom_metadata={"jetstream_app": app, "jetstream_facts": json.dumps(facts)},
            app_transactions=[Transaction(app, version)],
        )
        names = [n for n in self.partition_by if n not in schema.names]
        for name in names:
            schema = schema.append(pa.field(name, pa.string()))
        table = self._table()
        if table is None:
            create_table_with_add_actions(
                str(self.location),
                Schema.from_arrow(schema),
                actions,
                partition_by=self.partition_by or None,
                commit_properties=properties,
            )
        else:
            table.create_write_transaction(
                actions,
                mode="append",
                schema=Schema.from_arrow(schema),
                partition_by=self.partition_by or None,
                commit_properties=properties,
            )
        return True

    def files(self) -> list[DataFile]:
        table = self._table()
        if table is None:
            return []
        found = []
        for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            first, last = action.get("min.seq") or 0, action.get("max.seq") or 0
            rows = action.get("num_records") or 0
            found.append(DataFile(action["path"], rows, action["size_bytes"], {}, first, last))
        return sorted(found, key=lambda f: f.first)


def _seq_stats(file: DataFile) -> dict[str, Any]:
    if not file.last:
        return {}
    return {
        "minValues": {"seq": file.first},
        "maxValues": {"seq": file.last},
        "nullCount": {"seq": 0},
    }


class IcebergTable:
    """An Iceberg table through `pyiceberg`, with an SQLite catalogue beside it."""

    NAME = "jetstream.stream"

    def __init__(self, location: Path) -> None:
        self.location = location

    def _catalog(self) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        self.location.mkdir(parents=True, exist_ok=True)
        path = self.location.resolve()
        return SqlCatalog(
            "jetstream", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}"
        )

    def _table(self) -> Any:
        catalog = self._catalog()
        return catalog.load_table(self.NAME) if catalog.table_exists(self.NAME) else None

    def _summaries(self, app: str) -> Iterator[dict[str, str]]:
        table = self._table()
        for snapshot in reversed(table.snapshots() if table is not None else []):
            summary = snapshot.summary.additional_properties if snapshot.summary else {}
            if summary.get("jetstream.app") == app:
                yield summary

    def version(self, app: str) -> int:
        return max((int(s["jetstream.version"]) for s in self._summaries(app)), default=-1)

    def facts(self, app: str) -> dict[str, str]:
        for summary in self._summaries(app):
            return dict(json.loads(summary["jetstream.facts"]))
        return {}

    def commit(
        self,
        app: str,
        version: int,
        files: list[DataFile],
        schema: pa.Schema,
        facts: dict[str, str],
    ) -> bool:
        if version <= self.version(app):
            return False
        catalog = self._catalog()
        table = self._table()
        if table is None:
            catalog.create_namespace_if_not_exists("jetstream")
            table = catalog.create_table(self.NAME, schema=schema)
        _move_in(self.location, files)
        table.add_files(
            [f"file://{(self.location / f.path).resolve()}" for f in files],
            snapshot_properties={
                "jetstream.app": app,
                "jetstream.version": str(version),
                "jetstream.facts": json.dumps(facts),
            },
        )
        return True

    def files(self) -> list[DataFile]:
        table = self._table()
        if table is None:
            return []
        root = f"file://{self.location.resolve()}/"
        found = []
        for task in table.scan().plan_files():
            path = task.file.file_path.removeprefix(root)
            first, last = _parquet_range(self.location / path)
            found.append(
                DataFile(
                    path, task.file.record_count, task.file.file_size_in_bytes, {}, first, last
                )
            )
        return sorted(found, key=lambda f: f.first)


def _parquet_range(path: Path) -> tuple[int, int]:
    """First and last sequence of a file, from its statistics."""
    meta = pq.read_metadata(path)
    at = meta.schema.names.index("seq") if "seq" in meta.schema.names else -1
    if at < 0 or not meta.num_row_groups:
        return 0, 0
    stats = [meta.row_group(i).column(at).statistics for i in range(meta.num_row_groups)]
    return min(s.min for s in stats), max(s.max for s in stats)


def clear_staging(location: Path) -> None:
    shutil.rmtree(location / STAGING, ignore_errors=True)
