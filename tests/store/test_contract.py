"""One suite for every StreamStore."""

from array import array
from collections.abc import Iterator

import pytest

from jetstream.errors import StoreError
from jetstream.store.base import NEVER, StreamStore
from jetstream.store.memory import MemoryStore
from jetstream.testing.disk import FaultyDisk
from tests.store.builders import a_batch, a_log, flushed

HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest) -> Iterator[StreamStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    log = a_log(FaultyDisk())
    yield log
    if not log.closed:
        flushed(log)
        log.close()


def fill(store: StreamStore, *subjects: bytes, now: int = 100) -> None:
    for i, subject in enumerate(subjects):
        store.append(subject, b"", b"p%d" % i, now + i)


def test_an_unused_store_has_no_sequences(store: StreamStore) -> None:
    assert (store.first_seq, store.last_seq, store.msgs, store.bytes) == (0, 0, 0, 0)
    assert (store.first_ts, store.last_ts, store.num_subjects, store.num_deleted) == (0, 0, 0, 0)
    assert store.get(1) is None
    assert store.lost() is None
    assert list(store.next_seqs(1, 10)) == []
    assert store.seq_at_time(5) == 1


def test_what_is_appended_comes_back_as_it_was(store: StreamStore) -> None:
    assert store.append(b"a.b", b"", b"one", 100) == 1
    assert store.append(b"a.c", HEADERS, b"two", 101) == 2
    assert store.append(b"a.d", HEADERS, b"", 102) == 3
    first, second, third = store.get(1), store.get(2), store.get(3)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.subject, first.headers, first.payload, first.time_ns) == (
        b"a.b",
        b"",
        b"one",
        100,
    )
    assert (second.subject, second.headers, second.payload) == (b"a.c", HEADERS, b"two")
    assert (third.headers, third.payload) == (HEADERS, b"")


def test_a_run_of_a_batch_is_appended_in_one_go(store: StreamStore) -> None:
    batch = a_batch((b"a", b"0"), (b"a", b"1"), (b"b", HEADERS, b"2"), (b"c", b"3"))
    assert store.append_run(batch, 1, 4, 500) == 1
    assert store.append_run(batch, 0, 1, 600) == 4
    assert [store.get(seq).payload for seq in range(1, 5)] == [b"1", b"2", b"3", b"0"]  # type: ignore[union-attr]
    assert store.get(2).headers == HEADERS  # type: ignore[union-attr]
    assert (store.first_ts, store.last_ts) == (500, 600)


def test_bytes_are_counted_as_the_reference_counts_them(store: StreamStore) -> None:
    store.append(b"a.b", b"", b"12345", 1)
    plain = store.bytes
    store.append(b"a.b", HEADERS, b"12345", 1)
    with_headers = store.bytes - plain
    if isinstance(store, MemoryStore):
        assert plain == 16 + 3 + 5
        assert with_headers == 16 + 3 + len(HEADERS) + 5
    else:
        assert plain == 30 + 3 + 5
        assert with_headers == 34 + 3 + len(HEADERS) + 5
    store.append(b"a.b", HEADERS, b"12345", 1, expires_at=10)
    assert store.bytes - plain - with_headers == with_headers
    assert list(store.sizes(array("Q", [1, 2, 9]))) == [8, 8 + len(HEADERS), 0]


def test_removing_the_first_moves_first_seq_to_the_next_existing_one(store: StreamStore) -> None:
    fill(store, b"a", b"b", b"c", b"d")
    assert store.remove(2)
    assert (store.first_seq, store.num_deleted, store.deleted()) == (1, 1, [2])
    assert store.remove(1)
    assert (store.first_seq, store.num_deleted, store.deleted()) == (3, 0, [])
    assert not store.remove(1)
    assert store.first_ts == 102


def test_removing_the_last_keeps_last_seq(store: StreamStore) -> None:
    fill(store, b"a", b"b", b"c")
    store.remove(3)
    assert (store.last_seq, store.num_deleted, store.msgs) == (3, 1, 2)
    assert store.append(b"d", b"", b"", 200) == 4


def test_an_emptied_store_begins_behind_its_last_sequence(store: StreamStore) -> None:
    fill(store, b"a", b"b")
    assert store.purge() == 2
    assert (store.first_seq, store.last_seq, store.msgs, store.bytes) == (3, 2, 0, 0)
    assert (store.first_ts, store.last_ts) == (0, 101)
    assert store.num_subjects == 0
    assert store.append(b"c", b"", b"", 300) == 3
    assert store.first_seq == 3


