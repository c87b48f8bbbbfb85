"""What a server tells about streams, consumers and accounts, with seconds and datetimes.

Every info keeps the answer it came from in `raw`, for tools that print exactly that. In a notebook
an info shows itself as a small table.
"""

from datetime import datetime
from html import escape
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from jetstream.client.config import Config, ConsumerConfig, StreamConfig, from_wire

T = TypeVar("T", bound="Info")


class Info(Struct, kw_only=True):
    """What all infos can do."""

    raw: dict[str, Any] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in _rows(self)
        )
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"

    def __rich_repr__(self) -> Any:
        for name in self.__struct_fields__:
            if name != "raw":
                yield name, getattr(self, name)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "raw"
        )
        return f"{type(self).__name__}({shown})"


def _rows(value: Struct, path: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name in value.__struct_fields__:
        inner = getattr(value, name)
        if name == "raw" or inner is None or inner == [] or inner == {}:
            continue
        if isinstance(inner, Info | Config):
            rows += _rows(inner, f"{path}{name}.")
        else:
            rows.append((path + name, str(inner)))
    return rows


class StreamState(Info):
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    first_ts: datetime | None = None
    last_seq: int = 0
    last_ts: datetime | None = None
    num_subjects: int = 0
    subjects: dict[str, int] = field(default_factory=dict)
    num_deleted: int = 0
    deleted: list[int] = field(default_factory=list)
    lost: dict[str, Any] | None = None
    consumer_count: int = 0


class PeerInfo(Info):
    name: str = ""
    current: bool = False
    offline: bool = False
    active: float = 0.0
    lag: int = 0


class ClusterInfo(Info):
    name: str = ""
    leader: str = ""
    raft_group: str = ""
    leader_since: datetime | None = None
    replicas: list[PeerInfo] = field(default_factory=list)


class SourceInfo(Info):
    """How far a mirror or source is behind; `active` is -1 before the first contact."""

    name: str = ""
    lag: int = 0
    active: float = -1.0
    seq: int = 0
    filter_subject: str = ""
    subject_transforms: list[dict[str, str]] = field(default_factory=list)
    external: dict[str, str] | None = None
    error: dict[str, Any] | None = None


class StreamInfo(Info):
    config: StreamConfig = field(default_factory=StreamConfig)
    created: datetime | None = None
    state: StreamState = field(default_factory=StreamState)
    domain: str = ""
    cluster: ClusterInfo | None = None
    mirror: SourceInfo | None = None
    sources: list[SourceInfo] = field(default_factory=list)
    alternates: list[dict[str, str]] = field(default_factory=list)
    ts: datetime | None = None

    @property
    def name(self) -> str:
        return self.config.name or ""


class SequencePair(Info):
    consumer_seq: int = 0
    stream_seq: int = 0
    last_active: datetime | None = None


class PriorityGroup(Info):
    group: str = ""
    pinned_client_id: str = ""
    pinned_ts: datetime | None = None


class ConsumerInfo(Info):
    stream_name: str = ""
    name: str = ""
    created: datetime | None = None
    config: ConsumerConfig = field(default_factory=ConsumerConfig)
    delivered: SequencePair = field(default_factory=SequencePair)
    ack_floor: SequencePair = field(default_factory=SequencePair)
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    cluster: ClusterInfo | None = None
    push_bound: bool = False
    paused: bool = False
    pause_remaining: float = 0.0
    ts: datetime | None = None
    priority_groups: list[PriorityGroup] = field(default_factory=list)


class AccountLimits(Info):
    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False


class ApiStats(Info):
    level: int = 0
    total: int = 0
    errors: int = 0
    inflight: int = 0


class Tier(Info):
    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0
    streams: int = 0
    consumers: int = 0
    limits: AccountLimits = field(default_factory=AccountLimits)


class AccountInfo(Tier):
    domain: str = ""
    api: ApiStats = field(default_factory=ApiStats)
    tiers: dict[str, Tier] = field(default_factory=dict)


class PauseState(Info):
    paused: bool = False
    pause_until: datetime | None = None
    pause_remaining: float = 0.0


def read_info(kind: type[T], raw: dict[str, Any]) -> T:
    """An answer as a typed value."""
    made = msgspec.convert(from_wire(raw), kind, strict=False)
    made.raw = raw
    return made
