"""A range of sequences out of a server, as chunks of columns: one generator per way to read.

consumer  a pull consumer without acknowledgements, any server
direct    batched direct get, any server from 2.11 on streams with allow_direct
bulk      whole records in large frames, our server (`bulk.py`)
file      sealed segments of a visible store directory, our server (`files.py`)

All of them give the same rows in the same order. Each keeps the next sequence in hand: when the
connection is lost, a server falls silent or a consumer disappears, reading resumes exactly there.
"""

import json
import time
from collections.abc import Callable, Iterator

import numpy as np
from msgspec import Struct

from jetstream.client.columns import ACK, DIRECT, FULL, NEED_MORE, PAST_END, Columns, Taken
from jetstream.client.pipe import (
    ConnectionLost,
    Message,
    NoResponders,
    Pipe,
    RequestTimeout,
    lease,
)
from jetstream.errors import JetStreamError
from jetstream.spark.control import Control, reader_config

PULL_MESSAGES = 8192
PULL_BYTES = 8 << 20
PULLS_IN_FLIGHT = 4
DIRECT_MESSAGES = 50_000
DIRECT_BYTES = 16 << 20
CHUNK_BYTES = 8 << 20
SILENCE_S = 5.0


class OutOfOrder(JetStreamError):
    """Overlapping pulls were answered in another order than that of the stream."""


class Stalled(JetStreamError):
    """Nothing came for a while although something should have; resuming helps."""


class Wanted(Struct, frozen=True):
    """What to read of a stream: which part, and how much of each message."""

    stream: str
    lo: int
    hi: int
    filters: tuple[str, ...] = ()
    headers: bool = False
    data: bool = True
    rows: int = 16_384
    lean: bool = False


Reader = Callable[[Control, Wanted], Iterator[Taken]]
Chunk = tuple[Taken, int]
Pass = Callable[[Control, Pipe, Wanted, int], Iterator[Chunk]]


def read_consumer(control: Control, wanted: Wanted) -> Iterator[Taken]:
    """Through a pull consumer that needs no acknowledgements."""
    return resuming(control, wanted, _consumer_pass)


def read_direct(control: Control, wanted: Wanted) -> Iterator[Taken]:
    """Through batched direct gets."""
    return resuming(control, wanted, _direct_pass)


def resuming(control: Control, wanted: Wanted, one_pass: Pass) -> Iterator[Taken]:
    """Passes from where the last one broke off, until the range is read."""
    at = wanted.lo
    until = time.monotonic() + control.timeout
    while at <= wanted.hi:
        try:
            with lease(control.target) as pipe:
                for taken, last_seq in one_pass(control, pipe, wanted, at):
                    at = last_seq + 1
                    yield taken
                    # Spark may have let us wait for long: the server is not to blame for that.
                    until = time.monotonic() + control.timeout
            return
        except OutOfOrder:
            control.one_pull = True
        except (ConnectionLost, Stalled, RequestTimeout, NoResponders):
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _consumer_pass(control: Control, pipe: Pipe, wanted: Wanted, at: int) -> Iterator[Chunk]:
    config = reader_config(wanted.filters) | {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": at,
        # The server adds a header Nats-Msg-Size then: not when headers are to be shown as stored.
        "headers_only": not wanted.data and (wanted.lean or not wanted.headers),
    }
    name = f"spark-{pipe.new_inbox()[-12:].decode()}"
    body = {"stream_name": wanted.stream, "config": config | {"name": name}, "action": ""}
    info = pipe.api(f"{control.prefix}.CONSUMER.CREATE.{wanted.stream}.{name}", body)
    sid = pipe.subscribe(inbox := pipe.new_inbox())
    next_subject = f"{control.prefix}.CONSUMER.MSG.NEXT.{wanted.stream}.{name}"
    pulls = _Pulls(pipe, next_subject, inbox, 1 if control.one_pull else PULLS_IN_FLIGHT)
    columns = Columns(sid, ACK, wanted.hi, wanted.headers, wanted.data)
    missing = min(info["num_pending"], wanted.hi - at + 1)
    try:
        heard = time.monotonic()
        while missing > 0:
            pulls.keep_up(missing)
            before = columns.rows
            pipe.start = columns.feed(pipe.buffer, pipe.start, pipe.end, wanted.rows, CHUNK_BYTES)
            got = columns.rows - before
            pulls.outstanding -= got
            missing -= got
            if columns.stopped == PAST_END or (got and columns.pending == 0):
                break
            if columns.stopped == FULL:
                yield in_order(columns.take(), at), columns.last_seq
                at = columns.last_seq + 1
                heard = time.monotonic()
            elif columns.stopped == NEED_MORE:
                if pipe.receive(time.monotonic() + 1.0):
                    heard = time.monotonic()
                elif time.monotonic() - heard > SILENCE_S:
                    raise Stalled(f"no message of {wanted.stream} for {SILENCE_S:g} s")
            else:
                found = pipe.step(time.monotonic() + SILENCE_S)
                if found is not None and found[0] == sid:
                    pulls.on_status(found[1])
        if columns.rows:
            yield in_order(columns.take(), at), columns.last_seq
    finally:
        if pipe.is_open:
            pipe.unsubscribe(sid)
            delete = f"{control.prefix}.CONSUMER.DELETE.{wanted.stream}.{name}"
            pipe.publish(delete, reply=b"_INBOX.none")


