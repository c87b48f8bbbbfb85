"""The faulty disk keeps its own promises: what is durable, and how it fails."""

import errno
from random import Random

import pytest

from jetstream.testing.disk import FaultyDisk, PowerCut


def content(disk: FaultyDisk, path: str) -> bytes | None:
    return bytes(disk.files[path].content) if path in disk.files else None


def a_file(disk: FaultyDisk, path: str = "/d/f", data: bytes = b"durable") -> None:
    disk.make_directory("/d")
    file = disk.open(path, create=True)
    file.write(0, data)
    file.sync()
    disk.sync_directory("/d")


def test_only_what_was_synced_survives_the_worst_cut() -> None:
    disk = FaultyDisk()
    a_file(disk)
    disk.open("/d/f").write(0, b"changed")
    disk.open("/d/g", create=True).write(0, b"new")
    assert content(disk.power_cut("nothing", Random(1)), "/d/f") == b"durable"
    assert content(disk.power_cut("nothing", Random(1)), "/d/g") is None
    assert content(disk.power_cut("all", Random(1)), "/d/f") == b"changed"
    assert content(disk.power_cut("all", Random(1)), "/d/g") == b"new"


def test_a_synced_file_without_a_synced_name_is_gone() -> None:
    disk = FaultyDisk()
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    file.write(0, b"x")
    file.sync()
    assert content(disk.power_cut("nothing", Random(1)), "/d/f") is None
    disk.sync_directory("/d")
    assert content(disk.power_cut("nothing", Random(1)), "/d/f") == b"x"


def test_a_torn_write_arrives_in_sectors() -> None:
    disk = FaultyDisk()
    a_file(disk, data=bytes(4096))
    disk.open("/d/f").write(0, b"\1" * 4096)
    seen = {content(disk.power_cut("torn", Random(seed)), "/d/f") for seed in range(20)}
    assert len(seen) > 10
    for each in seen:
        assert each is not None
        assert all(len(set(each[at : at + 512])) == 1 for at in range(0, 4096, 512))


def test_a_failed_sync_forgets_what_waited_for_it() -> None:
    disk = FaultyDisk()
    a_file(disk)
    file = disk.open("/d/f")
    file.write(0, b"changed")
    disk.fail_next("sync")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    assert file.read(0, 7) == b"changed"
    assert content(disk.power_cut("nothing", Random(1)), "/d/f") == b"durable"


def test_rename_replaces_atomically() -> None:
    disk = FaultyDisk()
    a_file(disk)
    for cut in range(12):
        copy = disk.copy()
        copy.cut_after = copy.operations + cut
        try:
            copy.replace("/d/f", b"replaced")
        except PowerCut:
            pass
        for variant in ("nothing", "all", "some", "torn"):
            assert content(copy.power_cut(variant, Random(cut)), "/d/f") in (
                b"durable",
                b"replaced",
            )


def test_a_full_and_a_read_only_disk() -> None:
    disk = FaultyDisk()
    a_file(disk)
    disk.capacity = 10
    with pytest.raises(OSError) as full:
        disk.open("/d/f").write(0, bytes(100))
    assert full.value.errno == errno.ENOSPC
    disk.read_only = True
    with pytest.raises(OSError) as refused:
        disk.open("/d/f").write(0, b"x")
    assert refused.value.errno == errno.EROFS
    assert disk.read("/d/f") == b"durable"


def test_directories_move_and_go_with_what_is_in_them() -> None:
    disk = FaultyDisk()
    a_file(disk)
    disk.rename("/d", "/e")
    assert content(disk, "/e/f") == b"durable"
    assert disk.list("/e") == ["f"]
    disk.remove_tree("/e")
    assert not disk.exists("/e/f")
    assert not disk.is_directory("/e")
