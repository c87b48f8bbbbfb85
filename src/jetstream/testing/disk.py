"""A disk in memory that remembers what is durable, and fails when told to.

It knows the difference that matters: what was written, what was synced, which names were synced.
`power_cut()` gives the disk a machine would find after the power came back, in one of four ways:

    nothing   only what was synced
    all       everything that was written
    some      a random part of what was not synced, in any order inside a file
    torn      everything, but the last write of each file only in part (sectors of 512 bytes)

`cut_after` stops the machine at the n-th operation; `fail_next` makes operations fail with an error
of choice; `capacity` fills up; `read_only` refuses changes. A failed sync is the nasty kind: what
was waiting for it is never written later either, though reading still shows it.
"""

import errno
import os
from collections.abc import Callable
from random import Random

from jetstream.store.files import Data, File, replace_atomically

SECTOR = 512
VARIANTS = ("nothing", "all", "some", "torn")


class PowerCut(BaseException):
    """The machine stopped here; nobody catches this by accident."""


class Inode:
    """A file's bytes: what is seen, what is durable, and the changes in between."""

    __slots__ = ("content", "durable", "pending")

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.durable = bytes(content)
        self.pending: list[tuple[str, int, bytes]] = []

    def change(self, kind: str, at: int, data: bytes = b"") -> None:
        apply_change(self.content, kind, at, data)
        self.pending.append((kind, at, data))

    def sync(self) -> None:
        if self.pending:
            durable = bytearray(self.durable)
            for change in self.pending:
                apply_change(durable, *change)
            self.durable = bytes(durable)
            self.pending.clear()

    def after(self, variant: str, random: Random) -> bytes:
        """The bytes found after a power cut."""
        if variant == "nothing" or not self.pending:
            return self.durable
        found = bytearray(self.durable)
        changes = self.pending
        if variant == "some":
            changes = [each for each in changes if random.random() < 0.5]
        for change in changes[:-1] if variant == "torn" else changes:
            apply_change(found, *change)
        if variant == "torn":
            tear(found, *changes[-1], random)
        return bytes(found)


def apply_change(content: bytearray, kind: str, at: int, data: bytes) -> None:
    if kind == "write":
        if len(content) < at:
            content.extend(bytes(at - len(content)))
        content[at : at + len(data)] = data
    elif kind == "truncate":
        del content[at:]
        content.extend(bytes(at - len(content)))
    elif len(content) < at:
        content.extend(bytes(at - len(content)))


