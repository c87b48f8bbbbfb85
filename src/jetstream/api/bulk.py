"""Bulk work on whole ranges of a stream, below `$JSX.API.`: for Spark and other heavy readers.

    BULK.READ.<stream>    {"start", "end", "filters", "headers", "data", "frames", "frame_bytes"}
                          up to `frames` frames of columns (drawn in `store/_frames.pyx`) on the
                          reply; each says where to go on, so the reader asks for more when it
                          wants more: credit without state on our side
    BULK.WRITE.<stream>   PUB and HPUB frames as they would be sent one by one; one answer for all
    SEGMENTS.<stream>     the segment files with their ranges, for readers that see the disk
    SPLIT.<stream>        {"start", "end", "parts", "filters"}: parts of about equal weight

Everything else about them is ordinary: one request, answers on the reply, errors as JSON.
"""

from typing import Any, Final

from msgspec import Struct, field, to_builtins

from jetstream.api.route import ApiRequest
from jetstream.errors import ApiError
from jetstream.schema.api_errors import BAD_REQUEST, STREAM_NOT_FOUND
from jetstream.schema.decoding import decode
from jetstream.schema.encoding import to_json
from jetstream.schema.times import rfc3339
from jetstream.store import segments
from jetstream.stream.values import Stored
from jetstream.subjects.match import matches
from jetstream.wire._parser import Parser
from jetstream.wire.operations import Kind, Role

PREFIX: Final = "$JSX.API."
FRAMES_MAX: Final = 16
FRAME_BYTES: Final = 1 << 20
FRAME_BYTES_MAX: Final = 8 << 20
PARTS_MAX: Final = 10_000
ERRORS_MAX: Final = 100


class ReadRequest(Struct):
    start: int = 1
    end: int = 0
    filters: list[str] = field(default_factory=list)
    headers: bool = False
    data: bool = True
    frames: int = 4
    frame_bytes: int = FRAME_BYTES


class SplitRequest(Struct):
    start: int = 1
    end: int = 0
    parts: int = 1
    filters: list[str] = field(default_factory=list)


def reply(engine: Any, account: Any, js: Any, request: ApiRequest) -> bool | None:
    """Answer a bulk request; None: it is not one, False: nobody is there."""
    tokens = request.subject.removeprefix(PREFIX).split(".")
    verb, names = (
        (".".join(tokens[:2]), tokens[2:]) if tokens[0] == "BULK" else (tokens[0], tokens[1:])
    )
    handler = _HANDLERS.get(verb)
    if handler is None or len(names) != 1:
        return None
    if js is None or not request.reply:
        return False
    try:
        asset = js.streams.get(names[0])
        if asset is None:
            raise ApiError(STREAM_NOT_FOUND)
        handler(engine, account, asset, request)
    except ApiError as error:
        told = {"code": error.code, "err_code": error.err_code, "description": error.description}
        engine.send(account, request.reply, to_json({"error": told}))
    return True


def _read(engine: Any, account: Any, asset: Any, request: ApiRequest) -> None:
    wanted = decode(request.payload or b"{}", ReadRequest)
    store = asset.store
    end = min(wanted.end or store.last_seq, store.last_seq)
    chosen = store.filter([f.encode() for f in wanted.filters]) if wanted.filters else None
    at = max(wanted.start, 1)
    size = min(max(wanted.frame_bytes, 4096), FRAME_BYTES_MAX)
    for _ in range(min(max(wanted.frames, 1), FRAMES_MAX)):
        frame = segments.read_frames(
            store, at, end, chosen, size, headers=wanted.headers, payloads=wanted.data
        )
        at = int.from_bytes(frame[16:24], "little")
        engine.send(account, request.reply, bytes(frame))
        if at == 0:
            return


def _split(engine: Any, account: Any, asset: Any, request: ApiRequest) -> None:
    wanted = decode(request.payload or b"{}", SplitRequest)
    if not 1 <= wanted.parts <= PARTS_MAX:
        raise ApiError(BAD_REQUEST)
    store = asset.store
    end = min(wanted.end or store.last_seq, store.last_seq)
    start = max(wanted.start, store.first_seq, 1)
    chosen = store.filter([f.encode() for f in wanted.filters]) if wanted.filters else None
    ranges = segments.split_range(store, start, end, wanted.parts, chosen)
    rows = store.count_from(start, chosen) - store.count_from(end + 1, chosen) if ranges else 0
    cuts = [last for _, last in ranges[:-1]]
    engine.send(account, request.reply, to_json({"rows": rows, "cuts": cuts}))


def _segments(engine: Any, account: Any, asset: Any, request: ApiRequest) -> None:
    store = asset.store
    shown = [to_builtins(part) for part in segments.parts(store)]
    answer = {
        "stream": asset.config.name,
        "created": rfc3339(asset.created_ns),
        "storage": asset.config.storage,
        "store_dir": engine.store_dir,
        "synced_seq": getattr(store, "synced_seq", 0),
        "segments": shown,
    }
    engine.send(account, request.reply, to_json(answer))


def _write(engine: Any, account: Any, asset: Any, request: ApiRequest) -> None:
    """Publish a frame of messages in one go; the answer waits for the disk like any other."""
    desk = engine.desks.get(id(asset))
    if desk is None:
        raise ApiError(STREAM_NOT_FOUND)
    parser = Parser(Role.SERVER)
    parser.headers_agreed = True
    parser.payload_max = engine.max_payload
    parser.feed(request.payload)
    stored = duplicates = last_seq = at = 0
    errors: list[dict[str, Any]] = []
    allowed: dict[bytes, bool] = {}
    while (batch := parser.next_batch()) is not None:
        count = len(batch)
        _check_subjects(asset, request.client, batch, allowed)
        for outcome in asset.stream.publish(batch, 0, count, engine.now()):
            if type(outcome) is Stored:
                stored += outcome.stop - outcome.start
                last_seq = outcome.first_seq + outcome.stop - outcome.start - 1
            elif outcome.ack is None or b'"error"' in outcome.ack:
                if len(errors) < ERRORS_MAX:
                    errors.append({"row": at + outcome.index, "ack": (outcome.ack or b"").decode()})
            elif b'"duplicate"' in outcome.ack:
                duplicates += 1
            else:
                stored += 1
                last_seq = asset.store.last_seq
        at += count
        Parser.done(batch)
    desk.fresh = True
    desk.touch()
    answer = {
        "rows": at,
        "stored": stored,
        "duplicates": duplicates,
        "last_seq": last_seq,
        "errors": errors,
    }
    desk.confirm(request.reply, to_json(answer), True)


def _check_subjects(asset: Any, client: Any, batch: Any, allowed: dict[bytes, bool]) -> None:
    """Every subject must be one of the stream's, and one this client may publish to."""
    patterns = [s.encode() for s in asset.config.subjects or ()]
    permissions = getattr(client, "permissions", None)
    for i in range(len(batch)):
        if batch.kind(i) not in (Kind.PUB, Kind.HPUB):
            raise ApiError(BAD_REQUEST)
        subject = batch.subject(i)
        if subject in allowed:
            continue
        fits = any(matches(pattern, subject) for pattern in patterns)
        if not fits or (permissions is not None and not permissions.can_publish(subject)):
            raise ApiError(BAD_REQUEST)
        allowed[subject] = True


_HANDLERS: Final = {
    "BULK.READ": _read,
    "BULK.WRITE": _write,
    "SEGMENTS": _segments,
    "SPLIT": _split,
}
