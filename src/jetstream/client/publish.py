"""Publishing into streams: one and wait, many in flight, or a whole iterable at full speed.

    publish()        waits for the stream's acknowledgement
    publish_async()  returns a `PubAckFuture`; at most `window` of them are unanswered
    publish_many()   takes an iterable and keeps the pipe full; only sequence numbers are kept

All acknowledgements of a connection come back on one subscription, told apart by a number at the
end of the reply subject, so a thousand publishes cost one SUB.
"""

import asyncio
from array import array
from collections.abc import AsyncIterable, Generator, Iterable
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from jetstream.client._inbound import AckRun, ack_list
from jetstream.client.api import Api
from jetstream.client.config import Seconds, time_to_wire, to_ns
from jetstream.client.connection import header_block
from jetstream.client.errors import (
    ClientError,
    ConnectionClosedError,
    NoRespondersError,
    PublishWindowError,
    RequestTimeoutError,
    api_error,
)
from jetstream.client.message import HeadersLike, Payload
from jetstream.schema.times import go_duration
from jetstream.wire._parser import Batch

WINDOW = 4096
BULK_CHUNK = 512
CHUNK_BYTES = 512 * 1024
WINDOW_BYTES = 16 * 1024 * 1024
RETRY_WAIT = 0.25
RETRY_ATTEMPTS = 2

NO_STREAM = "no stream captures this subject"


class ErrorDetail(Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(Struct, frozen=True):
    """The stream has it: under this sequence."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    domain: str = ""
    val: str = ""
    batch: str = ""
    count: int = 0
    error: ErrorDetail | None = None

    @property
    def value(self) -> int | None:
        """The counter's value after this message, in a counter stream."""
        return int(self.val) if self.val else None


_decode_ack = msgspec.json.Decoder(PubAck).decode


def read_ack(subject: str, headers: bytes, payload: bytes) -> PubAck:
    """An answer as an ack, or raised as what the stream refused."""
    if headers[9:12] == b"503":
        raise NoRespondersError(subject, NO_STREAM)
    ack = _decode_ack(payload)
    if ack.error is not None:
        raise api_error(ack.error.code, ack.error.err_code, ack.error.description)
    return ack


class PubAckFuture:
    """An acknowledgement on its way. `await` it, or ask `done()` and `result()`."""

    __slots__ = ("_answer", "_error", "_loop", "_waiter", "message", "subject", "tries")

    def __init__(self, loop: asyncio.AbstractEventLoop, subject: str, message: Any) -> None:
        self.subject = subject
        self.message = message
        self.tries = 0
        self._loop = loop
        self._answer: tuple[bytes, bytes] | PubAck | None = None
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def done(self) -> bool:
        return self._answer is not None or self._error is not None

    def result(self) -> PubAck:
        """The ack, or the refusal raised; only when done."""
        if self._error is not None:
            raise self._error
        answer = self._answer
        if answer is None:
            raise asyncio.InvalidStateError("the ack is not there yet")
        if type(answer) is not PubAck:
            headers, payload = answer  # type: ignore[misc]
            try:
                answer = read_ack(self.subject, headers, payload)
            except Exception as error:
                self._error = error
                raise
            self._answer = answer
        return answer

    def exception(self) -> Exception | None:
        try:
            self.result()
        except asyncio.InvalidStateError:
            raise
        except Exception as error:
            return error
        return None

    def __await__(self) -> Generator[Any, None, PubAck]:
        if not self.done():
            if self._waiter is None:
                self._waiter = self._loop.create_future()
            yield from asyncio.shield(self._waiter).__await__()
        return self.result()

    def settle(self, headers: bytes, payload: bytes) -> None:
        self._answer = (headers, payload)
        self._tell()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._tell()

    def _tell(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PublishReport(Struct):
    """What became of a bulk publish.

    `sequences` has one entry per message, in order: its stream sequence, or 0 where it failed.
    """

    count: int = 0
    sequences: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))
    duplicates: int = 0
    failed: list[tuple[int, Exception]] = msgspec.field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.failed

    @property
    def first_seq(self) -> int:
        return next((seq for seq in self.sequences if seq), 0)

    @property
    def last_seq(self) -> int:
        return next((seq for seq in reversed(self.sequences) if seq), 0)

    def raise_first(self) -> None:
        """Raise the first failure, if there was one."""
        if self.failed:
            raise self.failed[0][1]

    def __repr__(self) -> str:
        return (
            f"PublishReport(count={self.count}, first_seq={self.first_seq}, "
            f"last_seq={self.last_seq}, duplicates={self.duplicates}, failed={len(self.failed)})"
        )


