"""One file in front of all segments: many streams written in the same turn cost one sync.

    append   (file, offset, bytes) of every stream that was written, one after the other
    sync     one fdatasync; after it the streams' answers may go out
    redo     at the next start the bytes are written to their places again, before any log is opened
    settle   before a file is changed in place, replaced or removed: what was said about it is void

The segments themselves are written too, but not synced, until a checkpoint does it for all of them
and begins a new file. Writing the same bytes to the same place again changes nothing, so a redo is
harmless however much of it had already reached the disk.

    u32 crc32c of the rest, seeded with the epoch     u32 length of the entry, a multiple of 8
    u16 kind    u16 length of the path    u32 length of the data    u64 offset    path    data

`+journal/<epoch>` under the vault's root; an epoch ends with its checkpoint.
"""

import contextlib
import struct
from collections.abc import Iterable

from jetstream.errors import StoreError
from jetstream.store._crc import crc32c
from jetstream.store.files import Disk, File

DIRECTORY = "+journal"
CHECKPOINT_BYTES = 64 << 20
ALLOCATE = 4 << 20
WRITE, FORGET = 1, 2

_ENTRY = struct.Struct("<IIHHIQ")

Change = tuple[str, int, bytes]
"""A path below the root, an offset, and the bytes that belong there."""


