"""Where the streams live: one directory each, under one per account.

    <root>/<account>/<stream>/meta-a, meta-b     identity and config, twice
                              messages/*.seg     the log (log.py)
                              consumers          what the stream's consumers remember
    <root>/<account>/<stream>.deleted            being removed; finished at the next start
    <root>/+journal/                             shared_journal.py
    <root>/+quarantine/                          what nobody could read: never deleted

Each metadata copy is replaced atomically, one after the other, so one of them is always whole. When
both are damaged the identity and config come from the segments, which carry a copy of their own.
"""

import hashlib
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from jetstream.clock import Random
from jetstream.errors import StoreError
from jetstream.store._crc import crc32c
from jetstream.store.consumer_state import StateJournal
from jetstream.store.files import Disk, Files
from jetstream.store.log import FileStore
from jetstream.store.segment import HEADER_SEARCH_BYTES, Header, Identity, unpack_header
from jetstream.store.shared_journal import DIRECTORY, SharedJournal

COPIES = ("meta-a", "meta-b")
LOG = "messages"
CONSUMERS = "consumers"
QUARANTINE = "+quarantine"  # no account is called like this: "+" would be quoted
DELETED = ".deleted"
NAME_BYTES_MAX = 200


class Meta(Struct, frozen=True):
    """What a metadata copy says."""

    uid: str
    account: str
    name: str
    created_ns: int
    config: msgspec.Raw
    config_version: int
    format: int = 1


class StreamHome:
    """One stream's directory."""

    def __init__(
        self,
        directory: str,
        disk: Disk,
        meta: Meta,
        report: list[str],
        shared: SharedJournal | None = None,
    ) -> None:
        self.shared = shared
        self.directory = directory
        self.disk = disk
        self.uid = bytes.fromhex(meta.uid)
        self.account = meta.account
        self.name = meta.name
        self.created_ns = meta.created_ns
        self.config = bytes(meta.config)
        self.config_version = meta.config_version
        self.report = report

    def open(self, *, max_msgs_per_subject: int | None = None, first_seq: int = 0) -> FileStore:
        """Open the log; what recovery found goes to `store.report`."""
        store = FileStore(
            f"{self.directory}/{LOG}",
            self.disk,
            Identity(self.uid, self.account, self.name, self.created_ns),
            self.config,
            self.config_version,
            max_msgs_per_subject=max_msgs_per_subject,
            first_seq=first_seq,
            home=self,
            shared=self.shared,
        )
        if store.config_version > self.config_version:
            self.config_changed(store.config, store.config_version)
        return store

    def journal(self) -> StateJournal:
        """What the stream's consumers remember."""
        return StateJournal(f"{self.directory}/{CONSUMERS}", self.disk, self.shared)

    def config_changed(self, config: bytes, version: int) -> None:
        """A new config, durable when this returns."""
        self.config, self.config_version = config, version
        write_meta(self.disk, self.directory, self._meta())

    def _meta(self) -> Meta:
        return Meta(
            self.uid.hex(),
            self.account,
            self.name,
            self.created_ns,
            msgspec.Raw(self.config),
            self.config_version,
        )

    def destroy(self) -> None:
        """Gone for good: the rename decides, the rest is cleaning up."""
        aside = self.directory + DELETED
        if self.disk.exists(aside):
            self.disk.remove_tree(aside)
        if not self.disk.exists(self.directory):
            return
        if self.shared is not None:
            self.shared.forget_below(self.directory[len(self.shared.root) + 1 :])
        self.disk.rename(self.directory, aside)
        self.disk.sync_directory(self.directory.rpartition("/")[0])
        self.disk.remove_tree(aside)


