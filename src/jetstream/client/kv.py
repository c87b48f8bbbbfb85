"""Key-value buckets: a convention over streams, the same for every NATS client.

    bucket B  = stream KV_B on $KV.B.>      key k = subject $KV.B.k      revision = sequence

A delete is a message with a header; so is a purge, which also rolls up what came before. Compare
and set is the expected-last-subject-sequence header of a publish.
"""

import re
from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from jetstream.client.config import (
    Config,
    Placement,
    RePublish,
    Seconds,
    Storage,
    StreamConfig,
    StreamSource,
    SubjectTransform,
    moment,
)
from jetstream.client.consumer import _seconds
from jetstream.client.errors import (
    InvalidBucketError,
    InvalidKeyError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    NoMessageError,
    WrongLastRevisionError,
)
from jetstream.client.info import Info, StreamInfo
from jetstream.client.message import Payload
from jetstream.client.reading import Reading, StreamMessage
from jetstream.client.watch import KeyWatcher, key_operation
from jetstream.errors import ApiError
from jetstream.schema.addresses import kv_key, kv_stream

if TYPE_CHECKING:
    from jetstream.client.jetstream import JetStream

HISTORY_MAX = 64
MARKER_AGE = 30 * 60.0
_BUCKET = re.compile(r"[a-zA-Z0-9_-]+")
_KEY = re.compile(r"[-/_=.a-zA-Z0-9]+")
_PATTERN = re.compile(r"[-/_=.a-zA-Z0-9*>]+")
_WRONG_LAST = (10071, 10164)

Operation = Literal["PUT", "DEL", "PURGE"]


class KeyValueConfig(Config):
    """A bucket: how much history, for how long, how large."""

    bucket: str
    description: str | None = None
    history: int = 1
    ttl: Seconds | None = None
    max_bytes: int | None = None
    max_value_size: int | None = None
    storage: Storage | None = None
    num_replicas: int = 1
    placement: Placement | None = None
    republish: RePublish | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] | None = None
    compression: bool = False
    limit_marker_ttl: Seconds | None = None
    metadata: dict[str, str] | None = None


class Entry(Struct, frozen=True, kw_only=True):
    """One value of a key, or the marker of its deletion."""

    bucket: str
    key: str
    value: bytes
    revision: int
    created_ns: int
    operation: Operation = "PUT"
    delta: int = 0

    @property
    def created(self) -> datetime:
        return moment(self.created_ns)

    @property
    def text(self) -> str:
        return self.value.decode()

    @property
    def is_deleted(self) -> bool:
        return self.operation != "PUT"


class BucketStatus(Info):
    """What a bucket looks like now."""

    bucket: str = ""
    values: int = 0
    history: int = 1
    ttl: float = 0.0
    bytes: int = 0
    storage: str = "file"
    replicas: int = 1
    compressed: bool = False
    limit_marker_ttl: float = 0.0
    metadata: dict[str, str] = {}
    stream: StreamInfo | None = None


def check_bucket(bucket: str) -> str:
    if not _BUCKET.fullmatch(bucket):
        raise InvalidBucketError(f"invalid bucket name {bucket!r}")
    return bucket


def check_key(key: str) -> str:
    if not _KEY.fullmatch(key) or key[0] == "." or key[-1] == "." or ".." in key:
        raise InvalidKeyError(f"invalid key {key!r}")
    return key


def check_pattern(pattern: str) -> str:
    if not _PATTERN.fullmatch(pattern) or ".." in pattern or pattern[0] == ".":
        raise InvalidKeyError(f"invalid key pattern {pattern!r}")
    return pattern


def bucket_config(config: KeyValueConfig) -> StreamConfig:
    """The stream behind a bucket."""
    bucket = check_bucket(config.bucket)
    if not 1 <= config.history <= HISTORY_MAX:
        raise ValueError(f"history must be 1 to {HISTORY_MAX}")
    ttl = _seconds(config.ttl) if config.ttl else 0.0
    stream = StreamConfig(
        name=kv_stream(bucket),
        description=config.description,
        max_msgs_per_subject=config.history,
        max_age=ttl,
        max_bytes=-1 if config.max_bytes is None else config.max_bytes,
        max_msg_size=-1 if config.max_value_size is None else config.max_value_size,
        max_msgs=-1,
        max_consumers=-1,
        storage=config.storage or "file",
        num_replicas=config.num_replicas,
        placement=config.placement,
        republish=config.republish,
        metadata=config.metadata,
        compression="s2" if config.compression else "none",
        discard="new",
        duplicate_window=min(120.0, ttl) if ttl else 120.0,
        allow_rollup_hdrs=True,
        deny_delete=True,
        deny_purge=False,
        allow_direct=True,
    )
    if config.limit_marker_ttl:
        stream.allow_msg_ttl = True
        stream.subject_delete_marker_ttl = config.limit_marker_ttl
    if config.mirror is not None:
        stream.mirror = config.mirror.replace(name=_prefixed(config.mirror.name))
        stream.mirror_direct = True
        return stream
    stream.subjects = [kv_key(bucket)]
    if config.sources:
        stream.sources = [_bucket_source(source, bucket) for source in config.sources]
    return stream


