"""Direct gets: a stored message as it is, without JSON around it.

One request gets one message; with `batch` or `multi_last` it gets a row of them and an end marker.
What is asked for wrongly is answered by a status line, never by silence.
"""

from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from jetstream.api.messages import find_seq
from jetstream.errors import ApiError
from jetstream.schema.decoding import decode
from jetstream.schema.requests import API_LEVEL, MsgGetRequest
from jetstream.schema.times import parse_rfc3339, rfc3339
from jetstream.subjects.tokens import has_wildcard
from jetstream.wire.headers import get_header

SUBJECTS_MAX: Final = 1024
BYTES_MAX: Final = 64 * 1024 * 1024
LEVEL_HEADER: Final = b"Nats-Required-Api-Level"

NOT_FOUND: Final = b"NATS/1.0 404 Message Not Found\r\n\r\n"
NO_RESULTS: Final = b"NATS/1.0 404 No Results\r\n\r\n"
EMPTY: Final = b"NATS/1.0 408 Empty Request\r\n\r\n"
MALFORMED: Final = b"NATS/1.0 408 Malformed Request\r\n\r\n"
BAD: Final = b"NATS/1.0 408 Bad Request\r\n\r\n"
TOO_MANY: Final = b"NATS/1.0 413 Too Many Results\r\n\r\n"
LEVEL: Final = b"NATS/1.0 412 Required Api Level\r\n\r\n"

_decoder = msgspec.json.Decoder(MsgGetRequest)
_NOTHING: Final = MsgGetRequest()

Reply = tuple[bytes, bytes]
# (sequences, pending, byte limit) → (pending, last sequence sent, bytes left)
SendRow = Callable[["array[int]", int, int], tuple[int, int, int]]


def answer(
    asset: Any, key: bytes, headers: bytes, payload: bytes, send_row: SendRow | None = None
) -> "list[Reply] | Iterator[Reply]":
    """The messages to send to whoever asked: (header block, body) each.

    A long row may be sent by the kernel on the way (`send_row`); then only its end comes out here.
    """
    if headers:
        wanted = get_header(headers, LEVEL_HEADER)
        if wanted and (not wanted.isdigit() or int(wanted) > API_LEVEL):
            return [(LEVEL, b"")]
    if key and not payload:
        return [_one(asset, _last(asset.store, key), False)]
    try:
        asked = _read(payload)
    except (ApiError, ValueError):
        return [(MALFORMED, b"")]
    if key:
        if asked != MsgGetRequest(no_hdr=asked.no_hdr):
            return [(BAD, b"")]
        return [_one(asset, _last(asset.store, key), asked.no_hdr)]
    return _answer(asset, asked, send_row)


def _last(store: Any, subject: bytes) -> int:
    if has_wildcard(subject):
        return int(store.last_match(store.filter([subject])))
    return int(store.last_for(subject))


def _read(payload: bytes) -> MsgGetRequest:
    try:
        asked = _decoder.decode(payload)
    except msgspec.MsgspecError:
        if not payload.strip():
            return _NOTHING
        return decode(payload, MsgGetRequest, strict=False)
    # Nothing understood: perhaps the names are spelled in other letters.
    return decode(payload, MsgGetRequest, strict=False) if asked == _NOTHING else asked


def _answer(
    asset: Any, asked: MsgGetRequest, send_row: SendRow | None = None
) -> "list[Reply] | Iterator[Reply]":
    has_start = asked.start_time is not None
    chosen = asked.seq or asked.last_by_subj or asked.next_by_subj or asked.multi_last or has_start
    if not chosen:
        return [(EMPTY, b"")]
    last = bool(asked.last_by_subj)
    if (
        (last and (asked.seq or asked.next_by_subj or has_start or asked.batch or asked.multi_last))
        or (asked.multi_last and (asked.next_by_subj or has_start))
        or (asked.seq and has_start)
        or (asked.up_to_seq and asked.up_to_time is not None)
    ):
        return [(BAD, b"")]
    try:
        start = max(parse_rfc3339(asked.start_time), 1) if asked.start_time is not None else 0
        until = max(parse_rfc3339(asked.up_to_time), 1) if asked.up_to_time is not None else 0
    except ValueError:
        return [(MALFORMED, b"")]
    if asked.multi_last:
        return _multi(asset, asked, until, send_row)
    if asked.batch:
        return _batch(asset, asked, start, send_row)
    return [_one(asset, find_seq(asset.store, asked, start), asked.no_hdr)]