class SharedJournal:
    """The redo log of a vault. `append` on the loop thread, `sync` and `checkpoint` anywhere."""

    def __init__(self, root: str, disk: Disk) -> None:
        self.root = root
        self.disk = disk
        self.directory = f"{root}/{DIRECTORY}"
        self.trouble: str | None = None
        self.report: list[str] = []
        self._file: File | None = None
        self._epoch = 0
        self._end = 0
        self._allocated = 0
        self._paths: dict[int, set[str]] = {}
        self._redo()

    # ── in front of the segments ─────────────────────────────────────────────────────────────

    @property
    def size(self) -> int:
        return self._end

    def append(self, changes: Iterable[Change]) -> bool:
        """Hand the changes to the OS; durable after the next `sync`. False if there were none."""
        if self.trouble is not None:
            self._begin_anew()
        entries = []
        epoch = self._epoch or 1
        touched = self._paths.setdefault(epoch, set())
        for path, offset, data in changes:
            touched.add(path)
            entries.append(pack_entry(epoch, WRITE, path, offset, data))
        if not entries:
            return False
        self._write(b"".join(entries))
        return True

    def _write(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._begin(self._epoch or 1)
            assert self._file is not None
            need = self._end + len(data)
            if need > self._allocated:
                self._file.allocate(need + ALLOCATE)
                self._allocated = need + ALLOCATE
            self._file.write(self._end, data)
        except OSError as error:
            self.trouble = f"cannot write {self.directory}: {error.strerror or error}"
            raise StoreError(self.trouble) from error
        self._end = need

    def _begin_anew(self) -> None:
        """After trouble: a new file. What the old one holds stays valid until a checkpoint."""
        try:
            self.switch()
        except OSError as error:
            self.trouble = f"cannot write {self.directory}: {error.strerror or error}"
            raise StoreError(self.trouble) from error

    def _begin(self, epoch: int) -> None:
        self.disk.make_directory(self.directory)
        path = f"{self.directory}/{epoch:012d}"
        file = self.disk.open(path, create=True)
        file.truncate(0)
        file.sync()
        self.disk.sync_directory(self.directory)
        self._file, self._epoch = file, epoch
        self._end = self._allocated = 0

    def sync(self) -> None:
        """Wait for the disk. After a failure this file is given up: sync the segments instead."""
        file = self._file
        if file is None:
            return
        if self.trouble is not None:
            raise StoreError(self.trouble)
        try:
            file.sync()
        except OSError as error:
            self.trouble = f"cannot sync {self.directory}: {error.strerror or error}"
            raise StoreError(self.trouble) from error

    # ── checkpoint ───────────────────────────────────────────────────────────────────────────

    @property
    def is_full(self) -> bool:
        """Time for `switch` and `checkpoint`."""
        return self._end > CHECKPOINT_BYTES

    def switch(self) -> int:
        """Begin a new file (loop thread); returns the epoch that `checkpoint` may now end."""
        old = self._epoch
        file = self._file
        self._begin(old + 1)
        if file is not None:
            file.close()
        self.trouble = None
        return old

    def checkpoint(self, epoch: int) -> None:
        """Sync every file that epochs up to this one spoke of, then drop them. Any thread."""
        for each in sorted(self._paths | {epoch: set()}):
            if each > epoch:
                break
            self._sync_all(each)
            name = f"{self.directory}/{each:012d}"
            if self.disk.exists(name):
                with contextlib.suppress(FileNotFoundError):  # somebody else was as quick
                    self.disk.remove(name)
                self.disk.sync_directory(self.directory)
            self._paths.pop(each, None)

    def _sync_all(self, epoch: int) -> None:
        paths = sorted(self._paths.get(epoch, ()))
        directories = set()
        for path in paths:
            if self._sync_file(path):
                directories.add(f"{self.root}/{path}".rpartition("/")[0])
        for directory in sorted(directories):
            self.disk.sync_directory(directory)

    def _sync_file(self, path: str) -> bool:
        try:
            file = self.disk.open(f"{self.root}/{path}")
        except FileNotFoundError:
            return False
        try:
            file.sync()
        finally:
            file.close()
        return True

    def settle(self, path: str) -> None:
        """Make a file durable in its place and void what was said about it so far.

        To be called before its bytes are changed, or another file takes its name.
        """
        if not any(path in paths for paths in self._paths.values()):
            return
        if self._sync_file(path):
            self.disk.sync_directory(f"{self.root}/{path}".rpartition("/")[0])
        self._forget(path)

    def forget_below(self, directory: str) -> None:
        """Void everything said about files in a directory that is going away."""
        prefix = directory.rstrip("/") + "/"
        if any(each.startswith(prefix) for paths in self._paths.values() for each in paths):
            self._forget(prefix)

    def _forget(self, path: str) -> None:
        self._write(pack_entry(self._epoch, FORGET, path, 0, b""))
        self.sync()
        for paths in self._paths.values():
            for each in [each for each in paths if each == path or is_below(each, path)]:
                paths.discard(each)

    def wipe(self) -> None:
        """End every epoch and overwrite what the files held: something in them is to be erased."""
        if self._file is None or not self._end:
            return
        last = self.switch()
        for epoch in sorted(set(self._paths) | {last}):
            self._sync_all(epoch)
            try:
                file = self.disk.open(f"{self.directory}/{epoch:012d}")
            except FileNotFoundError:
                continue
            size = file.size()
            for at in range(0, size, ALLOCATE):
                file.write(at, bytes(min(ALLOCATE, size - at)))
            file.sync()
            file.close()
        self.checkpoint(last)

    def close(self) -> None:
        """Everything into its place, so that the next start has nothing to redo."""
        for epoch in sorted(set(self._paths) | ({self._epoch} if self._file else set())):
            self.checkpoint(epoch)
        if self._file is not None:
            self._file.close()
            self._file = None
            self._end = 0

    # ── at the next start ────────────────────────────────────────────────────────────────────

    def _redo(self) -> None:
        names = [name for name in self.disk.list(self.directory) if name.isdigit()]
        changes: list[Change] = []
        for name in names:
            data = self.disk.read(f"{self.directory}/{name}")
            for kind, path, offset, body in read_entries(data, int(name), self.report):
                if kind == WRITE:
                    changes.append((path, offset, body))
                else:
                    changes = [
                        each for each in changes if each[0] != path and not is_below(each[0], path)
                    ]
        self._apply(changes)
        for name in names:
            self.disk.remove(f"{self.directory}/{name}")
        if names:
            self.disk.sync_directory(self.directory)
            self._epoch = int(names[-1]) + 1

    def _apply(self, changes: list[Change]) -> None:
        by_path: dict[str, list[Change]] = {}
        for change in changes:
            by_path.setdefault(change[0], []).append(change)
        for path, writes in by_path.items():
            full = f"{self.root}/{path}"
            directory = full.rpartition("/")[0]
            # Without its beginning, or without its directory, the file went on purpose.
            created = any(offset == 0 for _, offset, _ in writes)
            if not self.disk.exists(full) and not (created and self.disk.exists(directory)):
                continue
            file = self.disk.open(full, create=True)
            for _, offset, data in writes:
                file.write(offset, data)
            file.sync()
            file.close()
            self.disk.sync_directory(directory)


def is_below(path: str, prefix: str) -> bool:
    return prefix.endswith("/") and path.startswith(prefix)


def pack_entry(epoch: int, kind: int, path: str, offset: int, data: bytes) -> bytes:
    label = path.encode()
    length = -(-(_ENTRY.size + len(label) + len(data)) // 8) * 8
    head = _ENTRY.pack(0, length, kind, len(label), len(data), offset)[4:]
    rest = (head + label + data).ljust(length - 4, b"\0")
    return crc32c(rest, epoch & 0xFFFFFFFF).to_bytes(4, "little") + rest


def read_entries(data: bytes, epoch: int, report: list[str]) -> list[tuple[int, str, int, bytes]]:
    """The good entries of a file, in order; behind a damaged one it goes on with the next good."""
    entries = []
    at, stop = 0, len(data.rstrip(b"\0"))
    damaged = 0
    while at + _ENTRY.size <= len(data) and at < stop:
        crc, length, kind, path_len, data_len, offset = _ENTRY.unpack_from(data, at)
        end = at + length
        fits = _ENTRY.size + path_len + data_len <= length and end <= len(data) and length % 8 == 0
        if not fits or crc32c(data[at + 4 : end], epoch & 0xFFFFFFFF) != crc:
            damaged += 8
            at += 8
            continue
        body = at + _ENTRY.size + path_len
        path = data[at + _ENTRY.size : body].decode()
        entries.append((kind, path, offset, data[body : body + data_len]))
        at = end
    if damaged:
        report.append(f"shared journal {epoch}: {damaged} bytes torn or damaged")
    return entries
