"""onCommit=ack: a durable consumer that Spark shares with other workers of a queue.

Which messages come is decided by the server, message by message, so there are no ranges to replay:
the driver fetches a share, hands it to the workers inside the partitions and acknowledges it when
Spark has finished the batch. What was fetched and not finished is delivered again by the server:
at-least-once. Use onCommit=purge when Spark is the only reader; that one is exact.
"""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from jetstream.client.columns import ACK, NEED_MORE, OTHER, Columns, Taken
from jetstream.client.pipe import Message, Pipe
from jetstream.errors import JetStreamError
from jetstream.spark.decode import Decoder
from jetstream.spark.plan import SourceConfig
from jetstream.spark.source import RangeReader

FETCH_ROWS = 10_000
FETCH_BYTES = 32 << 20
WAIT_S = 0.25


class Share(Struct):
    """What one micro-batch got: columns for the workers, replies for the acknowledgement."""

    taken: Taken
    replies: list[bytes]


class SharePartition(InputPartition):
    """Rows travel in the partition itself: nobody else can ask for them again."""

    def __init__(self, stream: str, taken: Taken) -> None:
        super().__init__(stream)
        self.stream = stream
        parts: Any = (taken[0], *(bytes(memoryview(part)) for part in taken[1:]))
        self.taken: Taken = parts


class QueueReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches out of a durable pull consumer."""

    def __init__(self, config: SourceConfig, schema: StructType) -> None:
        super().__init__(config, schema)
        self.stream = config.streams[0]
        self._shares: dict[int, Share] = {}
        self._left = -1

    def __getstate__(self) -> dict[str, Any]:
        return {
            "config": self.config,
            "arrow_schema": self.arrow_schema,
            "stream": self.stream,
            "_shares": {},
            "_left": -1,
        }

    def _pipe(self) -> Pipe:
        pipe: Pipe | None = self.__dict__.get("_connection")
        if pipe is None or not pipe.is_open:
            pipe = self._connection = Pipe(self.config.target)
        return pipe

    def initialOffset(self) -> dict[str, Any]:
        return {"v": 1, "share": 0, "run": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        name = f"CONSUMER.INFO.{self.stream}.{self.config.consumer}"
        self._left = int(self.config.control().ask(name)["num_pending"])

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._finish(int(start["share"]))
        if self._left == 0:
            return start
        share = self._fetch()
        if share is None:
            return start
        number = int(start["share"]) + 1
        self._shares[number] = share
        if self._left > 0:
            self._left = max(0, self._left - share.taken[0])
        return {"v": 1, "share": number, "run": 0}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        # After a restart the share is not ours any more; the server delivers it again later.
        share = self._shares.get(int(end["share"]))
        if share is None or start == end:
            return []
        return [SharePartition(self.stream, share.taken)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SharePartition)
        shape = self.shape()
        if isinstance(shape, Decoder):
            stream = partition.stream
            yield shape.batch(
                partition.taken, stream, lambda rows: self._dead_letters(stream, rows)
            )
        else:
            yield shape.batch(partition.taken, partition.stream)

    def commit(self, end: dict[str, Any]) -> None:
        self._finish(int(end["share"]))

    def _finish(self, share: int) -> None:
        for number in [n for n in self._shares if n <= share]:
            done = self._shares.pop(number)
            data = b"".join(b"PUB %b 4\r\n+ACK\r\n" % reply for reply in done.replies)
            pipe = self._pipe()
            pipe.send(data)
            pipe.ping(5.0)

    def _fetch(self) -> Share | None:
        """Up to a batch of messages, waiting a moment for the first."""
        rows_max = self.config.rows_max or FETCH_ROWS
        if self._left > 0:
            rows_max = min(rows_max, self._left)
        pipe = self._pipe()
        sid = pipe.subscribe(inbox := pipe.new_inbox())
        subject = f"{self.config.prefix}.CONSUMER.MSG.NEXT.{self.stream}.{self.config.consumer}"
        request = {"batch": rows_max, "no_wait": True, "expires": int(WAIT_S * 1e9)}
        pipe.publish(subject, json.dumps(request).encode(), inbox)
        # Only a replayed frame parser sees replies as well, so messages pass one by one here.
        messages: list[Message] = []
        until = time.monotonic() + 5.0
        try:
            while len(messages) < rows_max:
                found = pipe.next_message(until)
                if found is None:
                    break
                if found[0] != sid:
                    continue
                if found[1].status:
                    if found[1].status not in (404, 408):
                        raise JetStreamError(f"{found[1].status} {found[1].description}")
                    break
                messages.append(found[1])
        finally:
            if pipe.is_open:
                pipe.unsubscribe(sid)
        return _share(messages) if messages else None

    def stop(self) -> None:
        connection = self.__dict__.get("_connection")
        if connection is not None:
            connection.close()


def _share(messages: list[Message]) -> Share:
    columns = Columns(1, ACK, 0, True, True)
    for message in messages:
        head, body = len(message.headers), message.headers + message.payload
        if head:
            line = b"HMSG %b 1 %b %d %d\r\n" % (message.subject, message.reply, head, len(body))
        else:
            line = b"MSG %b 1 %b %d\r\n" % (message.subject, message.reply, len(body))
        data = line + body + b"\r\n"
        used = columns.feed(data, 0, len(data), len(messages) + 1, 1 << 31)
        assert used == len(data) and columns.stopped in (NEED_MORE, OTHER)
    return Share(columns.take(), [m.reply for m in messages])
