"""SNAPSHOT and RESTORE: a stream as one archive, sent and received in acknowledged chunks.

A snapshot pushes chunks to the receiver's subject; full chunks carry a reply on which they are
acknowledged, and at most `window_size` bytes are on the way. A restore is the other direction:
every chunk is a request, answered with an empty message, and an empty chunk ends it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from jetstream.api.audit import client_info
from jetstream.api.route import ApiRequest, Route
from jetstream.api.streams import is_strict, stream_info
from jetstream.engine import consumers
from jetstream.errors import ApiError, JetStreamError
from jetstream.schema import advisory
from jetstream.schema.addresses import RESTORE_PREFIX, SNAPSHOT_ACK_PREFIX
from jetstream.schema.addresses import advisory as advisory_subject
from jetstream.schema.api_errors import (
    SNAPSHOT_DELIVER_SUBJECT_INVALID,
    STREAM_MISMATCH,
    STREAM_NAME_EXIST_RESTORE_FAILED,
    STREAM_RESTORE,
)
from jetstream.schema.consumer import ConsumerConfig
from jetstream.schema.decoding import decode
from jetstream.schema.encoding import to_json
from jetstream.schema.requests import (
    DidCreate,
    RestoreAnswer,
    SnapshotAnswer,
    StreamRestoreRequest,
    StreamSnapshotRequest,
    answer,
)
from jetstream.schema.stream import StreamState
from jetstream.schema.times import parse_rfc3339, rfc3339
from jetstream.store.snapshot import CONSUMERS, STATE, ArchiveReader, Entry, pack_archive
from jetstream.stream.config import with_static_metadata
from jetstream.stream.ttl import parse_ttl
from jetstream.subjects.tokens import is_valid_literal
from jetstream.wire.headers import get_header

CHUNK: Final = (128 * 1024, 1024, 1024 * 1024)  # default, least, most
WINDOW: Final = (8 * 1024 * 1024, 1024, 32 * 1024 * 1024)
IDLE_NS: Final = 5_000_000_000
# What one turn of the loop may spend on a snapshot.
BYTES_PER_TURN: Final = 2 * 1024 * 1024

END: Final = b"NATS/1.0 204\r\n\r\n"
NO_FLOW: Final = b"NATS/1.0 408 No Flow Response\r\n\r\n"
NO_INTEREST: Final = b"NATS/1.0 408 No Interest\r\n\r\n"


# -- out --------------------------------------------------------------------------------------


def snapshot(js: Any, request: ApiRequest, names: Sequence[str]) -> Sequence[Struct]:
    asked = decode(request.payload, StreamSnapshotRequest, is_strict(js))
    asset = js.stream(names[0])
    if not is_valid_literal(asked.deliver_subject):
        raise ApiError(SNAPSHOT_DELIVER_SUBJECT_INVALID)
    state = asset.stream.state()
    state.consumer_count = asset.visible_consumers
    sender = SnapshotSender(js, asset, asked, state, request)
    js.transfers[sender.id] = sender
    js.host.schedule(request.now, sender.pump)
    return [SnapshotAnswer(with_static_metadata(asset.config), state)]


def _within(value: int, bounds: tuple[int, int, int]) -> int:
    default, least, most = bounds
    return min(max(value, least), most) if value > 0 else default


class SnapshotSender:
    """One snapshot on its way."""

    def __init__(
        self, js: Any, asset: Any, asked: StreamSnapshotRequest, state: StreamState, request: Any
    ) -> None:
        self.js = js
        self.asset = asset
        self.id: str = js.host.random.nuid()
        self.to = asked.deliver_subject.encode()
        self.chunk = _within(asked.chunk_size, CHUNK)
        self.window = _within(asked.window_size, WINDOW)
        self.started = js.host.now()
        self.heard = self.started
        self.client = client_info(None, js, request.client)
        self._buffer = bytearray()
        self._index = 0
        self._on_the_way = 0
        self._ended = False
        kept = [] if asked.no_consumers else consumers.backup(asset)
        bodies = [(n, msgspec.json.encode({"config": c, "state": s})) for n, c, s in kept]
        state = msgspec.structs.replace(state, consumer_count=len(bodies))
        self._pieces: Iterator[bytes] = pack_archive(to_json(state), bodies, self._messages())
        told = to_json(advisory.SnapshotCreate(asset.name, state, self.client))
        js.advise(advisory_subject("STREAM", "SNAPSHOT_CREATE", asset.name), told)

    def _messages(self) -> Iterator[Any]:
        store, last = self.asset.store, self.asset.store.last_seq
        start = store.first_seq
        while start <= last and (seqs := store.next_seqs(start, 1000)):
            for seq in seqs:
                message = store.get(seq) if seq <= last else None
                if message is not None:
                    yield message
            start = seqs[-1] + 1

    def pump(self) -> None:
        """Send until the window or this turn's share is full."""
        spent = 0
        host = self.js.host
        while not self._ended and self._on_the_way < self.window:
            if not host.has_interest(self.js.name, self.to):
                self._finish(NO_INTEREST)
                return
            if spent >= BYTES_PER_TURN:
                host.schedule(host.now(), self.pump)
                return
            if not self._fill():
                if self._buffer:
                    host.publish(self.js.name, self.to, b"", bytes(self._buffer))
                self._finish(END if self._index else b"")
                return
            data = bytes(self._buffer[: self.chunk])
            del self._buffer[: self.chunk]
            self._index += 1
            address = f"{SNAPSHOT_ACK_PREFIX}.{self.asset.name}.{self.id}.{len(data)}.{self._index}"
            host.publish(self.js.name, self.to, b"", data, address.encode())
            self._on_the_way += len(data)
            spent += len(data)
        if not self._ended:
            host.schedule(host.now() + IDLE_NS, self._check_flow)

    def _fill(self) -> bool:
        """True when a whole chunk is ready."""
        while len(self._buffer) < self.chunk:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._buffer += piece
        return True

    def on_ack(self, size: int) -> None:
        self.heard = self.js.host.now()
        self._on_the_way -= size
        self.pump()

    def _check_flow(self) -> None:
        if not self._ended and self.js.host.now() - self.heard >= IDLE_NS:
            self._finish(NO_FLOW)

    def _finish(self, block: bytes) -> None:
        self._ended = True
        self.js.transfers.pop(self.id, None)
        host = self.js.host
        host.publish(self.js.name, self.to, block, b"")
        start, end = rfc3339(self.started), rfc3339(host.now())
        told = advisory.SnapshotComplete(self.asset.name, start, end, self.client)
        subject = advisory_subject("STREAM", "SNAPSHOT_COMPLETE", self.asset.name)
        self.js.advise(subject, to_json(told))


