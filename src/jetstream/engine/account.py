"""JetStream of one account: its streams, what they may use, and how they come and go.

Creating, changing and deleting happen here, after the rules of `stream/config.py` agreed; the
engine is told (`host.stream_added` …) and carries the messages. Consumers are the business of
`engine/consumers.py`, mirrors and sources are fed by `engine/feeds.py`.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from jetstream.broker.accounts_spec import AccountJetStream
from jetstream.engine import limits as lim
from jetstream.engine.feeds import Feed, Feeds
from jetstream.engine.host import EngineHost
from jetstream.engine.recovery import RESTORING_KEY, recover_account
from jetstream.errors import ApiError, StoreError
from jetstream.schema import advisory
from jetstream.schema.account import AccountInfo, ApiStats
from jetstream.schema.api_errors import (
    ACCOUNT_RESOURCES_EXCEEDED,
    INSUFFICIENT_RESOURCES,
    MAXIMUM_STREAMS_LIMIT,
    STREAM_CREATE,
    STREAM_NAME_EXIST,
    STREAM_NOT_FOUND,
    STREAM_SUBJECT_OVERLAP,
    STREAM_UPDATE,
)
from jetstream.schema.encoding import to_json
from jetstream.schema.requests import API_LEVEL
from jetstream.schema.stream import StreamConfig
from jetstream.schema.times import rfc3339
from jetstream.store.memory import MemoryStore
from jetstream.stream.config import ConfigLimits, check_create, check_update
from jetstream.stream.stream import Stream
from jetstream.subjects.match import overlaps

log = logging.getLogger("jetstream")

LOSSES_EVERY_NS = 5_000_000_000
_HASH_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class StreamAsset:
    """A stream with everything that belongs to it."""

    def __init__(
        self, stream: Stream, created_ns: int, home: Any = None, journal: Any = None
    ) -> None:
        self.stream = stream
        self.created_ns = created_ns
        self.home = home
        self.journal = journal
        self.consumers: dict[str, Any] = {}
        self.lost_told = 0
        # Mirrors and sources that read from this stream.
        self.followers: list[Feed] = []

    @property
    def store(self) -> Any:
        return self.stream.store

    @property
    def config(self) -> StreamConfig:
        return self.stream.config

    @property
    def name(self) -> str:
        return self.stream.config.name

    @property
    def visible_consumers(self) -> int:
        """Consumers that infos count; those of mirrors and sources stay out of sight."""
        return sum(not getattr(c.config, "direct", False) for c in self.consumers.values())


class Neighbours:
    """Subjects of streams by their first token: who could overlap at all."""

    __slots__ = ("_by_token", "_of_stream")

    def __init__(self) -> None:
        self._by_token: dict[str, set[tuple[str, str]]] = {}
        self._of_stream: dict[str, list[str]] = {}

    def put(self, stream: str, subjects: Sequence[str]) -> None:
        """These are the subjects of the stream now."""
        for subject in self._of_stream.pop(stream, ()):
            token = subject.partition(".")[0]
            self._by_token[token].discard((stream, subject))
            if not self._by_token[token]:
                del self._by_token[token]
        if subjects:
            self._of_stream[stream] = list(subjects)
        for subject in subjects:
            self._by_token.setdefault(subject.partition(".")[0], set()).add((stream, subject))

    def near(self, subject: str) -> Iterator[tuple[str, str]]:
        """(stream, subject) pairs that share the first token, or could."""
        token = subject.partition(".")[0]
        if token in ("*", ">"):
            for found in self._by_token.values():
                yield from found
            return
        for word in (token, "*", ">"):
            yield from self._by_token.get(word, ())


class JetStreamAccount:
    """The streams of one account."""

    def __init__(self, name: str, host: EngineHost, spec: AccountJetStream | None = None) -> None:
        self.name = name
        self.host = host
        self.domain: str = getattr(host, "domain", "") or ""
        self.streams: dict[str, StreamAsset] = {}
        self.limits = lim.account_limits(spec)
        self.api_total = 0
        self.api_errors = 0
        self.feeds = Feeds(self)
        # Snapshots and restores under way, by their id.
        self.transfers: dict[str, Any] = {}
        self._mirrors_answering: dict[str, list[StreamAsset]] = {}
        self._neighbours = Neighbours()
        digest = hashlib.sha256(name.encode()).digest()
        self.hash = "".join(_HASH_LETTERS[byte % 62] for byte in digest[:8])
        options = getattr(host, "options", None)
        window = options.limits.duplicate_window_ns if options is not None else 0
        self._config_limits = ConfigLimits(duplicate_window=window)
        self._memory_only = options is not None and options.memory_only
        self._server_memory = lim.memory_limit(options.max_memory if options is not None else -1)
        free = getattr(host, "free_bytes", lambda: None)()
        self._server_store = lim.store_limit(options.max_store if options is not None else -1, free)

    def configure(self, spec: AccountJetStream | None) -> None:
        """Other limits, after the configuration was read again; what is stored stays."""
        self.limits = lim.account_limits(spec)
        for asset in self.streams.values():
            asset.stream.resources = self._budgets(asset.config)

    # -- finding ------------------------------------------------------------------------------

    def stream(self, name: str) -> StreamAsset:
        """The stream of this name; STREAM_NOT_FOUND otherwise."""
        asset = self.streams.get(name)
        if asset is None:
            raise ApiError(STREAM_NOT_FOUND)
        return asset

    def direct(self, name: str) -> StreamAsset | None:
        """Who answers direct gets for this name: the stream, or a mirror of it."""
        asset = self.streams.get(name)
        if asset is not None and asset.config.allow_direct:
            return asset
        answering = self._mirrors_answering.get(name)
        return answering[0] if answering else None

    def lookup(self, name: str) -> StreamConfig | None:
        asset = self.streams.get(name)
        return asset.config if asset is not None else None

    def sorted_streams(self, subject: str = "") -> list[StreamAsset]:
        """By name; only those with a subject that collides, when one is given."""
        found = [self.streams[name] for name in sorted(self.streams)]
        if not subject:
            return found
        return [a for a in found if any(overlaps(own, subject) for own in a.config.subjects)]

    # -- coming and going ---------------------------------------------------------------------

    def create_stream(
        self, given: StreamConfig, pedantic: bool = False
    ) -> tuple[StreamAsset, bool]:
        """A new stream, or the existing one if it is configured just so; (stream, is it new)."""
        config = check_create(
            given, lookup=self.lookup, limits=self._config_limits, pedantic=pedantic
        )
        existing = self.streams.get(config.name)
        if existing is not None:
            if existing.config == config:
                return existing, False
            raise ApiError(STREAM_NAME_EXIST)
        self._check_room(config)
        self._check_overlap(config)
        asset = self._open_new(config)
        self._add(asset)
        self.feeds.start(asset)
        self.advise(*advisory.stream_action(config.name, "create"))
        return asset, True

    def restore_stream(self, given: StreamConfig, created_ns: int = 0) -> StreamAsset:
        """An empty stream to be filled from a backup; `finish_restore` makes it public."""
        config = check_create(
            msgspec.structs.replace(given, sealed=False),
            lookup=self.lookup,
            limits=self._config_limits,
        )
        config.sealed = given.sealed
        if config.name in self.streams:
            raise ApiError(STREAM_NAME_EXIST)
        self._check_room(config)
        self._check_overlap(config)
        config.metadata[RESTORING_KEY] = "true"
        return self._open_new(config, created_ns)

    def finish_restore(self, asset: StreamAsset) -> None:
        config = asset.config
        del config.metadata[RESTORING_KEY]
        if asset.home is not None:
            self._save(asset, config)
        asset.stream.recover(self.host.now())
        self._add(asset)
        self.feeds.start(asset)
        self.advise(*advisory.stream_action(asset.name, "create"))

    def update_stream(self, given: StreamConfig, pedantic: bool = False) -> StreamAsset:
        asset = self.stream(given.name)
        old = asset.config
        config = check_update(
            old, given, lookup=self.lookup, limits=self._config_limits, pedantic=pedantic
        )
        if old.sealed and config != old:
            raise ApiError(STREAM_UPDATE, err="invalid operation on sealed stream")
        if config.max_bytes != old.max_bytes:
            self._check_room(config, old)
        self._check_overlap(config)
        self._check_consumers_fit(asset, config)
        if config == old:
            return asset
        if asset.home is not None:
            self._save(asset, config)
        asset.stream.update(config)
        self._neighbours.put(config.name, config.subjects)
        self._index_mirror(asset, old)
        self.host.stream_changed(self, asset)
        self.feeds.restart(asset, old)
        self.host.wake(asset)
        self.advise(*advisory.stream_action(config.name, "modify"))
        return asset

    def delete_stream(self, name: str) -> None:
        asset = self.stream(name)
        self.feeds.stop(asset)
        from jetstream.engine import consumers

        consumers.stream_deleted(self.host, self, asset)
        del self.streams[name]
        self._neighbours.put(name, [])
        self._index_mirror(asset, asset.config, gone=True)
        self.host.stream_removed(self, asset)
        if asset.journal is not None:
            asset.journal.close()
        if asset.home is not None:
            asset.store.close()
            asset.home.destroy()
        else:
            asset.store.destroy()
        self.advise(*advisory.stream_action(name, "delete"))

    def _open_new(self, config: StreamConfig, created_ns: int = 0) -> StreamAsset:
        created = created_ns or self.host.now()
        try:
            if config.storage == "memory" or self._memory_only:
                store: Any = MemoryStore(first_seq=config.first_seq)
                return self._asset(config, store, created)
            home = self.host.vault.create(self.name, config.name, to_json(config), created)
            return self._asset(config, home.open(first_seq=config.first_seq), created, home)
        except (StoreError, OSError) as error:
            raise ApiError(STREAM_CREATE, err=str(error)) from error

    def _asset(
        self, config: StreamConfig, store: Any, created_ns: int, home: Any = None
    ) -> StreamAsset:
        stream = Stream(config, store, domain=self.domain, resources=self._budgets(config))
        journal = home.journal() if home is not None else None
        return StreamAsset(stream, created_ns, home, journal)

    def _add(self, asset: StreamAsset) -> None:
        self.streams[asset.name] = asset
        self._neighbours.put(asset.name, asset.config.subjects)
        self._index_mirror(asset, asset.config)
        self.host.stream_added(self, asset)

    def _save(self, asset: StreamAsset, config: StreamConfig) -> None:
        try:
            asset.store.update_config(to_json(config))
        except (StoreError, OSError) as error:
            raise ApiError(STREAM_UPDATE, err=str(error)) from error

    def _index_mirror(self, asset: StreamAsset, old: StreamConfig, gone: bool = False) -> None:
        """Mirrors with mirror_direct answer direct gets under their origin's name."""
        if old.mirror is not None:
            answering = self._mirrors_answering.get(old.mirror.name, [])
            if asset in answering:
                answering.remove(asset)
        config = asset.config
        if not gone and config.mirror is not None and config.mirror_direct:
            self._mirrors_answering.setdefault(config.mirror.name, []).append(asset)

    # -- rules among streams ------------------------------------------------------------------

    def _check_overlap(self, config: StreamConfig) -> None:
        for own in config.subjects:
            for name, theirs in self._neighbours.near(own):
                if name != config.name and overlaps(own, theirs):
                    raise ApiError(STREAM_SUBJECT_OVERLAP)

    def _check_room(self, config: StreamConfig, old: StreamConfig | None = None) -> None:
        if old is None and 0 <= self.limits.max_streams <= len(self.streams):
            raise ApiError(MAXIMUM_STREAMS_LIMIT)
        ours = everyone = 0
        if config.max_bytes > 0:
            ours = self.reserved(config.storage)
            everyone = sum(js.reserved(config.storage) for js in self._all_accounts())
        if old is not None and config.max_bytes > 0:
            ours -= max(old.max_bytes, 0)
            everyone -= max(old.max_bytes, 0)
        most = self._server_memory if config.storage == "memory" else self._server_store
        lim.check_reservation(config, self.limits, ours, everyone, most)

    def _check_consumers_fit(self, asset: StreamAsset, config: StreamConfig) -> None:
        most = config.consumer_limits.max_ack_pending
        if most <= 0 or most == asset.config.consumer_limits.max_ack_pending:
            return
        bad = [n for n, c in sorted(asset.consumers.items()) if c.config.max_ack_pending > most]
        if bad:
            names = ", ".join(bad)
            raise ApiError(STREAM_UPDATE, err=f"change to limits violates consumers: {names}")

    def _budgets(self, config: StreamConfig) -> lim.Budgets:
        kind = config.storage
        most = self.limits.max_memory if kind == "memory" else self.limits.max_storage
        server = self._server_memory if kind == "memory" else self._server_store
        return lim.Budgets(
            lim.Budget(
                server,
                lambda: sum(js.used(kind) for js in self._all_accounts()),
                INSUFFICIENT_RESOURCES,
            ),
            lim.Budget(most, lambda: self.used(kind), ACCOUNT_RESOURCES_EXCEEDED),
        )

    def _all_accounts(self) -> Iterator["JetStreamAccount"]:
        accounts = getattr(self.host, "accounts", None)
        return iter(accounts.values()) if accounts else iter((self,))

    # -- numbers ------------------------------------------------------------------------------

    def used(self, storage: str) -> int:
        return sum(a.store.bytes for a in self.streams.values() if a.config.storage == storage)

    def reserved(self, storage: str) -> int:
        return sum(
            max(a.config.max_bytes, 0) for a in self.streams.values() if a.config.storage == storage
        )

    def info(self) -> AccountInfo:
        return AccountInfo(
            memory=self.used("memory"),
            storage=self.used("file"),
            reserved_memory=self.reserved("memory"),
            reserved_storage=self.reserved("file"),
            streams=len(self.streams),
            consumers=sum(a.visible_consumers for a in self.streams.values()),
            limits=self.limits,
            domain=self.domain,
            api=ApiStats(API_LEVEL, self.api_total, self.api_errors),
        )

    # -- telling ------------------------------------------------------------------------------

    def advise(self, subject: str, body: bytes, kind: str = "") -> None:
        """Publish an advisory, if anybody listens."""
        address = subject.encode()
        if not self.host.has_interest(self.name, address):
            return
        kind = kind or advisory.kind_of(subject)
        stamp = rfc3339(self.host.now())
        payload = advisory.stamped(kind, body, self.host.random.nuid(), stamp, self.domain)
        self.host.publish(self.name, address, b"", payload)

    def storage_trouble(self, asset: StreamAsset, problem: BaseException) -> None:
        """The disk refused something: say so where operators look."""
        told = advisory.OutOfStorage(self.host.server_name, self.host.server_id, asset.name)
        self.advise(
            "$JS.EVENT.ADVISORY.SERVER.OUT_OF_STORAGE",
            to_json(told),
            advisory.TYPE + "server_out_of_space",
        )

    def watch_losses(self) -> None:
        """Look for damage found since the last look, now and then; say it in log and advisory."""
        for asset in self.streams.values():
            lost = asset.store.lost()
            if lost is None or lost.count <= asset.lost_told:
                continue
            asset.lost_told = lost.count
            shown = ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in lost.ranges[:20])
            name = f"{self.name} > {asset.name}"
            log.error(
                "JetStream stream '%s' lost %d messages to damage: %s", name, lost.count, shown
            )
            told = advisory.DataLost(asset.name, lost.ranges[:1000], lost.bytes)
            subject = f"$JS.EVENT.ADVISORY.STREAM.DATA_LOST.{asset.name}"
            self.advise(subject, to_json(told), advisory.OWN_TYPE + "stream_data_lost")
        self.host.schedule(self.host.now() + LOSSES_EVERY_NS, self.watch_losses)

    # -- restart ------------------------------------------------------------------------------

    def recover(self) -> None:
        """Open every stream the vault holds; one that cannot be opened does not stop the others."""
        recover_account(self)
        self.host.schedule(self.host.now() + LOSSES_EVERY_NS, self.watch_losses)

    def close(self) -> None:
        self.feeds.close()
        for asset in self.streams.values():
            if asset.journal is not None:
                asset.journal.close()
            asset.store.close()
