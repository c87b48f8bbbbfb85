"""The only module that touches the disk. `testing/disk.py` has a faulty twin of it.

Paths are strings. Every method may raise OSError; callers turn it into a StoreError where they
know what it means. Nothing here retries: after a failed sync nobody knows what is on disk.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

Data = bytes | bytearray | memoryview


class File(Protocol):
    """One open file, read and written at offsets."""

    def read(self, offset: int, size: int) -> bytes: ...
    def read_into(self, offset: int, room: memoryview) -> int: ...
    def write(self, offset: int, data: Data) -> None: ...
    def sync(self) -> None: ...
    def allocate(self, size: int) -> None: ...
    def truncate(self, size: int) -> None: ...
    def size(self) -> int: ...
    def close(self) -> None: ...


class Disk(Protocol):
    """What a store needs from a file system."""

    def open(self, path: str, create: bool = False) -> File: ...
    def exists(self, path: str) -> bool: ...
    def list(self, path: str) -> list[str]: ...
    def make_directory(self, path: str) -> None: ...
    def rename(self, old: str, new: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_tree(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None: ...
    def read(self, path: str) -> bytes: ...
    def replace(self, path: str, data: bytes) -> None: ...
    def is_directory(self, path: str) -> bool: ...


class RealFile:
    """A file descriptor."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self, offset: int, size: int) -> bytes:
        parts = []
        while size > 0:
            part = os.pread(self._fd, min(size, 1 << 30), offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, offset: int, room: memoryview) -> int:
        return os.preadv(self._fd, [room], offset)

    def write(self, offset: int, data: Data) -> None:
        view = memoryview(data)
        while view:
            done = os.pwrite(self._fd, view, offset)
            offset += done
            view = view[done:]

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def allocate(self, size: int) -> None:
        """Make the file at least this long, with space reserved and read as zeros."""
        have = os.fstat(self._fd).st_size
        if size <= have:
            return
        try:
            os.posix_fallocate(self._fd, have, size - have)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            os.ftruncate(self._fd, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


class Files:
    """The machine's own file system."""

    def open(self, path: str, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return RealFile(os.open(path, flags, 0o640))
        except OSError as error:
            # A read-only disk can still be read.
            if create or error.errno not in (errno.EROFS, errno.EACCES):
                raise
            return RealFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def is_directory(self, path: str) -> bool:
        return Path(path).is_dir()

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; none when it does not exist."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        """Make it and its parents; each new name is durable when this returns."""
        missing = []
        at = Path(path)
        while not at.exists():
            missing.append(at)
            at = at.parent
        for made in reversed(missing):
            with contextlib.suppress(FileExistsError):
                made.mkdir(mode=0o750)
        # All names first: the first sync then writes them together, the others find little to do.
        for made in reversed(missing):
            self.sync_directory(str(made.parent))

    def rename(self, old: str, new: str) -> None:
        Path(old).replace(new)

    def remove(self, path: str) -> None:
        Path(path).unlink()

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def replace(self, path: str, data: bytes) -> None:
        """The file holds either what it held before or `data`, whenever the power goes."""
        replace_atomically(self, path, data)

    def free_bytes(self, path: str) -> int:
        """Space left for us on the disk that holds `path`."""
        stats = os.statvfs(path)
        return stats.f_bavail * stats.f_frsize

    def lock(self, path: str) -> File:
        """Take the directory for this process; OSError when another one has it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return RealFile(fd)


@contextlib.contextmanager
def mapped(path: str) -> Iterator[memoryview]:
    """A whole file as memory, read only; for readers without a server."""
    with (
        Path(path).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        yield view


def replace_atomically(disk: Disk, path: str, data: bytes) -> None:
    """Write beside, sync, rename over, sync the name."""
    beside = path + ".tmp"
    file = disk.open(beside, create=True)
    try:
        file.truncate(0)
        file.write(0, data)
        file.sync()
    finally:
        file.close()
    disk.rename(beside, path)
    disk.sync_directory(path.rpartition("/")[0] or "/")
