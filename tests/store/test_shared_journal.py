"""One journal in front of many files: redo, checkpoints, and what voids an entry."""

import pytest

from jetstream.errors import StoreError
from jetstream.store.shared_journal import DIRECTORY, SharedJournal
from jetstream.testing.disk import FaultyDisk


def a_disk() -> FaultyDisk:
    disk = FaultyDisk()
    disk.make_directory("/data/s")
    return disk


def written(disk: FaultyDisk, path: str) -> bytes:
    return bytes(disk.files[f"/data/{path}"].content)


def write(disk: FaultyDisk, path: str, offset: int, data: bytes) -> tuple[str, int, bytes]:
    """To its place, unsynced, and as a change for the journal."""
    disk.open(f"/data/{path}", create=True).write(offset, data)
    return path, offset, data


def test_what_was_synced_in_the_journal_is_written_to_its_place_again() -> None:
    disk = a_disk()
    journal = SharedJournal("/data", disk)
    journal.append([write(disk, "s/a", 0, b"hello "), write(disk, "s/b", 0, b"x")])
    journal.append([write(disk, "s/a", 6, b"world")])
    journal.sync()
    disk.crash("nothing")
    assert "/data/s/a" not in disk.files
    SharedJournal("/data", disk)
    assert written(disk, "s/a") == b"hello world"
    assert written(disk, "s/b") == b"x"
    assert disk.list(f"/data/{DIRECTORY}") == []


def test_a_checkpoint_makes_the_files_durable_and_drops_the_journal() -> None:
    disk = a_disk()
    journal = SharedJournal("/data", disk)
    journal.append([write(disk, "s/a", 0, b"one")])
    journal.sync()
    epoch = journal.switch()
    journal.append([write(disk, "s/a", 3, b"two")])
    journal.sync()
    journal.checkpoint(epoch)
    assert len(disk.list(f"/data/{DIRECTORY}")) == 1
    disk.crash("nothing")
    SharedJournal("/data", disk)
    assert written(disk, "s/a") == b"onetwo"


def test_a_file_that_was_replaced_does_not_get_its_old_bytes_back() -> None:
    disk = a_disk()
    journal = SharedJournal("/data", disk)
    journal.append([write(disk, "s/a", 0, b"old bytes")])
    journal.sync()
    journal.settle("s/a")
    disk.replace("/data/s/a", b"new")
    disk.crash("nothing")
    SharedJournal("/data", disk)
    assert written(disk, "s/a") == b"new"


def test_a_file_of_a_removed_directory_stays_away() -> None:
    disk = a_disk()
    journal = SharedJournal("/data", disk)
    journal.append([write(disk, "s/a", 0, b"gone"), write(disk, "t", 0, b"stays")])
    journal.sync()
    journal.forget_below("s")
    disk.crash("nothing")
    SharedJournal("/data", disk)
    assert "/data/s/a" not in disk.files
    assert written(disk, "t") == b"stays"


def test_wiping_leaves_nothing_to_read() -> None:
    disk = a_disk()
    journal = SharedJournal("/data", disk)
    journal.append([write(disk, "s/a", 0, b"secret")])
    journal.sync()
    inode = disk.files[f"/data/{DIRECTORY}/{1:012d}"]
    journal.wipe()
    assert b"secret" not in inode.durable
    disk.crash("nothing")
    SharedJournal("/data", disk)
    assert written(disk, "s/a") == b"secret"


def test_a_damaged_entry_costs_that_entry() -> None:
    disk = a_disk()
    journal = SharedJournal("/data", disk)
    journal.append([("s/a", 0, b"first"), ("s/b", 0, b"second"), ("s/c", 0, b"third")])
    journal.sync()
    content = disk.files[f"/data/{DIRECTORY}/{1:012d}"].content
    content[content.index(b"second")] ^= 1
    again = SharedJournal("/data", disk)
    assert written(disk, "s/a") == b"first"
    assert "/data/s/b" not in disk.files
    assert written(disk, "s/c") == b"third"
    assert again.report


def test_after_a_failed_sync_a_new_file_is_begun() -> None:
    disk = a_disk()
    journal = SharedJournal("/data", disk)
    journal.append([write(disk, "s/a", 0, b"one")])
    disk.fail_next("sync", path=DIRECTORY)
    with pytest.raises(StoreError):
        journal.sync()
    with pytest.raises(StoreError):
        journal.sync()
    journal.append([write(disk, "s/a", 0, b"one"), write(disk, "s/b", 0, b"two")])
    journal.sync()
    assert journal.trouble is None
    disk.crash("nothing")
    SharedJournal("/data", disk)
    assert written(disk, "s/a") == b"one"
    assert written(disk, "s/b") == b"two"


def test_closing_leaves_nothing_to_redo() -> None:
    disk = a_disk()
    journal = SharedJournal("/data", disk)
    journal.append([write(disk, "s/a", 0, b"one")])
    journal.sync()
    journal.close()
    disk.crash("nothing")
    assert written(disk, "s/a") == b"one"
    assert disk.list(f"/data/{DIRECTORY}") == []
