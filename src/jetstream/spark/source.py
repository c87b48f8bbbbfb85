"""Streams as Spark tables and streams: `format("jetstream")` for reading.

Planning happens on the driver, reading in the workers; the two are different processes and share
nothing but what is in the pickled reader and its partitions. Reading never acknowledges anything:
a partition is a range of sequences, and whoever reads it again gets the same rows.
"""

import gc
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from jetstream.client.columns import Taken
from jetstream.client.pipe import header_block, lease
from jetstream.spark.decode import Decoder
from jetstream.spark.offsets import DataLoss, Loss, Mark, Offset, from_json, to_json
from jetstream.spark.partitions import Range, ranges
from jetstream.spark.plan import FILTERED_IDLE_S, Planner, SourceConfig, Trigger
from jetstream.spark.readers import Reader, Wanted, read_consumer, read_direct
from jetstream.spark.rows import Layout
from jetstream.spark.waiting import Waiter

WAIT_S = 0.25
NO_LIMIT = 1 << 60

_settled = False


class StreamPartition(InputPartition):
    """A range of one stream and the way to read it."""

    def __init__(self, piece: Range, mode: str, first_seq: int = 0, dense: bool = False) -> None:
        super().__init__((piece.stream, piece.lo, piece.hi))
        self.piece = piece
        self.mode = mode
        self.first_seq = first_seq
        self.dense = dense


class ArchivePartition(InputPartition):
    """Files of an archive that hold a range of one stream."""

    def __init__(self, stream: str, files: tuple[str, ...], lo: int, hi: int) -> None:
        super().__init__((stream, lo, hi))
        self.stream = stream
        self.files = files
        self.lo = lo
        self.hi = hi


