"""Consumers of a stream: how they come, change and go, and how what they want done is done.

The rules are `consumer/config.py`'s, the decisions `consumer/consumer.py`'s. Here they meet the
stream (retention), the journal (memory across restarts) and the engine (who is told).
"""

import struct
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from jetstream.consumer.config import Ceilings, check_create, check_update, same
from jetstream.consumer.consumer import Consumer
from jetstream.consumer.values import Effects
from jetstream.engine.interest import no_longer_needed, set_interest, without
from jetstream.engine.letters import bury, prepare_grave
from jetstream.errors import ApiError, StoreError
from jetstream.schema import api_errors as refusals
from jetstream.schema.advisory_consumer import ConsumerAction, ConsumerEvent, stamped
from jetstream.schema.consumer import ConsumerConfig
from jetstream.schema.times import parse_rfc3339, rfc3339
from jetstream.subjects.match import overlaps

if TYPE_CHECKING:
    from jetstream.engine.account import JetStreamAccount, StreamAsset
    from jetstream.engine.host import EngineHost

CONSUMERS_DEFAULT_MAX: Final = 1000
NAME_BYTES_MAX: Final = 255
NAME_LETTERS: Final = 8
# Notes are folded into a new snapshot when they outgrow this, and the last snapshot by far.
NOTES_BYTES_MAX: Final = 64 * 1024
NOTES_FACTOR: Final = 4

_SIZE: Final = struct.Struct("<I")


class ConsumerAsset:
    """A consumer with what the engine keeps beside it."""

    __slots__ = ("ack_prefix", "consumer", "name", "noted", "snapshot_bytes")

    def __init__(self, name: str, consumer: Consumer) -> None:
        self.name = name
        self.consumer = consumer
        self.ack_prefix = b""
        self.noted = 0
        self.snapshot_bytes = 0

    @property
    def config(self) -> ConsumerConfig:
        return self.consumer.config

    @property
    def created_ns(self) -> int:
        return self.consumer.created_ns


class _Remembered(Struct):
    """The part of a consumer that rarely changes, as the journal keeps it."""

    config: ConsumerConfig
    created_ns: int


# --- coming and changing ----------------------------------------------------------------------


def create(
    js: "JetStreamAccount",
    asset: "StreamAsset",
    given: ConsumerConfig,
    *,
    name: str = "",
    action: str = "",
    pedantic: bool = False,
) -> ConsumerAsset:
    """Create a consumer, or update the one that has this name, as `action` allows."""
    host = js.host
    name = name or given.durable_name or given.name
    existing = asset.consumers.get(name) if name else None
    if existing is not None:
        given = msgspec.structs.replace(given, pause_until=existing.config.pause_until)
    config = check_create(given, asset.config, ceilings_of(js), pedantic)
    if existing is not None:
        return _update(js, asset, existing, config, given, action)
    if action == "update":
        raise ApiError(refusals.CONSUMER_DOES_NOT_EXIST)
    _check_count(js, asset, config)
    _check_unique(asset, config, name)
    if len(name.encode()) > NAME_BYTES_MAX:
        raise ApiError(refusals.CONSUMER_NAME_TOO_LONG, max=NAME_BYTES_MAX)
    name = name or _free_name(host, asset)
    now = host.now()
    consumer = _build(host, asset, name, config, now, now)
    prepare_grave(js, consumer)
    made = ConsumerAsset(name, consumer)
    _keep(asset, made)
    asset.consumers[name] = made
    set_interest(asset)
    host.consumer_added(js, asset, made)
    _announce(js, ConsumerAction(stream=asset.config.name, consumer=name, action="create"))
    host.wake(asset)
    return made


def _build(
    host: "EngineHost",
    asset: "StreamAsset",
    name: str,
    config: ConsumerConfig,
    created_ns: int,
    now: int,
    fresh: bool = True,
) -> Consumer:
    return Consumer(
        name,
        config,
        asset.config,
        asset.store,
        created_ns,
        now=now,
        new_id=host.random.nuid,
        remember=asset.journal is not None and not config.mem_storage,
        fresh=fresh,
    )