def publish_headers(
    headers: HeadersLike | None = None,
    *,
    msg_id: str | None = None,
    expect_stream: str | None = None,
    expect_last_seq: int | None = None,
    expect_last_subject_seq: int | None = None,
    expect_last_subject_seq_subject: str | None = None,
    expect_last_msg_id: str | None = None,
    ttl: Seconds | str | None = None,
    rollup: str | None = None,
    increment: int | None = None,
    schedule: str | datetime | None = None,
    schedule_target: str | None = None,
    schedule_source: str | None = None,
    schedule_ttl: Seconds | str | None = None,
    schedule_time_zone: str | None = None,
) -> bytes | None:
    """The header block for a publish with these wishes."""
    fields: dict[str, Any] = dict(headers.items()) if headers else {}
    if msg_id is not None:
        fields["Nats-Msg-Id"] = msg_id
    if expect_stream is not None:
        fields["Nats-Expected-Stream"] = expect_stream
    if expect_last_seq is not None:
        fields["Nats-Expected-Last-Sequence"] = str(expect_last_seq)
    if expect_last_subject_seq is not None:
        fields["Nats-Expected-Last-Subject-Sequence"] = str(expect_last_subject_seq)
    if expect_last_subject_seq_subject is not None:
        fields["Nats-Expected-Last-Subject-Sequence-Subject"] = expect_last_subject_seq_subject
    if expect_last_msg_id is not None:
        fields["Nats-Expected-Last-Msg-Id"] = expect_last_msg_id
    if ttl is not None:
        fields["Nats-TTL"] = ttl_text(ttl)
    if rollup is not None:
        fields["Nats-Rollup"] = rollup
    if increment is not None:
        fields["Nats-Incr"] = f"{increment:+d}"
    if schedule is not None:
        is_time = isinstance(schedule, datetime)
        fields["Nats-Schedule"] = f"@at {time_to_wire(schedule)}" if is_time else schedule
    if schedule_target is not None:
        fields["Nats-Schedule-Target"] = schedule_target
    if schedule_source is not None:
        fields["Nats-Schedule-Source"] = schedule_source
    if schedule_ttl is not None:
        fields["Nats-Schedule-TTL"] = ttl_text(schedule_ttl)
    if schedule_time_zone is not None:
        fields["Nats-Schedule-Time-Zone"] = schedule_time_zone
    return header_block(fields) if fields else None


def ttl_text(ttl: Seconds | str) -> str:
    """Seconds (or "never") as a server reads them."""
    return ttl if isinstance(ttl, str) else go_duration(to_ns(ttl))


