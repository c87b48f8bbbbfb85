"""Rows into a stream of our own server by bulk writes: one answer for thousands of messages.

The same promises as `Publisher`: a window of requests on their way, unanswered ones sent again
after a loss (message ids make that harmless), every refused row reported.
"""

import json
import time
from typing import Any

from jetstream.client.columns import publishes
from jetstream.client.pipe import ConnectionLost, Pipe, RequestTimeout, Target, frame
from jetstream.spark.publishing import SILENCE_S, TRANSIENT, Refused, Rows, _buffers

REQUESTS_IN_FLIGHT = 4
REQUEST_ROWS = 4096


class BulkPublisher:
    """One connection that writes frames of messages; the interface of `Publisher`."""

    def __init__(self, target: Target, stream: str, timeout: float = 20.0) -> None:
        self.pipe = Pipe(target)
        self.timeout = timeout
        self.stored = 0
        self.duplicates = 0
        self.last_seq = 0
        self._subject = f"$JSX.API.BULK.WRITE.{stream}".encode()
        self._start()

    def _start(self) -> None:
        self._inbox = self.pipe.new_inbox() + b"."
        self._sid = self.pipe.subscribe(self._inbox + b"*")
        # Header, subject and reply of a message come on top of what Arrow counts.
        self._bytes_max = int(self.pipe.info.get("max_payload", 1 << 20)) * 3 // 4

    def close(self) -> None:
        self.pipe.close()

    def publish(self, rows: Rows) -> list[Refused]:
        """Publish all rows; returns those the server refused for good."""
        flags = bytearray(rows.skip) if rows.skip is not None else bytearray(len(rows.payloads))
        columns = _buffers(rows)
        waiting = self._slices(rows, columns)
        refused: list[Refused] = []
        until = time.monotonic() + self.timeout
        while waiting:
            try:
                before = len(waiting)
                self._round(rows, columns, flags, waiting, refused)
                if len(waiting) < before:
                    until = time.monotonic() + self.timeout
            except (ConnectionLost, RequestTimeout):
                left = until - time.monotonic()
                if left <= 0:
                    raise
                self.pipe.reconnect(left)
                self._start()
        return sorted(refused, key=lambda r: r.row)

    def _slices(self, rows: Rows, columns: tuple[Any, Any, Any, Any]) -> dict[int, int]:
        """start → stop of requests that each stay below the server's limit."""
        ends = memoryview(columns[2]).cast("B").cast("i")
        heads = [len(h) for h in rows.headers] if rows.headers is not None else None
        fixed = 160 + len(rows.id_prefix) + len(rows.common_headers) + len(rows.subject)
        made: dict[int, int] = {}
        start = size = 0
        for row in range(len(rows.payloads)):
            cost = ends[row + 1] - ends[row] + fixed + (heads[row] if heads else 0)
            if row > start and (size + cost > self._bytes_max or row - start >= REQUEST_ROWS):
                made[start] = row
                start, size = row, 0
            size += cost
        if len(rows.payloads) > start:
            made[start] = len(rows.payloads)
        return made

    def _round(
        self,
        rows: Rows,
        columns: tuple[Any, Any, Any, Any],
        flags: bytearray,
        waiting: dict[int, int],
        refused: list[Refused],
    ) -> None:
        todo = iter(list(waiting.items()))
        flying: set[int] = set()
        while waiting:
            while len(flying) < REQUESTS_IN_FLIGHT and (next_one := next(todo, None)) is not None:
                start, stop = next_one
                data = publishes(
                    *columns, rows.headers, rows.subject, rows.id_prefix, rows.common_headers,
                    b"r.", start, stop, rows.first_row, flags,
                )  # fmt: skip
                if not len(data):
                    del waiting[start]
                    continue
                self.pipe.send(frame(self._subject, bytes(data), self._inbox + b"%d" % start))
                flying.add(start)
            if not flying:
                return
            found = self.pipe.next_message(time.monotonic() + SILENCE_S * 2)
            if found is None:
                self.pipe.close()
                raise RequestTimeout(f"{len(flying)} bulk writes were not answered")
            if found[0] != self._sid:
                continue
            start = int(found[1].subject[len(self._inbox) :])
            self._on_answer(found[1].payload, start, waiting[start], flags, refused)
            flying.discard(start)
            del waiting[start]

    def _on_answer(
        self, payload: bytes, start: int, stop: int, flags: bytearray, refused: list[Refused]
    ) -> None:
        nobody: dict[str, Any] = {"error": {"description": "nobody answers"}}
        answer: dict[str, Any] = json.loads(payload) if payload else nobody
        if "error" in answer:
            error = answer["error"]
            code, text = int(error.get("err_code", 0)), str(error.get("description", ""))
            refused += [Refused(row, code, text) for row in range(start, stop) if not flags[row]]
            return
        self.stored += answer["stored"]
        self.duplicates += answer["duplicates"]
        self.last_seq = max(self.last_seq, answer["last_seq"])
        sent = [row for row in range(start, stop) if not flags[row]] if answer["errors"] else []
        for told in answer["errors"]:
            error = json.loads(told["ack"]).get("error", {}) if told["ack"] else {}
            code = int(error.get("err_code", 0))
            if code in TRANSIENT and code:
                raise RequestTimeout(str(error.get("description")))
            refused.append(
                Refused(sent[told["row"]], code, str(error.get("description", "refused")))
            )