def _one(asset: Any, seq: int, no_headers: bool) -> Reply:
    found = asset.store.get(seq) if seq else None
    if found is None:
        return NOT_FOUND, b""
    return (b"" if no_headers else _block(asset.config.name, found, b"")), found.payload


def _block(stream: str, found: Any, tail: bytes) -> bytes:
    """The stored headers, then where the message was found."""
    head = found.headers[:-2] if found.headers else b"NATS/1.0\r\n"
    note = b"Nats-Stream: %s\r\nNats-Subject: %s\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %s\r\n"
    where = (stream.encode(), found.subject, found.seq, rfc3339(found.time_ns).encode())
    return head + note % where + tail + b"\r\n"


def _batch(
    asset: Any, asked: MsgGetRequest, start: int, send_row: SendRow | None
) -> Iterator[Reply]:
    store = asset.store
    chosen = store.filter([asked.next_by_subj.encode()]) if asked.next_by_subj else None
    first = store.seq_at_time(start) if start else max(asked.seq, 1)
    seqs = store.next_seqs(first, max(asked.batch, 0), chosen)
    pending = store.count_from(first, chosen)
    if not pending:
        return iter([(NOT_FOUND, b"")])
    return _row(asset, asked, seqs, pending, b"", send_row)


def _multi(
    asset: Any, asked: MsgGetRequest, until: int, send_row: SendRow | None
) -> "list[Reply] | Iterator[Reply]":
    store = asset.store
    up_to = asked.up_to_seq or store.last_seq
    if until:
        up_to = store.seq_at_time(until) - 1
    if up_to <= 0:
        return [(NO_RESULTS, b"")]
    chosen = store.filter([subject.encode() for subject in asked.multi_last])
    seqs = store.last_seqs(chosen, up_to, SUBJECTS_MAX + 1)
    if len(seqs) > SUBJECTS_MAX:
        return [(TOO_MANY, b"")]
    if asked.seq:
        seqs = seqs[:0] + type(seqs)("Q", [seq for seq in seqs if seq >= asked.seq])
    if not seqs:
        return [(NO_RESULTS, b"")]
    pending = len(seqs)
    shown = seqs[: asked.batch] if asked.batch > 0 else seqs
    end_tail = b"Nats-UpTo-Sequence: %d\r\n" % up_to
    return _row(asset, asked, shown, pending, end_tail, send_row)


def _row(
    asset: Any,
    asked: MsgGetRequest,
    seqs: Any,
    pending: int,
    end_tail: bytes,
    send_row: SendRow | None,
) -> Iterator[Reply]:
    """Messages until the byte limit is reached, then the end marker."""
    name = asset.config.name
    room = asked.max_bytes if asked.max_bytes > 0 else BYTES_MAX
    previous = 0
    if send_row is not None and not asked.no_hdr:
        pending, previous, room = send_row(seqs, pending, room)
        seqs = ()
    for seq in seqs:
        found = asset.store.get(seq)
        if found is None:
            continue
        # The reference does not count what it sends without headers; neither do we.
        pending -= not asked.no_hdr
        tail = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (pending, previous)
        yield (b"" if asked.no_hdr else _block(name, found, tail)), found.payload
        previous = seq
        room -= len(found.subject) + len(found.headers) + len(found.payload)
        if room <= 0:
            break
    end = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n%s\r\n"
    yield end % (max(pending, 0), previous, end_tail), b""
