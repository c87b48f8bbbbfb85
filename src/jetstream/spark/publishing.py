"""Rows of Arrow columns out to a stream, pipelined, every one answered for.

A `Publisher` keeps a window of messages on their way, counts acknowledgements in the kernel, sends
again what was unanswered when a connection broke, and reports each row the server refused. Rows
carry message ids when exactly-once is wanted, so sending again is harmless then.
"""

import json
import time
from typing import Any

import pyarrow as pa
from msgspec import Struct

from jetstream.client.columns import NEED_MORE, Acks, publishes
from jetstream.client.pipe import ConnectionLost, Message, Pipe, RequestTimeout, Target

SLICE_ROWS = 2048
SLICE_BYTES = 4 << 20
SILENCE_S = 5.0
# Nobody takes the subject (yet), overloaded, no leader: the server may change its mind.
TRANSIENT = {0, 10167, 10008, 10009, 10023}


class Refused(Struct, frozen=True):
    """A row the server did not take."""

    row: int
    code: int
    text: str


class Rows(Struct):
    """What to publish: one entry per row in each column."""

    payloads: pa.Array
    subjects: pa.Array | None = None
    subject: bytes = b""
    headers: list[bytes] | None = None
    id_prefix: bytes = b""
    common_headers: bytes = b""
    first_row: int = 0
    skip: bytearray | None = None


class Publisher:
    """One connection that publishes; reconnects for up to `timeout` seconds when it breaks."""

    def __init__(self, target: Target, window: int = 8192, timeout: float = 20.0) -> None:
        self.pipe = Pipe(target)
        self.window = window
        self.timeout = timeout
        self.stored = 0
        self.duplicates = 0
        self.last_seq = 0
        self._start()

    def _start(self) -> None:
        self._inbox = self.pipe.new_inbox() + b"."
        self._sid = self.pipe.subscribe(self._inbox + b"*")

    def close(self) -> None:
        self.pipe.close()

    def publish(self, rows: Rows) -> list[Refused]:
        """Publish all rows; returns those the server refused for good."""
        count = len(rows.payloads)
        flags = bytearray(rows.skip) if rows.skip is not None else bytearray(count)
        refused: dict[int, Refused] = {}
        until = time.monotonic() + self.timeout
        while True:
            try:
                before = sum(flags)
                again = self._round(rows, flags, refused)
                if not again:
                    return [refused[row] for row in sorted(refused)]
                if sum(flags) > before:
                    until = time.monotonic() + self.timeout
                if time.monotonic() > until:
                    return [refused.get(row) or r for row, r in sorted((refused | again).items())]
                time.sleep(0.1)
            except (ConnectionLost, RequestTimeout):
                left = until - time.monotonic()
                if left <= 0:
                    raise
                self.pipe.reconnect(left)
                self._start()

    def _round(
        self, rows: Rows, flags: bytearray, refused: dict[int, Refused]
    ) -> dict[int, Refused]:
        """Send what has no answer yet and collect the answers; returns who should try again."""
        count = len(flags)
        again: dict[int, Refused] = {}
        columns = _buffers(rows)
        acks = Acks(self._sid, len(self._inbox), flags)
        answered = settled = sum(flags)
        sent = 0
        slice_rows = _slice_rows(rows, count)
        heard = time.monotonic()
        while answered < count:
            while sent < count and sent - answered < self.window:
                stop = min(sent + slice_rows, count)
                self.pipe.send(self._frames(rows, columns, sent, stop, flags))
                sent = stop
            before = acks.good
            self.pipe.start = acks.feed(self.pipe.buffer, self.pipe.start, self.pipe.end)
            answered = settled + acks.good + len(again) + len(refused)
            if acks.stopped == NEED_MORE:
                if answered >= count:
                    break
                if self.pipe.receive(time.monotonic() + 1.0):
                    heard = time.monotonic()
                elif time.monotonic() - heard > SILENCE_S:
                    self.pipe.close()
                    raise RequestTimeout(f"{count - answered} publishes were not answered")
            else:
                found = self.pipe.step(time.monotonic() + SILENCE_S)
                if found is not None and found[0] == self._sid:
                    self._on_refusal(found[1], flags, refused, again)
                answered = settled + acks.good + len(again) + len(refused)
            if acks.good > before:
                heard = time.monotonic()
        self.stored += acks.good - acks.duplicates
        self.duplicates += acks.duplicates
        self.last_seq = max(self.last_seq, acks.last_seq)
        for row in refused:
            flags[row] = 1
        return again

    def _on_refusal(
        self,
        message: Message,
        flags: bytearray,
        refused: dict[int, Refused],
        again: dict[int, Refused],
    ) -> None:
        tail = message.subject[len(self._inbox) :]
        row = int(tail) if tail.isdigit() else -1
        if not 0 <= row < len(flags) or flags[row]:
            return
        if message.status:
            text = "no stream takes this subject" if message.status == 503 else message.description
            again[row] = Refused(row, 0, text)
            return
        try:
            error = json.loads(message.payload)["error"]
            found = Refused(row, int(error.get("err_code", 0)), str(error.get("description", "")))
        except (ValueError, KeyError):
            found = Refused(row, 0, f"not an acknowledgement: {message.payload[:80]!r}")
        (again if found.code in TRANSIENT else refused)[row] = found

    def _frames(
        self,
        rows: Rows,
        columns: tuple[Any, Any, Any, Any],
        start: int,
        stop: int,
        flags: bytearray,
    ) -> Any:
        return publishes(
            *columns,
            rows.headers,
            rows.subject,
            rows.id_prefix,
            rows.common_headers,
            self._inbox,
            start,
            stop,
            rows.first_row,
            flags,
        )


def _buffers(rows: Rows) -> tuple[Any, Any, Any, Any]:
    """Offsets and bytes of subjects and payloads, counted from row 0."""
    subject_ends = subjects = None
    if rows.subjects is not None:
        subject_ends, subjects = _column(rows.subjects)
    return (subject_ends, subjects, *_column(rows.payloads))


def _column(column: pa.Array) -> tuple[Any, Any]:
    if column.null_count:
        column = column.fill_null("" if pa.types.is_string(column.type) else b"")
    _, ends, data = column.buffers()
    width = 4
    ends = ends.slice(column.offset * width, (len(column) + 1) * width)
    return ends, data if data is not None else b""


def _slice_rows(rows: Rows, count: int) -> int:
    """Few enough rows that one send stays small."""
    size = int(rows.payloads.nbytes) // max(count, 1) + 200
    return max(1, min(SLICE_ROWS, SLICE_BYTES // size))
