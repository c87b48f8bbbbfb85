"""Reading stored messages without a consumer: direct gets, and `STREAM.MSG.GET` where they are off.

A direct answer is the message itself, its place told by headers (`Nats-Sequence`, …); the older way
answers with JSON and base64.
"""

import base64
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from jetstream.client.api import Api
from jetstream.client.config import moment, time_to_wire
from jetstream.client.errors import (
    NoMessageError,
    NoRespondersError,
    RequestTimeoutError,
    StatusError,
)
from jetstream.client.message import Message
from jetstream.client.pull import status_text
from jetstream.errors import Refusal
from jetstream.schema.addresses import direct_get
from jetstream.schema.api_errors import NO_MESSAGE_FOUND
from jetstream.schema.times import parse_rfc3339
from jetstream.wire.headers import Headers, get_header, without_headers

_OWN = (b"Nats-Stream:", b"Nats-Subject:", b"Nats-Sequence:", b"Nats-Time-Stamp:",
        b"Nats-Num-Pending:", b"Nats-Last-Sequence:", b"Nats-UpTo-Sequence:")  # fmt: skip


class StreamMessage(Struct, frozen=True, kw_only=True):
    """A message as a stream keeps it."""

    subject: str
    seq: int
    data: bytes
    time_ns: int
    header_block: bytes = b""
    stream: str = ""
    num_pending: int | None = None

    @property
    def headers(self) -> Headers | None:
        return Headers.parse(self.header_block) if self.header_block else None

    @property
    def time(self) -> datetime:
        """When it was stored (microseconds; `time_ns` has all digits)."""
        return moment(self.time_ns)

    @property
    def text(self) -> str:
        return self.data.decode()

    def json(self, type: Any = Any) -> Any:
        return msgspec.json.decode(self.data, type=type)


class Reading:
    """Gets on one stream."""

    def __init__(self, api: Api, stream: str, direct: bool) -> None:
        self._api = api
        self.stream = stream
        self.direct = direct

    async def get(
        self,
        *,
        seq: int | None = None,
        next_for: str | None = None,
        start_time: datetime | None = None,
        direct: bool | None = None,
    ) -> StreamMessage:
        body: dict[str, Any] = {}
        if seq is not None:
            body["seq"] = seq
        if next_for is not None:
            body["next_by_subj"] = next_for
        if start_time is not None:
            body["start_time"] = time_to_wire(start_time)
        return await self._one("", body, direct)

    async def last(self, subject: str, direct: bool | None = None) -> StreamMessage:
        if self.direct if direct is None else direct:
            return await self._one(subject, None, True)
        return await self._one("", {"last_by_subj": subject}, False)

    async def _one(self, subject: str, body: Any, direct: bool | None) -> StreamMessage:
        if self.direct if direct is None else direct:
            payload = msgspec.json.encode(body) if body else b""
            address = direct_get(self.stream, subject, self._api.prefix)
            timeout = self._api.timeout
            answer = await self._api.connection.request(address, payload, timeout=timeout)
            return self._from_direct(answer)
        answer_json = await self._api.request(f"STREAM.MSG.GET.{self.stream}", body)
        return self._from_json(answer_json["message"])

    def _from_json(self, raw: dict[str, Any]) -> StreamMessage:
        return StreamMessage(
            subject=raw["subject"],
            seq=raw["seq"],
            data=base64.b64decode(raw.get("data", "")),
            time_ns=parse_rfc3339(raw["time"]),
            header_block=base64.b64decode(raw.get("hdrs", "")),
            stream=self.stream,
        )

    def _from_direct(self, answer: Message) -> StreamMessage:
        if answer.status:
            raise direct_error(answer)
        block = answer.header_block
        pending = get_header(block, b"Nats-Num-Pending")
        return StreamMessage(
            subject=(get_header(block, b"Nats-Subject") or b"").decode(),
            seq=int(get_header(block, b"Nats-Sequence") or 0),
            data=answer.data,
            time_ns=parse_rfc3339((get_header(block, b"Nats-Time-Stamp") or b"").decode()),
            header_block=without_headers(block, *_OWN),
            stream=(get_header(block, b"Nats-Stream") or b"").decode(),
            num_pending=None if pending is None else int(pending),
        )

    async def batch(
        self,
        n: int,
        seq: int | None,
        subject: str | None,
        start_time: datetime | None,
        max_bytes: int | None,
    ) -> AsyncIterator[StreamMessage]:
        body: dict[str, Any] = {"batch": n}
        if start_time is not None:
            body["start_time"] = time_to_wire(start_time)
        else:
            body["seq"] = seq or 1
        if subject is not None:
            body["next_by_subj"] = subject
        if max_bytes is not None:
            body["max_bytes"] = max_bytes
        async for message in self._many(body):
            yield message

    async def last_of_each(
        self,
        subjects: list[str],
        up_to_seq: int | None,
        up_to_time: datetime | None,
        batch: int | None,
    ) -> AsyncIterator[StreamMessage]:
        body: dict[str, Any] = {"multi_last": subjects}
        if up_to_seq is not None:
            body["up_to_seq"] = up_to_seq
        if up_to_time is not None:
            body["up_to_time"] = time_to_wire(up_to_time)
        if batch is not None:
            body["batch"] = batch
        async for message in self._many(body):
            yield message

    async def _many(self, body: dict[str, Any]) -> AsyncIterator[StreamMessage]:
        connection = self._api.connection
        inbox = connection.new_inbox()
        address = direct_get(self.stream, "", self._api.prefix)
        async with await connection.subscribe(inbox) as answers:
            await connection.publish(address, msgspec.json.encode(body), reply=inbox)
            while True:
                answer = await answers.next(self._api.timeout)
                if answer.status == 204 or (answer.status == 404):
                    return
                if answer.status == 503:
                    raise NoRespondersError(address, "does the stream exist with allow_direct?")
                if not answer.header_block:
                    raise RequestTimeoutError("this server does not know batched direct gets")
                yield self._from_direct(answer)


def direct_error(answer: Message) -> Exception:
    text = status_text(answer)  # type: ignore[arg-type]
    if answer.status == 404:
        return NoMessageError(
            Refusal(404, NO_MESSAGE_FOUND.err_code, NO_MESSAGE_FOUND.text, NO_MESSAGE_FOUND.name)
        )
    return StatusError(answer.status, text)