def _update(
    js: "JetStreamAccount",
    asset: "StreamAsset",
    existing: ConsumerAsset,
    config: ConsumerConfig,
    given: ConsumerConfig,
    action: str,
) -> ConsumerAsset:
    old = existing.config
    if action == "create":
        # The reference compares before it fills this default in, so leaving it out differs.
        default_left_out = given.inactive_threshold <= 0 < config.inactive_threshold
        if default_left_out or not same(old, config):
            raise ApiError(refusals.CONSUMER_ALREADY_EXISTS)
    if asset.config.retention == "workqueue" and not _is_unique(asset, config, existing.name):
        raise ApiError(refusals.CONSUMER_WQ_CONSUMER_NOT_UNIQUE)
    if same(old, config):
        return existing
    updated = check_update(old, config)
    host = js.host
    if old.deliver_subject != updated.deliver_subject and host.has_interest(
        js.name, old.deliver_subject.encode()
    ):
        raise ApiError(refusals.CONSUMER_NAME_EXIST)
    existing.consumer.update(updated, host.now())
    prepare_grave(js, existing.consumer)
    _keep(asset, existing)
    set_interest(asset)
    host.consumer_changed(js, asset, existing)
    if old.filters != updated.filters:
        _release(asset, host)
    host.wake(asset)
    return existing


def ceilings_of(js: "JetStreamAccount") -> Ceilings:
    """The tightest of what server and account allow."""
    limits = _server_limits(js)
    pending = [
        limit
        for limit in (getattr(limits, "max_ack_pending", 0), js.limits.max_ack_pending)
        if limit > 0
    ]
    return Ceilings(min(pending, default=0), getattr(limits, "max_request_batch", 0))


def _server_limits(js: "JetStreamAccount") -> Any:
    options = getattr(js.host, "options", None)
    return getattr(options, "limits", None)


def _check_count(js: "JetStreamAccount", asset: "StreamAsset", config: ConsumerConfig) -> None:
    if config.direct:
        return
    most = asset.config.max_consumers
    account = js.limits.max_consumers
    if most <= 0 or 0 < account < most:
        most = account
    if most <= 0:
        most = getattr(_server_limits(js), "default_max_consumers", 0) or CONSUMERS_DEFAULT_MAX
    if asset.visible_consumers >= most > 0:
        raise ApiError(refusals.MAXIMUM_CONSUMERS_LIMIT)


def _check_unique(asset: "StreamAsset", config: ConsumerConfig, name: str) -> None:
    """A message of a work queue has one consumer."""
    if asset.config.retention != "workqueue" or config.direct or not asset.consumers:
        return
    if not config.filters:
        raise ApiError(refusals.CONSUMER_WQ_MULTIPLE_UNFILTERED)
    if not _is_unique(asset, config, name):
        raise ApiError(refusals.CONSUMER_WQ_CONSUMER_NOT_UNIQUE)


def _is_unique(asset: "StreamAsset", config: ConsumerConfig, name: str) -> bool:
    ours = config.filters or [">"]
    return not any(
        overlaps(mine, theirs)
        for other in asset.consumers.values()
        if other.name != name and not other.config.direct
        for theirs in other.config.filters or [">"]
        for mine in ours
    )


def _free_name(host: "EngineHost", asset: "StreamAsset") -> str:
    while (name := host.random.token(NAME_LETTERS)) in asset.consumers:
        pass
    return name


# --- orders -----------------------------------------------------------------------------------


def find(asset: "StreamAsset", name: str) -> ConsumerAsset:
    """The consumer of this name; CONSUMER_NOT_FOUND otherwise."""
    found: ConsumerAsset | None = asset.consumers.get(name)
    if found is None:
        raise ApiError(refusals.CONSUMER_NOT_FOUND)
    return found


