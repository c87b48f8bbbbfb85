"""What a stream's consumers remember: one append-only journal, in the same group commit.

    8  magic "JSCONS01", then entries until the first zero length:
    u32 crc32c of the rest of the entry    u32 length of the whole entry    u8 kind
    u8 zero    u16 length of the name    name    data

A snapshot (`put`) replaces everything said about a consumer before, a delta (`note`) adds to it.
Snapshots and drops are written twice, so that one damaged entry costs at most one delta. When the
file is mostly history it is written anew beside the old one and renamed over it.
"""

import struct

from jetstream.errors import StoreError
from jetstream.store._crc import crc32c
from jetstream.store.files import Disk, File
from jetstream.store.shared_journal import Change, SharedJournal

MAGIC = b"JSCONS01"
PUT, NOTE, DROP = 1, 2, 3
ALLOCATE = 128 << 10
COMPACT_MIN = 1 << 20
DELTAS_MAX = 64 << 10

_ENTRY = struct.Struct("<IIBBH")

State = dict[str, tuple[bytes, list[bytes]]]


class StateJournal:
    """Consumer state of one stream on disk. Same threads as a store: `sync` may run anywhere."""

    def __init__(self, path: str, disk: Disk, shared: SharedJournal | None = None) -> None:
        self.path = path
        self.shared = shared
        self._unsynced: list[tuple[int, bytes]] = []
        self.disk = disk
        self.trouble: str | None = None
        self.report: list[str] = []
        self._file: File | None = None
        self._pending = bytearray()
        self._end = 0
        self._allocated = 0
        self._compacted_size = 0
        self._dirty = False
        self._suspect = False
        self._deltas: dict[str, int] = {}
        self._state: State = self._read()

    def load(self) -> State:
        """Every consumer's last snapshot and the deltas since, as of opening."""
        return {name: (snapshot, list(notes)) for name, (snapshot, notes) in self._state.items()}

    def put(self, name: str, snapshot: bytes) -> None:
        self._add(PUT, name, snapshot)
        self._add(PUT, name, snapshot)
        self._deltas[name] = 0

    def note(self, name: str, delta: bytes) -> None:
        self._add(NOTE, name, delta)
        self._deltas[name] = self._deltas.get(name, 0) + len(delta)

    def drop(self, name: str) -> None:
        self._add(DROP, name, b"")
        self._add(DROP, name, b"")
        self._deltas.pop(name, None)

    def wants_snapshot(self, name: str) -> bool:
        """Have so many deltas piled up that a fresh `put` would be shorter to read?"""
        return self._deltas.get(name, 0) > DELTAS_MAX

    def _add(self, kind: int, name: str, data: bytes) -> None:
        self._pending += pack_entry(kind, name, data)

    # ── to the disk ──────────────────────────────────────────────────────────────────────────

    def write(self) -> bool:
        """Hand new entries to the OS; False if there were none."""
        if not self._pending and not self._suspect:
            return False
        try:
            if self._suspect or self._end > max(COMPACT_MIN, 4 * self._compacted_size):
                self._compact()
            else:
                self._append()
        except OSError as error:
            self.trouble = f"cannot write {self.path}: {error.strerror or error}"
            raise StoreError(self.trouble) from error
        self.trouble = None
        return True

    def _append(self) -> None:
        if self._file is None:
            # The name is durable before the first entry can be acknowledged.
            self.disk.replace(self.path, MAGIC)
            self._file = self.disk.open(self.path)
            self._end = self._allocated = len(MAGIC)
        need = self._end + len(self._pending)
        if need > self._allocated:
            self._file.allocate(need + ALLOCATE)
            self._file.write(need, bytes(ALLOCATE))
            self._allocated = need + ALLOCATE
        self._file.write(self._end, self._pending)
        self._unsynced.append((self._end, bytes(self._pending)))
        self._end = need
        self._state = apply_entries(self._state, bytes(self._pending))
        self._pending.clear()
        self._dirty = True
        if self.shared is None:
            self._unsynced.clear()

    def sync(self) -> None:
        """Wait for the disk. After a failure the next `write` writes everything anew."""
        if self._suspect:
            raise StoreError(self.trouble or f"an earlier sync of {self.path} failed")
        dirty, self._dirty = self._dirty, False
        if not dirty or self._file is None:
            return
        covered = len(self._unsynced)
        try:
            self._file.sync()
        except OSError as error:
            self._suspect = True
            self.trouble = f"cannot sync {self.path}: {error.strerror or error}"
            raise StoreError(self.trouble) from error
        del self._unsynced[:covered]

    def take_unsynced(self) -> list[Change]:
        """Entries written since the last call, for the shared journal instead of `sync`."""
        path = self._shared_path() if self._unsynced else ""
        changes = [(path, offset, data) for offset, data in self._unsynced]
        self._unsynced.clear()
        return changes

    def _shared_path(self) -> str:
        assert self.shared is not None
        return self.path[len(self.shared.root) + 1 :]

    def _compact(self) -> None:
        """Write the present state to a new file that replaces this one; synced when it returns."""
        self._state = apply_entries(self._state, bytes(self._pending))
        parts = [MAGIC]
        for name, (snapshot, notes) in self._state.items():
            parts += [pack_entry(PUT, name, snapshot)] * 2
            parts += [pack_entry(NOTE, name, delta) for delta in notes]
        data = b"".join(parts)
        if self.shared is not None:
            self.shared.settle(self._shared_path())
        self.disk.replace(self.path, data)
        self._unsynced.clear()
        if self._file is not None:
            self._file.close()
        self._file = self.disk.open(self.path)
        self._end = self._allocated = self._compacted_size = len(data)
        self._pending.clear()
        self._suspect = False
        self._dirty = False

    def close(self) -> None:
        try:
            self.write()
            self.sync()
        finally:
            if self._file is not None:
                self._file.close()
                self._file = None

    # ── from the disk ────────────────────────────────────────────────────────────────────────

    def _read(self) -> State:
        for stray in (self.path + ".tmp",):
            if self.disk.exists(stray):
                self.disk.remove(stray)
        if not self.disk.exists(self.path):
            return {}
        data = self.disk.read(self.path)
        entries, end, damaged = split_entries(data)
        if damaged:
            self.report.append(f"{self.path}: {damaged} bytes of consumer state damaged")
        self._file = self.disk.open(self.path)
        self._end, self._allocated = end, len(data)
        self._compacted_size = end
        if damaged or end < len(data.rstrip(b"\0")):
            self._suspect = True  # the next write replaces the damaged file
        state: State = {}
        for kind, name, body in entries:
            apply(state, kind, name, body)
        self._deltas = {name: sum(map(len, notes)) for name, (_, notes) in state.items()}
        return state


