"""A handle on one stream: its info, its messages, its consumers."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jetstream.client.consumer import Consumer
from jetstream.client.info import ConsumerInfo, StreamInfo
from jetstream.client.reading import Reading, StreamMessage
from jetstream.client.snapshot import Progress, SnapshotResult, take_snapshot

if TYPE_CHECKING:
    from jetstream.client.config import ConsumerConfig, Seconds
    from jetstream.client.info import PauseState
    from jetstream.client.jetstream import JetStream
    from jetstream.client.ordered import OrderedConsumer


class Stream:
    """A stream on the server."""

    def __init__(self, js: "JetStream", info: StreamInfo) -> None:
        self.js = js
        self.name = info.name
        self._info = info
        self._reading = Reading(js.api, self.name, bool(info.config.allow_direct))

    # --- about it

    @property
    def cached_info(self) -> StreamInfo:
        """The info fetched last, without asking the server."""
        return self._info

    async def info(
        self, *, subjects_filter: str | None = None, deleted_details: bool = False
    ) -> StreamInfo:
        """The current info; with a filter, `state.subjects` counts messages per subject."""
        self._info = await self.js.stream_info(
            self.name, subjects_filter=subjects_filter, deleted_details=deleted_details
        )
        self._reading.direct = bool(self._info.config.allow_direct)
        return self._info

    async def update(self, **fields: Any) -> StreamInfo:
        """Change some fields of the configuration, keep the rest."""
        current = await self.info()
        handle = await self.js.update_stream(current.config.replace(**fields))
        self._info = handle.cached_info
        return self._info

    async def delete(self) -> None:
        await self.js.delete_stream(self.name)

    async def purge(
        self, *, subject: str | None = None, seq: int | None = None, keep: int | None = None
    ) -> int:
        """Remove messages: all, of a subject, below a sequence, or all but the newest `keep`."""
        return await self.js.purge_stream(self.name, subject=subject, seq=seq, keep=keep)

    async def seal(self) -> StreamInfo:
        """Make it read-only for good."""
        return await self.update(sealed=True)

    # --- single messages

    async def get_msg(
        self, seq: int | None = None, *, next_for: str | None = None, direct: bool | None = None
    ) -> StreamMessage:
        """The message with that sequence; with `next_for`, the first one on it from there."""
        return await self._reading.get(seq=seq, next_for=next_for, direct=direct)

    async def get_last_msg(self, subject: str, *, direct: bool | None = None) -> StreamMessage:
        """The newest message on a subject (wildcards allowed)."""
        return await self._reading.last(subject, direct=direct)

    async def get_msg_at(
        self, time: datetime, *, subject: str | None = None, direct: bool | None = None
    ) -> StreamMessage:
        """The first message stored at or after a time (server 2.11)."""
        return await self._reading.get(start_time=time, next_for=subject, direct=direct)

    def get_batch(
        self,
        n: int,
        *,
        seq: int | None = None,
        subject: str | None = None,
        start_time: datetime | None = None,
        max_bytes: int | None = None,
    ) -> AsyncIterator[StreamMessage]:
        """Up to `n` messages in one request (needs allow_direct, server 2.11)."""
        return self._reading.batch(n, seq, subject, start_time, max_bytes)

    def get_last_msgs(
        self,
        subjects: list[str] | str,
        *,
        up_to_seq: int | None = None,
        up_to_time: datetime | None = None,
        batch: int | None = None,
    ) -> AsyncIterator[StreamMessage]:
        """The last message of each subject (needs allow_direct, server 2.11)."""
        wanted = [subjects] if isinstance(subjects, str) else subjects
        return self._reading.last_of_each(wanted, up_to_seq, up_to_time, batch)

    async def delete_msg(self, seq: int) -> None:
        """Remove one message; its bytes may stay on disk until compaction."""
        await self.js.api.request(f"STREAM.MSG.DELETE.{self.name}", {"seq": seq, "no_erase": True})

    async def secure_delete_msg(self, seq: int) -> None:
        """Remove one message and overwrite its bytes."""
        await self.js.api.request(f"STREAM.MSG.DELETE.{self.name}", {"seq": seq})

    # --- backup

    async def snapshot(
        self,
        target: Any,
        *,
        consumers: bool = True,
        check: bool = False,
        chunk_size: int | None = None,
        progress: Progress | None = None,
        bare: bool = False,
    ) -> SnapshotResult:
        """Write a backup to a path, file or callable; `js.restore_stream` reads it back.

        `bare` writes only the server's archive; the result has the config and state to keep.
        """
        return await take_snapshot(
            self.js.api, self.name, target, consumers, check, chunk_size, progress, bare
        )

    # --- consumers

    async def create_consumer(
        self, config: "ConsumerConfig | Any" = None, **fields: Any
    ) -> Consumer:
        return await self.js.create_consumer(self.name, config, **fields)

    async def update_consumer(
        self, config: "ConsumerConfig | Any" = None, **fields: Any
    ) -> Consumer:
        return await self.js.update_consumer(self.name, config, **fields)

    async def create_or_update_consumer(
        self, config: "ConsumerConfig | Any" = None, **fields: Any
    ) -> Consumer:
        return await self.js.create_or_update_consumer(self.name, config, **fields)

    async def consumer(self, name: str) -> Consumer:
        """A handle on an existing consumer."""
        return await self.js.consumer(self.name, name)

    async def delete_consumer(self, name: str) -> None:
        await self.js.delete_consumer(self.name, name)

    def list_consumers(self) -> AsyncIterator[ConsumerInfo]:
        return self.js.list_consumers(self.name)

    def consumer_names(self) -> AsyncIterator[str]:
        return self.js.consumer_names(self.name)

    async def pause_consumer(self, name: str, until: "datetime | Seconds") -> "PauseState":
        return await self.js.pause_consumer(self.name, name, until)

    async def resume_consumer(self, name: str) -> "PauseState":
        return await self.js.resume_consumer(self.name, name)

    async def ordered_consumer(self, **config: Any) -> "OrderedConsumer":
        """Read this stream in order; see `JetStream.ordered_consumer`."""
        return await self.js.ordered_consumer(self.name, **config)

    def __repr__(self) -> str:
        state = self._info.state
        return f"<Stream {self.name!r} {state.messages} messages, {state.bytes} bytes>"
