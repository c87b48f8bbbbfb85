"""Is what a store directory holds whole? Answered offline, without a server, changing nothing.

The real recovery runs on an `Overlay`, so this finds exactly what the next start would find; then
every record of every segment is read and its checksum compared.
"""

from os import PathLike, fspath

from msgspec import Struct

from jetstream.errors import StoreError
from jetstream.store import upkeep
from jetstream.store.files import Disk, Files
from jetstream.store.overlay import Overlay
from jetstream.store.vault import StreamHome, Vault


class StreamReport(Struct, frozen=True):
    """One stream as found."""

    account: str
    name: str
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    segments: int
    consumers: int
    lost: list[tuple[int, int]]
    notes: list[str]

    @property
    def ok(self) -> bool:
        return not self.lost and not self.notes

    def lines(self) -> list[str]:
        gone = sum(last - first + 1 for first, last in self.lost)
        state = f"{gone} LOST" if gone else "whole" if self.ok else "see below"
        head = (
            f"{self.account} {self.name}: {self.messages} messages, {self.bytes} bytes, "
            f"sequences {self.first_seq} to {self.last_seq}, {self.segments} segments, "
            f"{self.consumers} consumers: {state}"
        )
        ranges = [
            f"  lost: {first}" + (f" to {last}" if last > first else "")
            for first, last in self.lost
        ]
        return [head, *ranges, *(f"  {note}" for note in self.notes)]


class Report(Struct, frozen=True):
    """A whole directory."""

    streams: list[StreamReport]
    notes: list[str]

    @property
    def ok(self) -> bool:
        return not self.notes and all(stream.ok for stream in self.streams)

    def lines(self) -> list[str]:
        found = [line for stream in self.streams for line in stream.lines()]
        return [*found, *self.notes] or ["no streams"]


def verify(directory: str | PathLike[str], disk: Disk | None = None) -> Report:
    """Read everything below a store's root; StoreError when there is no such directory."""
    below, root = disk or Files(), fspath(directory).rstrip("/")
    if not _holds_streams(below, root) and below.is_directory(f"{root}/jetstream"):
        root = f"{root}/jetstream"  # the server's store_dir was given
    if not below.is_directory(root):
        raise StoreError(f"{root} is not a directory")
    vault = Vault(root, Overlay(below))
    streams = [
        _verify_stream(home) for account in vault.accounts() for home in vault.streams(account)
    ]
    return Report(streams, vault.report)


def _holds_streams(disk: Disk, root: str) -> bool:
    return any(
        disk.exists(f"{root}/{account}/{stream}/meta-a")
        for account in disk.list(root)
        if disk.is_directory(f"{root}/{account}")
        for stream in disk.list(f"{root}/{account}")
    )


def _verify_stream(home: StreamHome) -> StreamReport:
    notes: list[str] = []
    store = home.open()
    for segment in list(store.segments):
        if not segment.checked:
            for _ in upkeep.check_segment(store, segment):
                pass
    journal = home.journal()
    notes += store.report + journal.report
    for path in home.disk.list(f"{home.directory}/messages/quarantine"):
        notes.append(f"{home.directory}/messages/quarantine/{path}: set aside earlier")
    lost = store.lost()
    return StreamReport(
        home.account,
        home.name,
        store.msgs,
        store.bytes,
        store.first_seq,
        store.last_seq,
        len(store.segments),
        len(journal.load()),
        lost.ranges if lost else [],
        list(dict.fromkeys(notes)),
    )
