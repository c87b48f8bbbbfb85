"""A stream as a table in the lakehouse: written in exact steps, read together with the live tail.

`Archiver` copies ranges of sequences into Parquet files and commits each range with the sequence it
reached, so a stopped archive goes on where it was and a repeated range is not stored twice. It
needs no Spark: chunks come from the same readers and go straight to Arrow. Reading is Spark's:
`option("archive", …)` plans the archived files for everything up to the last commit and live
partitions for the rest; the boundary is one number, so there is neither hole nor overlap.
"""

import datetime
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from msgspec import Struct

from jetstream.client.columns import Taken
from jetstream.errors import JetStreamError
from jetstream.spark.control import Control
from jetstream.spark.offsets import DataLoss, State
from jetstream.spark.options import BadOption
from jetstream.spark.readers import Reader, Wanted
from jetstream.spark.rows import Layout, subject_regex
from jetstream.spark.tables import DataFile, ParquetTable, Table, clear_staging, open_table, stage

ROWS_PER_COMMIT = 1_000_000
FILE_BYTES = 128 << 20
SMALL_BYTES = 64 << 20

SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("time_ns", pa.int64()),
        ("subject", pa.string()),
        ("data", pa.binary()),
        ("headers", pa.binary()),
    ]
)
_READ_AS = pa.schema(
    [f if f.name != "headers" else pa.field("raw_headers", f.type) for f in SCHEMA]
)


class Archived(Struct, frozen=True):
    """What one run has done."""

    stream: str
    first: int
    last: int
    rows: int
    files: int
    bytes: int


class Archiver:
    """Copies one stream into one table."""

    def __init__(
        self, control: Control, stream: str, location: str, kind: str, reader: Reader
    ) -> None:
        self.control = control
        self.stream = stream
        self.table: Table = open_table(location, kind, ("day",))
        self.kind = kind
        self.reader = reader
        self.app = app_of(stream)

    def reached(self, state: State) -> int:
        """The last archived sequence, 0 for a new archive."""
        facts = self.table.facts(self.app)
        if facts and facts["created"] != state.created:
            raise DataLoss(
                f"the archive belongs to a stream {self.stream} created at {facts['created']}, "
                f"this one was created at {state.created}: archive it to another location"
            )
        return int(facts.get("seq", 0))

    def run(
        self,
        rows_per_commit: int = ROWS_PER_COMMIT,
        on_progress: Callable[[int, int], None] = lambda done, whole: None,
        allow_gap: bool = False,
    ) -> Archived:
        """Archive everything up to what the stream holds now."""
        state = self.control.state(self.stream)
        reached = self.reached(state)
        first = reached + 1
        if reached and first < state.first_existing and not allow_gap:
            raise DataLoss(
                f"stream {self.stream}: sequences {first} to {state.first_existing - 1} left the "
                "stream before they were archived (--allow-gap goes on without them)"
            )
        first = at = max(first, state.first_existing)
        rows = files = size = 0
        while at <= state.last_seq:
            end = min(state.last_seq, at + rows_per_commit - 1)
            written = self._commit_range(state, at, end)
            rows += sum(f.rows for f in written)
            files += len(written)
            size += sum(f.bytes for f in written)
            at = end + 1
            on_progress(at - first, state.last_seq - first + 1)
        clear_staging(self.table.location)
        return Archived(self.stream, first, at - 1, rows, files, size)

    def _commit_range(self, state: State, lo: int, hi: int) -> list[DataFile]:
        layout = Layout(_READ_AS)
        wanted = Wanted(self.stream, lo, hi, headers=True)
        written: list[DataFile] = []
        kept: dict[str, list[pa.Table]] = {}
        sizes: dict[str, int] = {}

        def flush(day: str) -> None:
            name = f"{lo:020d}-{len(written)}"
            values = {"day": day} if self.kind != "iceberg" else {}
            merged = pa.concat_tables(kept.pop(day))
            written.append(stage(self.table.location, name, merged, values))
            sizes.pop(day)

        for taken in self.reader(self.control, wanted):
            batch = pa.table(layout.batch(taken, self.stream)).rename_columns(SCHEMA.names)
            for day, rows in _by_day(batch):
                kept.setdefault(day, []).append(rows)
                sizes[day] = sizes.get(day, 0) + rows.nbytes
                if sizes[day] > FILE_BYTES:
                    flush(day)
        for day in sorted(kept):
            flush(day)
        facts = {"seq": str(hi), "created": state.created, "stream": self.stream}
        self.table.commit(self.app, hi, written, SCHEMA, facts)
        return written

    def follow(
        self, lag_s: float, stop: Callable[[], bool], on_run: Callable[[Archived], None]
    ) -> None:
        """Archive again and again, so that the archive is at most about `lag_s` behind."""
        while not stop():
            began = time.monotonic()
            done = self.run()
            if done.rows:
                on_run(done)
            while not stop() and time.monotonic() - began < lag_s:
                time.sleep(min(0.2, lag_s))


def app_of(stream: str) -> str:
    return f"jetstream.archive.{stream}"


