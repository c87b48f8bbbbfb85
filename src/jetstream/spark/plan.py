"""What a query over streams needs to know, and how its range is planned: pure but for questions.

`SourceConfig` is everything a reader carries from the driver to the workers. `Planner` turns
options and the streams' states into offsets and partitions; it runs on the driver only.
"""

import logging
import os
import time
from typing import Any

from msgspec import Struct

from jetstream.client.pipe import NoResponders, RequestTimeout, Target
from jetstream.errors import ApiError, JetStreamError
from jetstream.spark.bulk import segments, split
from jetstream.spark.control import Control
from jetstream.spark.files import visible
from jetstream.spark.offsets import (
    DataLoss,
    Loss,
    Mark,
    Offset,
    State,
    check_loss,
    limited_end,
)
from jetstream.spark.options import BadOption, Options
from jetstream.spark.partitions import Range, balanced_cuts, is_sparse, part_count, ranges

log = logging.getLogger("jetstream.spark")

MODES = ("auto", "file", "bulk", "consumer", "direct")
# How long an idle, filtered stream may keep its old offset before it moves on without rows.
FILTERED_IDLE_S = 10.0


class SourceConfig(Struct, frozen=True):
    """The options of a source, checked, with the content of every file."""

    target: Target
    prefix: str
    streams: tuple[str, ...]
    filters: tuple[str, ...] = ()
    starting: str | int | dict[str, int | str] = "earliest"
    ending: str | int | dict[str, int | str] = "latest"
    starting_ns: int = 0
    ending_ns: int = 0
    rows_max: int = 0
    bytes_max: int = 0
    rows_min: int = 0
    delay_max_s: float = 900.0
    parts_min: int = 0
    part_rows_max: int = 0
    fail_on_loss: bool = True
    read_mode: str = "auto"
    store_dir: str = ""
    on_commit: str = "none"
    consumer: str = ""
    decode: str = ""
    delimiter: str = ","
    bad_rows: str = "fail"
    dead_letter: str = ""
    archive: str = ""
    archive_format: str = "parquet"
    batch_rows: int = 16_384
    timeout: float = 20.0

    def control(self) -> Control:
        return Control(self.target, self.prefix, self.timeout)


def source_config(options: Options) -> SourceConfig:
    config = SourceConfig(
        target=options.target(),
        prefix=options.api_prefix(),
        streams=options.stream_names(),
        filters=options.names("filterSubjects"),
        starting=options.offsets("startingOffsets", "earliest"),
        ending=options.offsets("endingOffsets", "latest"),
        starting_ns=options.time_ns("startingTimestamp"),
        ending_ns=options.time_ns("endingTimestamp"),
        rows_max=options.number("maxOffsetsPerTrigger"),
        bytes_max=options.size("maxBytesPerTrigger"),
        rows_min=options.number("minOffsetsPerTrigger"),
        delay_max_s=options.seconds("maxTriggerDelay", 900.0),
        parts_min=options.number("minPartitions"),
        part_rows_max=options.number("maxRecordsPerPartition"),
        fail_on_loss=options.flag("failOnDataLoss", True),
        read_mode=options.choice("readMode", MODES),
        store_dir=options.text("storeDir"),
        on_commit=options.choice("onCommit", ("none", "purge", "ack")),
        consumer=options.text("consumer"),
        decode=options.text("format"),
        delimiter=options.text("csvDelimiter", ","),
        bad_rows=options.choice("badRows", ("fail", "null", "drop", "deadletter")),
        dead_letter=options.text("deadLetter"),
        archive=options.text("archive"),
        archive_format=options.choice("archiveFormat", ("parquet", "delta", "iceberg")),
        batch_rows=options.number("arrowBatchRows", 16_384),
        timeout=options.seconds("timeout", 20.0),
    )
    if config.bad_rows == "deadletter" and not config.dead_letter:
        raise BadOption("badRows=deadletter needs option deadLetter, the subject that takes them")
    if config.on_commit == "ack" and not config.consumer:
        raise BadOption("onCommit=ack needs option consumer, the name of the durable consumer")
    if config.read_mode == "direct" and len(config.filters) > 1:
        raise BadOption("readMode=direct takes one filter subject at most")
    return config