def delete(js: "JetStreamAccount", asset: "StreamAsset", name: str) -> None:
    """Those who wait are told; on an interest stream its messages may go."""
    gone = find(asset, name)
    _remove(js, asset, gone)
    set_interest(asset)
    if asset.config.retention == "interest":
        without(asset, gone)
    js.host.wake(asset)


def _remove(js: "JetStreamAccount", asset: "StreamAsset", gone: ConsumerAsset) -> None:
    gone.consumer.close(js.host.now())
    js.host.consumer_removed(js, asset, gone)
    asset.consumers.pop(gone.name, None)
    if asset.journal is not None:
        asset.journal.drop(gone.name)
    stream = asset.config.name
    _announce(js, ConsumerAction(stream=stream, consumer=gone.name, action="delete"))


def stream_deleted(host: "EngineHost", js: "JetStreamAccount", asset: "StreamAsset") -> None:
    """The stream goes, and with it its consumers."""
    for gone in list(asset.consumers.values()):
        _remove(js, asset, gone)


def pause(js: "JetStreamAccount", asset: "StreamAsset", name: str, until: int) -> ConsumerAsset:
    """Hold deliveries back until then; 0 or the past lets them go on."""
    found = find(asset, name)
    found.consumer.pause(until, js.host.now())
    _keep(asset, found)
    js.host.consumer_changed(js, asset, found)
    return found


def reset(js: "JetStreamAccount", asset: "StreamAsset", name: str, seq: int) -> tuple[Any, int]:
    """Start over, at `seq` or behind the ack floor; returns the consumer and where it starts."""
    found = find(asset, name)
    to_seq = _reset_seq(found, seq)
    found.consumer.reset(to_seq, js.host.now())
    _keep(asset, found)
    js.host.consumer_changed(js, asset, found)
    js.host.wake(asset)
    return found, to_seq


def _reset_seq(found: ConsumerAsset, seq: int) -> int:
    consumer, config = found.consumer, found.config
    if not seq:
        return consumer.pending.floor_stream + 1
    problem = ""
    if config.deliver_policy == "by_start_sequence":
        if seq < config.opt_start_seq:
            problem = "below start seq"
    elif config.deliver_policy == "by_start_time":
        if seq < consumer.view.seq_at_time(parse_rfc3339(config.opt_start_time)):
            problem = "below start time"
    elif config.deliver_policy != "all":
        problem = "not allowed"
    if problem:
        raise ApiError(refusals.CONSUMER_INVALID_RESET, err=problem)
    return seq


def unpin(js: "JetStreamAccount", asset: "StreamAsset", name: str, group: str) -> None:
    """Let the pinned client of a group go."""
    found = find(asset, name)
    if found.consumer.groups is None or group not in found.config.priority_groups:
        raise ApiError(refusals.CONSUMER_INVALID_PRIORITY_GROUP)
    found.consumer.unpin(group)
    js.host.consumer_changed(js, asset, found)


# --- what consumers want done -----------------------------------------------------------------


def carry_out(
    host: "EngineHost",
    js: "JetStreamAccount",
    asset: "StreamAsset",
    found: ConsumerAsset,
    effects: Effects,
    now: int,
) -> None:
    """Dead letters first, then the note in the journal, then what others may know.

    A message must be safe among the dead letters before the journal says that it is settled.
    """
    if effects.dead_letters:
        bury(js, asset, found.consumer, effects.dead_letters, now)
    if effects.state_delta and asset.journal is not None:
        _note(asset, found, effects.state_delta)
        host.wake(asset)
    for event in effects.advisories:
        _announce(js, event)
    if effects.settled and asset.config.retention != "limits":
        gone = no_longer_needed(asset, effects.settled)
        if gone:
            asset.stream.on_consumed(gone)
            host.wake(asset)
    found.consumer.retains = asset.config.retention != "limits"
    if effects.deleted and asset.consumers.get(found.name) is found:
        delete(js, asset, found.name)