class MemoryJournal:
    """The same for streams in memory: nothing outlives the process."""

    trouble: str | None = None

    def __init__(self) -> None:
        self.report: list[str] = []

    def load(self) -> State:
        return {}

    def put(self, name: str, snapshot: bytes) -> None: ...
    def note(self, name: str, delta: bytes) -> None: ...
    def drop(self, name: str) -> None: ...

    def wants_snapshot(self, name: str) -> bool:
        return False

    def write(self) -> bool:
        return False

    def take_unsynced(self) -> list[Change]:
        return []

    def sync(self) -> None: ...
    def close(self) -> None: ...


def pack_entry(kind: int, name: str, data: bytes) -> bytes:
    label = name.encode()
    length = _ENTRY.size + len(label) + len(data)
    rest = _ENTRY.pack(0, length, kind, 0, len(label))[4:] + label + data
    return crc32c(rest).to_bytes(4, "little") + rest


def unpack_entry(data: bytes, at: int) -> tuple[int, str, bytes, int] | None:
    """kind, name, data and where the next entry begins; None if there is no good entry here."""
    if at + _ENTRY.size > len(data):
        return None
    crc, length, kind, _, name_len = _ENTRY.unpack_from(data, at)
    end = at + length
    if length < _ENTRY.size + name_len or end > len(data) or not PUT <= kind <= DROP:
        return None
    if crc32c(data[at + 4 : end]) != crc:
        return None
    body = at + _ENTRY.size + name_len
    return kind, data[at + _ENTRY.size : body].decode(), data[body:end], end


def split_entries(data: bytes) -> tuple[list[tuple[int, str, bytes]], int, int]:
    """Good entries, where the last one ends, and how many bytes between them were damaged."""
    entries: list[tuple[int, str, bytes]] = []
    at = end = len(MAGIC)
    damaged = 0 if data[: len(MAGIC)] == MAGIC else len(MAGIC)
    stop = len(data.rstrip(b"\0"))
    while at < stop:
        found = unpack_entry(data, at)
        if found is None:
            at += 1
            continue
        damaged += at - end
        kind, name, body, at = found
        entries.append((kind, name, body))
        end = at
    if end < stop:
        damaged += stop - end
    return entries, end, damaged


def apply(state: State, kind: int, name: str, body: bytes) -> None:
    if kind == PUT:
        state[name] = (body, [])
    elif kind == NOTE:
        state.setdefault(name, (b"", []))[1].append(body)
    else:
        state.pop(name, None)


def apply_entries(state: State, data: bytes) -> State:
    at = 0
    while at < len(data):
        found = unpack_entry(data, at)
        assert found is not None
        kind, name, body, at = found
        apply(state, kind, name, body)
    return state
