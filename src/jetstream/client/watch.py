"""Watching a bucket: an ordered consumer over its subjects, with a marker where history ends.

A watcher gives first the current values, then `None` exactly once, then every change. The marker
comes when as many messages were seen as the consumer had pending at its creation; deletions count,
even when they are not shown. It survives reconnects because the ordered consumer under it does.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from jetstream.client.message import Delivery
from jetstream.client.ordered import OrderedConsumer, OrderedMessages
from jetstream.wire.headers import get_header

if TYPE_CHECKING:
    from jetstream.client.jetstream import JetStream
    from jetstream.client.kv import Entry

T = TypeVar("T")
WATCH_INACTIVE = 60.0
WATCH_EXPIRES = 30.0
_BY_REASON: dict[bytes, Literal["DEL", "PURGE"]] = {
    b"MaxAge": "PURGE",
    b"Purge": "PURGE",
    b"Remove": "DEL",
}


def key_operation(block: bytes) -> Literal["PUT", "DEL", "PURGE"]:
    """What the headers of a bucket's message say was done."""
    if not block:
        return "PUT"
    said = get_header(block, b"KV-Operation")
    if said == b"DEL":
        return "DEL"
    if said == b"PURGE":
        return "PURGE"
    reason = get_header(block, b"Nats-Marker-Reason")
    return _BY_REASON.get(reason, "PUT") if reason else "PUT"


class Watcher(Generic[T]):
    """Follows subjects of a bucket; what a message means is for the kinds below."""

    def __init__(
        self,
        js: "JetStream",
        stream: str,
        filters: list[str],
        *,
        include_history: bool,
        updates_only: bool,
        meta_only: bool = False,
        resume_from_revision: int | None = None,
    ) -> None:
        policy: dict[str, Any] = {"deliver_policy": "last_per_subject"}
        if updates_only:
            policy["deliver_policy"] = "new"
        elif include_history:
            policy["deliver_policy"] = "all"
        if resume_from_revision:
            policy = {"opt_start_seq": resume_from_revision}
        self._consumer = OrderedConsumer(
            js,
            stream,
            filter_subjects=filters,
            headers_only=True if meta_only else None,
            inactive_threshold=WATCH_INACTIVE,
            **policy,
        )
        self._updates_only = updates_only
        self._flow: OrderedMessages | None = None
        self._initial = 0
        self._seen = 0
        self._marked = False

    async def start(self) -> None:
        info = await self._consumer.create()
        self._initial = info.num_pending
        self._marked = self._updates_only
        self._flow = await self._consumer.messages(expires=WATCH_EXPIRES)

    def _read(self, message: Delivery) -> T | None:
        """The entry in a message, or None if it is not to be shown."""
        raise NotImplementedError

    @property
    def is_initial_done(self) -> bool:
        """Everything that was there at the start has been seen."""
        return self._marked

    def __aiter__(self) -> AsyncIterator[T | None]:
        return self

    async def __anext__(self) -> T | None:
        assert self._flow is not None
        while True:
            if not self._marked and (self._seen >= self._initial):
                self._marked = True
                return None
            message = await self._flow.__anext__()
            self._seen += 1
            if not self._marked and message.pending == 0:
                self._seen = self._initial
            entry = self._read(message)
            if entry is not None:
                return entry

    async def next(self, timeout: float | None = None) -> T | None:
        """The next entry (None is the marker); `TimeoutError` when nothing came in time."""
        async with asyncio.timeout(timeout):
            return await self.__anext__()

    async def stop(self) -> None:
        """End it and remove its consumer from the server."""
        if self._flow is not None:
            await self._flow.stop()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class KeyWatcher(Watcher["Entry"]):
    """Follows keys of a bucket."""

    def __init__(
        self,
        js: "JetStream",
        stream: str,
        bucket: str,
        prefix: str,
        patterns: list[str],
        *,
        ignore_deletes: bool,
        **options: Any,
    ) -> None:
        super().__init__(js, stream, [prefix + pattern for pattern in patterns], **options)
        self._bucket = bucket
        self._cut = len(prefix)
        self._ignore_deletes = ignore_deletes

    def _read(self, message: Delivery) -> "Entry | None":
        from jetstream.client.kv import Entry

        operation = key_operation(message.header_block)
        if self._ignore_deletes and operation != "PUT":
            return None
        return Entry(
            bucket=self._bucket,
            key=message.subject[self._cut :],
            value=message.data,
            revision=message.seq,
            created_ns=message.time_ns,
            operation=operation,
            delta=message.pending,
        )