class Planner:
    """Offsets and partitions of one query; lives in the driver's planning process."""

    def __init__(self, config: SourceConfig) -> None:
        self.config = config
        self.control = config.control()
        self.losses: list[Loss] = []
        self._mode = ""

    def states(self) -> dict[str, State]:
        return {name: self.control.state(name) for name in self.config.streams}

    def first_offset(self) -> Offset:
        """Where a new query starts."""
        return {
            name: Mark(self.start_seq(state) - 1, state.created)
            for name, state in self.states().items()
        }

    def start_seq(self, state: State) -> int:
        if self.config.starting_ns:
            seq = self.control.seq_at(state.name, self.config.starting_ns)
            return min(max(seq, state.first_existing), state.last_seq + 1)
        starting = _for_stream(self.config.starting, state.name, "earliest")
        if starting == "earliest":
            return state.first_existing
        if starting == "latest":
            return state.last_seq + 1
        seq = max(int(starting), 1)
        if seq < state.first_existing:
            self.on_loss(check_loss(None, state, seq))
            return state.first_existing
        return seq

    def end_seq(self, state: State) -> int:
        end = state.last_seq
        if self.config.ending_ns:
            end = min(end, self.control.seq_at(state.name, self.config.ending_ns) - 1)
        ending = _for_stream(self.config.ending, state.name, "latest")
        if isinstance(ending, int):
            end = min(end, ending)
        elif ending == "earliest":
            raise BadOption("option endingOffsets: earliest would read nothing")
        return end

    def on_loss(self, loss: Loss | None) -> None:
        if loss is None:
            return
        if self.config.fail_on_loss:
            raise DataLoss(f"{loss} (option failOnDataLoss=false goes on without them)")
        self.losses.append(loss)
        log.warning("%s", loss)

    def next_end(
        self, start: Offset, states: dict[str, State], limited: bool, caps: Offset | None
    ) -> Offset:
        """The end of the next micro-batch, with its cuts."""
        done = {n: self.from_seq(start.get(n), s) for n, s in states.items()}
        backlog = {n: max(0, s.last_seq - done[n]) for n, s in states.items()}
        whole = sum(backlog.values()) or 1
        ends: Offset = {}
        for name, state in states.items():
            rows_max = bytes_max = 0
            if limited:
                share = backlog[name] / whole
                rows_max = max(1, int(self.config.rows_max * share)) if self.config.rows_max else 0
                bytes_max = (
                    max(1, int(self.config.bytes_max * share)) if self.config.bytes_max else 0
                )
            end = limited_end(done[name], state, rows_max, bytes_max)
            if caps is not None:
                end = min(end, caps[name].seq) if name in caps else done[name]
            end = max(end, done[name])
            if end == done[name]:
                ends[name] = start.get(name) or Mark(end, state.created)
                if ends[name].created != state.created:
                    ends[name] = Mark(end, state.created)
            else:
                ends[name] = self.cut(state, done[name] + 1, end)
        return ends

    def from_seq(self, start: Mark | None, state: State) -> int:
        """How far a stream has been read; 0 for one that was created anew."""
        if start is None:
            return self.start_seq(state) - 1
        if start.created != state.created or start.seq > state.last_seq:
            self.on_loss(check_loss(start, state, start.seq + 1))
            return state.first_existing - 1
        return start.seq

    def cut(self, state: State, lo: int, hi: int) -> Mark:
        """How lo..hi is cut into partitions, decided once."""
        config = self.config
        first = max(lo, state.first_existing)
        span = hi - first + 1
        sparse = bool(config.filters) or is_sparse(
            state.messages, state.first_existing, state.last_seq
        )
        cores = os.cpu_count() or 1
        cuts: tuple[int, ...] = ()
        parts = part_count(span, cores, config.parts_min, config.part_rows_max)
        if sparse and span > 1000 and parts > 1:
            rows = self._count(state, first, hi)
            parts = part_count(rows, cores, config.parts_min, config.part_rows_max)
            cuts = self._weighed_cuts(state, first, hi, parts)
        elif first > lo:
            cuts = tuple(r.hi for r in ranges(state.name, first, hi, parts)[:-1])
        return Mark(hi, state.created, parts, cuts)

    def _count(self, state: State, lo: int, hi: int) -> int:
        """How many messages between two sequences pass the filter."""
        filters = self.config.filters
        if self.choose_mode() in ("file", "bulk"):
            return split(self.control, state.name, lo, hi, 1, filters)[0]
        beyond = self.control.count_from(state.name, hi + 1, filters) if hi < state.last_seq else 0
        return self.control.count_from(state.name, lo, filters) - beyond

    def _weighed_cuts(self, state: State, lo: int, hi: int, parts: int) -> tuple[int, ...]:
        """Cuts with about as many messages in each part."""
        filters = self.config.filters
        if parts <= 1:
            return ()
        if self.choose_mode() in ("file", "bulk"):
            return split(self.control, state.name, lo, hi, parts, filters)[1]

        def count_from(seq: int) -> int:
            if seq > state.last_seq:
                return 0
            return self.control.count_from(state.name, seq, filters)

        return balanced_cuts(lo, hi, parts, count_from)

    def partitions(self, start: Offset, end: Offset) -> list[Range]:
        """The ranges between two offsets; the same ones every time."""
        planned: list[Range] = []
        for name, mark in sorted(end.items()):
            before = start.get(name)
            lo = before.seq + 1 if before is not None else 1
            if before is not None and before.created != mark.created:
                lo = 1
            if mark.seq < lo:
                continue
            state = self.control.state(name)
            if state.created != mark.created:
                self.on_loss(check_loss(Mark(mark.seq, mark.created), state, lo))
                continue
            loss = check_loss(None, state, lo)
            if loss is not None and before is not None and before.created == mark.created:
                self.on_loss(Loss(loss.stream, loss.first, min(loss.last, mark.seq), loss.why))
            planned += ranges(name, lo, mark.seq, mark.parts, mark.cuts)
        return planned

    def matching_since(self, start: Offset) -> bool:
        """Is there anything behind `start` that the filter lets through?"""
        return any(
            self.control.count_from(name, mark.seq + 1, self.config.filters) > 0
            for name, mark in start.items()
        )

    def choose_mode(self) -> str:
        """file, bulk, consumer or direct: the fastest that all the streams offer."""
        if not self._mode:
            asked = self.config.read_mode
            self._mode = asked if asked != "auto" else self._fastest()
        return self._mode

    def _fastest(self) -> str:
        listings = [self._listing(name) for name in self.config.streams]
        if all(listing is not None for listing in listings):
            seen = [
                part["exact"] and visible(part["path"], listing["store_dir"], self.config.store_dir)
                for listing in listings
                if listing is not None
                for part in listing["segments"]
            ]
            return "file" if any(seen) else "bulk"
        for name in self.config.streams:
            config = self.control.info(name)["config"]
            if config["retention"] == "workqueue":
                # Such a stream allows no second consumer that reads along.
                if not config.get("allow_direct"):
                    raise JetStreamError(
                        f"stream {name} is a work queue: set allow_direct on it so that it can be "
                        "read by sequence, or use onCommit=ack with a durable consumer"
                    )
                return "direct"
        return "consumer"

    def _listing(self, stream: str) -> dict[str, Any] | None:
        """The segments of a stream; None when the server has no such extension."""
        try:
            return segments(self.control, stream)
        except (NoResponders, RequestTimeout, ApiError):
            return None


class Trigger:
    """Holds a micro-batch back until enough has come, or long enough was waited."""

    def __init__(self, rows_min: int, delay_max_s: float) -> None:
        self.rows_min = rows_min
        self.delay_max_s = delay_max_s
        self._since = time.monotonic()

    def may_start(self, waiting: int) -> bool:
        if not self.rows_min or waiting >= self.rows_min:
            self._since = time.monotonic()
            return True
        if waiting and time.monotonic() - self._since >= self.delay_max_s:
            self._since = time.monotonic()
            return True
        return False


def _for_stream(given: str | int | dict[str, int | str], stream: str, default: str) -> str | int:
    if isinstance(given, dict):
        return given.get(stream, default)
    return given
