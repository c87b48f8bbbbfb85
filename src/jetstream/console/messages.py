"""The message browser: a page of messages from a place in the stream, and the live tail."""

import base64
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from jetstream.client.errors import NoMessageError
from jetstream.client.jetstream import JetStream
from jetstream.client.stream import Stream
from jetstream.wire.headers import Headers

PAGE_MAX = 200
LOOK_BACK = 2000
SHOWN_BYTES = 64 * 1024


def shown(subject: str, seq: int, time_ns: int, block: bytes, data: bytes) -> dict[str, Any]:
    """A message for the page: text if it is text, otherwise base64; long bodies are cut."""
    cut = data[:SHOWN_BYTES]
    message: dict[str, Any] = {
        "subject": subject,
        "seq": seq,
        "time_ms": time_ns // 1_000_000,
        "size": len(data),
        "headers": dict(Headers.parse(block).items()) if block else {},
    }
    try:
        message["text"] = cut.decode() if len(cut) == len(data) else cut.decode("utf-8", "replace")
    except UnicodeDecodeError:
        message["base64"] = base64.b64encode(cut).decode()
    return message


async def page(stream: Stream, start: str, filter_subject: str, limit: int) -> list[dict[str, Any]]:
    """Messages from `first`, `last`, a sequence or a time on, oldest first."""
    limit = max(1, min(limit, PAGE_MAX))
    info = await stream.info()
    state = info.raw["state"]
    if state["messages"] == 0:
        return []
    if start == "last":
        return await _last(stream, state, filter_subject, limit)
    seq = state["first_seq"]
    if start.isdigit():
        seq = max(seq, int(start))
    elif start not in ("", "first"):
        at = datetime.fromisoformat(start.replace("Z", "+00:00"))
        try:
            seq = (await stream.get_msg_at(at)).seq
        except NoMessageError:
            return []
    return await _from(stream, seq, filter_subject or ">", limit)


async def _from(stream: Stream, seq: int, pattern: str, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with contextlib.suppress(NoMessageError):
        while len(found) < limit:
            message = await stream.get_msg(seq, next_for=pattern)
            found.append(
                shown(
                    message.subject,
                    message.seq,
                    message.time_ns,
                    message.header_block,
                    message.data,
                )
            )
            seq = message.seq + 1
    return found


async def _last(
    stream: Stream, state: dict[str, Any], pattern: str, limit: int
) -> list[dict[str, Any]]:
    """The newest ones: look back further and further until there are enough."""
    last, first = state["last_seq"], state["first_seq"]
    step = limit
    while True:
        start = max(first, last - step + 1)
        found = await _from(stream, start, pattern or ">", PAGE_MAX)
        if len(found) >= limit or start == first or step >= LOOK_BACK:
            return found[-limit:]
        step *= 4


async def live(js: JetStream, stream: str, filter_subject: str) -> AsyncIterator[dict[str, Any]]:
    """New messages as they come."""
    options: dict[str, Any] = {"deliver_policy": "new"}
    if filter_subject:
        options["filter_subjects"] = [filter_subject]
    consumer = await js.ordered_consumer(stream, **options)
    async with await consumer.messages() as messages:
        async for message in messages:
            metadata = message.metadata
            block = message.headers.encode() if message.headers else b""
            yield shown(message.subject, metadata.stream_seq, metadata.time_ns, block, message.data)