# -- in ---------------------------------------------------------------------------------------


def restore(js: Any, request: ApiRequest, names: Sequence[str]) -> Sequence[Struct]:
    asked = decode(request.payload, StreamRestoreRequest, strict=False)
    if not asked.config.name:
        asked.config.name = names[0]
    if asked.config.name != names[0]:
        raise ApiError(STREAM_MISMATCH)
    if names[0] in js.streams:
        raise ApiError(STREAM_NAME_EXIST_RESTORE_FAILED)
    receiver = RestoreReceiver(js, js.restore_stream(asked.config), request)
    js.transfers[receiver.id] = receiver
    return [RestoreAnswer(f"{RESTORE_PREFIX}.{names[0]}.{receiver.id}")]


class RestoreReceiver:
    """One restore that is coming in; the stream is public only when all of it was good."""

    def __init__(self, js: Any, asset: Any, request: ApiRequest) -> None:
        self.js = js
        self.asset = asset
        self.id: str = js.host.random.nuid()
        self.started = self.heard = js.host.now()
        self.client = client_info(None, js, request.client)
        self._reader = ArchiveReader()
        self._state = StreamState()
        self._consumers: list[tuple[str, bytes]] = []
        self._bytes = 0
        self._problem: Exception | None = None
        told = advisory.RestoreCreate(asset.name, self.client)
        js.advise(advisory_subject("STREAM", "RESTORE_CREATE", asset.name), to_json(told))
        js.host.schedule(self.started + IDLE_NS, self._check_idle)

    def on_chunk(self, data: bytes) -> bytes:
        """The answer to one chunk: nothing, or at the end how it went."""
        self.heard = self.js.host.now()
        if not data:
            return self._finish()
        self._bytes += len(data)
        if self._problem is None:
            try:
                for entry in self._reader.feed(data):
                    self._take(entry)
                self.asset.store.write()
            except (JetStreamError, OSError, ValueError, msgspec.MsgspecError) as problem:
                self._problem = problem
        return b""

    def _take(self, entry: Entry) -> None:
        if entry.name == STATE and not entry.seq:
            self._state = msgspec.json.decode(entry.payload, type=StreamState)
        elif entry.name.startswith(CONSUMERS) and not entry.seq:
            self._consumers.append((entry.name[len(CONSUMERS) :], entry.payload))
        else:
            self.asset.store.append(
                entry.name.encode("utf-8", "surrogateescape"),
                entry.headers,
                entry.payload,
                entry.time_ns,
                seq=entry.seq,
                expires_at=self._expiry(entry),
            )

    def _expiry(self, entry: Entry) -> int:
        if not self.asset.config.allow_msg_ttl or b"Nats-TTL:" not in entry.headers:
            return 0
        try:
            ttl = parse_ttl(get_header(entry.headers, b"Nats-TTL") or b"")
        except ApiError:
            return 0
        return min(entry.time_ns + ttl, 2**63 - 1) if ttl else 0

    def _finish(self) -> bytes:
        self.js.transfers.pop(self.id, None)
        problem = self._problem
        if problem is None and not self._reader.finished:
            problem = ApiError(STREAM_RESTORE, err="archive ends too early")
        if problem is None:
            try:
                return self._publish_stream()
            except (JetStreamError, OSError, msgspec.MsgspecError) as error:
                problem = error
        self._abandon()
        if not isinstance(problem, ApiError):
            problem = ApiError(STREAM_RESTORE, err=str(problem))
        return answer("stream_create_response", error=problem)

    def _publish_stream(self) -> bytes:
        js, asset = self.js, self.asset
        missing = self._state.last_seq - asset.store.last_seq
        if missing > 0:
            asset.store.skip(missing, parse_rfc3339(self._state.last_ts))
        js.finish_restore(asset)
        for name, body in self._consumers:
            kept = msgspec.json.decode(body, type=_KeptConsumer)
            consumers.restore(js.host, js, asset, name, kept.config, kept.state)
        start, end = rfc3339(self.started), rfc3339(js.host.now())
        told = advisory.RestoreComplete(asset.name, start, end, self._bytes, self.client)
        js.advise(advisory_subject("STREAM", "RESTORE_COMPLETE", asset.name), to_json(told))
        return answer("stream_create_response", stream_info(js, asset), DidCreate(False))

    def _abandon(self) -> None:
        if self.asset.journal is not None:
            self.asset.journal.close()
        self.asset.store.close()
        if self.asset.home is not None:
            self.asset.home.destroy()

    def _check_idle(self) -> None:
        if self.id not in self.js.transfers:
            return
        left = self.heard + IDLE_NS - self.js.host.now()
        if left > 0:
            self.js.host.schedule(self.heard + IDLE_NS, self._check_idle)
            return
        del self.js.transfers[self.id]
        self._abandon()


class _KeptConsumer(Struct):
    config: ConsumerConfig
    state: dict[str, Any] = {}


def on_chunk(engine: Any, account: Any, js: Any, request: ApiRequest) -> object:
    """A message on `$JS.SNAPSHOT.…`: an acknowledgement or a piece of a restore."""
    tokens = request.subject.split(".")
    if js is None or len(tokens) < 5:
        return False
    transfer = js.transfers.get(tokens[4])
    if tokens[2] == "ACK":
        if isinstance(transfer, SnapshotSender) and len(tokens) > 5 and tokens[5].isdigit():
            transfer.on_ack(int(tokens[5]))
        return True
    if not isinstance(transfer, RestoreReceiver):
        return False
    told = transfer.on_chunk(request.payload)
    if request.reply:
        desk = engine.desks.get(id(transfer.asset))
        if desk is not None and told:
            desk.confirm(request.reply, told, True)
        else:
            engine.send(account, request.reply, told)
    return True


ROUTES: Final = {
    "STREAM.SNAPSHOT": Route("stream_snapshot_response", "B", snapshot),
    "STREAM.RESTORE": Route("stream_restore_response", "B", restore, zero=RestoreAnswer),
}
