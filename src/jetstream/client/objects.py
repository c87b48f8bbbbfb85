"""Object stores: large things in chunks, a convention over streams that every NATS client knows.

    bucket B = stream OBJ_B      chunks on $O.B.C.<nuid>      meta on $O.B.M.<base64url(name)>

A put writes chunks under a new id, then the meta message that makes them visible, then removes the
chunks of what was there before. If it fails half-way, its chunks are removed: nobody sees them.
Memory stays bounded both ways: chunks are published in a window, and fetched a few at a time.
"""

import base64
import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from jetstream.client.config import Config, Placement, Seconds, Storage, StreamConfig, parse_time
from jetstream.client.consumer import _seconds
from jetstream.client.errors import (
    ClientError,
    DigestMismatchError,
    LinkError,
    NoMessageError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from jetstream.client.info import Info, StreamInfo
from jetstream.client.kv import check_bucket
from jetstream.client.message import Delivery
from jetstream.client.reading import Reading
from jetstream.client.sources import chunks_of
from jetstream.client.watch import Watcher
from jetstream.schema.addresses import object_chunks, object_meta, object_stream
from jetstream.schema.times import ZERO_TIME, rfc3339

if TYPE_CHECKING:
    from jetstream.client.jetstream import JetStream

CHUNK_BYTES = 128 * 1024
READ_AHEAD_BYTES = 8 * 1024 * 1024
DIGEST_PREFIX = "SHA-256="


class ObjectLink(Struct, omit_defaults=True):
    bucket: str
    name: str = ""


class ObjectOptions(Struct, omit_defaults=True):
    link: ObjectLink | None = None
    max_chunk_size: int | None = None


class ObjectInfo(Struct, omit_defaults=True, kw_only=True):
    """The meta message of an object; field names are the wire's."""

    name: str = msgspec.field(default_factory=str)
    description: str = ""
    headers: dict[str, list[str]] = {}
    metadata: dict[str, str] = {}
    options: ObjectOptions | None = None
    bucket: str = msgspec.field(default_factory=str)
    nuid: str = msgspec.field(default_factory=str)
    size: int = msgspec.field(default_factory=int)
    mtime: str = msgspec.field(default_factory=lambda: ZERO_TIME)
    chunks: int = msgspec.field(default_factory=int)
    digest: str = ""
    deleted: bool = False

    @property
    def modified(self) -> datetime | None:
        return parse_time(self.mtime)

    @property
    def is_link(self) -> bool:
        return self.options is not None and self.options.link is not None

    @property
    def link(self) -> ObjectLink | None:
        return self.options.link if self.options is not None else None


_decode_info = msgspec.json.Decoder(ObjectInfo).decode
_encode = msgspec.json.Encoder().encode


class ObjectStoreConfig(Config):
    """A bucket for objects."""

    bucket: str
    description: str | None = None
    ttl: Seconds | None = None
    max_bytes: int | None = None
    storage: Storage | None = None
    num_replicas: int = 1
    placement: Placement | None = None
    compression: bool = False
    metadata: dict[str, str] | None = None


class ObjectStoreStatus(Info):
    """What an object bucket looks like now."""

    bucket: str = ""
    description: str = ""
    size: int = 0
    ttl: float = 0.0
    sealed: bool = False
    storage: str = "file"
    replicas: int = 1
    compressed: bool = False
    metadata: dict[str, str] = {}
    stream: StreamInfo | None = None


def store_config(config: ObjectStoreConfig) -> StreamConfig:
    """The stream behind an object bucket."""
    bucket = check_bucket(config.bucket)
    return StreamConfig(
        name=object_stream(bucket),
        description=config.description,
        subjects=[object_chunks(bucket), object_meta(bucket)],
        max_age=_seconds(config.ttl) if config.ttl else 0,
        max_bytes=-1 if config.max_bytes is None else config.max_bytes,
        storage=config.storage or "file",
        num_replicas=config.num_replicas,
        placement=config.placement,
        metadata=config.metadata,
        compression="s2" if config.compression else "none",
        discard="new",
        allow_rollup_hdrs=True,
        allow_direct=True,
    )


def encoded_name(name: str) -> str:
    if not name:
        raise ValueError("an object needs a name")
    return base64.urlsafe_b64encode(name.encode()).decode()


def digest_text(digest: bytes) -> str:
    return DIGEST_PREFIX + base64.urlsafe_b64encode(digest).decode()


class ObjectReader:
    """An object being read: iterate its chunks, or `read()` all. The end checks the digest."""

    def __init__(self, js: "JetStream", info: ObjectInfo) -> None:
        self.info = info
        self._js = js
        self._flow: Any = None
        self._left = info.chunks
        self._hash = hashlib.sha256()
        self._got = 0
        self._checked = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._left <= 0:
            await self._finish()
            raise StopAsyncIteration
        if self._flow is None:
            await self._start()
        message = await self._flow.__anext__()
        data: bytes = message.data
        self._left -= 1
        self._got += len(data)
        self._hash.update(data)
        if self._left > 0 and message.pending == 0:
            # The stream has no more of it: a chunk is missing, and the digest will say so.
            self._left = 0
        return data

    async def _start(self) -> None:
        info = self.info
        mean = max(info.size // max(info.chunks, 1), 1)
        consumer = await self._js.ordered_consumer(
            object_stream(info.bucket), filter_subjects=object_chunks(info.bucket, info.nuid)
        )
        pending = consumer.cached_info.num_pending if consumer.cached_info is not None else 0
        if pending == 0:
            await consumer.delete()
            raise DigestMismatchError(f"the chunks of {info.name!r} are gone")
        self._flow = await consumer.messages(
            max_messages=max(2, min(READ_AHEAD_BYTES // mean, 1024))
        )

    async def _finish(self) -> None:
        await self.close()
        if self._checked:
            return
        self._checked = True
        info = self.info
        if self._got != info.size or (
            info.digest and not _same_digest(info.digest, self._hash.digest())
        ):
            raise DigestMismatchError(f"{info.name!r} arrived damaged or incomplete")

    async def read(self) -> bytes:
        """All of it."""
        parts = [chunk async for chunk in self]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def close(self) -> None:
        """Stop reading."""
        flow, self._flow = self._flow, None
        if flow is not None:
            await flow.stop()

    async def __aenter__(self) -> "ObjectReader":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _same_digest(stored: str, actual: bytes) -> bool:
    text = stored.split("=", 1)[1] if "=" in stored else stored
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) == actual
    except ValueError:
        return False


class ObjectWatcher(Watcher[ObjectInfo]):
    """Follows the objects of a bucket."""

    ignore_deletes = False

    def _read(self, message: Delivery) -> ObjectInfo | None:
        info = _decode_info(message.data)
        info.mtime = rfc3339(message.time_ns)
        return None if self.ignore_deletes and info.deleted else info


class ObjectStore:
    """A bucket of objects."""

    def __init__(self, js: "JetStream", info: StreamInfo) -> None:
        self.js = js
        self.bucket = info.name.removeprefix("OBJ_")
        self._stream = info.name
        self._reading = Reading(js.api, self._stream, bool(info.config.allow_direct))

    # --- writing

    async def put(
        self,
        name: str,
        data: Any,
        *,
        description: str = "",
        headers: dict[str, list[str]] | None = None,
        metadata: dict[str, str] | None = None,
        chunk_size: int = CHUNK_BYTES,
    ) -> ObjectInfo:
        """Store bytes, text, an open file, anything with `read(n)`, or an iterator of bytes."""
        old = await self._meta(name)
        nuid = self.js.connection.random.nuid()
        subject = object_chunks(self.bucket, nuid)
        info = ObjectInfo(
            name=name,
            description=description,
            headers=headers or {},
            metadata=metadata or {},
            options=ObjectOptions(max_chunk_size=chunk_size),
            bucket=self.bucket,
            nuid=nuid,
        )
        try:
            await self._put_chunks(subject, data, chunk_size, info)
            await self._publish_meta(info)
        except BaseException:
            await self._sweep(subject)
            raise
        if old is not None and old.nuid and old.nuid != nuid and not old.is_link:
            await self._sweep(object_chunks(self.bucket, old.nuid))
        return info

    async def _put_chunks(self, subject: str, data: Any, size: int, info: ObjectInfo) -> None:
        hasher = hashlib.sha256()
        bulk = self.js.bulk(subject=subject)
        bulk.start()
        try:
            async for chunk in chunks_of(data, size):
                hasher.update(chunk)
                info.size += len(chunk)
                info.chunks += 1
                await bulk.send([chunk])
                if bulk.has_failures:
                    break
        finally:
            report = await bulk.finish()
        report.raise_first()
        info.digest = digest_text(hasher.digest())

    async def put_file(self, name: str, path: str | Path, **options: Any) -> ObjectInfo:
        """Store a file."""
        with Path(path).open("rb") as file:
            return await self.put(name, file, **options)

    async def _publish_meta(self, info: ObjectInfo) -> None:
        subject = object_meta(self.bucket, encoded_name(info.name))
        stored = msgspec.structs.replace(info, mtime=ZERO_TIME)
        await self.js.publish(subject, _encode(stored), rollup="sub")
        info.mtime = rfc3339(_now_ns())

    async def _sweep(self, subject: str) -> None:
        """Remove chunks nobody refers to."""
        try:
            await self.js.purge_stream(self._stream, subject=subject)
        except (ClientError, TimeoutError, OSError):
            pass  # they are invisible; a later put or the bucket's limits remove them

    # --- reading

    async def _meta(self, name: str) -> ObjectInfo | None:
        try:
            message = await self._reading.last(object_meta(self.bucket, encoded_name(name)))
        except NoMessageError:
            return None
        info = _decode_info(message.data)
        info.mtime = rfc3339(message.time_ns)
        return info

    async def info(self, name: str, *, show_deleted: bool = False) -> ObjectInfo:
        """What is known about an object."""
        found = await self._meta(name)
        if found is None or (found.deleted and not show_deleted):
            raise ObjectNotFoundError(f"object {name!r} not found in {self.bucket!r}")
        return found

    async def get(self, name: str, *, show_deleted: bool = False) -> ObjectReader:
        """Read an object chunk by chunk; a link is followed."""
        info = await self.info(name, show_deleted=show_deleted)
        link = info.link
        if link is None:
            return ObjectReader(self.js, info)
        if not link.name:
            raise LinkError(f"{name!r} is a link to the bucket {link.bucket!r}")
        store = self if link.bucket == self.bucket else await self.js.object_store(link.bucket)
        target = await store.info(link.name)
        if target.is_link:
            raise LinkError(f"{name!r} leads to another link")
        return ObjectReader(self.js, target)

    async def get_bytes(self, name: str) -> bytes:
        """A whole object in memory."""
        return await (await self.get(name)).read()

    async def get_str(self, name: str) -> str:
        """A whole object as UTF-8 text."""
        return (await self.get_bytes(name)).decode()

    async def get_file(self, name: str, path: str | Path) -> ObjectInfo:
        """Write an object to a file; a damaged one leaves no file behind."""
        import asyncio

        target = Path(path)
        part = target.with_name(target.name + ".part")
        reader = await self.get(name)
        try:
            with part.open("wb") as file:
                async with reader:
                    async for chunk in reader:
                        await asyncio.to_thread(file.write, chunk)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return reader.info

    # --- changing

    async def delete(self, name: str) -> ObjectInfo:
        """Mark as deleted and remove its chunks."""
        info = await self.info(name)
        gone = msgspec.structs.replace(info, deleted=True, size=0, chunks=0, digest="")
        await self._publish_meta(gone)
        if not info.is_link:
            await self.js.purge_stream(self._stream, subject=object_chunks(self.bucket, info.nuid))
        return gone

    async def update_meta(
        self,
        name: str,
        *,
        new_name: str | None = None,
        description: str | None = None,
        headers: dict[str, list[str]] | None = None,
        metadata: dict[str, str] | None = None,
    ) -> ObjectInfo:
        """Change name, description, headers or metadata; the content stays."""
        info = await self.info(name)
        renamed = new_name is not None and new_name != name
        if renamed:
            assert new_name is not None
            in_the_way = await self._meta(new_name)
            if in_the_way is not None and not in_the_way.deleted:
                raise ObjectExistsError(f"object {new_name!r} exists")
            info.name = new_name
        if description is not None:
            info.description = description
        if headers is not None:
            info.headers = headers
        if metadata is not None:
            info.metadata = metadata
        await self._publish_meta(info)
        if renamed:
            await self.js.purge_stream(
                self._stream, subject=object_meta(self.bucket, encoded_name(name))
            )
        return info

    async def add_link(self, name: str, target: ObjectInfo) -> ObjectInfo:
        """A name that leads to an object, here or in another bucket."""
        if target.deleted:
            raise LinkError("a link cannot lead to a deleted object")
        if target.is_link:
            raise LinkError("a link cannot lead to another link")
        return await self._link(name, ObjectLink(bucket=target.bucket, name=target.name))

    async def add_bucket_link(self, name: str, bucket: "ObjectStore | str") -> ObjectInfo:
        """A name that leads to a whole bucket."""
        where = bucket if isinstance(bucket, str) else bucket.bucket
        return await self._link(name, ObjectLink(bucket=where))

    async def _link(self, name: str, link: ObjectLink) -> ObjectInfo:
        in_the_way = await self._meta(name)
        if in_the_way is not None and not in_the_way.deleted and not in_the_way.is_link:
            raise ObjectExistsError(f"object {name!r} exists")
        info = ObjectInfo(
            name=name,
            bucket=self.bucket,
            nuid=self.js.connection.random.nuid(),
            options=ObjectOptions(link=link),
        )
        await self._publish_meta(info)
        return info

    async def seal(self) -> None:
        """Make the bucket read-only for good."""
        info = await self.js.stream_info(self._stream)
        await self.js.update_stream(info.config.replace(sealed=True))

    # --- about it

    async def list(self, *, show_deleted: bool = False) -> list[ObjectInfo]:
        """Every object of the bucket."""
        found: list[ObjectInfo] = []
        async with await self.watch(ignore_deletes=not show_deleted) as watcher:
            async for info in watcher:
                if info is None:
                    break
                found.append(info)
        return found

    async def watch(
        self,
        *,
        include_history: bool = False,
        ignore_deletes: bool = False,
        updates_only: bool = False,
    ) -> ObjectWatcher:
        """Follow the bucket: what is there, then None once, then changes."""
        watcher = ObjectWatcher(
            self.js,
            self._stream,
            [object_meta(self.bucket)],
            include_history=include_history,
            updates_only=updates_only,
        )
        watcher.ignore_deletes = ignore_deletes
        await watcher.start()
        return watcher

    async def status(self) -> ObjectStoreStatus:
        """Size, settings, whether it is sealed."""
        return store_status(await self.js.stream_info(self._stream))

    def __repr__(self) -> str:
        return f"<ObjectStore {self.bucket!r}>"


def store_status(info: StreamInfo) -> ObjectStoreStatus:
    config = info.config
    return ObjectStoreStatus(
        bucket=info.name.removeprefix("OBJ_"),
        description=config.description or "",
        size=info.state.bytes,
        ttl=_seconds(config.max_age or 0),
        sealed=bool(config.sealed),
        storage=config.storage or "file",
        replicas=config.num_replicas or 1,
        compressed=config.compression == "s2",
        metadata=config.metadata or {},
        stream=info,
        raw=info.raw,
    )


def _now_ns() -> int:
    from jetstream.clock import SystemClock

    return SystemClock().now()
