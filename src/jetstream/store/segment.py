"""What frames the records of a segment file: a header, twice, and a footer once it is sealed.

    header    magic, version, stream identity, first sequence, limit, config, checksum
    header    the same again, so that one damaged page does not hide the stream
    records   `record.py`
    footer    written when the segment is full: length, flags and subject of every record
    trailer   where the footer is and its checksum; the last 32 bytes of a sealed file

All numbers little-endian. docs/store-format.md draws the same with offsets for other readers.
"""

import struct
import zlib
from collections.abc import Generator

from msgspec import Struct

from jetstream.store._crc import crc32c
from jetstream.store.files import File

HEADER_MAGIC = b"JSSEGM01"
FOOTER_MAGIC = b"JSFOOT01"
TRAILER_MAGIC = b"JSSEALED"
VERSION = 1
COMPACTED = 1
"""Header flag: records were taken out, so a missing sequence alone is no sign of damage."""

DEAD = 0
"""In the subjects of a footer: a message that was already removed when the segment was sealed."""
CONTROL = 1
"""In the subjects of a footer: a record that is not a message. Subject i has number i + 2."""

_HEADER = struct.Struct("<8sIII16sQQqqqQIHH")
_FOOTER = struct.Struct("<8s8sIIQQQqqQQIIQ")
_TRAILER = struct.Struct("<QQII8s")
HEADER_SEARCH_BYTES = 1 << 20
COMPRESSED_AT_ONCE = 64 << 10


class Identity(Struct, frozen=True):
    """Whose log this is."""

    uid: bytes
    account: str
    name: str
    created_ns: int


class Header(Struct, frozen=True):
    """The head of a segment file."""

    identity: Identity
    first_seq: int
    config: bytes
    config_version: int = 0
    max_msgs_per_subject: int = -1
    last_ts: int = 0
    flags: int = 0
    last_seq: int = 0
    """The last sequence given out before this segment; first_seq - 1 except after a jump."""


class Footer(Struct, frozen=True):
    """The tail of a sealed segment file: columns over its records, in file order."""

    first_seq: int
    last_seq: int
    min_time: int
    max_time: int
    data_start: int
    data_end: int
    lengths: memoryview
    """u16 or u32 each: record length << 3 | bits (0 headers, 1 expiry, 2 no message)."""
    length_width: int
    subjects: memoryview
    """u8, u16 or u32 each: DEAD, CONTROL or subject number + 2."""
    subject_width: int
    seqs: memoryview | None
    """u32 low halves of the sequences; None: message i has first_seq + i (controls not counted)."""
    name_lengths: memoryview
    """u16 each."""
    name_bytes: bytes
    counts: memoryview
    """u32 each: messages of the subject that existed when the segment was sealed."""
    last_seqs: memoryview
    """u64 each."""
    records: int
    messages: int

    @property
    def names(self) -> list[bytes]:
        """The subjects, one by one."""
        names, at = [], 0
        for length in self.name_lengths.cast("H"):
            names.append(self.name_bytes[at : at + length])
            at += length
        return names


