"""A disk that refuses: the store says so, takes nothing in, and goes on when the cause is gone."""

import errno

import pytest

from jetstream.errors import StoreError
from jetstream.store.log import FileStore
from jetstream.testing.disk import FaultyDisk
from tests.store.builders import a_batch, a_log, flushed

BATCH = a_batch(*[(b"s.%d" % i, b"payload %d" % i) for i in range(8)])


def payloads(log: FileStore) -> dict[int, bytes]:
    found = {}
    for seq in log.next_seqs(1, 1_000):
        message = log.get(seq)
        assert message is not None
        found[seq] = message.payload
    return found


def test_a_failed_sync_stops_the_stream_and_is_not_repeated_as_if_it_had_worked() -> None:
    disk = FaultyDisk()
    log = a_log(disk)
    log.append_run(BATCH, 0, 4, 1)
    flushed(log)
    log.append_run(BATCH, 4, 8, 2)
    log.write()
    disk.fail_next("sync")
    with pytest.raises(StoreError, match="cannot sync"):
        log.sync()
    assert log.trouble is not None
    with pytest.raises(StoreError):
        log.append(b"s", b"", b"refused", 3)
    with pytest.raises(StoreError):
        log.append_run(BATCH, 0, 1, 3)
    with pytest.raises(StoreError):
        log.sync()
    disk.crash("nothing")
    assert set(payloads(a_log(disk))) == {1, 2, 3, 4}


def test_after_a_failed_sync_everything_goes_into_a_new_file_before_the_stream_goes_on() -> None:
    disk = FaultyDisk()
    log = a_log(disk)
    log.append_run(BATCH, 0, 4, 1)
    flushed(log)
    log.append_run(BATCH, 4, 6, 2)
    log.remove(5)
    log.write()
    disk.fail_next("sync")
    with pytest.raises(StoreError):
        log.sync()
    log.work(1_000_000)
    assert log.trouble is None
    log.append_run(BATCH, 6, 8, 3)
    flushed(log)
    expected = {1: b"payload 0", 2: b"payload 1", 3: b"payload 2", 4: b"payload 3",
                6: b"payload 5", 7: b"payload 6", 8: b"payload 7"}  # fmt: skip
    assert payloads(log) == expected
    disk.crash("nothing")
    again = a_log(disk)
    assert payloads(again) == expected
    assert again.lost() is None


def test_a_failed_first_sync_heals_too() -> None:
    disk = FaultyDisk()
    log = a_log(disk)
    log.append_run(BATCH, 0, 4, 1)
    log.write()
    disk.fail_next("sync")
    with pytest.raises(StoreError):
        log.sync()
    disk.fail_next("sync")
    log.work(1_000_000)
    assert log.trouble is not None  # the cause is still there
    log.work(1_000_000)
    assert log.trouble is None
    flushed(log)
    disk.crash("nothing")
    assert len(payloads(a_log(disk))) == 4


def test_a_full_disk_refuses_and_recovers_without_a_restart() -> None:
    disk = FaultyDisk()
    log = a_log(disk)
    log.append_run(BATCH, 0, 2, 1)
    flushed(log)
    disk.capacity = sum(len(inode.content) for inode in disk.files.values())
    log.append(b"big", b"", bytes(1 << 20), 2)
    with pytest.raises(StoreError, match="No space left"):
        log.write()
    with pytest.raises(StoreError, match="No space left"):
        log.append(b"s", b"", b"", 3)
    assert not log.work(1_000_000)
    disk.capacity = None
    log.work(1_000_000)
    assert log.trouble is None
    flushed(log)
    disk.crash("nothing")
    assert len(payloads(a_log(disk))) == 3


@pytest.mark.parametrize("code", [errno.EIO, errno.EDQUOT])
def test_a_failed_write_is_tried_again(code: int) -> None:
    disk = FaultyDisk()
    log = a_log(disk)
    log.append_run(BATCH, 0, 2, 1)
    flushed(log)
    log.append_run(BATCH, 2, 4, 1)
    disk.fail_next("write", code)
    with pytest.raises(StoreError, match="cannot write"):
        log.write()
    log.work(1_000_000)
    assert log.trouble is None
    flushed(log)
    disk.crash("nothing")
    assert len(payloads(a_log(disk))) == 4


