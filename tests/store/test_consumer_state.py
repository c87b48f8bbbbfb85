"""The journal of consumer state: what was synced is there, damage costs at most one delta."""

import errno
from random import Random

import pytest

from jetstream.errors import StoreError
from jetstream.store.consumer_state import COMPACT_MIN, MemoryJournal, StateJournal
from jetstream.testing.disk import VARIANTS, FaultyDisk, PowerCut

PATH = "/data/consumers"


def a_journal(disk: FaultyDisk) -> StateJournal:
    disk.make_directory("/data")
    return StateJournal(PATH, disk)


def flush(journal: StateJournal) -> None:
    journal.write()
    journal.sync()


def test_snapshots_and_deltas_come_back() -> None:
    disk = FaultyDisk()
    journal = a_journal(disk)
    journal.put("one", b"snapshot 1")
    journal.note("one", b"d1")
    journal.note("two", b"early")
    journal.put("two", b"snapshot 2")
    journal.note("one", b"d2")
    journal.put("three", b"x")
    journal.drop("three")
    flush(journal)
    disk.crash("nothing")
    assert a_journal(disk).load() == {
        "one": (b"snapshot 1", [b"d1", b"d2"]),
        "two": (b"snapshot 2", []),
    }


def test_nothing_synced_is_lost_wherever_the_power_goes() -> None:
    for variant in VARIANTS:
        for cut in range(1, 60, 2):
            disk = FaultyDisk()
            journal = a_journal(disk)
            disk.cut_after = disk.operations + cut
            acked = -1
            try:
                for i in range(12):
                    if i % 4 == 0:
                        journal.put("c", b"%d" % i)
                    else:
                        journal.note("c", b"%d" % i)
                    flush(journal)
                    acked = i
            except PowerCut:
                pass
            disk.cut_after = None
            found = disk.power_cut(variant, Random(cut))
            state = a_journal(found).load().get("c", (b"", []))
            told = [int(each) for each in (state[0], *state[1]) if each]
            assert acked < 0 or max(told) >= acked
            assert told == sorted(told)


def test_a_flipped_bit_never_hides_a_consumer() -> None:
    disk = FaultyDisk()
    journal = a_journal(disk)
    journal.put("one", b"snapshot")
    journal.note("one", b"delta")
    journal.put("two", b"other")
    flush(journal)
    used = len(disk.files[PATH].content.rstrip(b"\0"))
    for bit in range(used * 8):
        damaged = disk.copy()
        damaged.files[PATH].content[bit // 8] ^= 1 << bit % 8
        state = a_journal(damaged).load()
        assert state["one"][0] == b"snapshot"
        assert state["two"] == (b"other", [])
        assert state["one"][1] in ([b"delta"], [])


def test_the_file_is_written_anew_when_it_is_mostly_history() -> None:
    disk = FaultyDisk()
    journal = a_journal(disk)
    for i in range(400):
        journal.put("c", b"%05d" % i * 2_000)
        flush(journal)
    assert len(disk.files[PATH].content) < COMPACT_MIN + (1 << 19)
    assert a_journal(disk.copy()).load()["c"][0] == b"00399" * 2_000


def test_deltas_ask_for_a_snapshot_when_they_pile_up() -> None:
    journal = a_journal(FaultyDisk())
    journal.put("c", b"s")
    assert not journal.wants_snapshot("c")
    journal.note("c", bytes(70_000))
    assert journal.wants_snapshot("c")
    journal.put("c", b"s")
    assert not journal.wants_snapshot("c")


def test_after_a_failed_sync_everything_is_written_anew() -> None:
    disk = FaultyDisk()
    journal = a_journal(disk)
    journal.put("c", b"1")
    flush(journal)
    journal.note("c", b"2")
    journal.write()
    disk.fail_next("sync")
    with pytest.raises(StoreError):
        journal.sync()
    assert journal.trouble is not None
    journal.write()
    journal.sync()
    assert journal.trouble is None
    disk.crash("nothing")
    assert a_journal(disk).load() == {"c": (b"1", [b"2"])}


def test_a_full_disk_keeps_the_entries_for_later() -> None:
    disk = FaultyDisk()
    journal = a_journal(disk)
    journal.put("c", b"1")
    disk.fail_next("write", errno.ENOSPC)
    with pytest.raises(StoreError):
        journal.write()
    flush(journal)
    assert a_journal(disk.copy()).load() == {"c": (b"1", [])}


def test_a_journal_in_memory_remembers_nothing() -> None:
    journal = MemoryJournal()
    journal.put("c", b"1")
    assert journal.load() == {}
    assert not journal.write()
