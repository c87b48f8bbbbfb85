"""Key-value and object buckets of an account: making, finding, listing, removing."""

from collections.abc import AsyncIterator
from typing import Any

from jetstream.client.config import merged
from jetstream.client.errors import (
    BucketExistsError,
    BucketNotFoundError,
    StreamNotFoundError,
)
from jetstream.client.info import StreamInfo, read_info
from jetstream.client.kv import (
    BucketStatus,
    KeyValue,
    KeyValueConfig,
    bucket_config,
    check_bucket,
    status_of,
)
from jetstream.client.objects import (
    ObjectStore,
    ObjectStoreConfig,
    ObjectStoreStatus,
    store_config,
    store_status,
)
from jetstream.errors import ApiError
from jetstream.schema.addresses import kv_stream, object_stream

STREAM_EXISTS = 10058


def _given(kind: Any, config: Any, bucket: str | None, fields: dict[str, Any]) -> Any:
    if config is None:
        return kind(bucket=bucket, **fields) if bucket is not None else kind(**fields)
    if isinstance(config, str):
        return kind(bucket=config, **fields)
    return config.replace(**fields) if fields else config


class Buckets:
    """Buckets of an account; `JetStream` inherits it."""

    api: Any

    # --- key-value

    async def create_key_value(
        self: Any, config: KeyValueConfig | str | None = None, **fields: Any
    ) -> KeyValue:
        """Create a bucket: a name, a `KeyValueConfig`, or its fields as keywords."""
        wanted = bucket_config(_given(KeyValueConfig, config, None, fields))
        return KeyValue(self, await self._make_bucket(wanted, "CREATE"))

    async def update_key_value(
        self: Any, config: KeyValueConfig | str | None = None, **fields: Any
    ) -> KeyValue:
        wanted = bucket_config(_given(KeyValueConfig, config, None, fields))
        return KeyValue(self, await self._make_bucket(wanted, "UPDATE"))

    async def create_or_update_key_value(
        self: Any, config: KeyValueConfig | str | None = None, **fields: Any
    ) -> KeyValue:
        try:
            made: KeyValue = await self.update_key_value(config, **fields)
        except BucketNotFoundError:
            made = await self.create_key_value(config, **fields)
        return made

    async def key_value(self: Any, bucket: str) -> KeyValue:
        """An existing bucket."""
        return KeyValue(self, await self._bucket_info(kv_stream(check_bucket(bucket)), bucket))

    async def delete_key_value(self: Any, bucket: str) -> None:
        await self._delete_bucket(kv_stream(check_bucket(bucket)), bucket)

    async def key_value_names(self: Any) -> AsyncIterator[str]:
        """Names of all key-value buckets."""
        async for name in self.stream_names("$KV.*.>"):
            if name.startswith("KV_"):
                yield name.removeprefix("KV_")

    async def key_values(self: Any) -> AsyncIterator[BucketStatus]:
        """The status of every key-value bucket."""
        async for info in self.list_streams("$KV.*.>"):
            if info.name.startswith("KV_"):
                yield status_of(info)

    # --- objects

    async def create_object_store(
        self: Any, config: ObjectStoreConfig | str | None = None, **fields: Any
    ) -> ObjectStore:
        """Create an object bucket: a name, an `ObjectStoreConfig`, or its fields as keywords."""
        wanted = store_config(_given(ObjectStoreConfig, config, None, fields))
        return ObjectStore(self, await self._make_bucket(wanted, "CREATE"))

    async def update_object_store(
        self: Any, config: ObjectStoreConfig | str | None = None, **fields: Any
    ) -> ObjectStore:
        wanted = store_config(_given(ObjectStoreConfig, config, None, fields))
        return ObjectStore(self, await self._make_bucket(wanted, "UPDATE"))

    async def create_or_update_object_store(
        self: Any, config: ObjectStoreConfig | str | None = None, **fields: Any
    ) -> ObjectStore:
        try:
            made: ObjectStore = await self.update_object_store(config, **fields)
        except BucketNotFoundError:
            made = await self.create_object_store(config, **fields)
        return made

    async def object_store(self: Any, bucket: str) -> ObjectStore:
        """An existing object bucket."""
        stream = object_stream(check_bucket(bucket))
        return ObjectStore(self, await self._bucket_info(stream, bucket))

    async def delete_object_store(self: Any, bucket: str) -> None:
        await self._delete_bucket(object_stream(check_bucket(bucket)), bucket)

    async def object_store_names(self: Any) -> AsyncIterator[str]:
        """Names of all object buckets."""
        async for name in self.stream_names("$O.*.C.>"):
            if name.startswith("OBJ_"):
                yield name.removeprefix("OBJ_")

    async def object_stores(self: Any) -> AsyncIterator[ObjectStoreStatus]:
        """The status of every object bucket."""
        async for info in self.list_streams("$O.*.C.>"):
            if info.name.startswith("OBJ_"):
                yield store_status(info)

    # --- both

    async def _make_bucket(self: Any, config: Any, action: str) -> StreamInfo:
        wire = merged(type(config), config, {})
        try:
            answer = await self.api.request(f"STREAM.{action}.{config.name}", wire)
        except StreamNotFoundError:
            raise BucketNotFoundError(f"no bucket behind {config.name!r}") from None
        except ApiError as error:
            if error.err_code == STREAM_EXISTS:
                raise BucketExistsError(
                    f"the bucket behind {config.name!r} exists with other settings"
                ) from error
            raise
        return read_info(StreamInfo, answer)

    async def _bucket_info(self: Any, stream: str, bucket: str) -> StreamInfo:
        try:
            info: StreamInfo = await self.stream_info(stream)
        except StreamNotFoundError:
            raise BucketNotFoundError(f"bucket {bucket!r} not found") from None
        if (info.config.max_msgs_per_subject or 0) < 1 and stream.startswith("KV_"):
            raise BucketNotFoundError(f"{stream!r} is not a key-value bucket")
        return info

    async def _delete_bucket(self: Any, stream: str, bucket: str) -> None:
        try:
            await self.delete_stream(stream)
        except StreamNotFoundError:
            raise BucketNotFoundError(f"bucket {bucket!r} not found") from None