class Vault:
    """All streams of a server, on one disk."""

    def __init__(self, root: str, disk: Disk | None = None, random: Random | None = None) -> None:
        self.root = root.rstrip("/")
        self.disk = disk or Files()
        self.random = random or Random()
        self.report: list[str] = []
        self.disk.make_directory(self.root)
        self.journal = SharedJournal(self.root, self.disk)
        self.report += self.journal.report

    def accounts(self) -> list[str]:
        return [
            unquote(name)
            for name in self.disk.list(self.root)
            if name not in (QUARANTINE, DIRECTORY) and self.disk.is_directory(f"{self.root}/{name}")
        ]

    def streams(self, account: str) -> list[StreamHome]:
        """Every stream of the account that can be read; the others are set aside and reported."""
        homes = []
        base = f"{self.root}/{quote(account, safe='')}"
        for name in self.disk.list(base):
            directory = f"{base}/{name}"
            if name.endswith(DELETED):
                self.disk.remove_tree(directory)
                continue
            meta = self._read(directory) if self.disk.is_directory(directory) else None
            if meta is None:
                self._set_aside(directory)
            else:
                homes.append(self._home(directory, meta))
        return homes

    def create(self, account: str, name: str, config_json: bytes, created_ns: int) -> StreamHome:
        """A home for a new stream; durable when this returns."""
        directory = f"{self.root}/{quote(account, safe='')}/{directory_name(name)}"
        if self.disk.exists(directory):
            if self._read(directory) is not None:
                raise StoreError(f"{directory} already holds a stream")
            self._set_aside(directory)
        if self.disk.exists(directory + DELETED):
            self.disk.remove_tree(directory + DELETED)
        self.disk.make_directory(directory)
        uid = self.random.bytes(16).hex()
        meta = Meta(uid, account, name, created_ns, msgspec.Raw(config_json), 1)
        write_first_meta(self.disk, directory, meta)
        return self._home(directory, meta)

    def _home(self, directory: str, meta: Meta) -> StreamHome:
        return StreamHome(directory, self.disk, meta, self.report, self.journal)

    def close(self) -> None:
        """After all streams were closed: nothing is left to redo."""
        self.journal.close()

    def _read(self, directory: str) -> Meta | None:
        copies = [read_meta(self.disk, f"{directory}/{name}") for name in COPIES]
        good = [meta for meta in copies if meta is not None]
        if good:
            meta = max(good, key=lambda each: each.config_version)
            if copies != [meta, meta]:
                self.report.append(f"{directory}: one copy of the metadata was bad or old: renewed")
                self._renew(directory, meta)
            return meta
        header = newest_header(self.disk, f"{directory}/{LOG}")
        if header is None:
            return None
        self.report.append(f"{directory}: metadata lost, rebuilt from the segments")
        identity = header.identity
        meta = Meta(
            identity.uid.hex(),
            identity.account,
            identity.name,
            identity.created_ns,
            msgspec.Raw(header.config),
            header.config_version,
        )
        self._renew(directory, meta)
        return meta

    def _renew(self, directory: str, meta: Meta) -> None:
        try:
            write_meta(self.disk, directory, meta)
        except OSError as error:
            self.report.append(f"{directory}: metadata not renewed: {error}")

    def _set_aside(self, directory: str) -> None:
        aside = f"{self.root}/{QUARANTINE}"
        self.disk.make_directory(aside)
        name = directory.rpartition("/")[2]
        taken = set(self.disk.list(aside))
        while name in taken:
            name += "_"
        self.disk.rename(directory, f"{aside}/{name}")
        self.disk.sync_directory(aside)
        self.disk.sync_directory(directory.rpartition("/")[0])
        self.report.append(f"{directory}: unreadable, set aside as {QUARANTINE}/{name}")


def directory_name(stream: str) -> str:
    """A stream's name as a directory's: printable, and never too long for a file system."""
    name = quote(stream, safe="")
    if len(name) <= NAME_BYTES_MAX:
        return name
    return f"{name[:100]}-{hashlib.sha256(stream.encode()).hexdigest()[:32]}"


def write_first_meta(disk: Disk, directory: str, meta: Meta) -> None:
    """Both copies of a stream that is being made; one of them is durable when this returns.

    Nobody knows the stream yet, so nothing has to be replaced atomically, and a second copy that
    the power took is renewed from the first: creating a stream costs few syncs.
    """
    text = msgspec.json.encode(meta)
    data = text + b"\n%08x\n" % crc32c(text)
    for name in reversed(COPIES):
        file = disk.open(f"{directory}/{name}", create=True)
        try:
            file.write(0, data)
            if name == COPIES[0]:
                file.sync()
        finally:
            file.close()
    # Making the log's directory also makes the names beside it durable.
    disk.make_directory(f"{directory}/{LOG}")


def write_meta(disk: Disk, directory: str, meta: Meta) -> None:
    text = msgspec.json.encode(meta)
    for name in COPIES:
        disk.replace(f"{directory}/{name}", text + b"\n%08x\n" % crc32c(text))


def read_meta(disk: Disk, path: str) -> Meta | None:
    """A copy, or None when it is not there or not as it was written."""
    if not disk.exists(path):
        return None
    try:
        text, _, checksum = disk.read(path)[:-1].rpartition(b"\n")
    except OSError:
        return None
    if checksum != b"%08x" % crc32c(text):
        return None
    try:
        return msgspec.json.decode(text, type=Meta)
    except msgspec.MsgspecError:
        return None


def newest_header(disk: Disk, directory: str) -> Header | None:
    """The header with the newest config among a log's segments."""
    newest: Header | None = None
    for name in disk.list(directory):
        if not name.endswith(".seg"):
            continue
        try:
            file = disk.open(f"{directory}/{name}")
            found = unpack_header(file.read(0, HEADER_SEARCH_BYTES))
            file.close()
        except OSError:
            continue
        if found and (newest is None or found[0].config_version >= newest.config_version):
            newest = found[0]
    return newest
