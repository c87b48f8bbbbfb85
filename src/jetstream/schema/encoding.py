"""Structs to JSON bytes exactly as the reference prints them.

Field order is the order in the Struct. A field that is *always* printed has a factory as its
default (`always(0)`), because `omit_defaults` leaves out only fields whose default is a plain value
or an empty builtin collection. Go escapes `<`, `>` and `&` inside strings; so do we, to be
byte-exact for tools that compare.
"""

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def always(value: T) -> T:
    """A default that `omit_defaults` keeps in the JSON. Only for immutable values."""
    return msgspec.field(default_factory=lambda: value)


def to_json(value: Any) -> bytes:
    """JSON bytes of any Struct or builtin, escaped as Go does."""
    return escape(_encoder.encode(value))


def escape(raw: bytes) -> bytes:
    # The three characters occur only inside JSON strings, so a plain replace is safe.
    if b">" in raw:
        raw = raw.replace(b">", b"\\u003e")
    if b"<" in raw:
        raw = raw.replace(b"<", b"\\u003c")
    if b"&" in raw:
        raw = raw.replace(b"&", b"\\u0026")
    if b"\xe2\x80" in raw:
        raw = raw.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return raw