class Publisher:
    """Everything about publishing on one connection; `JetStream` inherits it."""

    api: Api

    def _init_publisher(self, window: int) -> None:
        self._window = window
        self._ack_prefix = b""
        self._ack_prefix_len = 0
        self._last_token = 0
        self._unanswered: dict[int, PubAckFuture] = {}
        self._room: asyncio.Future[None] | None = None
        self._all_done: asyncio.Future[None] | None = None

    # --- one at a time

    async def publish(
        self,
        subject: str,
        data: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: float | None = None,
        retry_attempts: int = RETRY_ATTEMPTS,
        retry_wait: float = RETRY_WAIT,
        **wishes: Any,
    ) -> PubAck:
        """Publish and wait for the stream's acknowledgement.

        `wishes` are those of `publish_headers`: msg_id, expect_stream, expect_last_seq,
        expect_last_subject_seq, expect_last_msg_id, ttl, rollup, increment, schedule, …. When no
        stream listens yet (a cluster electing a leader) it tries again, `retry_attempts` times. A
        message with a `msg_id` is also sent again after a reconnect: the stream drops a repeat.
        """
        block = publish_headers(headers, **wishes) if wishes or headers else None
        wait = self.api.timeout if timeout is None else timeout
        connection = self.api.connection
        repeatable = wishes.get("msg_id") is not None
        for attempt in range(retry_attempts + 1):
            token, future = self._send(subject, block, data, None)
            expiry = connection.loop.call_later(wait, self._expire, token, wait)
            if repeatable:
                repeat = partial(self._repeat, token, subject, block, data)
                connection.on_restored.add(repeat)
            try:
                return await future
            except NoRespondersError:
                if attempt == retry_attempts:
                    raise
            finally:
                expiry.cancel()
                self._unanswered.pop(token, None)
                if repeatable:
                    connection.on_restored.discard(repeat)
            await asyncio.sleep(retry_wait)
        raise AssertionError("unreachable")

    def _repeat(self, token: int, subject: str, block: bytes | None, data: Payload) -> None:
        self.api.connection.send(subject, b"%b%d" % (self._ack_prefix, token), block, data)

    def _send(
        self, subject: str, block: bytes | None, data: Payload, message: Any
    ) -> tuple[int, PubAckFuture]:
        connection = self.api.connection
        if not self._ack_prefix:
            inbox = connection.new_inbox() + "."
            connection.attach(inbox + "*", self._acks)
            self._ack_prefix = inbox.encode()
            self._ack_prefix_len = len(self._ack_prefix)
        self._last_token = token = self._last_token + 1
        future = PubAckFuture(connection.loop, subject, message)
        connection.send(subject, b"%b%d" % (self._ack_prefix, token), block, data)
        self._unanswered[token] = future
        return token, future

    def _acks(self, batch: Batch, start: int, stop: int) -> None:
        unanswered = self._unanswered
        for token, headers, payload in ack_list(batch, start, stop, self._ack_prefix_len):
            future = unanswered.get(token)
            if future is None:
                continue
            if headers and future.message is not None and future.tries < RETRY_ATTEMPTS:
                self._again(token, future)
                continue
            del unanswered[token]
            future.settle(headers, payload)
        self._make_room()

    def _make_room(self) -> None:
        if self._room is not None and len(self._unanswered) < self._window:
            if not self._room.done():
                self._room.set_result(None)
            self._room = None
        if self._all_done is not None and not self._unanswered:
            if not self._all_done.done():
                self._all_done.set_result(None)
            self._all_done = None

    def _expire(self, token: int, wait: float) -> None:
        future = self._unanswered.pop(token, None)
        if future is not None:
            future.fail(RequestTimeoutError(f"no ack for {future.subject!r} within {wait:g} s"))
            self._make_room()

    def _again(self, token: int, future: PubAckFuture) -> None:
        """Nobody listened: a stream may be changing its leader, so ask once more in a while."""
        future.tries += 1

        def send() -> None:
            if token in self._unanswered:
                subject, block, data = future.message
                try:
                    reply = b"%b%d" % (self._ack_prefix, token)
                    self.api.connection.send(subject, reply, block, data)
                except ClientError as error:
                    del self._unanswered[token]
                    future.fail(error)

        self.api.connection.loop.call_later(RETRY_WAIT, send)

    # --- many in flight

    async def publish_async(
        self,
        subject: str,
        data: Payload = b"",
        *,
        headers: HeadersLike | None = None,
        timeout: float | None = None,
        stall: float = 30.0,
        **wishes: Any,
    ) -> PubAckFuture:
        """Publish without waiting for the ack; waits only while the window is full."""
        if len(self._unanswered) >= self._window:
            await self._wait_room(stall)
        block = publish_headers(headers, **wishes) if wishes or headers else None
        token, future = self._send(subject, block, data, (subject, block, data))
        if timeout is not None:
            self.api.connection.loop.call_later(timeout, self._expire, token, timeout)
        if self.api.connection._writable is not None:
            await self.api.connection.writable()
        return future

    async def _wait_room(self, stall: float) -> None:
        while len(self._unanswered) >= self._window:
            if self._room is None:
                self._room = self.api.connection.loop.create_future()
            try:
                async with asyncio.timeout(stall):
                    await asyncio.shield(self._room)
            except TimeoutError:
                waiting = len(self._unanswered)
                raise PublishWindowError(f"{waiting} publishes wait for their ack") from None

    @property
    def publish_async_pending(self) -> int:
        """How many acks are still to come."""
        return len(self._unanswered)

    async def publish_async_complete(self, timeout: float | None = None) -> None:
        """Wait until every `publish_async` has its answer."""
        if not self._unanswered:
            return
        if self._all_done is None:
            self._all_done = self.api.connection.loop.create_future()
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._all_done)
        except TimeoutError:
            waiting = len(self._unanswered)
            raise PublishWindowError(f"{waiting} publishes still wait for their ack") from None

    # --- a whole iterable

    async def publish_many(
        self,
        messages: Iterable[Any] | AsyncIterable[Any],
        *,
        subject: str | None = None,
        window: int | None = None,
        timeout: float = 30.0,
        stop_on_error: bool = False,
    ) -> PublishReport:
        """Publish everything in an iterable, pipelined; the fast way for bulk.

        Items are `(subject, data)`, `(subject, data, headers)`, or just payloads when `subject` is
        given. At most `window` messages are unacknowledged at a time. Returns a report with the
        sequence of each message; failures are in `report.failed` as (position, error).
        """
        bulk = self.bulk(subject=subject, window=window, timeout=timeout)
        return await bulk.run(messages, stop_on_error)

    def bulk(
        self, *, subject: str | None = None, window: int | None = None, timeout: float = 30.0
    ) -> "Bulk":
        """The machine behind `publish_many`, for sources that come in pieces."""
        return Bulk(self.api, subject, window or self._window, timeout)


