"""A disk that shows another one and keeps every change to itself.

Recovery repairs what it finds; `verify` wants to know what recovery would find and repair without
touching a byte. So it runs the real thing on top of this.
"""

import errno
import os

from jetstream.store.files import Data, Disk, File, replace_atomically


class OverlayFile:
    """A file below plus what was written here."""

    def __init__(self, below: File | None) -> None:
        self._below = below
        self._size = below.size() if below is not None else 0
        self._shown = self._size  # how much of the file below still shows
        self._writes: list[tuple[int, bytes]] = []

    def read(self, offset: int, size: int) -> bytes:
        size = max(min(size, self._size - offset), 0)
        below = b""
        if self._below is not None and offset < self._shown:
            below = self._below.read(offset, min(size, self._shown - offset))
        if not self._writes:
            return below.ljust(size, b"\0") if len(below) < size else below
        found = bytearray(below.ljust(size, b"\0"))
        for at, data in self._writes:
            start, stop = max(at, offset), min(at + len(data), offset + size)
            if start < stop:
                found[start - offset : stop - offset] = data[start - at : stop - at]
        return bytes(found)

    def read_into(self, offset: int, room: memoryview) -> int:
        data = self.read(offset, len(room))
        room[: len(data)] = data
        return len(data)

    def write(self, offset: int, data: Data) -> None:
        self._writes.append((offset, bytes(data)))
        self._size = max(self._size, offset + len(data))

    def sync(self) -> None:
        """Nothing here is meant to last."""

    def allocate(self, size: int) -> None:
        self._size = max(self._size, size)

    def truncate(self, size: int) -> None:
        self._shown = min(self._shown, size)
        self._writes = [(at, data[: max(size - at, 0)]) for at, data in self._writes if at < size]
        self._size = size

    def size(self) -> int:
        return self._size

    def close(self) -> None:
        """The bytes stay: somebody may open the path again."""


class Overlay:
    """The file system `below`, seen through a layer that takes all changes."""

    def __init__(self, below: Disk) -> None:
        self._below = below
        self._files: dict[str, OverlayFile] = {}
        self._gone: set[str] = set()
        self._made: set[str] = set()

    def open(self, path: str, create: bool = False) -> File:
        if path not in self._files:
            if self._is_below(path):
                self._files[path] = OverlayFile(self._below.open(path))
            elif create:
                self._files[path] = OverlayFile(None)
            else:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._files[path]

    def _is_below(self, path: str) -> bool:
        return not self._is_gone(path) and self._below.exists(path)

    def _is_gone(self, path: str) -> bool:
        return any(path == gone or path.startswith(gone + "/") for gone in self._gone)

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._made or self._is_below(path)

    def is_directory(self, path: str) -> bool:
        return path in self._made or (not self._is_gone(path) and self._below.is_directory(path))

    def list(self, path: str) -> list[str]:
        names = {name for name in self._below.list(path) if not self._is_gone(f"{path}/{name}")}
        for known in (*self._files, *self._made):
            directory, _, name = known.rpartition("/")
            if directory == path:
                names.add(name)
        return sorted(names)

    def make_directory(self, path: str) -> None:
        if not self.exists(path):
            self._made.add(path)

    def rename(self, old: str, new: str) -> None:
        if self.is_directory(old):
            self._gone.add(old)
            return
        self._files[new] = self.open(old)  # type: ignore[assignment]
        self.remove(old)

    def remove(self, path: str) -> None:
        self._files.pop(path, None)
        self._gone.add(path)

    def remove_tree(self, path: str) -> None:
        self._gone.add(path)

    def sync_directory(self, path: str) -> None:
        """Nothing here is meant to last."""

    def read(self, path: str) -> bytes:
        file = self.open(path)
        return file.read(0, file.size())

    def replace(self, path: str, data: bytes) -> None:
        replace_atomically(self, path, data)
