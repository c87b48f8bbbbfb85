"""What a consumer must remember: a snapshot, and notes of what changed since.

A snapshot is a head and the pending table; a note is a row of small operations, each a letter and
its numbers, ending with the new head. Notes are replayed in order on top of the snapshot. All
numbers are little-endian 64 bit; sequences are packed as (first, count) runs.

    H head                 delivered ×2, floor ×2, scan, last delivered, last ack
    D delivered            time, first consumer seq, runs
    R delivered again      time, runs
    S settled              runs
    G given up             runs
    N delayed              seq, due (1: due at once)
    T touched (+WPI)       seq, time
    K held in a lane       runs
    C cleared
    F firsts               what is left of the last_per_subject list, runs
    U given up, restored   seq, deliveries
    P pending table        dump
"""

import struct
from array import array
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from jetstream.consumer._pending import pack_runs, unpack_runs

_HEAD: Final = struct.Struct("<7Q")
_LENGTH: Final = struct.Struct("<cI")
_TWO: Final = struct.Struct("<2Q")


class Head(Struct, frozen=True):
    """The few numbers every note ends with."""

    consumer_seq: int = 0
    stream_seq: int = 0
    floor_consumer: int = 0
    floor_stream: int = 0
    scan: int = 1
    last_delivered: int = 0
    last_ack: int = 0


class Operation(Struct, frozen=True):
    """One remembered change, unpacked."""

    what: bytes
    seqs: "array[int]"
    first: int = 0
    second: int = 0
    dump: bytes = b""
    head: Head | None = None


def _operation(what: bytes, body: bytes) -> bytes:
    return _LENGTH.pack(what, len(body)) + body


def head(value: Head) -> bytes:
    return _operation(
        b"H",
        _HEAD.pack(
            value.consumer_seq,
            value.stream_seq,
            value.floor_consumer,
            value.floor_stream,
            value.scan,
            value.last_delivered,
            value.last_ack,
        ),
    )


def delivered(seqs: "array[int]", first_consumer_seq: int, now: int) -> bytes:
    return _operation(b"D", _TWO.pack(now, first_consumer_seq) + pack_runs(seqs))


def delivered_again(seqs: "array[int]", now: int) -> bytes:
    return _operation(b"R", _TWO.pack(now, 0) + pack_runs(seqs))


def runs(what: bytes, seqs: "array[int]") -> bytes:
    """S, G, K and F: an operation that is a row of sequences."""
    return _operation(what, pack_runs(seqs))


def pair(what: bytes, first: int, second: int) -> bytes:
    """N, T and U: an operation that is two numbers."""
    return _operation(what, _TWO.pack(first, second))


def table(dump: bytes) -> bytes:
    return _operation(b"P", dump)


CLEARED: Final = _operation(b"C", b"")


def operations(note: bytes) -> Iterator[Operation]:
    """The operations of a snapshot or note, in order."""
    none: array[int] = array("Q")
    at = 0
    while at < len(note):
        what, length = _LENGTH.unpack_from(note, at)
        at += _LENGTH.size
        body = note[at : at + length]
        at += length
        if what == b"H":
            yield Operation(what, none, head=Head(*_HEAD.unpack(body)))
        elif what in (b"D", b"R"):
            first, second = _TWO.unpack_from(body)
            yield Operation(what, unpack_runs(body[_TWO.size :]), first, second)
        elif what in (b"N", b"T", b"U"):
            first, second = _TWO.unpack(body)
            yield Operation(what, none, first, second)
        elif what == b"P":
            yield Operation(what, none, dump=body)
        else:
            yield Operation(what, unpack_runs(body))