class Bulk:
    """A pipelined publish in pieces: `start()`, `send(chunk)` …, `finish()`."""

    def __init__(self, api: Api, subject: str | None, window: int, timeout: float) -> None:
        self._connection = api.connection
        self._subject = subject
        self._window = window
        self._chunk_max = max(1, min(BULK_CHUNK, window // 4))
        # The first chunk is small: afterwards we know how large messages are.
        self._chunk = min(16, self._chunk_max)
        self._room = window
        self._timeout = timeout
        inbox = self._connection.new_inbox() + "."
        self._inbox = inbox
        self._prefix = inbox.encode()
        self._run = AckRun(len(self._prefix))
        self._sid = 0

    @property
    def chunk_size(self) -> int:
        """How many messages the next chunk should have."""
        return self._chunk

    @property
    def has_failures(self) -> bool:
        """Something came back that was no plain ack (it may only be a duplicate)."""
        return bool(self._run.odd)

    def start(self) -> None:
        self._sid = self._connection.attach(self._inbox + "*", self._run.receive)

    async def finish(self) -> PublishReport:
        """Wait for the last acks and tell what became of everything."""
        try:
            await self._wait(0)
        except RequestTimeoutError:
            pass  # the missing ones are reported one by one
        finally:
            if not self._connection.is_closed:
                self._connection.detach(self._sid)
        return self._report()

    async def run(
        self, messages: Iterable[Any] | AsyncIterable[Any], stop_on_error: bool
    ) -> PublishReport:
        self.start()
        try:
            if isinstance(messages, AsyncIterable):
                await self._from_async(messages, stop_on_error)
            else:
                source = iter(messages)
                while chunk := list(islice(source, self._chunk)):
                    await self.send(chunk)
                    if stop_on_error and self._run.odd:
                        break
        except RequestTimeoutError:
            pass
        except BaseException:
            self._connection.detach(self._sid)
            raise
        return await self.finish()

    async def _from_async(self, source: AsyncIterable[Any], stop_on_error: bool) -> None:
        chunk: list[Any] = []
        async for item in source:
            chunk.append(item)
            # A slow source should not keep what it gave waiting for a full chunk.
            if len(chunk) >= self._chunk or self._run.outstanding == 0:
                await self.send(chunk)
                chunk = []
                if stop_on_error and self._run.odd:
                    return
        if chunk:
            await self.send(chunk)

    async def send(self, chunk: list[Any]) -> None:
        """Publish these; waits while too many are unanswered."""
        run = self._run
        if run.outstanding + len(chunk) > self._room:
            await self._wait(max(self._room // 2 - len(chunk), 0))
        connection = self._connection
        if connection.is_closed:
            raise ConnectionClosedError("the connection was closed while publishing")
        if not connection.is_connected:
            await connection._keeper.wait_connected(self._timeout)
        before = connection.out.payload_bytes
        connection.out.many(self._shaped(chunk), self._prefix, run.sent)
        run.expect(len(chunk))
        mean = (connection.out.payload_bytes - before) // len(chunk) + 1
        self._chunk = max(1, min(self._chunk_max, CHUNK_BYTES // mean))
        self._room = max(1, min(self._window, WINDOW_BYTES // mean))
        connection.plan_flush()
        if connection._writable is not None:
            await connection.writable()
        elif connection.out.size == 0:
            await asyncio.sleep(0)

    def _shaped(self, chunk: list[Any]) -> list[tuple[str, bytes | None, Any]]:
        subject = self._subject
        if subject is not None and not isinstance(chunk[0], tuple):
            return [(subject, None, data) for data in chunk]
        made: list[tuple[str, bytes | None, Any]] = []
        for item in chunk:
            if len(item) == 2:
                made.append((item[0], None, item[1]))
            else:
                made.append((item[0], header_block(item[2]), item[1]))
        return made

    async def _wait(self, at_most: int) -> None:
        """Until no more than this many are unanswered."""
        run = self._run
        if run.outstanding <= at_most:
            return
        waiter = self._connection.loop.create_future()
        run.wake_at = at_most
        run.waiter = waiter
        while True:
            before = run.answered
            done, _ = await asyncio.wait([waiter], timeout=self._timeout)
            if done:
                return
            if run.answered == before:
                run.waiter = None
                raise RequestTimeoutError("acks stopped coming")

    def _report(self) -> PublishReport:
        run = self._run
        report = PublishReport(count=run.sent, sequences=run.sequences())
        for position, headers, payload in run.odd:
            try:
                ack = read_ack(self._subject or f"message {position}", headers, payload)
            except Exception as error:
                report.failed.append((position, error))
                continue
            report.sequences[position] = ack.seq
            report.duplicates += ack.duplicate
        if run.outstanding:
            late = RequestTimeoutError("no ack came for this message")
            report.failed += [(position, late) for position in run.missing()]
            report.failed.sort(key=lambda pair: pair[0])
        return report
