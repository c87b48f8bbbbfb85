"""Taking messages over from another stream: which of them, and under which subject and headers.

A mirror copies exactly; a source appends with its own sequences and notes the origin in a header:

    Nats-Stream-Source: <stream>[:<hash>] <origin seq> <filters> <destinations> <subject> <identity>

Several filters or destinations are separated by form feeds.

After a restart the position of a source is found in the last of these headers.
"""

import hashlib
from typing import Final

from jetstream.schema.stream import StreamSource
from jetstream.stream import headers as h
from jetstream.subjects.transform import SubjectTransform
from jetstream.wire.headers import get_header, with_header

_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Control headers were meant for the origin; they would say something false here.
_NOT_TAKEN: Final = (b"Nats-Expected-", b"Nats-Batch-")
_NOT_TAKEN_BY_SOURCES: Final = (*_NOT_TAKEN, b"Nats-Stream-Source:", b"Nats-Schedule")


def short_hash(text: str) -> str:
    """Eight letters that stand for a longer text."""
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_LETTERS[byte % 62] for byte in digest[:8])


class Takeover:
    """One mirror or source, compiled."""

    __slots__ = ("_destinations", "_filters", "_name", "_transforms", "filters", "source")

    def __init__(self, source: StreamSource) -> None:
        self.source = source
        changes = source.subject_transforms
        self._transforms = [SubjectTransform(t.src, t.dest) for t in changes]
        if changes:
            self.filters = [(t.src or ">").encode() for t in changes]
            self._destinations = "\f".join(t.dest or ">" for t in changes).encode()
        else:
            self.filters = [source.filter_subject.encode()] if source.filter_subject else []
            self._destinations = b">"
        self._filters = b"\f".join(self.filters) or b">"
        self._name = source.name.encode()
        if source.external is not None and source.external.api:
            self._name += b":" + short_hash(source.external.api).encode()

    def subject(self, origin: bytes) -> bytes:
        """The subject a message gets here."""
        if not self._transforms:
            return origin
        text = origin.decode("utf-8", "surrogateescape")
        for transform in self._transforms:
            made = transform.transform(text)
            if made is not None:
                return made.encode("utf-8", "surrogateescape")
        return origin

    @staticmethod
    def mirrored_headers(block: bytes) -> bytes:
        if b"\r\nNats-Expected-" not in block and b"\r\nNats-Batch-" not in block:
            return block
        return h.drop_headers(block, (), _NOT_TAKEN)

    def sourced_headers(self, block: bytes, seq: int, subject: bytes, identity: str) -> bytes:
        if b"\r\nNats-" in block:
            block = h.drop_headers(block, (), _NOT_TAKEN_BY_SOURCES)
        note = b"%s %d %s %s %s %s" % (
            self._name,
            seq,
            self._filters,
            self._destinations,
            subject,
            identity.encode(),
        )
        return with_header(block, h.STREAM_SOURCE, note)

    def position_in(self, block: bytes) -> int:
        """The origin sequence noted in a stored message, 0 when it came from elsewhere."""
        note = get_header(block, h.STREAM_SOURCE)
        if note is None:
            return 0
        parts = note.split(b" ")
        if len(parts) < 4 or parts[0] != self._name or not parts[1].isdigit():
            return 0
        if (parts[2], parts[3]) != (self._filters, self._destinations):
            return 0
        return int(parts[1])
