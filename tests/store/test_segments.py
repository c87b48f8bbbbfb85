"""Bulk reading: files, ranges of equal weight, frames of columns."""

import struct
from itertools import pairwise
from pathlib import Path

import pytest

from jetstream.errors import StoreError
from jetstream.store._crc import crc32c
from jetstream.store.files import Files
from jetstream.store.log import FileStore
from jetstream.store.memory import MemoryStore
from jetstream.store.segments import parts, read_file, read_frames, split_range
from tests.store.builders import IDENTITY, settled

Row = tuple[int, int, bytes, bytes, bytes]


def rows_of(frame: bytes | bytearray) -> tuple[list[Row], int]:
    """A frame read as the layout in `_frames.pyx` says."""
    magic, n, k, after, crc, _ = struct.unpack_from("<8sIIQII", frame)
    assert magic == b"JSCOLS01"
    assert crc == crc32c(bytes(frame[32:]))
    names_len, headers_len, payload_len = struct.unpack_from("<QQQ", frame, 32)
    at = 64

    def column(size: int) -> bytes:
        nonlocal at
        found = bytes(frame[at : at + size])
        at += -(-size // 8) * 8
        return found

    seqs = struct.unpack(f"<{n}Q", column(8 * n))
    times = struct.unpack(f"<{n}q", column(8 * n))
    subjects = struct.unpack(f"<{n}i", column(4 * n))
    payload_at = struct.unpack(f"<{n + 1}i", column(4 * n + 4))
    header_at = struct.unpack(f"<{n + 1}i", column(4 * n + 4))
    name_at = struct.unpack(f"<{k + 1}i", column(4 * k + 4))
    names, headers, payloads = column(names_len), column(headers_len), column(payload_len)
    assert at == len(frame)
    rows = [
        (
            seqs[i],
            times[i],
            names[name_at[subjects[i]] : name_at[subjects[i] + 1]],
            headers[header_at[i] : header_at[i + 1]],
            payloads[payload_at[i] : payload_at[i + 1]],
        )
        for i in range(n)
    ]
    return rows, after


def a_file_log(path: Path) -> FileStore:
    log = FileStore(str(path / "log"), Files(), IDENTITY, b"{}", 1)
    log.segment_bytes_min = log.segment_bytes_max = 20_000
    for i in range(500):
        log.append(
            b"s.%d" % (i % 3), b"NATS/1.0\r\n\r\n" if i % 5 == 0 else b"", b"p%d" % i * 9, i + 1
        )
    settled(log)
    return log


def expected(log: FileStore, lo: int, hi: int, subject: bytes = b"") -> list[Row]:
    found = []
    for seq in log.next_seqs(lo, 10_000):
        message = log.get(seq)
        assert message is not None
        if seq <= hi and (not subject or message.subject == subject):
            found.append((seq, message.time_ns, message.subject, message.headers, message.payload))
    return found


def test_frames_carry_a_range_of_a_running_store(tmp_path: Path) -> None:
    log = a_file_log(tmp_path)
    log.remove(17)
    rows, at = [], 10
    while at:
        more, at = rows_of(read_frames(log, at, 400, max_bytes=5_000))
        rows += more
    assert rows == expected(log, 10, 400)
    only, _ = rows_of(read_frames(log, 1, 500, log.filter([b"s.1"]), 1 << 20))
    assert only == expected(log, 1, 500, b"s.1")
    bare, _ = rows_of(read_frames(log, 1, 20, headers=False, payloads=False))
    assert all(row[3:] == (b"", b"") for row in bare)
    log.close()


def test_a_sealed_file_is_read_without_the_server(tmp_path: Path) -> None:
    log = a_file_log(tmp_path)
    sealed = [part for part in parts(log) if part.sealed]
    assert sealed
    assert all(part.exact for part in sealed)
    rows = []
    for part in sealed:
        frame, damaged = read_file(part.path)
        assert damaged == 0
        rows += rows_of(frame)[0]
    assert rows == expected(log, 1, sealed[-1].last_seq)
    frame, _ = read_file(sealed[0].path, 5, 9, lambda subject: subject == b"s.1")
    assert [row[0] for row in rows_of(frame)[0]] == [5, 8]
    log.remove(3)
    assert not parts(log)[0].exact
    log.close()


def test_a_file_that_is_not_sealed_is_refused(tmp_path: Path) -> None:
    log = a_file_log(tmp_path)
    with pytest.raises(StoreError):
        read_file(log.active.path)
    log.close()


def test_damage_in_a_file_is_counted_not_shown(tmp_path: Path) -> None:
    log = a_file_log(tmp_path)
    path = Path(parts(log)[0].path)
    data = bytearray(path.read_bytes())
    data[data.index(b"p7p7")] ^= 1
    path.write_bytes(data)
    frame, damaged = read_file(str(path))
    assert damaged == 1
    assert 8 not in [row[0] for row in rows_of(frame)[0]]
    log.abandon()


def test_a_range_is_split_into_parts_of_equal_weight() -> None:
    store = MemoryStore()
    for i in range(1_000):
        store.append(b"a" if i < 100 else b"b", b"", b"", 1)
    assert split_range(store, 1, 1_000, 4) == [(1, 250), (251, 500), (501, 750), (751, 1_000)]
    weights = [
        store.count_from(lo, store.filter([b"a"])) - store.count_from(hi + 1, store.filter([b"a"]))
        for lo, hi in split_range(store, 1, 1_000, 4, store.filter([b"a"]))
    ]
    assert weights == [25, 25, 25, 25]
    assert split_range(store, 5, 5, 8) == [(5, 5)]
    assert split_range(store, 2_000, 3_000, 8) == []
    covered = split_range(store, 7, 993, 9)
    assert covered[0][0] == 7
    assert covered[-1][1] == 993
    assert all(left[1] + 1 == right[0] for left, right in pairwise(covered))
