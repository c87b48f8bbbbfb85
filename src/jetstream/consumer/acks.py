"""+ACK -NAK +WPI +NXT +TERM understood.

A client answers a delivery by publishing to the delivery's reply subject. The subject names the
message, the body says what became of it:

    $JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>     v1
    $JS.ACK.<domain>.<account hash>.<stream>.<consumer>.<deliveries>.….<pending>[.<random>]   v2
    $JS.A.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>                        2019

The broker's kernel parses a whole buffer of them into an `AckRun`; `parse_ack` is the readable
description of the same and its test oracle.
"""

from array import array
from typing import Final

import msgspec
from msgspec import Struct, field

from jetstream.clock import HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND

ACK: Final = 0
NAK: Final = 1
PROGRESS: Final = 2
NEXT: Final = 3
TERM: Final = 4
UNKNOWN: Final = 5

_BODIES: Final = (
    (b"+ACK", ACK),
    (b"-NAK", NAK),
    (b"+WPI", PROGRESS),
    (b"+NXT", NEXT),
    (b"+TERM", TERM),
)


class AckRun(Struct):
    """The acks of one read buffer for one consumer, as columns; row i is one ack."""

    kinds: "array[int]" = field(default_factory=lambda: array("B"))
    stream_seqs: "array[int]" = field(default_factory=lambda: array("Q"))
    consumer_seqs: "array[int]" = field(default_factory=lambda: array("Q"))
    deliveries: "array[int]" = field(default_factory=lambda: array("Q"))
    bodies: dict[int, bytes] = field(default_factory=dict)
    """Row → whole body, for the kinds that carry an argument."""
    replies: dict[int, bytes] = field(default_factory=dict)
    """Row → where the confirmation goes, for acks that were requests."""

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def plain(self) -> bool:
        """Nothing but +ACK in it."""
        return not any(self.kinds)

    def add(self, ack: "Ack", reply: bytes = b"") -> None:
        """Append one row."""
        row = len(self.kinds)
        self.kinds.append(ack.kind)
        self.stream_seqs.append(ack.stream_seq)
        self.consumer_seqs.append(ack.consumer_seq)
        self.deliveries.append(ack.deliveries)
        if ack.argument:
            self.bodies[row] = ack.argument
        if reply:
            self.replies[row] = reply


class Ack(Struct, frozen=True):
    """One ack, taken apart. `argument` is the body after its verb, without the blank."""

    stream: str
    consumer: str
    kind: int
    stream_seq: int
    consumer_seq: int
    deliveries: int
    argument: bytes = b""
    account_hash: str = ""


def parse_kind(payload: bytes) -> tuple[int, bytes]:
    """What a body says: the kind and its argument. An empty body and the old `+OK` are acks."""
    if payload in (b"", b"+OK"):
        return ACK, b""
    for verb, kind in _BODIES:
        if payload.startswith(verb):
            return kind, payload[len(verb) :].strip()
    return UNKNOWN, b""


def parse_ack(subject: bytes, payload: bytes) -> Ack | None:
    """Take an ack apart; None if the subject is not one."""
    tokens = subject.split(b".")
    account_hash = ""
    if tokens[:2] == [b"$JS", b"A"] and len(tokens) == 7:
        rest = tokens[2:]
    elif tokens[:2] != [b"$JS", b"ACK"]:
        return None
    elif len(tokens) == 9:
        rest = tokens[2:]
    elif len(tokens) >= 11:
        account_hash = tokens[3].decode("ascii", "replace")
        rest = tokens[4:]
    else:
        return None
    numbers = rest[2:5]
    if not all(number.isdigit() for number in numbers):
        return None
    deliveries, stream_seq, consumer_seq = (int(number) for number in numbers)
    kind, argument = parse_kind(payload)
    return Ack(
        rest[0].decode("utf-8", "replace"),
        rest[1].decode("utf-8", "replace"),
        kind,
        stream_seq,
        consumer_seq,
        deliveries,
        argument,
        account_hash,
    )


_UNITS: Final = {
    "ns": 1,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}


class _NakOptions(Struct):
    delay: int = 0


def nak_delay(argument: bytes) -> int | None:
    """The delay a -NAK asks for in nanoseconds; None when it asks for none, or for nonsense.

    Either JSON (`{"delay": 5000000000}`) or a Go duration (`1h2m3.5s`).
    """
    if not argument:
        return None
    if argument.startswith(b"{"):
        try:
            return msgspec.json.decode(argument, type=_NakOptions).delay or None
        except msgspec.MsgspecError:
            return None
    return _duration(argument.decode("utf-8", "replace"))


def _duration(text: str) -> int | None:
    rest = text.lstrip("+")
    total = 0.0
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        number, rest = rest[:digits], rest[digits:]
        letters = len(rest) - len(rest.lstrip("nuµmsh"))
        unit, rest = rest[:letters], rest[letters:]
        if unit not in _UNITS or number.count(".") > 1 or not number.strip("."):
            return None
        total += float(number) * _UNITS[unit]
    return round(total) or None
