"""Publishing into streams: one and wait, many in flight, or a whole iterable at full speed.

    publish()        waits for the stream's acknowledgement
    publish_async()  returns a `PubAckFuture`; at most `window` of them are unanswered
    publish_many()   takes an iterable and keeps the pipe full; only sequence numbers are kept

All acknowledgements of a connection come back on one subscription, told apart by a number at the
end of the reply subject, so a thousand publishes cost one SUB.
"""

import asyncio
from collections.abc import AsyncIterable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

from jetstream.client._inbound import ack_list
from jetstream.client.acks import PubAck, PubAckFuture, PublishReport
from jetstream.client.api import Api
from jetstream.client.bulk import Bulk
from jetstream.client.config import Seconds, time_to_wire, to_ns
from jetstream.client.errors import (
    ClientError,
    NoRespondersError,
    PublishWindowError,
    RequestTimeoutError,
)
from jetstream.client.lines import header_block
from jetstream.client.message import HeadersLike, Payload
from jetstream.schema.times import go_duration
from jetstream.wire._parser import Batch

WINDOW = 4096
RETRY_WAIT = 0.25
RETRY_ATTEMPTS = 2


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
            connection.on_restored.add(self._after_reconnect)
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

    def _after_reconnect(self) -> None:
        """Acks that were on their way are lost: what nobody answers soon has failed."""
        waiting = list(self._unanswered)
        wait = self.api.timeout

        def give_up() -> None:
            for token in waiting:
                self._expire(token, wait)

        if waiting:
            self.api.connection.loop.call_later(wait, give_up)

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
        if self.api.connection.is_full:
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
    ) -> Bulk:
        """The machine behind `publish_many`, for sources that come in pieces."""
        return Bulk(self.api, subject, window or self._window, timeout)