def test_purge_beyond_the_end_moves_the_end(store: StreamStore) -> None:
    fill(store, b"a", b"b")
    assert store.purge(seq=100) == 2
    assert (store.first_seq, store.last_seq) == (100, 99)
    assert store.append(b"c", b"", b"", 1) == 100


def test_purge_below_a_sequence(store: StreamStore) -> None:
    fill(store, b"a", b"b", b"c", b"d")
    assert store.purge(seq=3) == 2
    assert (store.first_seq, store.last_seq, store.msgs) == (3, 4, 2)


def test_purge_keeps_the_newest(store: StreamStore) -> None:
    fill(store, b"a", b"b", b"a", b"b", b"a")
    store.remove(4)
    assert store.purge(keep=2) == 2
    assert list(store.next_seqs(1, 10)) == [3, 5]
    assert store.purge(keep=7) == 0


def test_purge_of_a_filter(store: StreamStore) -> None:
    fill(store, b"a.1", b"b.1", b"a.2", b"a.1", b"b.1")
    assert store.purge(filter=store.filter([b"a.*"]), keep=1) == 2
    assert list(store.next_seqs(1, 10)) == [2, 4, 5]
    assert store.purge(filter=store.filter([b"b.1"]), seq=5) == 1
    assert list(store.next_seqs(1, 10)) == [4, 5]


def test_first_seq_of_the_config() -> None:
    for store in (MemoryStore(first_seq=50), a_log(FaultyDisk(), first_seq=50)):
        assert (store.first_seq, store.last_seq) == (50, 49)
        assert store.append(b"a", b"", b"", 1) == 50


def test_skipped_sequences_hold_nothing(store: StreamStore) -> None:
    assert store.skip(3, 10) == 3
    assert (store.first_seq, store.last_seq, store.msgs, store.last_ts) == (4, 3, 0, 10)
    fill(store, b"a")
    store.skip(1, 500)
    assert (store.first_seq, store.last_seq, store.msgs) == (4, 5, 1)


def test_a_given_sequence_leaves_a_gap(store: StreamStore) -> None:
    assert store.append(b"a", b"", b"x", 1, seq=10) == 10
    assert (store.first_seq, store.last_seq, store.msgs) == (10, 10, 1)
    assert store.append(b"a", b"", b"y", 1, seq=1_000_000) == 1_000_000
    assert store.num_deleted == 1_000_000 - 11
    assert list(store.next_seqs(11, 3)) == [1_000_000]
    with pytest.raises(StoreError):
        store.append(b"a", b"", b"", 1, seq=10)


def test_subjects_know_their_messages(store: StreamStore) -> None:
    fill(store, b"a", b"b", b"a", b"a")
    assert store.subject_state(b"a") == (3, 1, 4)
    assert store.subject_state(b"x") == (0, 0, 0)
    assert (store.last_for(b"a"), store.oldest_for(b"a"), store.last_for(b"x")) == (4, 1, 0)
    assert store.prev_for(b"a", 4) == 3
    assert store.prev_for(b"a", 3) == 1
    assert store.prev_for(b"a", 1) == 0
    store.remove(4)
    assert store.subject_state(b"a") == (2, 1, 3)
    store.remove(1)
    assert store.subject_state(b"a") == (1, 3, 3)
    store.remove(3)
    assert store.subject_state(b"a") == (0, 0, 0)
    assert list(store.subjects()) == [(b"b", 1)]


def test_a_filter_learns_subjects_that_appear_later(store: StreamStore) -> None:
    wide = store.filter([b"a.*", b"c"])
    assert store.count_from(1, wide) == 0
    fill(store, b"a.1", b"b.1", b"c", b"a.2.x", b"a.2")
    assert list(store.next_seqs(1, 10, wide)) == [1, 3, 5]
    assert list(store.next_seqs(2, 1, wide)) == [3]
    assert store.count_from(2, wide) == 2
    assert store.last_match(wide) == 5
    assert store.last_match(wide, before=5) == 3
    assert list(store.subjects(wide)) == [(b"a.1", 1), (b"a.2", 1), (b"c", 1)]
    store.purge()
    fill(store, b"x", b"a.9")
    assert list(store.next_seqs(1, 10, wide)) == [7]
    assert store.count_from(1, wide) == 1