def pack_header(header: Header) -> bytes:
    """Both copies."""
    account = header.identity.account.encode()
    name = header.identity.name.encode()
    length = -(-(_HEADER.size + len(account) + len(name) + len(header.config) + 4) // 8) * 8
    fixed = _HEADER.pack(
        HEADER_MAGIC,
        length,
        VERSION,
        header.flags,
        header.identity.uid,
        header.first_seq,
        header.last_seq,
        header.identity.created_ns,
        header.max_msgs_per_subject,
        header.last_ts,
        header.config_version,
        len(header.config),
        len(account),
        len(name),
    )
    body = (fixed + account + name + header.config).ljust(length - 4, b"\0")
    copy = body + crc32c(body).to_bytes(4, "little")
    return copy + copy


def unpack_header(data: bytes) -> tuple[Header, int] | None:
    """The header and where the records start, from the first copy that is whole."""
    at = data.find(HEADER_MAGIC)
    while at >= 0:
        found = _unpack_copy(data, at)
        if found is not None:
            header, length = found
            return header, length * 2 if at == 0 else at + length
        at = data.find(HEADER_MAGIC, at + 1)
    return None


def _unpack_copy(data: bytes, at: int) -> tuple[Header, int] | None:
    if len(data) - at < _HEADER.size:
        return None
    (_, length, version, flags, uid, first_seq, last_seq, created_ns, limit, last_ts,
     config_version, config_len, account_len, name_len) = _HEADER.unpack_from(data, at)  # fmt: skip
    end = at + length
    if version != VERSION or end > len(data) or length < _HEADER.size + 4:
        return None
    if crc32c(data[at : end - 4]).to_bytes(4, "little") != data[end - 4 : end]:
        return None
    at += _HEADER.size
    account = data[at : at + account_len].decode()
    name = data[at + account_len : at + account_len + name_len].decode()
    at += account_len + name_len
    identity = Identity(uid, account, name, created_ns)
    config = data[at : at + config_len]
    header = Header(identity, first_seq, config, config_version, limit, last_ts, flags, last_seq)
    return header, length


def pack_footer(
    segment_range: tuple[int, int],
    time_range: tuple[int, int],
    data_range: tuple[int, int],
    lengths: tuple[bytes, int],
    subjects: tuple[bytes, int],
    seqs: bytes,
    table: list[tuple[bytes, int, int]],
    records: int,
    messages: int,
) -> Generator[None, None, bytes]:
    """Footer and trailer, to stand at `data_range[1]` rounded up to 8; compressed in slices."""
    at = -(-data_range[1] // 8) * 8
    names = b"".join(name for name, _, _ in table)
    columns = [
        struct.pack(f"<{len(table)}Q", *(last for _, _, last in table)),
        struct.pack(f"<{len(table)}I", *(count for _, count, _ in table)),
        lengths[0],
        seqs,
        struct.pack(f"<{len(table)}H", *(len(name) for name, _, _ in table)),
        subjects[0],
        names,
    ]
    fixed = _FOOTER.pack(
        FOOTER_MAGIC,
        FOOTER_MAGIC,
        VERSION,
        lengths[1] | subjects[1] << 8 | (1 << 16 if seqs else 0),
        *segment_range,
        messages,
        *time_range,
        *data_range,
        records,
        len(table),
        len(names),
    )
    compressor = zlib.compressobj(1)
    parts = [fixed]
    for column in columns:
        padded = column.ljust(-(-len(column) // 8) * 8, b"\0")
        for start in range(0, len(padded), COMPRESSED_AT_ONCE):
            parts.append(compressor.compress(padded[start : start + COMPRESSED_AT_ONCE]))
            yield
    parts.append(compressor.flush())
    body = b"".join(parts)
    trailer = _TRAILER.pack(at, len(body), crc32c(body), 0, TRAILER_MAGIC)
    return body + trailer[:20] + crc32c(trailer[:20]).to_bytes(4, "little") + trailer[24:]


TRAILER_BYTES = _TRAILER.size


def unpack_trailer(data: bytes) -> tuple[int, int, int] | None:
    """Where the footer is, how long, and its checksum, from the last 32 bytes of a file."""
    if len(data) != _TRAILER.size:
        return None
    at, length, checksum, own, magic = _TRAILER.unpack(data)
    if magic != TRAILER_MAGIC or crc32c(data[:20]) != own:
        return None
    return at, length, checksum


def read_footer(file: File) -> Footer | None:
    """The footer of a sealed file; None when it has none, or a damaged one."""
    size = file.size()
    if size < TRAILER_BYTES:
        return None
    place = unpack_trailer(file.read(size - TRAILER_BYTES, TRAILER_BYTES))
    if place is None or place[0] + place[1] + TRAILER_BYTES != size:
        return None
    return unpack_footer(file.read(place[0], place[1]), place[2])


def unpack_footer(data: bytes, checksum: int) -> Footer | None:
    if len(data) < _FOOTER.size or crc32c(data) != checksum:
        return None
    (magic, _, version, widths, first_seq, last_seq, messages, min_time, max_time, data_start,
     data_end, records, subjects, names_len) = _FOOTER.unpack_from(data)  # fmt: skip
    if magic != FOOTER_MAGIC or version != VERSION:
        return None
    length_width, subject_width = widths & 0xFF, widths >> 8 & 0xFF
    at = 0
    try:
        view = memoryview(zlib.decompress(data[_FOOTER.size :]))
    except zlib.error:
        return None

    def column(size: int) -> memoryview:
        nonlocal at
        found = view[at : at + size]
        at += -(-size // 8) * 8
        return found

    last_seqs = column(8 * subjects)
    counts = column(4 * subjects)
    lengths = column(length_width * records)
    seqs = column(4 * records) if widths & 1 << 16 else None
    name_lengths = column(2 * subjects)
    subject_ids = column(subject_width * records)
    names = bytes(column(names_len))
    return Footer(
        first_seq, last_seq, min_time, max_time, data_start, data_end, lengths, length_width,
        subject_ids, subject_width, seqs, name_lengths, names, counts, last_seqs, records, messages,
    )  # fmt: skip
