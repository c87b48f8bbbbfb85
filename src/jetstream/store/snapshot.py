"""Backups as the reference writes and reads them (archive version 2).

Outside, S2 framing: chunks of a type byte, a 24-bit little-endian length and data.

    ff  "S2sTwO" or "sNaPpY"              the stream begins
    00  masked crc32c (4), S2 block       01  masked crc32c (4), plain bytes      80-fe  skipped

Inside, "NATSARC1" and entries, the last of them all zeros:

    uvarint name length, zig-zag varint time (ns), uvarint sequence, uvarint header size,
    uvarint payload size, name, headers, payload

`state.json` comes first, then `consumers/<name>`, then the messages by sequence. We write plain
chunks only: every reader takes them, and no compressor is needed.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from jetstream.errors import StoreError
from jetstream.store._crc import crc32c
from jetstream.store._s2 import BLOCK_BYTES_MAX, decode_block
from jetstream.store.base import StoredMessage

MAGIC: Final = b"NATSARC1"
IDENTIFIER: Final = b"\xff\x06\x00\x00S2sTwO"
CHUNK_BYTES: Final = 64 * 1024
ENTRY_BYTES_MAX: Final = 128 * 1024 * 1024
STATE: Final = "state.json"
CONSUMERS: Final = "consumers/"


class Entry(Struct, frozen=True):
    """One thing in an archive; messages have a sequence, the others none."""

    name: str
    time_ns: int
    seq: int
    headers: bytes
    payload: bytes


# -- writing ----------------------------------------------------------------------------------


def pack_archive(
    state_json: bytes,
    consumers: Iterable[tuple[str, bytes]],
    messages: Iterable[StoredMessage],
) -> Iterator[bytes]:
    """The framed archive in pieces, made while they are taken."""
    yield IDENTIFIER
    buffer = bytearray(MAGIC)
    for entry in _entries(state_json, consumers, messages):
        buffer += entry
        while len(buffer) >= CHUNK_BYTES:
            yield _chunk(bytes(buffer[:CHUNK_BYTES]))
            del buffer[:CHUNK_BYTES]
    yield _chunk(bytes(buffer))


def _entries(
    state_json: bytes,
    consumers: Iterable[tuple[str, bytes]],
    messages: Iterable[StoredMessage],
) -> Iterator[bytes]:
    yield _entry(STATE.encode(), 0, 0, b"", state_json)
    for name, body in consumers:
        yield _entry(CONSUMERS.encode() + name.encode(), 0, 0, b"", body)
    for message in messages:
        yield _entry(
            message.subject, message.time_ns, message.seq, message.headers, message.payload
        )
    yield bytes(5)


def _entry(name: bytes, time_ns: int, seq: int, headers: bytes, payload: bytes) -> bytes:
    zigzag = time_ns << 1 if time_ns >= 0 else (-time_ns << 1) - 1
    numbers = (len(name), zigzag, seq, len(headers), len(payload))
    return b"".join(map(_uvarint, numbers)) + name + headers + payload


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _chunk(data: bytes) -> bytes:
    body = _masked(data).to_bytes(4, "little") + data
    return b"\x01" + len(body).to_bytes(3, "little") + body


def _masked(data: bytes) -> int:
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


# -- reading ----------------------------------------------------------------------------------


class ArchiveReader:
    """Takes an archive in pieces of any size and gives its entries as they complete."""

    def __init__(self) -> None:
        self._framed = bytearray()
        self._plain = bytearray()
        self._begun = False
        self.finished = False

    def feed(self, data: bytes) -> list[Entry]:
        """The entries these bytes completed; StoreError when they are not an archive."""
        self._framed += data
        while self._unframe():
            pass
        entries = []
        while (entry := self._next_entry()) is not None:
            entries.append(entry)
        return entries

    def _unframe(self) -> bool:
        framed = self._framed
        if len(framed) < 4:
            return False
        kind, size = framed[0], int.from_bytes(framed[1:4], "little")
        if size > BLOCK_BYTES_MAX + 1024:
            raise StoreError("archive: chunk too long")
        if len(framed) < 4 + size:
            return False
        body = bytes(framed[4 : 4 + size])
        del framed[: 4 + size]
        if kind == 0xFF:
            if body not in (b"S2sTwO", b"sNaPpY"):
                raise StoreError("archive: not S2 framing")
        elif kind in (0, 1):
            plain = decode_block(body[4:]) if kind == 0 else body[4:]
            if _masked(plain) != int.from_bytes(body[:4], "little"):
                raise StoreError("archive: checksum mismatch")
            self._plain += plain
        elif kind < 0x80:
            raise StoreError(f"archive: unknown chunk type {kind:#x}")
        return True

    def _next_entry(self) -> Entry | None:
        plain = self._plain
        if not self._begun:
            if len(plain) < len(MAGIC):
                return None
            if plain[: len(MAGIC)] != MAGIC:
                raise StoreError("archive: version not supported")
            del plain[: len(MAGIC)]
            self._begun = True
        if self.finished or not plain:
            return None
        numbers, at = [], 0
        for _ in range(5):
            read = _read_uvarint(plain, at)
            if read is None:
                return None
            numbers.append(read[0])
            at = read[1]
        name_len, zigzag, seq, header_len, payload_len = numbers
        if max(name_len, header_len, payload_len) > ENTRY_BYTES_MAX:
            raise StoreError("archive: entry too long")
        if name_len == 0:
            self.finished = True
            return None
        end = at + name_len + header_len + payload_len
        if len(plain) < end:
            return None
        entry = Entry(
            name=bytes(plain[at : at + name_len]).decode("utf-8", "surrogateescape"),
            time_ns=zigzag >> 1 if zigzag & 1 == 0 else -(zigzag >> 1) - 1,
            seq=seq,
            headers=bytes(plain[at + name_len : at + name_len + header_len]),
            payload=bytes(plain[at + name_len + header_len : end]),
        )
        del plain[:end]
        return entry


def _read_uvarint(data: bytearray, at: int) -> tuple[int, int] | None:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise StoreError("archive: bad number")
    return None
