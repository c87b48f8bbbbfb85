"""The older way of saying it: `js.streams.add(…)`, `js.consumers.info(…)`. Aliases only."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from jetstream.client.info import ConsumerInfo, StreamInfo
from jetstream.client.reading import StreamMessage

if TYPE_CHECKING:
    from jetstream.client.jetstream import JetStream


class Streams:
    """`js.streams`."""

    def __init__(self, js: "JetStream") -> None:
        self._js = js

    async def add(self, config: Any = None, **fields: Any) -> StreamInfo:
        return (await self._js.create_stream(config, **fields)).cached_info

    async def update(self, config: Any = None, **fields: Any) -> StreamInfo:
        return (await self._js.update_stream(config, **fields)).cached_info

    async def info(self, name: str, **options: Any) -> StreamInfo:
        return await self._js.stream_info(name, **options)

    def list(self, subject: str | None = None) -> AsyncIterator[StreamInfo]:
        return self._js.list_streams(subject)

    def names(self, subject: str | None = None) -> AsyncIterator[str]:
        return self._js.stream_names(subject)

    async def find(self, subject: str) -> str:
        return await self._js.stream_name_by_subject(subject)

    async def delete(self, name: str) -> None:
        await self._js.delete_stream(name)

    async def purge(self, name: str, **options: Any) -> int:
        return await self._js.purge_stream(name, **options)

    async def get_message(self, name: str, seq: int) -> StreamMessage:
        return await (await self._js.stream(name)).get_msg(seq)

    async def delete_message(self, name: str, seq: int, erase: bool = True) -> None:
        stream = await self._js.stream(name)
        await (stream.secure_delete_msg(seq) if erase else stream.delete_msg(seq))


class Consumers:
    """`js.consumers`."""

    def __init__(self, js: "JetStream") -> None:
        self._js = js

    async def add(self, stream: str, config: Any = None, **fields: Any) -> ConsumerInfo:
        return (await self._js.create_consumer(stream, config, **fields)).cached_info

    async def update(self, stream: str, config: Any = None, **fields: Any) -> ConsumerInfo:
        return (await self._js.update_consumer(stream, config, **fields)).cached_info

    async def info(self, stream: str, name: str) -> ConsumerInfo:
        return await self._js.consumer_info(stream, name)

    def list(self, stream: str) -> AsyncIterator[ConsumerInfo]:
        return self._js.list_consumers(stream)

    def names(self, stream: str) -> AsyncIterator[str]:
        return self._js.consumer_names(stream)

    async def delete(self, stream: str, name: str) -> None:
        await self._js.delete_consumer(stream, name)
