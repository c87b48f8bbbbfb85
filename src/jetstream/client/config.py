"""Configurations as an application writes them: seconds, datetimes, None for "as the server likes".

Field names are the wire's. `to_wire` turns them into what travels (integer nanoseconds, RFC 3339),
`from_wire` turns answers back; both go by field name, so a new field of a newer server needs only a
line here, and a field nobody here knows is carried along in `extra` of the infos.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self, TypeVar

import msgspec
from msgspec import Struct

from jetstream.schema.times import ZERO_TIME, parse_rfc3339, rfc3339

Seconds = float | int | timedelta
Retention = Literal["limits", "interest", "workqueue"]
Storage = Literal["file", "memory"]
Discard = Literal["old", "new"]
Compression = Literal["none", "s2"]
DeliverPolicy = Literal[
    "all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"
]
AckPolicy = Literal["none", "all", "explicit", "flow_control"]
ReplayPolicy = Literal["instant", "original"]
PriorityPolicy = Literal["none", "overflow", "pinned_client", "prioritized"]

DURATIONS = frozenset(
    {
        "ack_wait",
        "active",
        "backoff",
        "duplicate_window",
        "idle_heartbeat",
        "inactive_threshold",
        "max_age",
        "max_expires",
        "pause_remaining",
        "priority_timeout",
        "subject_delete_marker_ttl",
    }
)
TIMES = frozenset(
    {
        "created",
        "first_ts",
        "last_active",
        "last_ts",
        "leader_since",
        "opt_start_time",
        "pause_until",
        "pinned_ts",
        "time",
        "ts",
    }
)

T = TypeVar("T", bound="Config")


class Config(Struct, kw_only=True, omit_defaults=True):
    """What all configurations can do."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    def to_wire(self) -> dict[str, Any]:
        """As it travels: nanoseconds, RFC 3339, nothing where nothing was said."""
        return _fields_to_wire(self)

    @classmethod
    def from_wire(cls, raw: dict[str, Any]) -> Self:
        return msgspec.convert(from_wire(raw), cls, strict=False)

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in self.__struct_fields__)
        shown = ", ".join(f"{name}={value!r}" for name, value in given if value is not None)
        return f"{type(self).__name__}({shown})"


class SubjectTransform(Config):
    src: str = ""
    dest: str = ""


class RePublish(Config):
    src: str = ""
    dest: str = ""
    headers_only: bool = False


class Placement(Config):
    cluster: str | None = None
    tags: list[str] | None = None


class ExternalStream(Config):
    api: str = ""
    deliver: str = ""


class StreamSource(Config):
    """Another stream to mirror or to take messages from."""

    name: str
    opt_start_seq: int | None = None
    opt_start_time: datetime | None = None
    filter_subject: str | None = None
    subject_transforms: list[SubjectTransform] | None = None
    external: ExternalStream | None = None
    domain: str | None = None
    consumer: dict[str, str] | None = None

    def to_wire(self) -> dict[str, Any]:
        made = _fields_to_wire(self)
        domain = made.pop("domain", None)
        if domain and "external" not in made:
            made["external"] = {"api": f"$JS.{domain}.API", "deliver": ""}
        return made


class ConsumerLimits(Config):
    inactive_threshold: Seconds | None = None
    max_ack_pending: int | None = None


class StreamConfig(Config):
    """A stream: what it captures and how long it keeps it. Only `name` is needed."""

    name: str | None = None
    description: str | None = None
    subjects: list[str] | None = None
    retention: Retention | None = None
    max_consumers: int | None = None
    max_msgs: int | None = None
    max_bytes: int | None = None
    max_age: Seconds | None = None
    max_msgs_per_subject: int | None = None
    max_msg_size: int | None = None
    discard: Discard | None = None
    storage: Storage | None = None
    num_replicas: int | None = None
    no_ack: bool | None = None
    duplicate_window: Seconds | None = None
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] | None = None
    compression: Compression | None = None
    first_seq: int | None = None
    subject_transform: SubjectTransform | None = None
    republish: RePublish | None = None
    allow_direct: bool | None = None
    mirror_direct: bool | None = None
    discard_new_per_subject: bool | None = None
    sealed: bool | None = None
    deny_delete: bool | None = None
    deny_purge: bool | None = None
    allow_rollup_hdrs: bool | None = None
    consumer_limits: ConsumerLimits | None = None
    allow_msg_ttl: bool | None = None
    subject_delete_marker_ttl: Seconds | None = None
    allow_msg_counter: bool | None = None
    allow_atomic: bool | None = None
    allow_msg_schedules: bool | None = None
    persist_mode: Literal["default", "async"] | None = None
    allow_batched: bool | None = None
    metadata: dict[str, str] | None = None


