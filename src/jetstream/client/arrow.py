"""Batches of messages as Arrow tables (needs pyarrow, which is imported only here).

Columns: subject, seq, time (ns, UTC), deliveries, headers (map), data. Numbers come out of the ack
subjects in one pass; payloads are copied once, into Arrow's own buffer.
"""

from array import array
from collections.abc import Sequence
from typing import Any

from jetstream.client.message import JetStreamMessage


def messages_to_arrow(messages: Sequence[JetStreamMessage]) -> Any:
    """A pyarrow table of these messages, in their order."""
    import pyarrow as pa

    seqs = array("Q", [message.seq for message in messages])
    times = array("q", [message.time_ns for message in messages])
    counts = array("I", [message.deliveries for message in messages])
    headers = [_pairs(message) for message in messages]
    return pa.table(
        {
            "subject": _strings(pa, [message.subject_bytes for message in messages]),
            "seq": pa.Array.from_buffers(pa.uint64(), len(seqs), [None, pa.py_buffer(seqs)]),
            "time": pa.Array.from_buffers(
                pa.timestamp("ns", "UTC"), len(times), [None, pa.py_buffer(times)]
            ),
            "deliveries": pa.Array.from_buffers(
                pa.uint32(), len(counts), [None, pa.py_buffer(counts)]
            ),
            "headers": pa.array(headers, pa.map_(pa.string(), pa.string())),
            "data": _binary(pa, [message.data for message in messages]),
        }
    )


def _pairs(message: JetStreamMessage) -> list[tuple[str, str]] | None:
    found = message.headers
    if found is None:
        return None
    return [(name, value) for name, values in found.items() for value in values]


def _offsets(parts: list[bytes]) -> "array[int]":
    at = 0
    offsets = array("q", [0])
    for part in parts:
        at += len(part)
        offsets.append(at)
    return offsets


def _binary(pa: Any, parts: list[bytes]) -> Any:
    buffers = [None, pa.py_buffer(_offsets(parts)), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.large_binary(), len(parts), buffers)


def _strings(pa: Any, parts: list[bytes]) -> Any:
    buffers = [None, pa.py_buffer(_offsets(parts)), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.large_string(), len(parts), buffers)
