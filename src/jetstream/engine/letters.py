"""Dead letters: messages that were given up or terminated, kept with the story of their failure.

A consumer asks for it with `jsx.dead_letter.stream`. The stream is made if it is missing; a letter
lies in it under `$JSX.DEAD.<letters>.<stream>.<consumer>.<subject>` with the original headers and
body, and these headers on top:

    Jsx-Dead-Reason      max_deliver or terminated
    Jsx-Dead-Detail      what the client said with +TERM
    Jsx-Dead-Stream      where it came from, and under which sequence, subject and time
    Jsx-Dead-Consumer, Jsx-Dead-Seq, Jsx-Dead-Subject, Jsx-Dead-Time
    Jsx-Dead-Deliveries  how often it was tried
    Jsx-Dead-History     when, if the flight recorder was on
"""

from array import array
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from jetstream.consumer.consumer import Consumer
from jetstream.consumer.values import DeadLetter
from jetstream.errors import ApiError
from jetstream.schema.api_errors import CONSUMER_CREATE
from jetstream.schema.stream import StreamConfig
from jetstream.schema.times import rfc3339
from jetstream.store.base import StoredMessage
from jetstream.subjects.match import matches

if TYPE_CHECKING:
    from jetstream.engine.account import JetStreamAccount, StreamAsset

PREFIX: Final = "$JSX.DEAD"
HEADER: Final = b"Jsx-Dead-"


class Letter(Struct, omit_defaults=True, kw_only=True):
    """A dead letter as the endpoints show it."""

    seq: int
    reason: str = ""
    detail: str = ""
    stream: str = ""
    consumer: str = ""
    stream_seq: int = 0
    subject: str = ""
    time: str = ""
    deliveries: int = 0
    history: str = ""
    dead_since: str = ""
    msg_id: str = ""
    size: int = 0


def prepare_grave(js: "JetStreamAccount", consumer: Consumer) -> None:
    """See to it that the dead-letter stream of a consumer exists."""
    name = consumer.options.dead_letter_stream
    if not name:
        return
    if name == consumer.stream:
        text = "a stream can not be its own dead-letter stream"
        raise ApiError(CONSUMER_CREATE, err=f"metadata jsx.dead_letter.stream: {text}")
    if name not in js.streams:
        js.create_stream(StreamConfig(name=name, subjects=[f"{PREFIX}.{name}.>"]))


def bury(
    js: "JetStreamAccount",
    asset: "StreamAsset",
    consumer: Consumer,
    letters: list[DeadLetter],
    now: int,
) -> None:
    """Copy messages to their dead-letter stream, on disk before anything says they are settled."""
    touched: dict[str, StreamAsset] = {}
    for letter in letters:
        target = js.streams.get(letter.stream)
        if target is None:
            prepare_grave(js, consumer)
            target = js.streams[letter.stream]
        message = asset.store.get(letter.stream_seq)
        if message is None:
            continue
        subject = f"{PREFIX}.{letter.stream}.{consumer.stream}.{consumer.name}.".encode()
        target.store.append(
            subject + message.subject, _headers(message, letter, consumer), message.payload, now
        )
        touched[letter.stream] = target
    for target in touched.values():
        target.store.write()
        target.store.sync()
        js.host.wake(target)


def _headers(message: StoredMessage, letter: DeadLetter, consumer: Consumer) -> bytes:
    fields = {
        b"Reason": letter.reason,
        b"Detail": letter.detail,
        b"Stream": consumer.stream,
        b"Consumer": consumer.name,
        b"Seq": str(letter.stream_seq),
        b"Subject": message.subject.decode("utf-8", "replace"),
        b"Time": rfc3339(message.time_ns),
        b"Deliveries": str(letter.deliveries),
        b"History": letter.history,
    }
    lines = b"".join(
        HEADER + name + b": " + _one_line(value) + b"\r\n"
        for name, value in fields.items()
        if value
    )
    block = message.headers or b"NATS/1.0\r\n\r\n"
    return block[:-2] + lines + b"\r\n"


def _one_line(value: str) -> bytes:
    return value.replace("\r", " ").replace("\n", " ").encode()


def original_headers(headers: bytes) -> bytes:
    """The header block a message had before it died; empty if it had none."""
    lines = headers.split(b"\r\n")
    kept = [line for line in lines if not line.startswith(HEADER)]
    return b"\r\n".join(kept) if any(kept[1:]) else b""


def read_letter(message: StoredMessage) -> Letter | None:
    """What a stored letter tells; None if it is not one."""
    fields: dict[str, str] = {}
    msg_id = ""
    for line in message.headers.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        text = value.strip().decode("utf-8", "replace")
        if name.startswith(HEADER):
            fields[name[len(HEADER) :].decode().lower()] = text
        elif name == b"Nats-Msg-Id":
            msg_id = text
    if "reason" not in fields:
        return None
    return Letter(
        seq=message.seq,
        reason=fields["reason"],
        detail=fields.get("detail", ""),
        stream=fields.get("stream", ""),
        consumer=fields.get("consumer", ""),
        stream_seq=int(fields.get("seq", "0")),
        subject=fields.get("subject", ""),
        time=fields.get("time", ""),
        deliveries=int(fields.get("deliveries", "0")),
        history=fields.get("history", ""),
        dead_since=rfc3339(message.time_ns),
        msg_id=msg_id,
        size=len(message.payload),
    )


def is_about(letter: Letter, pattern: str) -> bool:
    """Was the message published on a subject that this pattern takes in?"""
    return matches(pattern, letter.subject)


def redrive(js: "JetStreamAccount", asset: "StreamAsset", chosen: list[Letter], now: int) -> int:
    """Put letters back into the streams they came from, as they were; how many went.

    They keep their message ids and go past the duplicate window, which would know them. A letter is
    removed only when its message is safe in its stream again.
    """
    homes: dict[str, StreamAsset] = {}
    gone = array("Q")
    for letter in chosen:
        home = js.streams.get(letter.stream)
        message = asset.store.get(letter.seq)
        if home is None or message is None:
            continue
        home.store.append(
            letter.subject.encode(), original_headers(message.headers), message.payload, now
        )
        homes[letter.stream] = home
        gone.append(letter.seq)
    for home in homes.values():
        home.store.write()
        home.store.sync()
        desks = getattr(js.host, "desks", {})
        desk = desks.get(id(home))
        if desk is not None:
            desk.fresh = True  # consumers that wait shall look
        js.host.wake(home)
    if gone:
        asset.store.remove_many(gone)
        js.host.wake(asset)
    return len(gone)