def _by_day(batch: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    days = pc.strftime(batch.column("time"), format="%Y-%m-%d")
    for day in pc.unique(days).to_pylist():
        yield day, batch.filter(pc.equal(days, day))


def compact(location: str, kind: str, small_bytes: int = SMALL_BYTES) -> tuple[int, int]:
    """Merge small files; returns (files before, files after)."""
    table = open_table(location, kind)
    before = len(table.files())
    if kind == "delta":
        import deltalake

        deltalake.DeltaTable(location).optimize.compact(target_size=FILE_BYTES)
        return before, len(table.files())
    if not isinstance(table, ParquetTable):
        raise JetStreamError("compaction of Iceberg tables is left to an Iceberg engine")
    groups: dict[tuple[tuple[str, str], ...], list[DataFile]] = {}
    for file in sorted(table.files(), key=lambda f: f.first):
        if file.bytes < small_bytes:
            groups.setdefault(tuple(sorted(file.values.items())), []).append(file)
    add: list[DataFile] = []
    remove: list[DataFile] = []
    for values, files in groups.items():
        if len(files) > 1:
            tables = [
                ds.dataset(table.location / f.path, format="parquet").to_table() for f in files
            ]
            merged = pa.concat_tables(tables).sort_by("seq")
            name = f"{files[0].first:020d}-c{time.time_ns()}"
            add.append(stage(table.location, name, merged, dict(values)))
            remove += files
    if add:
        table.change("", 0, add, [f.path for f in remove], {})
        for file in remove:
            (table.location / file.path).unlink(missing_ok=True)
    clear_staging(table.location)
    return before, len(table.files())


# Reading


def archive_partitions(
    config: Any, state: State
) -> tuple[list[tuple[str, tuple[str, ...], int, int]], int]:
    """(stream, files, lo, hi) pieces of the archive, and the last archived sequence."""
    table = open_table(config.archive, config.archive_format)
    facts = table.facts(app_of(state.name))
    if not facts:
        return [], 0
    if facts["created"] != state.created:
        raise DataLoss(
            f"archive {config.archive} belongs to another stream {state.name} (created "
            f"{facts['created']}, this one {state.created})"
        )
    if config.starting_ns or config.ending_ns:
        raise BadOption("with an archive give sequences, and times as a predicate (time >= '…')")
    reached = int(facts["seq"])
    starting = config.starting if isinstance(config.starting, int) else 1
    ending = config.ending if isinstance(config.ending, int) else reached
    lo, hi = max(starting, 1), min(ending, reached)
    files = sorted(
        (f for f in table.files() if f.last >= lo and f.first <= hi), key=lambda f: f.first
    )
    pieces: list[tuple[str, tuple[str, ...], int, int]] = []
    group: list[str] = []
    size = 0
    for file in files:
        group.append(str(table.location / file.path))
        size += file.bytes
        if size >= FILE_BYTES // 4:
            pieces.append((state.name, tuple(group), lo, hi))
            group, size = [], 0
    if group:
        pieces.append((state.name, tuple(group), lo, hi))
    return pieces, reached


def read_files(
    files: tuple[str, ...], lo: int, hi: int, filters: tuple[str, ...], rows: int = 16_384
) -> Iterator[Taken]:
    """Rows of archive files as the chunks every reader gives."""
    wanted = (ds.field("seq") >= lo) & (ds.field("seq") <= hi)
    for path in files:
        scanner = ds.dataset(path, format="parquet").scanner(
            columns=SCHEMA.names, filter=wanted, batch_size=rows, use_threads=False
        )
        for batch in scanner.to_batches():
            if filters and batch.num_rows:
                batch = batch.filter(
                    pc.match_substring_regex(batch.column("subject"), subject_regex(filters))
                )
            if batch.num_rows:
                yield _taken(batch)


def _taken(batch: pa.RecordBatch) -> Taken:
    # Filtered and sliced arrays carry offsets; a concatenation starts them at zero again.
    subject, data, headers = (
        pa.concat_arrays([batch.column(n).fill_null(b"" if n != "subject" else "")])
        for n in ("subject", "data", "headers")
    )
    columns = [_binary_buffers(c, batch.num_rows) for c in (subject, data, headers)]
    seqs, times = (pa.concat_arrays([batch.column(n)]) for n in ("seq", "time_ns"))
    return (
        batch.num_rows,
        *columns[0],
        *columns[1],
        _fixed(seqs),
        _fixed(times),
        *columns[2],
    )


def _binary_buffers(column: pa.Array, rows: int) -> tuple[Any, Any]:
    _, ends, data = column.buffers()
    return ends.slice(column.offset * 4, (rows + 1) * 4), data if data is not None else b""


def _fixed(column: pa.Array) -> Any:
    return column.buffers()[1].slice(column.offset * 8, len(column) * 8)


def describe(location: str, kind: str, stream: str) -> dict[str, Any]:
    """What an archive holds, for `jetstream archive info`."""
    table = open_table(location, kind)
    files = table.files()
    return {
        "location": str(Path(location)),
        "format": kind,
        "stream": stream,
        **table.facts(app_of(stream)),
        "files": len(files),
        "rows": sum(f.rows for f in files),
        "bytes": sum(f.bytes for f in files),
        "as_of": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