def test_a_literal_filter(store: StreamStore) -> None:
    only = store.filter([b"a"])
    fill(store, b"a", b"b", b"a", b"b", b"a")
    assert list(store.next_seqs(2, 10, only)) == [3, 5]
    assert store.count_from(2, only) == 2
    assert store.count_from(4, only) == 1
    assert store.last_match(only, before=5) == 3
    assert list(store.next_seqs(6, 10, only)) == []
    assert store.last_match(store.filter([b"nobody"])) == 0


def test_the_last_message_of_each_subject(store: StreamStore) -> None:
    fill(store, b"a.1", b"a.2", b"b.1", b"a.1", b"a.2")
    every = store.filter([b"a.*"])
    assert list(store.last_seqs(every)) == [4, 5]
    assert list(store.last_seqs(every, up_to_seq=4)) == [2, 4]
    assert list(store.last_seqs(every, up_to_seq=1)) == [1]
    assert list(store.last_seqs(None)) == [3, 4, 5]
    assert list(store.last_seqs(None, limit=2)) == [3, 4]


def test_the_first_message_at_or_after_a_time(store: StreamStore) -> None:
    for time in (10, 20, 30, 40, 50):
        store.append(b"a", b"", b"", time)
    store.remove(3)
    assert [store.seq_at_time(t) for t in (1, 10, 11, 25, 40, 50, 51)] == [1, 1, 2, 4, 4, 5, 6]


def test_the_oldest_of_a_subject_go_when_it_has_too_many(store: StreamStore) -> None:
    store.set_limits(max_msgs_per_subject=2)
    batch = a_batch(*[(b"k.%d" % (i % 3), b"%d" % i) for i in range(9)])
    store.append_run(batch, 0, 9, 1)
    assert list(store.take_evicted()) == [1, 2, 3]
    assert list(store.take_evicted()) == []
    assert list(store.next_seqs(1, 10)) == [4, 5, 6, 7, 8, 9]
    store.set_limits(max_msgs_per_subject=1)
    assert sorted(store.take_evicted()) == [4, 5, 6]
    assert store.msgs == 3


def test_messages_expire_by_age_and_on_their_own(store: StreamStore) -> None:
    store.append(b"a", b"", b"", 100, expires_at=NEVER)
    store.append(b"a", b"", b"", 110)
    store.append(b"a", b"", b"", 120, expires_at=125)
    store.append(b"a", b"", b"", 130)
    assert store.next_expiry(0) == 125
    assert store.next_expiry(12) == 122
    assert list(store.expired(122, 12, 10)) == [2]
    assert list(store.expired(130, 10, 10)) == [2, 3]
    store.remove_many(array("Q", [2, 3]))
    assert store.next_expiry(10) == 140
    assert list(store.expired(139, 10, 10)) == []
    assert list(store.expired(140, 10, 10)) == [4]
    store.remove(4)
    assert store.next_expiry(10) == 0
    assert store.msgs == 1


def test_remove_many_counts_what_existed(store: StreamStore) -> None:
    fill(store, b"a", b"b", b"c", b"d")
    assert store.remove_many(array("Q", [2, 3, 3, 9])) == 2
    assert list(store.next_seqs(1, 10)) == [1, 4]


def test_large_messages_and_many_of_them(store: StreamStore) -> None:
    for i in range(40):
        store.append(b"big", b"", bytes([i]) * 300_000, 1)
        store.write()
        store.sync()
        store.mark_synced(store.last_seq)
    for i in (0, 7, 39, 3):
        message = store.get(i + 1)
        assert message is not None
        assert message.payload == bytes([i]) * 300_000


def test_an_idle_log_gives_its_buffers_back_and_still_reads() -> None:
    log = a_log(FaultyDisk())
    log.append(b"s", b"", bytes(200_000), 1)
    log.append(b"s", b"", b"small", 2)
    flushed(log)
    log.work(1_000_000)
    before = log.active.memory_bytes
    log.work(1_000_000)
    assert before > 200_000 > log.active.memory_bytes
    message = log.get(2)
    assert message is not None
    assert message.payload == b"small"
    log.append(b"s", b"", b"more", 3)
    flushed(log)
    assert [len(log.get(seq).payload) for seq in (1, 2, 3)] == [200_000, 5, 4]  # type: ignore[union-attr]