def _announce(js: "JetStreamAccount", event: ConsumerEvent) -> None:
    subject = event.subject()
    host = js.host
    if host.has_interest(js.name, subject):
        body = stamped(event, host.random.nuid(), rfc3339(host.now()), js.domain, js.name)
        host.publish(js.name, subject, b"", body)


def _release(asset: "StreamAsset", host: "EngineHost") -> None:
    """Interest has shrunk: what nobody needs any more may go."""
    if asset.config.retention != "interest":
        return
    stored = asset.store.next_seqs(asset.store.first_seq, asset.store.msgs)
    gone = no_longer_needed(asset, stored)
    if gone:
        asset.stream.on_consumed(gone)


# --- memory -----------------------------------------------------------------------------------


def _pack(found: ConsumerAsset) -> bytes:
    head = msgspec.json.encode(_Remembered(found.config, found.created_ns))
    return _SIZE.pack(len(head)) + head + found.consumer.snapshot()


def _keep(asset: "StreamAsset", found: ConsumerAsset) -> None:
    """Write the whole state; what was noted before is part of it."""
    if asset.journal is None or found.config.mem_storage:
        return
    packed = _pack(found)
    asset.journal.put(found.name, packed)
    found.noted, found.snapshot_bytes = 0, len(packed)


def _note(asset: "StreamAsset", found: ConsumerAsset, delta: bytes) -> None:
    found.noted += len(delta)
    if found.noted > max(NOTES_BYTES_MAX, NOTES_FACTOR * found.snapshot_bytes):
        _keep(asset, found)
    else:
        asset.journal.note(found.name, delta)


def recover(host: "EngineHost", js: "JetStreamAccount", asset: "StreamAsset") -> None:
    """After a restart: every remembered consumer goes on where it was."""
    if asset.journal is None:
        return
    now = host.now()
    for name, (packed, notes) in asset.journal.load().items():
        try:
            consumer = _unpack(host, asset, name, packed, notes, now)
        except (StoreError, msgspec.MsgspecError, struct.error) as error:
            raise StoreError(f"consumer {name}: {error}") from error
        found = ConsumerAsset(name, consumer)
        found.snapshot_bytes = len(packed)
        found.noted = sum(map(len, notes))
        asset.consumers[name] = found
    set_interest(asset)
    for found in list(asset.consumers.values()):
        prepare_grave(js, found.consumer)
        host.consumer_added(js, asset, found)


def _unpack(
    host: "EngineHost", asset: "StreamAsset", name: str, packed: bytes, notes: list[bytes], now: int
) -> Consumer:
    (size,) = _SIZE.unpack_from(packed)
    head = msgspec.json.decode(packed[_SIZE.size : _SIZE.size + size], type=_Remembered)
    consumer = _build(host, asset, name, head.config, head.created_ns, now, fresh=False)
    consumer.restore(packed[_SIZE.size + size :], notes)
    return consumer


def backup(asset: "StreamAsset") -> list[tuple[str, ConsumerConfig, dict[str, Any]]]:
    """Every consumer as a stream backup keeps it."""
    return [
        (name, found.config, found.consumer.exported())
        for name, found in sorted(asset.consumers.items())
        if not found.config.direct
    ]


def restore(
    host: "EngineHost",
    js: "JetStreamAccount",
    asset: "StreamAsset",
    name: str,
    config: ConsumerConfig,
    state: dict[str, Any],
) -> ConsumerAsset:
    """A consumer from a stream backup; the stream is already there."""
    now = host.now()
    config = check_create(config, asset.config, ceilings_of(js))
    consumer = _build(host, asset, name, config, now, now, fresh=False)
    consumer.imported(state)
    prepare_grave(js, consumer)
    made = ConsumerAsset(name, consumer)
    _keep(asset, made)
    asset.consumers[name] = made
    set_interest(asset)
    host.consumer_added(js, asset, made)
    return made
