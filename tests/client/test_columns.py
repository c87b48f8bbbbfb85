"""Both twins take frames apart and put them together alike."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.client import columns as module
from jetstream.client.columns import (
    ACK,
    DIRECT,
    FULL,
    NEED_MORE,
    OTHER,
    PAST_END,
    PureAcks,
    PureColumns,
    pure_publishes,
)

BOTH_COLUMNS = [PureColumns, module.Columns]


def _ack(seq: int, time: int = 99, pending: int = 0) -> bytes:
    return b"$JS.ACK.S.C.1.%d.%d.%d.%d" % (seq, seq, time, pending)


def _msg(subject: bytes, payload: bytes, seq: int, headers: bytes = b"", sid: int = 7) -> bytes:
    if headers:
        sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
        return b"HMSG %b %d %b %b\r\n%b%b\r\n" % (subject, sid, _ack(seq), sizes, headers, payload)
    return b"MSG %b %d %b %d\r\n%b\r\n" % (subject, sid, _ack(seq), len(payload), payload)


def _rows(taken: Any) -> list[tuple[bytes, bytes, int, int, bytes]]:
    count = taken[0]

    def binary(ends: Any, data: Any) -> list[bytes]:
        array = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)]
        )
        return array.to_pylist()  # type: ignore[no-any-return]

    def numbers(values: Any) -> list[int]:
        return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(values)]).to_pylist()  # type: ignore[no-any-return]

    has_headers = len(memoryview(taken[7]).cast("B")) > 4
    headers = binary(taken[7], taken[8]) if has_headers else [b""] * count
    subjects, payloads = binary(taken[1], taken[2]), binary(taken[3], taken[4])
    return list(zip(subjects, payloads, numbers(taken[5]), numbers(taken[6]), headers, strict=True))


@pytest.mark.parametrize("make", BOTH_COLUMNS)
def test_frames_become_rows(make: Any) -> None:
    data = _msg(b"a.b", b"one", 5) + _msg(b"c", b"", 6, b"NATS/1.0\r\nA: 1\r\n\r\n")
    columns = make(7, ACK, 0, True, True)
    assert columns.feed(data, 0, len(data), 100, 1 << 20) == len(data)
    assert columns.stopped == NEED_MORE
    assert _rows(columns.take()) == [
        (b"a.b", b"one", 5, 99, b""),
        (b"c", b"", 6, 99, b"NATS/1.0\r\nA: 1\r\n\r\n"),
    ]


@pytest.mark.parametrize("make", BOTH_COLUMNS)
def test_the_longer_ack_subject_is_understood(make: Any) -> None:
    reply = b"$JS.ACK.hub.NUmM6cRx.S.C.1.41.3.77.9"
    data = b"MSG a 7 %b 1\r\nx\r\n" % reply
    columns = make(7)
    columns.feed(data, 0, len(data), 10, 100)
    assert _rows(columns.take()) == [(b"a", b"x", 41, 77, b"")]
    assert columns.pending == 9


@pytest.mark.parametrize("make", BOTH_COLUMNS)
def test_whatever_is_not_ours_stops_the_feeding(make: Any) -> None:
    for other in (
        b"PING\r\n",
        b"+OK\r\n",
        b"HMSG i 7 16 16\r\nNATS/1.0 404\r\n\r\n\r\n",
        _msg(b"a", b"x", 1, sid=8),
    ):
        first = _msg(b"a", b"x", 1)
        data = first + other
        columns = make(7)
        assert columns.feed(data, 0, len(data), 10, 100) == len(first)
        assert columns.stopped == OTHER


@pytest.mark.parametrize("make", BOTH_COLUMNS)
def test_a_message_past_the_end_is_left_alone(make: Any) -> None:
    data = _msg(b"a", b"x", 4) + _msg(b"a", b"y", 9)
    columns = make(7, ACK, 5)
    columns.feed(data, 0, len(data), 10, 100)
    assert columns.stopped == PAST_END
    assert (columns.rows, columns.last_seq) == (1, 4)


@pytest.mark.parametrize("make", BOTH_COLUMNS)
def test_a_full_chunk_stops_the_feeding(make: Any) -> None:
    data = b"".join(_msg(b"a", b"x", i) for i in range(1, 6))
    columns = make(7)
    at = columns.feed(data, 0, len(data), 2, 1 << 20)
    assert columns.stopped == FULL
    assert columns.rows == 2
    columns.take()
    columns.feed(data, at, len(data), 100, 1 << 20)
    assert columns.rows == 3


@pytest.mark.parametrize("make", BOTH_COLUMNS)
def test_direct_get_answers_lose_what_the_server_added(make: Any) -> None:
    added = (
        b"Nats-Stream: S\r\nNats-Subject: a.b\r\nNats-Sequence: 3\r\n"
        b"Nats-Time-Stamp: 2026-11-15T21:32:39.082538557Z\r\nNats-Num-Pending: 4\r\n\r\n"
    )
    data = b""
    for stored in (b"", b"K: v\r\n"):
        block = b"NATS/1.0\r\n" + stored + added
        data += b"HMSG _INBOX.x 7 %d %d\r\n%bhi\r\n" % (len(block), len(block) + 2, block)
    columns = make(7, DIRECT, 0, True)
    columns.feed(data, 0, len(data), 10, 1 << 20)
    assert _rows(columns.take()) == [
        (b"a.b", b"hi", 3, 1794778359082538557, b""),
        (b"a.b", b"hi", 3, 1794778359082538557, b"NATS/1.0\r\nK: v\r\n\r\n"),
    ]


@given(
    messages=st.lists(st.tuples(st.binary(max_size=30), st.booleans()), max_size=12),
    cuts=st.lists(st.integers(0, 900), max_size=6),
)
def test_where_the_bytes_are_cut_does_not_matter(
    messages: list[tuple[bytes, bool]], cuts: list[int]
) -> None:
    head = b"NATS/1.0\r\nX: y\r\n\r\n"
    data = b"".join(
        _msg(b"s.%d" % i, p, i + 1, head if h else b"") for i, (p, h) in enumerate(messages)
    )
    expected = [
        (b"s.%d" % i, p, i + 1, 99, head if h else b"") for i, (p, h) in enumerate(messages)
    ]
    for make in BOTH_COLUMNS:
        columns = make(7, ACK, 0, True, True)
        at = 0
        for end in [*sorted(min(c, len(data)) for c in cuts), len(data)]:
            at = columns.feed(data, at, end, 1000, 1 << 20)
        assert at == len(data)
        assert (_rows(columns.take()) if messages else []) == expected


@pytest.mark.parametrize("publishes", [pure_publishes, module.publishes])
def test_rows_become_frames(publishes: Any) -> None:
    subjects, payloads = pa.array(["a", "bc"]), pa.array([b"one", b""])
    columns = (*subjects.buffers()[1:], *payloads.buffers()[1:])
    plain = publishes(*columns, None, b"", b"", b"", b"in.", 0, 2, 0, None)
    assert bytes(plain) == b"PUB a in.0 3\r\none\r\nPUB bc in.1 0\r\n\r\n"
    head = b"NATS/1.0\r\nNats-Msg-Id: q.11\r\n\r\n"
    with_ids = publishes(*columns, None, b"", b"q.", b"", b"in.", 1, 2, 10, None)
    assert bytes(with_ids) == b"HPUB bc in.1 %d %d\r\n%b\r\n" % (len(head), len(head), head)
    skipped = publishes(*columns, [b"", b""], b"", b"", b"", b"in.", 0, 2, 0, bytearray(b"\1\0"))
    assert bytes(skipped).startswith(b"HPUB bc in.1 12 12\r\nNATS/1.0\r\n\r\n")


@pytest.mark.parametrize("make", [PureAcks, module.Acks])
def test_acks_are_counted_and_refusals_are_left(make: Any) -> None:
    good = b'{"stream":"S","seq":4}'
    twice = b'{"stream":"S","seq":9,"duplicate": true}'
    bad = b'{"error":{"code":400}}'
    frames = [
        b"MSG in.%d 3 %d\r\n%b\r\n" % (i, len(p), p) for i, p in enumerate((good, twice, bad))
    ]
    flags = bytearray(3)
    acks = make(3, 3, flags)
    data = b"".join(frames)
    assert acks.feed(data, 0, len(data)) == len(data) - len(frames[2])
    assert (acks.good, acks.duplicates, acks.last_seq, acks.stopped) == (2, 1, 9, OTHER)
    assert flags == b"\1\1\0"
