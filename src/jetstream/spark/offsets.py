"""What a Spark offset means here, as plain values.

An offset says, per stream, "everything up to sequence `seq` has been read". `created` identifies
the stream: a stream deleted and created again is another one, whatever its numbers say. An *end*
offset also carries how its range is cut into partitions (`parts`, and `cuts` where the stream is
sparse). Spark logs it before the batch runs, so a replay after a restart reads the same rows in the
same partitions, even when options or the cluster have changed: that is what makes the row numbers
in message ids repeatable.

    {"v": 1, "streams": {"ORDERS": {"seq": 1200, "created": "2026-…Z", "parts": 2, "cuts": ""}}}
"""

from typing import Any

from msgspec import Struct

from jetstream.errors import JetStreamError

VERSION = 1


class DataLoss(JetStreamError):
    """Messages that a query still had to read are no longer there."""


class Mark(Struct, frozen=True):
    """How far one stream has been read, and how the last stretch is cut."""

    seq: int
    created: str
    parts: int = 1
    cuts: tuple[int, ...] = ()


Offset = dict[str, Mark]


class State(Struct, frozen=True):
    """What a stream says about itself."""

    name: str
    created: str
    first_seq: int
    last_seq: int
    messages: int
    bytes: int
    num_deleted: int = 0
    first_ts: int = 0
    last_ts: int = 0
    storage: str = "file"

    @property
    def first_existing(self) -> int:
        """The first sequence that can still be read; last_seq + 1 when the stream is empty."""
        return self.first_seq if self.messages else self.last_seq + 1

    @property
    def message_bytes(self) -> float:
        return self.bytes / self.messages if self.messages else 256.0


class Loss(Struct, frozen=True):
    """A range that was never read and is gone."""

    stream: str
    first: int
    last: int
    why: str

    def __str__(self) -> str:
        count = self.last - self.first + 1
        span = f"sequences {self.first} to {self.last} ({count})" if count > 0 else "its messages"
        return f"stream {self.stream}: {span} can no longer be read: {self.why}"


def to_json(offset: Offset) -> dict[str, Any]:
    """As Spark logs it. Cuts travel as text: the API promises primitive values only."""
    return {
        "v": VERSION,
        "streams": {
            name: {
                "seq": mark.seq,
                "created": mark.created,
                "parts": mark.parts,
                "cuts": ",".join(map(str, mark.cuts)),
            }
            for name, mark in sorted(offset.items())
        },
    }


def from_json(value: dict[str, Any]) -> Offset:
    if value.get("v") != VERSION or not isinstance(value.get("streams"), dict):
        raise JetStreamError(f"this checkpoint holds an offset we do not know: {value}")
    return {
        name: Mark(
            int(mark["seq"]),
            str(mark["created"]),
            int(mark.get("parts", 1)),
            tuple(int(c) for c in str(mark.get("cuts", "")).split(",") if c),
        )
        for name, mark in value["streams"].items()
    }


def check_loss(start: Mark | None, state: State, first_wanted: int) -> Loss | None:
    """Is something between `start` and now gone for good? Gaps inside a stream are not loss."""
    if start is not None and start.created and start.created != state.created:
        why = f"the stream was deleted and created again at {state.created}"
        return Loss(state.name, first_wanted, start.seq, why)
    if start is not None and start.seq > state.last_seq:
        why = f"the stream ends at sequence {state.last_seq}: it was restored from an older state"
        return Loss(state.name, state.last_seq + 1, start.seq, why)
    if first_wanted < state.first_existing:
        why = "retention or a purge removed them first"
        return Loss(state.name, first_wanted, state.first_existing - 1, why)
    return None


def limited_end(start_seq: int, state: State, rows_max: int, bytes_max: int) -> int:
    """The last sequence a micro-batch may take, counted from what still exists."""
    first = max(start_seq + 1, state.first_existing)
    end = state.last_seq
    if rows_max:
        end = min(end, first + rows_max - 1)
    if bytes_max:
        end = min(end, first + max(1, int(bytes_max / state.message_bytes)) - 1)
    return max(end, start_seq)


def lag(offset: Offset, latest: Offset) -> int:
    """Sequences between where a query is and where its streams are."""
    return sum(
        max(0, mark.seq - offset[name].seq) if name in offset else mark.seq
        for name, mark in latest.items()
    )
