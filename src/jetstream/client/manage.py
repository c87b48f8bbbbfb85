"""Creating, changing, finding and removing streams and consumers."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jetstream.client.api import Api
from jetstream.client.config import ConsumerConfig, Seconds, StreamConfig, merged
from jetstream.client.consumer import Consumer, pause_until_text
from jetstream.client.errors import StreamNotFoundError
from jetstream.client.info import ConsumerInfo, PauseState, StreamInfo, read_info
from jetstream.client.ordered import OrderedConsumer
from jetstream.client.stream import Stream
from jetstream.clock import SystemClock
from jetstream.errors import ApiError
from jetstream.schema.addresses import consumer_create
from jetstream.schema.api_errors import STREAM_NOT_FOUND
from jetstream.schema.times import ZERO_TIME

if TYPE_CHECKING:
    from jetstream.client.connection import Connection

AnyConfig = Struct | Mapping[str, Any] | None


def check_name(name: str | None, what: str) -> str:
    """Names go into subjects, so they may not look like one."""
    if not name or any(c in ".*>/\\" or c <= " " for c in name):
        raise ValueError(f"invalid {what} name {name!r}")
    return name


class StreamManager:
    """Streams of an account; `JetStream` inherits it."""

    api: Api

    async def create_stream(self, config: StreamConfig | AnyConfig = None, **fields: Any) -> Stream:
        """Create a stream; an identical one that exists is fine, a different one is an error.

        Give a `StreamConfig`, its fields as keywords, or both (keywords win).
        """
        wire = merged(StreamConfig, config, fields)
        name = check_name(wire.get("name"), "stream")
        answer = await self.api.request(f"STREAM.CREATE.{name}", wire)
        return Stream(self, read_info(StreamInfo, answer))  # type: ignore[arg-type]

    async def update_stream(self, config: StreamConfig | AnyConfig = None, **fields: Any) -> Stream:
        """Replace the configuration of an existing stream; what is left out becomes default."""
        wire = merged(StreamConfig, config, fields)
        name = check_name(wire.get("name"), "stream")
        answer = await self.api.request(f"STREAM.UPDATE.{name}", wire)
        return Stream(self, read_info(StreamInfo, answer))  # type: ignore[arg-type]

    async def create_or_update_stream(
        self, config: StreamConfig | AnyConfig = None, **fields: Any
    ) -> Stream:
        """Make it so, whether it exists or not."""
        try:
            return await self.update_stream(config, **fields)
        except StreamNotFoundError:
            return await self.create_stream(config, **fields)

    async def stream(self, name: str) -> Stream:
        """A handle on an existing stream."""
        return Stream(self, await self.stream_info(name))  # type: ignore[arg-type]

    async def stream_info(
        self,
        name: str,
        *,
        subjects_filter: str | None = None,
        deleted_details: bool = False,
    ) -> StreamInfo:
        """A stream's info, its subjects over all pages if a filter asks for them."""
        check_name(name, "stream")
        body: dict[str, Any] = {}
        if subjects_filter is not None:
            body["subjects_filter"] = subjects_filter
        if deleted_details:
            body["deleted_details"] = True
        answer = await self.api.request(f"STREAM.INFO.{name}", body or None)
        subjects = answer["state"].get("subjects")
        while subjects and len(subjects) < answer.get("total", 0):
            page = await self.api.request(f"STREAM.INFO.{name}", {**body, "offset": len(subjects)})
            more = page["state"].get("subjects")
            if not more:
                break
            subjects.update(more)
        return read_info(StreamInfo, answer)

    async def delete_stream(self, name: str) -> None:
        check_name(name, "stream")
        await self.api.request(f"STREAM.DELETE.{name}")

    async def purge_stream(
        self,
        name: str,
        *,
        subject: str | None = None,
        seq: int | None = None,
        keep: int | None = None,
    ) -> int:
        """Remove messages; returns how many."""
        body = {"filter": subject, "seq": seq, "keep": keep}
        given = {key: value for key, value in body.items() if value is not None}
        answer = await self.api.request(f"STREAM.PURGE.{name}", given or None)
        return int(answer["purged"])

    async def list_streams(self, subject: str | None = None) -> AsyncIterator[StreamInfo]:
        """The info of every stream, or of those that touch a subject."""
        body = {"subject": subject} if subject else None
        async for raw in self.api.pages("STREAM.LIST", "streams", body):
            yield read_info(StreamInfo, raw)

    async def stream_names(self, subject: str | None = None) -> AsyncIterator[str]:
        """The name of every stream, or of those that touch a subject."""
        body = {"subject": subject} if subject else None
        async for name in self.api.pages("STREAM.NAMES", "streams", body):
            yield name

    async def stream_name_by_subject(self, subject: str) -> str:
        """The name of the stream that captures a subject."""
        async for name in self.stream_names(subject):
            return name
        raise StreamNotFoundError(STREAM_NOT_FOUND)