def test_a_read_only_disk_can_still_be_read() -> None:
    disk = FaultyDisk()
    log = a_log(disk)
    log.append_run(BATCH, 0, 4, 1)
    flushed(log)
    disk.read_only = True
    log.append(b"s", b"", b"x", 2)
    with pytest.raises(StoreError, match="Read-only"):
        log.write()
    assert payloads(log)[2] == b"payload 1"
    disk.read_only = False
    log.work(1_000_000)
    assert log.trouble is None
    flushed(log)
    assert len(payloads(a_log(disk.copy()))) == 5


def test_an_unreadable_record_counts_as_lost() -> None:
    disk = FaultyDisk()
    log = a_log(disk)
    log.append_run(BATCH, 0, 4, 1)
    flushed(log)
    log.close()
    log = a_log(disk)
    disk.fail_next("read")
    assert log.get(2) is None
    lost = log.lost()
    assert lost is not None
    assert lost.ranges == [(2, 2)]


def test_secure_erase_overwrites_the_bytes() -> None:
    disk = FaultyDisk()
    log = a_log(disk)
    log.append(b"s", b"NATS/1.0\r\nKey: private\r\n\r\n", b"very secret", 1)
    log.append(b"s", b"", b"public", 2)
    flushed(log)
    log.remove(1, erase=True)
    flushed(log)
    log.work(1_000_000)
    raw = b"".join(bytes(inode.content) for inode in disk.files.values())
    assert b"secret" not in raw
    assert b"private" not in raw
    assert b"public" in raw
    disk.crash("nothing")
    again = a_log(disk)
    assert payloads(again) == {2: b"public"}
    assert again.lost() is None


def test_deletes_give_their_space_back() -> None:
    disk = FaultyDisk()
    log = a_log(disk, segment_bytes=4_000, max_msgs_per_subject=1)
    for i in range(400):
        log.append(b"k.%d" % (i % 20), b"", b"v" * 100, i)
        if i % 10 == 0:
            flushed(log)
            log.work(10_000_000)
    flushed(log)
    while log.work(10_000_000):
        pass
    assert log.msgs == 20
    assert len(log.segments) < 6
    used = sum(len(inode.content) for inode in disk.files.values())
    assert used < 80_000
    before = payloads(log)
    log.close()
    assert payloads(a_log(disk)) == before


def test_a_purged_stream_gives_its_files_back() -> None:
    disk = FaultyDisk()
    log = a_log(disk, segment_bytes=2_000)
    for i in range(200):
        log.append(b"s", b"", b"v" * 100, i)
    flushed(log)
    assert len(log.segments) > 5
    assert log.purge() == 200
    flushed(log)
    while log.work(10_000_000):
        pass
    assert len([path for path in disk.files if path.endswith(".seg")]) <= 2
    log.close()
    again = a_log(disk)
    assert (again.first_seq, again.last_seq, again.msgs) == (201, 200, 0)
    assert again.lost() is None


def test_a_full_disk_can_be_emptied_by_purging() -> None:
    disk = FaultyDisk()
    log = a_log(disk, segment_bytes=4_000)
    for i in range(100):
        log.append(b"s", b"", b"v" * 100, i)
    flushed(log)
    disk.capacity = sum(len(inode.content) for inode in disk.files.values())
    log.append(b"s", b"", bytes(5_000), 200)
    with pytest.raises(StoreError, match="No space left"):
        log.write()
    assert log.purge(seq=90) == 89
    log.work(1_000_000)
    assert log.trouble is None
    flushed(log)
    disk.crash("nothing")
    again = a_log(disk)
    assert (again.first_seq, again.last_seq, again.msgs) == (90, 101, 12)
    assert again.lost() is None


def test_what_is_due_stays_due_until_it_was_removed() -> None:
    log = a_log(FaultyDisk())
    log.append(b"s", b"", b"", 1, expires_at=5)
    assert list(log.expired(6, 0, 10)) == [1]
    assert list(log.expired(6, 0, 10)) == [1]
    log.remove(1)
    assert list(log.expired(6, 0, 10)) == []
