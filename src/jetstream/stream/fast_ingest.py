"""Fast ingest: a publisher numbers its messages in the reply subject and gets few, wide acks.

    <prefix>.<batch id>.<flow>.<ok|fail>.<seq>.<op>.$FI

`flow` is how many messages the publisher would like per ack; a publisher that is not alone starts
at one and doubles with every ack. `ok` tolerates gaps and refusals, `fail` ends the batch at the
first one. Messages are visible as soon as they are stored.
"""

from typing import Final

from msgspec import Struct

from jetstream.errors import ApiError
from jetstream.schema.api_errors import (
    BATCH_PUBLISH_DISABLED,
    BATCH_PUBLISH_INVALID_BATCH_ID,
    BATCH_PUBLISH_INVALID_PATTERN,
    BATCH_PUBLISH_TOO_MANY_INFLIGHT,
    BATCH_PUBLISH_UNKNOWN_BATCH_ID,
)
from jetstream.schema.encoding import to_json
from jetstream.schema.requests import error_detail
from jetstream.schema.stream import StreamConfig

FLOW_DEFAULT: Final = 10
FLOW_MAX: Final = 500
INFLIGHT_MAX: Final = 1000
IDLE_NS: Final = 10_000_000_000
ID_BYTES_MAX: Final = 64

START, APPEND, COMMIT, COMMIT_EOB, PING = range(5)


class Step(Struct, frozen=True):
    """One reply subject taken apart."""

    batch_id: bytes
    flow: int
    tolerant: bool
    seq: int
    op: int

    @property
    def stores(self) -> bool:
        return self.op in (START, APPEND, COMMIT)


class FastBatch(Struct):
    """One batch in flight."""

    batch_id: bytes
    flow: int
    every: int
    deadline: int
    next_seq: int = 1
    acked: int = 0
    last_stored: int = 0

    def ack(self) -> bytes:
        return b'{"type":"ack","seq":%d,"msgs":%d}' % (self.acked, self.every)

    def due_ack(self, seq: int) -> bytes | None:
        """The ack that message `seq` earns, if it completes an interval."""
        if seq - self.acked < self.every:
            return None
        self.acked += (seq - self.acked) // self.every * self.every
        self.every = min(self.every * 2, self.flow)
        return self.ack()

    def final(self, stream: str, count: int) -> bytes:
        return b'{"stream":"%s","seq":%d,"batch":"%s","count":%d}' % (
            stream.encode(),
            self.last_stored,
            self.batch_id,
            count,
        )


def parse_step(reply: bytes) -> Step:
    """Read the control part of a reply subject."""
    parts = reply.rsplit(b".", 6)
    if len(parts) != 7:
        raise ApiError(BATCH_PUBLISH_INVALID_PATTERN)
    _, batch_id, flow, mode, seq, op, _ = parts
    if len(batch_id) > ID_BYTES_MAX:
        raise ApiError(BATCH_PUBLISH_INVALID_BATCH_ID)
    known = mode in (b"ok", b"fail") and seq.isdigit() and op in (b"0", b"1", b"2", b"3", b"4")
    if not known:
        raise ApiError(BATCH_PUBLISH_INVALID_PATTERN)
    wished = int(flow) if flow.isdigit() and int(flow) else FLOW_DEFAULT
    step = Step(batch_id, min(wished, FLOW_MAX), mode == b"ok", int(seq), int(op))
    starts = step.op == START or (step.op == COMMIT and step.seq == 1)
    if (step.op == START and step.seq != 1) or (step.seq <= 1 and not starts and step.op != PING):
        raise ApiError(BATCH_PUBLISH_INVALID_PATTERN)
    return step


class FastBatches:
    """The fast batches in flight of one stream."""

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: dict[bytes, FastBatch] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def enter(self, config: StreamConfig, step: Step, now: int) -> tuple[FastBatch, list[bytes]]:
        """The batch this step belongs to and what to answer before it is stored."""
        if not config.allow_batched:
            raise ApiError(BATCH_PUBLISH_DISABLED)
        batch = self._batches.get(step.batch_id)
        answers: list[bytes] = []
        if batch is None:
            if step.seq != 1 or not step.stores:
                raise ApiError(BATCH_PUBLISH_UNKNOWN_BATCH_ID)
            if len(self._batches) >= INFLIGHT_MAX:
                raise ApiError(BATCH_PUBLISH_TOO_MANY_INFLIGHT)
            every = 1 if self._batches else step.flow
            batch = FastBatch(step.batch_id, step.flow, every, now + IDLE_NS)
            self._batches[step.batch_id] = batch
            if step.op == START:
                answers.append(batch.ack())
        batch.deadline = now + IDLE_NS
        return batch, answers

    def of_reply(self, reply: bytes) -> FastBatch | None:
        """The batch in flight that a reply subject belongs to."""
        parts = reply.rsplit(b".", 6)
        return self._batches.get(parts[1]) if len(parts) == 7 else None

    def end(self, batch: FastBatch) -> None:
        self._batches.pop(batch.batch_id, None)

    def expire(self, now: int) -> None:
        for batch in [b for b in self._batches.values() if b.deadline <= now]:
            self.end(batch)

    def next_deadline(self) -> int:
        return min((batch.deadline for batch in self._batches.values()), default=0)


def gap(expected: int, got: int) -> bytes:
    return b'{"type":"gap","last_seq":%d,"seq":%d}' % (expected, got)


def refused(seq: int, error: ApiError) -> bytes:
    return b'{"type":"err","seq":%d,"error":%s}' % (seq, to_json(error_detail(error)))