def _prefixed(name: str) -> str:
    return name if name.startswith("KV_") else f"KV_{name}"


def _bucket_source(source: StreamSource, bucket: str) -> StreamSource:
    name = source.name.removeprefix("KV_")
    far = source.external is not None or source.domain is not None
    changed = source.replace(name=kv_stream(name))
    if source.subject_transforms is None and not (far and name == bucket):
        changed.subject_transforms = [SubjectTransform(src=kv_key(name), dest=kv_key(bucket))]
    return changed


class KeyValue:
    """A bucket of keys and values."""

    def __init__(self, js: "JetStream", info: StreamInfo) -> None:
        self.js = js
        self.bucket = info.name.removeprefix("KV_")
        self._stream = info.name
        self._reading = Reading(js.api, self._stream, bool(info.config.allow_direct))
        mirror = info.config.mirror
        self._origin = mirror.name.removeprefix("KV_") if mirror is not None else self.bucket
        self._put_prefix = f"$KV.{self._origin}."
        if mirror is not None and mirror.external is not None:
            self._put_prefix = f"{mirror.external.api}.{self._put_prefix}"
        elif not js.api.is_default:
            self._put_prefix = f"{js.api.prefix}.{self._put_prefix}"
        # Entries keep the subject they were stored under, which in a mirror names the origin.
        self._subject_prefix = f"$KV.{self._origin}."

    # --- reading

    async def get(self, key: str, revision: int | None = None) -> Entry:
        """The value of a key, now or at a revision; `KeyNotFoundError` if it has none."""
        entry = await self._entry(key, revision)
        if entry.operation != "PUT":
            error = KeyDeletedError(f"key {key!r} was deleted")
            error.entry = entry
            raise error
        return entry

    async def _entry(self, key: str, revision: int | None = None) -> Entry:
        subject = self._subject_prefix + check_key(key)
        try:
            if revision is None:
                message = await self._reading.last(subject)
            else:
                message = await self._reading.get(seq=revision)
                if message.subject != subject:
                    raise KeyNotFoundError(f"key {key!r} has no revision {revision}")
        except NoMessageError:
            raise KeyNotFoundError(f"key {key!r} not found") from None
        return self._entry_of(message, key)

    def _entry_of(self, message: StreamMessage, key: str) -> Entry:
        return Entry(
            bucket=self.bucket,
            key=key,
            value=message.data,
            revision=message.seq,
            created_ns=message.time_ns,
            operation=key_operation(message.header_block),
        )

    async def get_value(self, key: str, default: bytes | None = None) -> bytes | None:
        """Just the bytes, or `default` when there are none."""
        try:
            return (await self.get(key)).value
        except KeyNotFoundError:
            return default

    async def history(self, key: str) -> list[Entry]:
        """Every kept revision of a key, oldest first, deletions included."""
        found = [entry async for entry in self._now(await self.watch(key, include_history=True))]
        if not found:
            raise KeyNotFoundError(f"key {key!r} not found")
        return found

    async def keys(self, *filters: str) -> list[str]:
        """The keys that have a value, filtered by the server; empty when there are none."""
        return [key async for key in self.list_keys(*filters)]

    async def list_keys(self, *filters: str) -> AsyncIterator[str]:
        """As `keys`, one by one."""
        watcher = await self.watch(list(filters) or ">", ignore_deletes=True, meta_only=True)
        async for entry in self._now(watcher):
            yield entry.key

    async def _now(self, watcher: KeyWatcher) -> AsyncIterator[Entry]:
        """What a watcher gives until the marker; the watcher is gone afterwards."""
        async with watcher:
            async for entry in watcher:
                if entry is None:
                    return
                yield entry

    async def watch(
        self,
        keys: str | list[str] = ">",
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        updates_only: bool = False,
        meta_only: bool = False,
        resume_from_revision: int | None = None,
    ) -> KeyWatcher:
        """Follow keys (patterns allowed): first what is there, then None once, then changes."""
        patterns = [keys] if isinstance(keys, str) else keys
        watcher = KeyWatcher(
            self.js,
            self._stream,
            self.bucket,
            self._subject_prefix,
            [check_pattern(pattern) for pattern in patterns],
            include_history=include_history,
            ignore_deletes=ignore_deletes,
            updates_only=updates_only,
            meta_only=meta_only,
            resume_from_revision=resume_from_revision,
        )
        await watcher.start()
        return watcher

    async def watch_all(self, **options: Any) -> KeyWatcher:
        """Follow the whole bucket."""
        return await self.watch(">", **options)

    # --- writing

    async def put(self, key: str, value: Payload) -> int:
        """Set a value; returns its revision."""
        ack = await self.js.publish(self._put_prefix + check_key(key), value)
        return ack.seq

    async def create(self, key: str, value: Payload, *, ttl: Seconds | None = None) -> int:
        """Set a value only if the key has none; `KeyExistsError` otherwise."""
        try:
            return await self.update(key, value, 0, ttl=ttl)
        except WrongLastRevisionError:
            pass
        try:
            entry = await self._entry(key)
        except KeyNotFoundError:
            return await self.update(key, value, 0, ttl=ttl)
        if entry.operation == "PUT":
            raise KeyExistsError(f"key {key!r} exists at revision {entry.revision}")
        try:
            return await self.update(key, value, entry.revision, ttl=ttl)
        except WrongLastRevisionError:
            raise KeyExistsError(f"key {key!r} exists") from None

    async def update(
        self, key: str, value: Payload, revision: int, *, ttl: Seconds | None = None
    ) -> int:
        """Set a value only if the key is still at that revision."""
        return await self._expecting(key, value, revision, {}, ttl)

    async def delete(self, key: str, *, revision: int | None = None) -> int:
        """Mark as deleted; history stays."""
        return await self._expecting(key, b"", revision, {"KV-Operation": "DEL"})

    async def purge(
        self, key: str, *, revision: int | None = None, ttl: Seconds | None = None
    ) -> int:
        """Mark as deleted and remove the history."""
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        return await self._expecting(key, b"", revision, headers, ttl)

    async def _expecting(
        self,
        key: str,
        value: Payload,
        revision: int | None,
        headers: dict[str, str],
        ttl: Seconds | None = None,
    ) -> int:
        subject = self._put_prefix + check_key(key)
        wishes: dict[str, Any] = {}
        if revision is not None:
            wishes["expect_last_subject_seq"] = revision
        if ttl is not None:
            wishes["ttl"] = ttl
        try:
            ack = await self.js.publish(subject, value, headers=headers, **wishes)
        except ApiError as error:
            if error.err_code in _WRONG_LAST:
                found = re.search(r"(\d+)$", error.description)
                current = int(found.group(1)) if found else None
                text = f"key {key!r} is not at revision {revision}"
                raise WrongLastRevisionError(text, current) from error
            raise
        return ack.seq

    async def purge_deletes(self, older_than: Seconds = MARKER_AGE) -> int:
        """Remove what is left of deleted keys.

        Markers younger than `older_than` seconds stay, so that watchers still learn of the
        deletion; negative removes all. Returns how many keys were cleaned.
        """
        limit = _seconds(older_than)
        now_ns = (await self.js.stream_info(self._stream)).raw.get("ts", "")
        marks = [e async for e in self._now(await self.watch(">", meta_only=True)) if e.is_deleted]
        newest = _ns_of(now_ns)
        for entry in marks:
            young = limit >= 0 and newest - entry.created_ns < limit * 1e9
            subject = self._subject_prefix + entry.key
            await self.js.purge_stream(self._stream, subject=subject, keep=1 if young else None)
        return len(marks)

    # --- about it

    async def status(self) -> BucketStatus:
        """Values, bytes, history, TTL."""
        return status_of(await self.js.stream_info(self._stream))

    def __repr__(self) -> str:
        return f"<KeyValue {self.bucket!r}>"


def _ns_of(text: str) -> int:
    from jetstream.clock import SystemClock
    from jetstream.schema.times import parse_rfc3339

    return parse_rfc3339(text) if text else SystemClock().now()


def status_of(info: StreamInfo) -> BucketStatus:
    config = info.config
    marker = config.subject_delete_marker_ttl
    return BucketStatus(
        bucket=info.name.removeprefix("KV_"),
        values=info.state.messages,
        history=config.max_msgs_per_subject or 1,
        ttl=_seconds(config.max_age or 0),
        bytes=info.state.bytes,
        storage=config.storage or "file",
        replicas=config.num_replicas or 1,
        compressed=config.compression == "s2",
        limit_marker_ttl=_seconds(marker) if marker else 0.0,
        metadata=config.metadata or {},
        stream=info,
        raw=info.raw,
    )


__all__ = ["BucketStatus", "Entry", "KeyValue", "KeyValueConfig"]