class ConsumerConfig(Config):
    """A consumer: where it starts, what it filters, how it acknowledges.

    `ack_policy` is "explicit" for pull consumers unless you say otherwise: the wire's own default,
    "none", surprises people.
    """

    name: str | None = None
    durable_name: str | None = None
    description: str | None = None
    deliver_policy: DeliverPolicy | None = None
    opt_start_seq: int | None = None
    opt_start_time: datetime | None = None
    ack_policy: AckPolicy | None = None
    ack_wait: Seconds | None = None
    max_deliver: int | None = None
    backoff: list[Seconds] | None = None
    filter_subject: str | None = None
    filter_subjects: list[str] | None = None
    replay_policy: ReplayPolicy | None = None
    rate_limit_bps: int | None = None
    sample_freq: str | None = None
    max_waiting: int | None = None
    max_ack_pending: int | None = None
    flow_control: bool | None = None
    headers_only: bool | None = None
    max_batch: int | None = None
    max_expires: Seconds | None = None
    max_bytes: int | None = None
    deliver_subject: str | None = None
    deliver_group: str | None = None
    idle_heartbeat: Seconds | None = None
    inactive_threshold: Seconds | None = None
    num_replicas: int | None = None
    mem_storage: bool | None = None
    metadata: dict[str, str] | None = None
    pause_until: datetime | None = None
    priority_groups: list[str] | None = None
    priority_policy: PriorityPolicy | None = None
    priority_timeout: Seconds | None = None


def to_ns(value: Seconds) -> int:
    """Seconds or a timedelta as integer nanoseconds.

    >>> to_ns(1.5), to_ns(timedelta(minutes=1)), to_ns(30)
    (1500000000, 60000000000, 30000000000)
    """
    if isinstance(value, timedelta):
        return (value.days * 86_400 + value.seconds) * 1_000_000_000 + value.microseconds * 1_000
    return value * 1_000_000_000 if isinstance(value, int) else round(value * 1e9)


def time_to_wire(value: datetime | str) -> str:
    """A datetime (naive ones are local time) as RFC 3339 in UTC."""
    if isinstance(value, str):
        return value
    moment = value.astimezone(UTC)
    seconds = int(moment.replace(microsecond=0).timestamp())
    return rfc3339(seconds * 1_000_000_000 + moment.microsecond * 1_000)


def _fields_to_wire(config: Struct) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if value is not None:
            made[name] = _value_to_wire(name, value)
    return made


def _value_to_wire(name: str, value: Any) -> Any:
    if name in DURATIONS:
        if isinstance(value, list):
            return [to_ns(each) for each in value]
        return to_ns(value)
    if isinstance(value, Config):
        return value.to_wire()
    if isinstance(value, list):
        return [each.to_wire() if isinstance(each, Config) else each for each in value]
    if isinstance(value, datetime):
        return time_to_wire(value)
    return value


def from_wire(raw: Any, name: str = "") -> Any:
    """Durations to seconds, times to datetimes, at any depth; nulls are left out."""
    if isinstance(raw, dict):
        if name in ("metadata", "subjects"):
            return raw
        return {key: from_wire(value, key) for key, value in raw.items() if value is not None}
    if isinstance(raw, list):
        return [from_wire(each, name) for each in raw]
    if name in DURATIONS and isinstance(raw, int):
        return raw / 1e9 if raw > 0 else raw
    if name in TIMES and isinstance(raw, str):
        return parse_time(raw)
    return raw


def moment(time_ns: int) -> datetime:
    """Unix nanoseconds as a datetime in UTC, cut to microseconds (never later than it was)."""
    seconds, nanos = divmod(time_ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=nanos // 1000)


def parse_time(text: str) -> datetime | None:
    """RFC 3339 to a datetime in UTC, None for the zero time."""
    if not text or text == ZERO_TIME:
        return None
    return moment(parse_rfc3339(text))


def merged(kind: type[T], given: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """A config object, a wire Struct (nanoseconds), a mapping, or keyword fields, as it travels."""
    if given is None:
        made: dict[str, Any] = kind(**fields).to_wire()
        return made
    if isinstance(given, Config):
        return (msgspec.structs.replace(given, **fields) if fields else given).to_wire()
    if isinstance(given, Struct):
        made = msgspec.to_builtins(given)
    else:
        made = dict(given)
    if fields:
        made.update(kind(**fields).to_wire())
    return made