def tear(content: bytearray, kind: str, at: int, data: bytes, random: Random) -> None:
    """Some sectors of the last write arrive."""
    if kind != "write":
        return
    start = at
    while start < at + len(data):
        stop = min((start // SECTOR + 1) * SECTOR, at + len(data))
        if random.random() < 0.5:
            apply_change(content, "write", start, data[start - at : stop - at])
        start = stop


class FaultyFile:
    def __init__(self, disk: "FaultyDisk", inode: Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path

    def read(self, offset: int, size: int) -> bytes:
        self._disk._reading("read", self._path)
        return bytes(self._inode.content[offset : offset + size])

    def read_into(self, offset: int, room: memoryview) -> int:
        data = self.read(offset, len(room))
        room[: len(data)] = data
        return len(data)

    def write(self, offset: int, data: Data) -> None:
        self._disk._step("write", self._path)
        self._disk._reserve(offset + len(data) - len(self._inode.content))
        self._inode.change("write", offset, bytes(data))

    def sync(self) -> None:
        try:
            self._disk._step("sync", self._path)
        except OSError:
            self._inode.pending.clear()  # the OS calls these pages clean now
            raise
        self._inode.sync()

    def allocate(self, size: int) -> None:
        self._disk._step("allocate", self._path)
        self._disk._reserve(size - len(self._inode.content))
        self._inode.change("allocate", size)

    def truncate(self, size: int) -> None:
        self._disk._step("truncate", self._path)
        self._inode.change("truncate", size)

    def size(self) -> int:
        return len(self._inode.content)

    def close(self) -> None:
        pass


class FaultyDisk:
    """A file system in memory with faults; stands in for `store.files.Files`."""

    def __init__(self) -> None:
        self.files: dict[str, Inode] = {}
        self.directories: set[str] = {"/"}
        self._durable_files: dict[str, Inode] = {}
        self._durable_directories: set[str] = {"/"}
        self._names: list[tuple[str, Callable[[dict[str, Inode], set[str]], None]]] = []
        self.operations = 0
        self.cut_after: int | None = None
        self.capacity: int | None = None
        self.read_only = False
        self._failures: list[tuple[str, str, int, int]] = []
        self.log: list[str] = []

    # ── faults ───────────────────────────────────────────────────────────────────────────────

    def fail_next(
        self, kind: str, code: int = errno.EIO, *, path: str = "", after: int = 0
    ) -> None:
        """The next operation of this kind (after passing `after` of them) fails once."""
        self._failures.append((kind, path, code, after))

    def power_cut(self, variant: str, random: Random) -> "FaultyDisk":
        """The disk as the next start finds it."""
        names = dict(self._durable_files)
        directories = set(self._durable_directories)
        keep = {"nothing": 0, "all": len(self._names), "torn": len(self._names)}.get(variant)
        if keep is None:
            keep = random.randrange(len(self._names) + 1)
        for _, change in self._names[:keep]:
            change(names, directories)
        found = FaultyDisk()
        found.directories = directories
        found._durable_directories = set(directories)
        copies = {id(inode): Inode(inode.after(variant, random)) for inode in names.values()}
        found.files = {path: copies[id(inode)] for path, inode in names.items()}
        found._durable_files = dict(found.files)
        return found

    def crash(self, variant: str = "all", seed: int = 0) -> None:
        """The power goes and comes back: this disk is now what `power_cut` describes."""
        found = self.power_cut(variant, Random(seed))
        self.files, self.directories = found.files, found.directories
        self._durable_files = found._durable_files
        self._durable_directories = found._durable_directories
        self._names.clear()

    def _step(self, kind: str, path: str) -> None:
        self.operations += 1
        if self.cut_after is not None and self.operations > self.cut_after:
            raise PowerCut
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        self._maybe_fail(kind, path)

    def _reading(self, kind: str, path: str) -> None:
        if self.cut_after is not None and self.operations > self.cut_after:
            raise PowerCut
        self._maybe_fail(kind, path)

    def _maybe_fail(self, kind: str, path: str) -> None:
        for i, (wanted, part, code, after) in enumerate(self._failures):
            if wanted == kind and part in path:
                if after:
                    self._failures[i] = (wanted, part, code, after - 1)
                    continue
                del self._failures[i]
                raise OSError(code, os.strerror(code))

    def _reserve(self, size: int) -> None:
        if self.capacity is not None and size > 0:
            used = sum(len(inode.content) for inode in self.files.values())
            if used + size > self.capacity:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _rename_step(
        self, directory: str, change: Callable[[dict[str, Inode], set[str]], None]
    ) -> None:
        change(self.files, self.directories)
        self._names.append((directory, change))

    # ── what a store sees ────────────────────────────────────────────────────────────────────

    def open(self, path: str, create: bool = False) -> File:
        inode = self.files.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._step("create", path)
            made = Inode()
            self._rename_step(parent(path), lambda files, _: files.__setitem__(path, made))
            inode = made
        else:
            self._reading("open", path)
        return FaultyFile(self, inode, path)

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.directories

    def is_directory(self, path: str) -> bool:
        return path in self.directories

    def list(self, path: str) -> list[str]:
        known = set(self.files) | self.directories
        return sorted({each.rpartition("/")[2] for each in known if parent(each) == path} - {""})

    def make_directory(self, path: str) -> None:
        if path in self.directories:
            return
        self.make_directory(parent(path))
        self._step("mkdir", path)
        self._rename_step(parent(path), lambda _, directories: directories.add(path))
        self.sync_directory(parent(path))

    def rename(self, old: str, new: str) -> None:
        self._step("rename", old)
        if old not in self.files and old not in self.directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)

        def change(files: dict[str, Inode], directories: set[str]) -> None:
            if old in files:
                files[new] = files.pop(old)
            for path in [each for each in files if each.startswith(old + "/")]:
                files[new + path[len(old) :]] = files.pop(path)
            for path in [each for each in directories if (each + "/").startswith(old + "/")]:
                directories.discard(path)
                directories.add(new + path[len(old) :])

        self._rename_step(parent(new), change)

    def remove(self, path: str) -> None:
        self._step("remove", path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._rename_step(parent(path), lambda files, _: drop(files, path))

    def remove_tree(self, path: str) -> None:
        for each in sorted(self.files):
            if each.startswith(path + "/"):
                self.remove(each)
        self._step("remove", path)

        def change(_: dict[str, Inode], directories: set[str]) -> None:
            for each in [d for d in directories if (d + "/").startswith(path + "/")]:
                directories.discard(each)

        self._rename_step(parent(path), change)

    def sync_directory(self, path: str) -> None:
        self._step("sync_directory", path)
        waiting = []
        for directory, change in self._names:
            if directory == path:
                change(self._durable_files, self._durable_directories)
            else:
                waiting.append((directory, change))
        self._names = waiting

    def read(self, path: str) -> bytes:
        self._reading("read", path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return bytes(self.files[path].content)

    def replace(self, path: str, data: bytes) -> None:
        replace_atomically(self, path, data)

    def copy(self) -> "FaultyDisk":
        """The same bytes on another disk, all of it durable."""
        return self.power_cut("all", Random(0))


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def drop(files: dict[str, Inode], path: str) -> None:
    files.pop(path, None)
