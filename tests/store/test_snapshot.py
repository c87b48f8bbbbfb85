"""Archives: what is packed is read back, whatever the pieces; damage is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.errors import StoreError
from jetstream.store._s2 import decode_block
from jetstream.store.base import StoredMessage
from jetstream.store.snapshot import ArchiveReader, Entry, pack_archive

MESSAGES = [
    StoredMessage(1, b"a.b", b"", b"hello", 1_800_000_000_000_000_000),
    StoredMessage(
        5, b"a.c", b"NATS/1.0\r\nA: b\r\n\r\n", b"x" * 200_000, 1_800_000_000_000_000_001
    ),
]


def packed() -> bytes:
    return b"".join(pack_archive(b'{"messages":2}', [("C", b"{}")], MESSAGES))


@given(cuts=st.lists(st.integers(1, 70_000), max_size=20))
def test_pieces_of_any_size_give_the_same_entries(cuts: list[int]) -> None:
    data, reader, entries = packed(), ArchiveReader(), []
    at = 0
    for cut in [*cuts, len(data)]:
        entries += reader.feed(data[at : at + cut])
        at += cut
    assert reader.finished
    assert [e.name for e in entries] == ["state.json", "consumers/C", "a.b", "a.c"]
    assert entries[3] == Entry(
        "a.c", 1_800_000_000_000_000_001, 5, MESSAGES[1].headers, b"x" * 200_000
    )


def test_a_flipped_bit_is_noticed() -> None:
    data = bytearray(packed())
    data[len(data) // 2] ^= 1
    with pytest.raises(StoreError):
        ArchiveReader().feed(bytes(data))


def test_half_an_archive_is_not_finished() -> None:
    reader = ArchiveReader()
    reader.feed(packed()[:-3])
    assert not reader.finished


@pytest.mark.parametrize("junk", [b"garbage!", b"\xff\x06\x00\x00xxxxxx", b"\x02\x00\x00\x00"])
def test_what_is_no_archive_is_refused(junk: bytes) -> None:
    with pytest.raises(StoreError):
        ArchiveReader().feed(junk)


@pytest.mark.parametrize(
    ("block", "plain"),
    [
        (b"\x05\x10hello", b"hello"),
        # literal "ab", copy of 8 from 2 back (copy1), overlapping what it writes
        (b"\x0a\x04ab\x11\x02", b"ababababab"),
        # literal "ab", copy1 of 4, then S2's repeat of the same offset: 4 more
        (b"\x0a\x04ab\x01\x02\x01\x00", b"ababababab"),
        # copy2: length 8, offset 2
        (b"\x0a\x04ab\x1e\x02\x00", b"ababababab"),
    ],
)
def test_blocks_are_unpacked(block: bytes, plain: bytes) -> None:
    assert decode_block(block) == plain


@given(st.binary(max_size=200))
def test_junk_never_crashes_the_decoder(junk: bytes) -> None:
    try:
        decode_block(junk)
    except StoreError:
        pass
