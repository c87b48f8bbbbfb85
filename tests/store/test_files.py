"""The real disk, and the overlay that protects it."""

from pathlib import Path

import pytest

from jetstream.store.files import Disk, Files, mapped
from jetstream.store.overlay import Overlay


@pytest.fixture(params=["real", "overlay"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return Files() if request.param == "real" else Overlay(Files())


def test_bytes_at_offsets(disk: Disk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/f", create=True)
    file.write(4, b"world")
    file.write(0, b"hey ")
    assert file.read(0, 100) == b"hey world"
    assert file.read(100, 5) == b""
    room = bytearray(5)
    assert file.read_into(4, memoryview(room)) == 5
    assert room == b"world"
    file.allocate(4096)
    assert file.size() == 4096
    assert file.read(9, 10) == bytes(10)
    file.truncate(3)
    file.sync()
    assert disk.read(f"{tmp_path}/f") == b"hey"


def test_names(disk: Disk, tmp_path: Path) -> None:
    root = str(tmp_path)
    disk.make_directory(f"{root}/a/b")
    disk.replace(f"{root}/a/one", b"1")
    disk.replace(f"{root}/a/one", b"11")
    disk.rename(f"{root}/a/one", f"{root}/a/two")
    assert disk.read(f"{root}/a/two") == b"11"
    assert disk.exists(f"{root}/a/two")
    assert not disk.exists(f"{root}/a/one")
    assert "two" in disk.list(f"{root}/a")
    assert disk.list(f"{root}/nowhere") == []
    disk.sync_directory(f"{root}/a")
    disk.remove(f"{root}/a/two")
    assert "two" not in disk.list(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{root}/a/two")
    disk.remove_tree(f"{root}/a")
    assert not disk.is_directory(f"{root}/a") or isinstance(disk, Overlay)


def test_an_overlay_shows_changes_and_makes_none(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"below")
    (tmp_path / "g").write_bytes(b"gone soon")
    overlay = Overlay(Files())
    file = overlay.open(f"{tmp_path}/f")
    file.write(0, b"B")
    file.truncate(3)
    file.allocate(5)
    assert overlay.read(f"{tmp_path}/f") == b"Bel\0\0"
    overlay.remove(f"{tmp_path}/g")
    overlay.rename(f"{tmp_path}/f", f"{tmp_path}/h")
    assert overlay.list(str(tmp_path)) == ["h"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "g"]
    assert (tmp_path / "f").read_bytes() == b"below"


def test_a_directory_is_taken_by_one_process(tmp_path: Path) -> None:
    files = Files()
    taken = files.lock(f"{tmp_path}/lock")
    with pytest.raises(OSError, match=r"."):
        files.lock(f"{tmp_path}/lock")
    taken.close()
    files.lock(f"{tmp_path}/lock").close()


def test_free_space_and_mapping(tmp_path: Path) -> None:
    assert Files().free_bytes(str(tmp_path)) > 0
    (tmp_path / "f").write_bytes(b"mapped")
    with mapped(str(tmp_path / "f")) as view:
        assert bytes(view) == b"mapped"