class ConsumerManager:
    """Consumers of an account's streams; `JetStream` inherits it."""

    api: Api
    connection: "Connection"

    async def create_consumer(
        self, stream: str, config: ConsumerConfig | AnyConfig = None, **fields: Any
    ) -> Consumer:
        """Create a consumer; an identical one is fine, a different one is an error."""
        return await self._put_consumer(stream, config, fields, "create")

    async def update_consumer(
        self, stream: str, config: ConsumerConfig | AnyConfig = None, **fields: Any
    ) -> Consumer:
        """Change an existing consumer."""
        return await self._put_consumer(stream, config, fields, "update")

    async def create_or_update_consumer(
        self, stream: str, config: ConsumerConfig | AnyConfig = None, **fields: Any
    ) -> Consumer:
        """Make it so, whether it exists or not."""
        return await self._put_consumer(stream, config, fields, "")

    async def _put_consumer(
        self, stream: str, config: Any, fields: dict[str, Any], action: str
    ) -> Consumer:
        info = await self.make_consumer(stream, merged(ConsumerConfig, config, fields), action)
        return Consumer(self, info)  # type: ignore[arg-type]

    async def make_consumer(
        self, stream: str, config: Any, action: str = "", timeout: float | None = None
    ) -> ConsumerInfo:
        """The request behind all three; also for push consumers."""
        check_name(stream, "stream")
        wire = dict(config) if isinstance(config, Mapping) else config.to_wire()
        if "ack_policy" not in wire:
            wire["ack_policy"] = "explicit"
        name = wire.get("name") or wire.get("durable_name")
        if not name:
            # A name of our own lets a repeated request find what the first one made.
            name = self.connection.random.nuid()
            wire["name"] = name
        check_name(name, "consumer")
        subject = consumer_create(stream, name, wire.get("filter_subject", ""), "")
        body: dict[str, Any] = {"stream_name": stream, "config": wire}
        if action:
            body["action"] = action
        answer = await self.api.request(subject.lstrip("."), body, timeout)
        return read_info(ConsumerInfo, answer)

    async def consumer(self, stream: str, name: str) -> Consumer:
        """A handle on an existing consumer."""
        return Consumer(self, await self.consumer_info(stream, name))  # type: ignore[arg-type]

    def consumer_handle(self, stream: str, name: str) -> Consumer:
        """A handle without asking whether the consumer exists."""
        info = ConsumerInfo(stream_name=stream, name=check_name(name, "consumer"))
        return Consumer(self, info)  # type: ignore[arg-type]

    async def consumer_info(self, stream: str, name: str) -> ConsumerInfo:
        check_name(stream, "stream")
        check_name(name, "consumer")
        return read_info(ConsumerInfo, await self.api.request(f"CONSUMER.INFO.{stream}.{name}"))

    async def delete_consumer(self, stream: str, name: str) -> None:
        check_name(stream, "stream")
        check_name(name, "consumer")
        await self.api.request(f"CONSUMER.DELETE.{stream}.{name}")

    async def list_consumers(self, stream: str) -> AsyncIterator[ConsumerInfo]:
        """The info of every consumer of a stream."""
        async for raw in self.api.pages(f"CONSUMER.LIST.{stream}", "consumers"):
            yield read_info(ConsumerInfo, raw)

    async def consumer_names(self, stream: str) -> AsyncIterator[str]:
        async for name in self.api.pages(f"CONSUMER.NAMES.{stream}", "consumers"):
            yield name

    async def pause_consumer(self, stream: str, name: str, until: datetime | Seconds) -> PauseState:
        """No deliveries until a time, or for some seconds (server 2.11)."""
        text = pause_until_text(until, SystemClock().now())
        answer = await self.api.request(f"CONSUMER.PAUSE.{stream}.{name}", {"pause_until": text})
        return read_info(PauseState, answer)

    async def resume_consumer(self, stream: str, name: str) -> PauseState:
        body = {"pause_until": ZERO_TIME}
        answer = await self.api.request(f"CONSUMER.PAUSE.{stream}.{name}", body)
        return read_info(PauseState, answer)

    async def reset_consumer(self, stream: str, name: str, seq: int | None = None) -> ConsumerInfo:
        body = None if seq is None else {"seq": seq}
        answer = await self.api.request(f"CONSUMER.RESET.{stream}.{name}", body)
        return read_info(ConsumerInfo, answer)

    async def unpin_consumer(self, stream: str, name: str, group: str) -> None:
        await self.api.request(f"CONSUMER.UNPIN.{stream}.{name}", {"group": group})

    async def ordered_consumer(self, stream: str, **config: Any) -> OrderedConsumer:
        """Read a stream in order, without gap or repeat, across reconnects and restarts.

        Fields: filter_subjects, deliver_policy, opt_start_seq, opt_start_time, replay_policy,
        headers_only, inactive_threshold, name_prefix, metadata.
        """
        made = OrderedConsumer(self, stream, **config)  # type: ignore[arg-type]
        await made.create()
        return made


__all__ = ["ApiError", "ConsumerManager", "StreamManager"]
