"""Whole frames of columns: the bulk read and write of our own server. Other servers have neither.

A read asks for a handful of frames at a time and for the next handful as soon as the last one is
here, before it hands anything on: the server fills the wire while Spark works. Each frame is cut
into the pieces Arrow wants without looking at a row, so this way is fast in pure Python as well.
"""

import json
import struct
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from jetstream.client.columns import Taken
from jetstream.client.pipe import NoResponders, Pipe, lease
from jetstream.errors import ApiError, JetStreamError, ProtocolError, Refusal
from jetstream.spark.control import Control
from jetstream.spark.readers import SILENCE_S, Chunk, Stalled, Wanted, resuming

FRAMES = 4
FRAME_BYTES = 1 << 20
HEAD = struct.Struct("<8sIIQIIQQQQ")


def segments(control: Control, stream: str, timeout: float = 2.0) -> dict[str, Any]:
    """The stream's segment files, as the server lists them."""
    with lease(control.target) as pipe:
        return pipe.api(f"$JSX.API.SEGMENTS.{stream}", timeout=timeout)


def split(
    control: Control, stream: str, lo: int, hi: int, parts: int, filters: tuple[str, ...]
) -> tuple[int, tuple[int, ...]]:
    """(messages, cuts) of a range, from the server's index."""
    body = {"start": lo, "end": hi, "parts": parts, "filters": list(filters)}
    with lease(control.target) as pipe:
        answer = pipe.api(f"$JSX.API.SPLIT.{stream}", body)
    return int(answer["rows"]), tuple(answer["cuts"])


def read_bulk(control: Control, wanted: Wanted) -> Iterator[Taken]:
    """Through bulk reads."""
    return resuming(control, wanted, _bulk_pass)


def _bulk_pass(control: Control, pipe: Pipe, wanted: Wanted, at: int) -> Iterator[Chunk]:
    sid = pipe.subscribe(inbox := pipe.new_inbox())
    subject = f"$JSX.API.BULK.READ.{wanted.stream}"

    def ask(start: int) -> None:
        body = {
            "start": start,
            "end": wanted.hi,
            "filters": list(wanted.filters),
            "headers": wanted.headers,
            "data": wanted.data,
            "frames": FRAMES,
            "frame_bytes": FRAME_BYTES,
        }
        pipe.publish(subject, json.dumps(body).encode(), inbox)

    try:
        ask(at)
        while at:
            burst: list[bytes] = []
            while at and len(burst) < FRAMES:
                burst.append(_frame(pipe, sid, wanted.stream))
                at = int.from_bytes(burst[-1][16:24], "little")
            if at:
                ask(at)
            for frame in burst:
                taken, following = unpack(frame)
                if taken[0]:
                    yield taken, (following or wanted.hi + 1) - 1
    finally:
        if pipe.is_open:
            pipe.unsubscribe(sid)


def _frame(pipe: Pipe, sid: int, stream: str) -> bytes:
    until = time.monotonic() + SILENCE_S
    while True:
        found = pipe.next_message(until)
        if found is None:
            raise Stalled(f"no frame of {stream} for {SILENCE_S:g} s")
        if found[0] != sid:
            continue
        message = found[1]
        if message.status == 503:
            raise NoResponders("this server has no bulk reads")
        if message.payload[:1] == b"{":
            error = json.loads(message.payload)["error"]
            raise ApiError(Refusal(error["code"], error["err_code"], error["description"]))
        return message.payload


def unpack(frame: bytes | bytearray) -> tuple[Taken, int]:
    """(columns, where to go on or 0); the layout is drawn in `store/_frames.pyx`."""
    if len(frame) < HEAD.size or frame[:8] != b"JSCOLS01":
        raise ProtocolError(f"not a frame of columns: {bytes(frame[:16])!r}")
    _, rows, names, next_seq, _, _, name_bytes, header_bytes, payload_bytes, _ = HEAD.unpack_from(
        frame
    )
    view = memoryview(frame)
    ends = (rows + 1) * 4
    sizes = (
        rows * 8,
        rows * 8,
        rows * 4,
        ends,
        ends,
        (names + 1) * 4,
        name_bytes,
        header_bytes,
        payload_bytes,
    )
    pieces: list[memoryview] = []
    at = HEAD.size
    for size in sizes:
        if at + size > len(frame):
            raise ProtocolError(f"a frame of columns of {len(frame)} bytes ends too early")
        pieces.append(view[at : at + size])
        at += -(-size // 8) * 8
    seqs, times, numbers, payload_ends, header_ends, name_ends, texts, headers, payloads = pieces
    subject_ends, subjects = _spelled(rows, names, numbers, name_ends, texts)
    taken = (
        rows,
        subject_ends,
        subjects,
        payload_ends,
        payloads,
        seqs,
        times,
        header_ends,
        headers,
    )
    return taken, next_seq


def _spelled(rows: int, names: int, numbers: Any, name_ends: Any, texts: Any) -> tuple[Any, Any]:
    """Subjects written out: every row's number replaced by its name."""
    words = pa.Array.from_buffers(
        pa.binary(), names, [None, pa.py_buffer(name_ends), pa.py_buffer(texts)]
    )
    index = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(numbers)])
    _, ends, data = words.take(index).buffers()
    return ends if ends is not None else b"\0\0\0\0", data if data is not None else b""


def write_frame(pipe: Pipe, stream: str, frames: bytes, timeout: float = 30.0) -> dict[str, Any]:
    """PUB and HPUB frames in one request; what became of them."""
    answer = json.loads(
        pipe.request(f"$JSX.API.BULK.WRITE.{stream}", frames, timeout=timeout).payload
    )
    if "error" in answer:
        raise JetStreamError(f"bulk write: {answer['error'].get('description')}")
    assert isinstance(answer, dict)
    return answer
