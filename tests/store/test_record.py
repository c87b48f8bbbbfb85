"""The readable record and its fast twin say the same."""

from hypothesis import given
from hypothesis import strategies as st

from jetstream.store import _record, record
from jetstream.store._crc import crc32c, crc32c_table
from jetstream.store.record import Kind, Record

records = st.builds(
    Record,
    kind=st.just(int(Kind.MESSAGE)),
    seq=st.integers(1_000, 1_000 + 2**31),
    time_ns=st.integers(0, 2**62),
    subject=st.binary(max_size=50),
    headers=st.binary(max_size=50),
    payload=st.binary(max_size=200),
    expires_at=st.integers(0, 2**63 - 1),
)
seeds = st.integers(0, 2**32 - 1)


def test_crc32c_is_the_one_everybody_knows() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


@given(data=st.binary(max_size=300), seed=seeds)
def test_hardware_and_table_agree(data: bytes, seed: int) -> None:
    assert crc32c(data, seed) == crc32c_table(data, seed)


@given(data=st.binary(max_size=100), cut=st.integers(0, 100))
def test_a_checksum_goes_on_where_it_stopped(data: bytes, cut: int) -> None:
    assert crc32c(data[cut:], crc32c(data[:cut])) == crc32c(data)


@given(one=records, seed=seeds)
def test_both_twins_write_the_same_bytes_and_read_them_back(one: Record, seed: int) -> None:
    packed = record.pack(seed, one)
    fast = _record.pack(
        seed, one.kind, one.seq, one.time_ns, one.subject, one.headers, one.payload, one.expires_at
    )
    assert packed == fast
    assert len(packed) % 4 == 0
    back = record.unpack(packed, seed, 1_000)
    assert back is not None
    assert (back.seq, back.subject, back.headers, back.payload, back.expires_at) == (
        one.seq, one.subject, one.headers, one.payload, one.expires_at,
    )  # fmt: skip
    assert _record.unpack(packed, seed, 1_000) == (
        back.kind, back.seq, back.time_ns, back.subject, back.headers, back.payload,
        back.expires_at, back.flags,
    )  # fmt: skip


@given(one=records, seed=seeds, bit=st.integers(0, 4_000))
def test_any_flipped_bit_is_noticed_by_both(one: Record, seed: int, bit: int) -> None:
    packed = bytearray(record.pack(seed, one))
    bit %= len(packed) * 8
    packed[bit // 8] ^= 1 << bit % 8
    assert record.unpack(bytes(packed), seed, 1_000) is None
    assert _record.unpack(bytes(packed), seed, 1_000) is None


@given(one=records, seed=seeds, length=st.integers(0, 400))
def test_a_piece_of_a_record_is_none(one: Record, seed: int, length: int) -> None:
    packed = record.pack(seed, one)
    piece = packed[: length % len(packed)]
    assert record.unpack(piece, seed, 1_000) is None
    assert _record.unpack(piece, seed, 1_000) is None


def test_a_record_of_another_segment_does_not_pass() -> None:
    one = Record(Kind.MESSAGE, 7, 1, b"s", b"", b"p")
    packed = record.pack(record.segment_seed(b"a" * 16, 1), one)
    assert record.unpack(packed, record.segment_seed(b"a" * 16, 2), 2) is None
    assert record.unpack(packed, record.segment_seed(b"b" * 16, 1), 1) is None


@given(st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)), max_size=5))
def test_ranges_come_back(ranges: list[tuple[int, int]]) -> None:
    assert record.ranges_of(record.pack_ranges(ranges)) == ranges
    assert record.ranges_of(record.pack_ranges(ranges) + b"erase\0\0\0") == ranges


@given(st.lists(st.integers(5, 2**32), min_size=1, max_size=9))
def test_evictions_come_back(seqs: list[int]) -> None:
    assert record.evicted_of(record.pack_evicted(seqs)) == seqs