class RangeReader:
    """Reads partitions in a worker; what batch and stream have in common."""

    def __init__(self, config: SourceConfig, schema: StructType) -> None:
        self.config = config
        self.arrow_schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        # Refuse a schema we cannot fill here, on the driver, and not in some task.
        self.shape()

    def shape(self) -> "Layout | Decoder":
        if self.config.decode:
            config = self.config
            return Decoder(config.decode, self.arrow_schema, config.bad_rows, config.delimiter)
        return Layout(self.arrow_schema)

    def read_partition(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        shape = self.shape()
        layout = shape.layout if isinstance(shape, Decoder) else shape
        if isinstance(partition, ArchivePartition):
            from jetstream.spark.archive import read_files

            stream = partition.stream
            chunks = read_files(partition.files, partition.lo, partition.hi, self.config.filters)
        elif isinstance(partition, StreamPartition):
            stream = partition.piece.stream
            chunks = self._chunks(partition, layout)
        else:
            return
        for taken in chunks:
            if isinstance(shape, Decoder):
                yield shape.batch(taken, stream, lambda rows: self._dead_letters(stream, rows))
            else:
                yield shape.batch(taken, stream)

    def _chunks(self, partition: StreamPartition, layout: Layout) -> Iterator[Taken]:
        piece = partition.piece
        wanted = Wanted(
            piece.stream,
            max(piece.lo, 1),
            piece.hi,
            self.config.filters,
            layout.needs_headers,
            layout.needs_data,
            self.config.batch_rows,
        )
        rows = first = 0
        for taken in reader_for(partition.mode, self.config)(self.config.control(), wanted):
            rows += taken[0]
            if not first and taken[0]:
                first = int(memoryview(taken[5]).cast("B").cast("q")[0])
            yield taken
        self._check_overtaken(partition, rows, first)

    def _check_overtaken(self, partition: StreamPartition, rows: int, first: int) -> None:
        """Did retention pass us while we were reading?"""
        piece = partition.piece
        if not self.config.fail_on_loss or rows == piece.hi - piece.lo + 1:
            return
        state = self.config.control().state(piece.stream)
        if state.first_existing <= max(piece.lo, partition.first_seq):
            return
        cut = min(state.first_existing - 1, piece.hi)
        if partition.dense or not first or first > cut:
            raise DataLoss(
                f"stream {piece.stream}: sequences from {piece.lo} to {cut} were removed by "
                f"retention or a purge while they were being read ({rows} rows came through)"
            )

    def _dead_letters(self, stream: str, rows: list[tuple[int, bytes, bytes, str]]) -> None:
        """Rows that do not decode, published with where they came from; ids keep a replay clean."""
        with lease(self.config.target) as pipe:
            for seq, subject, data, error in rows:
                clean = error.replace("\r", " ").replace("\n", " ")
                headers = header_block(
                    {
                        "Nats-Msg-Id": f"dead.{stream}.{seq}",
                        "Jetstream-Stream": stream,
                        "Jetstream-Sequence": str(seq),
                        "Jetstream-Subject": subject.decode("utf-8", "replace"),
                        "Jetstream-Error": clean[:1000],
                    }
                )
                answer = pipe.request(self.config.dead_letter, data, headers)
                if b'"error"' in answer.payload:
                    raise DataLoss(f"the dead-letter stream refused a row: {answer.payload!r}")


def reader_for(mode: str, config: SourceConfig) -> Reader:
    if mode == "direct":
        return read_direct
    if mode == "bulk":
        from jetstream.spark.bulk import read_bulk

        return read_bulk
    if mode == "file":
        from jetstream.spark.files import file_reader

        return file_reader(config.store_dir)
    return read_consumer


def settle() -> None:
    """Once per worker: what is loaded now stays, so collections after every task skip it."""
    global _settled
    if not _settled:
        _settled = True
        gc.collect()
        gc.freeze()


class BatchReader(RangeReader, DataSourceReader):
    """A table: what the streams hold when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self.config)
        mode = planner.choose_mode()
        planned: list[InputPartition] = []
        for state in planner.states().values():
            hi = planner.end_seq(state)
            if self.config.archive:
                from jetstream.spark.archive import archive_partitions

                pieces, archived = archive_partitions(self.config, state)
                planned += [ArchivePartition(*piece) for piece in pieces]
                starting = self.config.starting if isinstance(self.config.starting, int) else 1
                lo = max(archived + 1, starting)
                if lo < state.first_existing <= hi + 1:
                    # Between the archive and the live tail must be no hole.
                    planner.on_loss(_hole(state.name, lo, state.first_existing))
                    lo = state.first_existing
            else:
                lo = planner.start_seq(state)
            if hi < lo:
                continue
            mark = planner.cut(state, lo, hi)
            dense = state.num_deleted == 0 and not self.config.filters
            planned += [
                StreamPartition(piece, mode, state.first_existing, dense)
                for piece in ranges(state.name, lo, hi, mark.parts, mark.cuts)
            ]
        return planned or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.read_partition(partition)


def _hole(stream: str, first: int, existing: int) -> Loss:
    return Loss(stream, first, existing - 1, "removed from the stream before they were archived")


class StreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream: fixed ranges per micro-batch, the same ones on every replay."""

    def __init__(self, config: SourceConfig, schema: StructType) -> None:
        super().__init__(config, schema)
        self._caps: Offset | None = None
        self._mode = ""
        self._purged: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Workers get what they need to read; connections and clocks stay on the driver.
        return {
            "config": self.config,
            "arrow_schema": self.arrow_schema,
            "_caps": None,
            "_mode": "",
            "_purged": {},
        }

    def _planner(self) -> Planner:
        if "_plan" not in self.__dict__:
            self._plan = Planner(self.config)
            self._waiter = Waiter(self._plan.control, self.config.filters)
            self._trigger = Trigger(self.config.rows_min, self.config.delay_max_s)
            self._moved = time.monotonic()
        return self._plan

    def initialOffset(self) -> dict[str, Any]:
        return to_json(self._planner().first_offset())

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.config.rows_max or self.config.bytes_max:
            return ReadMaxRows(self.config.rows_max or NO_LIMIT)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        states = self._planner().states()
        self._caps = {n: Mark(s.last_seq, s.created) for n, s in states.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        planner = self._planner()
        behind = from_json(start)
        self._on_done(behind)
        limited = not isinstance(limit, ReadAllAvailable)
        states = planner.states()
        end = planner.next_end(behind, states, limited, self._caps)
        if _same(end, behind) and self._caps is None and not _lost(behind, end):
            self._waiter.wait(behind, WAIT_S)
            end = planner.next_end(behind, planner.states(), limited, None)
        waiting = sum(
            max(0, m.seq - behind[n].seq) if n in behind else m.seq for n, m in end.items()
        )
        if (
            self._caps is None
            and not _same(end, behind)
            and (not self._trigger.may_start(waiting) or self._nothing_matches(behind))
        ):
            return start
        if _same(end, behind):
            return start
        self._moved = time.monotonic()
        return to_json(end)

    def _nothing_matches(self, behind: Offset) -> bool:
        """A filtered stream that moves without matching messages need not run empty batches."""
        if not self.config.filters or time.monotonic() - self._moved > FILTERED_IDLE_S:
            return False
        if self._planner().matching_since(behind):
            return False
        return not self._waiter.wait(behind, WAIT_S)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        planner = self._planner()
        states = planner.states()
        latest = to_json({n: Mark(s.last_seq, s.created) for n, s in states.items()})
        latest["readMode"] = self._chosen_mode()
        if planner.losses:
            latest["lost"] = "; ".join(map(str, planner.losses[-5:]))
        return latest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        planned = self._planner().partitions(from_json(start), from_json(end))
        return [StreamPartition(piece, self._chosen_mode()) for piece in planned]

    def _chosen_mode(self) -> str:
        if not self._mode:
            self._mode = self._planner().choose_mode()
        return self._mode

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.read_partition(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._on_done(from_json(end))

    def _on_done(self, done: Offset) -> None:
        """Everything up to here is finished for good: with onCommit=purge it may leave."""
        if self.config.on_commit != "purge":
            return
        control = self._planner().control
        for name, mark in done.items():
            if mark.seq <= 0 or self._purged.get(name, 0) >= mark.seq:
                continue
            for subject in self.config.filters or ("",):
                control.purge(name, mark.seq, subject)
            self._purged[name] = mark.seq

    def stop(self) -> None:
        if "_waiter" in self.__dict__:
            self._waiter.close()


def _same(end: Offset, start: Offset) -> bool:
    return {n: (m.seq, m.created) for n, m in end.items()} == {
        n: (m.seq, m.created) for n, m in start.items()
    }


def _lost(start: Offset, end: Offset) -> bool:
    return any(n in end and end[n].created != m.created for n, m in start.items())