def in_order(taken: Taken, first: int) -> Taken:
    """The chunk itself when its sequences rise from `first` on."""
    seqs = np.frombuffer(memoryview(taken[5]), dtype=np.int64)
    if seqs[0] < first or (len(seqs) > 1 and not bool((seqs[1:] > seqs[:-1]).all())):
        raise OutOfOrder(f"messages arrived out of order behind sequence {first - 1}")
    return taken


class _Pulls:
    """Pull requests on their way: enough to keep the server busy, few enough not to drown."""

    def __init__(self, pipe: Pipe, subject: str, inbox: bytes, in_flight: int) -> None:
        self.outstanding = 0
        self._pipe = pipe
        self._subject = subject
        self._inbox = inbox
        self._in_flight = in_flight
        # A message may be as large as max_payload, with headers and subject on top.
        self._bytes_max = max(PULL_BYTES, int(pipe.info.get("max_payload", 0)) + (1 << 18))

    def keep_up(self, missing: int) -> None:
        while self.outstanding <= PULL_MESSAGES * (self._in_flight - 1):
            batch = min(PULL_MESSAGES, missing - self.outstanding)
            if batch <= 0:
                return
            body = json.dumps({"batch": batch, "max_bytes": self._bytes_max}).encode()
            self._pipe.publish(self._subject, body, self._inbox)
            self.outstanding += batch

    def on_status(self, message: Message) -> None:
        status = message.status
        if status in (408, 409) and message.header(b"Nats-Pending-Messages"):
            self.outstanding -= int(message.header(b"Nats-Pending-Messages"))
        elif status in (409, 503, 404, 408):
            raise Stalled(f"{status} {message.description}")


def _direct_pass(control: Control, pipe: Pipe, wanted: Wanted, at: int) -> Iterator[Chunk]:
    sid = pipe.subscribe(inbox := pipe.new_inbox())
    columns = Columns(sid, DIRECT, wanted.hi, wanted.headers, wanted.data)
    subject = f"{control.prefix}.DIRECT.GET.{wanted.stream}"
    try:
        while at <= wanted.hi and columns.past_end_seq == 0:
            batch = min(DIRECT_MESSAGES, wanted.hi - at + 1)
            request: dict[str, int | str] = {"seq": at, "batch": batch, "max_bytes": DIRECT_BYTES}
            if wanted.filters:
                request["next_by_subj"] = wanted.filters[0]
            pipe.publish(subject, json.dumps(request).encode(), inbox)
            status = 0
            while not status:
                pipe.start = columns.feed(
                    pipe.buffer, pipe.start, pipe.end, wanted.rows, CHUNK_BYTES
                )
                if columns.stopped == FULL:
                    yield columns.take(), columns.last_seq
                elif columns.stopped == PAST_END:
                    break
                elif columns.stopped == NEED_MORE:
                    if not pipe.receive(time.monotonic() + SILENCE_S):
                        raise Stalled(f"no answer to a direct get of {wanted.stream}")
                else:
                    found = pipe.step(time.monotonic() + SILENCE_S)
                    if found is not None and found[0] == sid:
                        status = found[1].status
            if status == 404:
                break
            if status not in (0, 204):
                raise _refused(wanted.stream, status)
            at = columns.last_seq + 1
        if columns.rows:
            yield columns.take(), columns.last_seq
    finally:
        if pipe.is_open:
            pipe.unsubscribe(sid)


def _refused(stream: str, status: int) -> JetStreamError:
    if status == 503:
        return JetStreamError(
            f"stream {stream} does not answer direct gets: "
            "set allow_direct, or use another readMode"
        )
    return JetStreamError(f"direct get of {stream} was refused with status {status}")
