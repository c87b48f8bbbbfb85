"""Builders for stream tests: a stream on a memory store, messages, and what came of them."""

import json
from collections.abc import Mapping
from typing import Any

from jetstream.schema.stream import StreamConfig
from jetstream.store.memory import MemoryStore
from jetstream.stream.config import check_create
from jetstream.stream.stream import Stream
from jetstream.stream.values import Stored
from jetstream.wire._parser import Batch

NOW = 1_800_000_000_000_000_000
SECOND = 1_000_000_000

Message = tuple[bytes, bytes, bytes, bytes]


def a_stream(**fields: Any) -> Stream:
    fields = {"name": "S", "subjects": ["a.>"], "storage": "memory", **fields}
    config = check_create(StreamConfig(**fields))
    return Stream(config, MemoryStore(first_seq=config.first_seq))


def block(headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode() if headers else b""


def message(
    subject: str, headers: Mapping[str, str] | None = None, payload: bytes = b"x", reply: str = "r"
) -> Message:
    return subject.encode(), reply.encode(), block(headers or {}), payload


def publish(stream: Stream, *messages: Message, now: int = NOW) -> list[Any]:
    """What each message was answered: a sequence, or the decoded ack when it is not a plain one."""
    batch = Batch.of(list(messages))
    answers: list[Any] = []
    for outcome in stream.publish(batch, 0, len(messages), now):
        if isinstance(outcome, Stored):
            answers += range(outcome.first_seq, outcome.first_seq + outcome.stop - outcome.start)
        elif outcome.ack:
            answers.append(json.loads(outcome.ack))
        else:
            answers.append(outcome.ack)
    return answers


def one(
    stream: Stream,
    subject: str = "a.1",
    headers: Mapping[str, str] | None = None,
    payload: bytes = b"x",
    now: int = NOW,
) -> Any:
    """Publish a single message; its sequence, the error code, or the whole ack."""
    (answer,) = publish(stream, message(subject, headers, payload), now=now)
    if isinstance(answer, dict) and "error" in answer:
        return answer["error"]["err_code"]
    return answer


def text_of(stream: Stream, seq: int) -> tuple[str, str, bytes] | None:
    found = stream.store.get(seq)
    return (found.subject.decode(), found.headers.decode(), found.payload) if found else None
