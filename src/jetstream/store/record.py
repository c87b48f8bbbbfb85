"""One record of the log, said plainly: the oracle of the kernel `_record.pyx`.

     0  u32  crc32c of everything that follows in the record, seeded with the segment's identity
     4  u32  length of the record from its first byte, without padding
     8  u32  low half of the sequence; the segment's first sequence gives the rest
    12  u8   kind            13  u8  flags           14  u16  length of the subject
    16  i64  time, unix nanoseconds
    24  u32  length of the header block   (only with WITH_HEADERS)
        i64  time of expiry               (only with WITH_EXPIRY)
        subject, header block, payload, zeros up to a multiple of 4

All numbers are little-endian. The checksum is seeded with `segment_seed(stream uid, first
sequence)`, so a record of another stream, or of another segment, never passes as ours. The subject
stands in every record, not in a table: a damaged record then costs that record and nothing else.
"""

import struct
from enum import IntEnum, IntFlag

from msgspec import Struct

from jetstream.store._crc import crc32c

HEAD = 24
ALIGN = 4
NEVER = (1 << 63) - 1
"""`expires_at` of a message that not even max_age removes."""

_HEAD = struct.Struct("<IIIBBHq")
_RANGE = struct.Struct("<QQ")


class Kind(IntEnum):
    """What a record says."""

    MESSAGE = 1
    TOMBSTONE = 2  # pairs (first, last) of removed sequences; always written twice
    TRUNCATE = 3  # u64: everything below this sequence is gone
    SKIP = 4  # one pair: sequences that were given out but hold nothing
    LOST = 5  # one pair: sequences whose records were damaged and are gone
    CONFIG = 6  # the stream's new configuration, JSON
    EVICTED = 7  # u64 base, u32 distances: messages that max_msgs_per_subject removed


class Flags(IntFlag):
    WITH_HEADERS = 1
    WITH_EXPIRY = 2
    ERASED = 4


class Record(Struct, frozen=True, gc=False):
    """One decoded record."""

    kind: int
    seq: int
    time_ns: int
    subject: bytes = b""
    headers: bytes = b""
    payload: bytes = b""
    expires_at: int = 0
    flags: int = 0


def segment_seed(uid: bytes, first_seq: int) -> int:
    """Where the checksums of one segment's records start from."""
    return crc32c(uid + first_seq.to_bytes(8, "little"))


def padded(length: int) -> int:
    return -(-length // ALIGN) * ALIGN


def pack(seed: int, record: Record) -> bytes:
    """The record as bytes, padding included."""
    flags = 0
    extra = b""
    if record.headers:
        flags |= Flags.WITH_HEADERS
        extra += struct.pack("<I", len(record.headers))
    if record.expires_at:
        flags |= Flags.WITH_EXPIRY
        extra += struct.pack("<q", record.expires_at)
    body = extra + record.subject + record.headers + record.payload
    length = HEAD + len(body)
    low = record.seq & 0xFFFFFFFF
    head = _HEAD.pack(0, length, low, record.kind, flags, len(record.subject), record.time_ns)
    checked = head[4:] + body + bytes(padded(length) - length)
    return crc32c(checked, seed).to_bytes(4, "little") + checked


def unpack(data: bytes, seed: int, first_seq: int) -> Record | None:
    """The record at the start of `data`, or None if no whole good one is there."""
    if len(data) < HEAD:
        return None
    crc, length, low, kind, flags, subject_len, time_ns = _HEAD.unpack_from(data)
    if not Kind.MESSAGE <= kind <= Kind.EVICTED or flags > 7:
        return None
    if length < HEAD or padded(length) > len(data):
        return None
    if crc32c(data[4 : padded(length)], seed) != crc:
        return None
    at, headers_len, expires_at = HEAD, 0, 0
    if flags & Flags.WITH_HEADERS:
        headers_len = int.from_bytes(data[at : at + 4], "little")
        at += 4
    if flags & Flags.WITH_EXPIRY:
        expires_at = int.from_bytes(data[at : at + 8], "little", signed=True)
        at += 8
    if at + subject_len + headers_len > length:
        return None
    seq = first_seq + ((low - first_seq) & 0xFFFFFFFF)
    subject = data[at : at + subject_len]
    headers = data[at + subject_len : at + subject_len + headers_len]
    payload = data[at + subject_len + headers_len : length]
    return Record(kind, seq, time_ns, subject, headers, payload, expires_at, flags)


def ranges_of(body: bytes) -> list[tuple[int, int]]:
    """The (first, last) pairs a tombstone, skip or loss record carries."""
    return [(first, last) for first, last in _RANGE.iter_unpack(body[: len(body) // 16 * 16])]


def evicted_of(body: bytes) -> list[int]:
    """The sequences an EVICTED record names."""
    base = int.from_bytes(body[:8], "little")
    return [base + distance for (distance,) in struct.iter_unpack("<I", body[8:])]


def pack_evicted(seqs: list[int]) -> bytes:
    """The body of an EVICTED record for these sequences, which lie within 2**32 of each other."""
    base = min(seqs)
    distances = (seq - base for seq in seqs)
    return base.to_bytes(8, "little") + struct.pack(f"<{len(seqs)}I", *distances)


def pack_ranges(ranges: list[tuple[int, int]]) -> bytes:
    return b"".join(_RANGE.pack(first, last) for first, last in ranges)
