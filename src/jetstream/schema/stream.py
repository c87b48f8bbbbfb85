"""What both ends say about streams: configuration, state, info, publish acknowledgement.

Field names, their order and which of them are always printed are the wire format. Durations are
integer nanoseconds, times RFC 3339 text. Rules and defaults live in `stream/config.py`.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

from msgspec import Meta, Struct, field

from jetstream.schema.encoding import always
from jetstream.schema.times import ZERO_TIME

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
UInt64 = Annotated[int, Meta(ge=0)]

RETENTIONS: Final = ("limits", "interest", "workqueue")
DISCARDS: Final = ("old", "new")
STORAGES: Final = ("file", "memory")
COMPRESSIONS: Final = ("none", "s2")
PERSIST_MODES: Final = ("default", "async")


class SubjectTransform(Struct, frozen=True):
    src: str = always("")
    dest: str = always("")


class RePublish(Struct, frozen=True, omit_defaults=True):
    src: str = ""
    dest: str = always("")
    headers_only: bool = False


class Placement(Struct, frozen=True, omit_defaults=True):
    cluster: str = ""
    tags: list[str] = field(default_factory=list)
    preferred: str = ""


class ExternalStream(Struct, frozen=True):
    api: str = always("")
    deliver: str = always("")


class SourceConsumer(Struct, frozen=True, omit_defaults=True):
    """A consumer somebody prepared for a mirror or source to read from."""

    name: str = ""
    deliver_subject: str = ""


class StreamSource(Struct, frozen=True, omit_defaults=True):
    name: str = always("")
    opt_start_seq: UInt64 = 0
    opt_start_time: str | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransform] = field(default_factory=list)
    external: ExternalStream | None = None
    consumer: SourceConsumer | None = None


class ConsumerLimits(Struct, frozen=True, omit_defaults=True):
    inactive_threshold: Int64 = 0
    max_ack_pending: Int64 = 0


class StreamConfig(Struct, omit_defaults=True):
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "retention": RETENTIONS,
        "discard": DISCARDS,
        "storage": STORAGES,
        "compression": COMPRESSIONS,
        "persist_mode": PERSIST_MODES,
    }

    name: str = always("")
    description: str = ""
    subjects: list[str] = field(default_factory=list)
    retention: str = always("limits")
    max_consumers: Int64 = always(-1)
    max_msgs: Int64 = always(-1)
    max_bytes: Int64 = always(-1)
    max_age: Int64 = always(0)
    max_msgs_per_subject: Int64 = always(-1)
    max_msg_size: Int32 = always(-1)
    discard: str = always("old")
    storage: str = always("file")
    num_replicas: Int64 = always(1)
    no_ack: bool = False
    duplicate_window: Int64 = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: list[StreamSource] = field(default_factory=list)
    compression: str = always("none")
    first_seq: UInt64 = 0
    subject_transform: SubjectTransform | None = None
    republish: RePublish | None = None
    allow_direct: bool = always(False)
    mirror_direct: bool = always(False)
    discard_new_per_subject: bool = False
    sealed: bool = always(False)
    deny_delete: bool = always(False)
    deny_purge: bool = always(False)
    allow_rollup_hdrs: bool = always(False)
    consumer_limits: ConsumerLimits = field(default_factory=lambda: ConsumerLimits())
    allow_msg_ttl: bool = always(False)
    subject_delete_marker_ttl: Int64 = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: str = ""
    allow_batched: bool = False
    metadata: dict[str, str] = field(default_factory=lambda: {})  # noqa: PIE807 - always printed


class LostData(Struct, frozen=True, omit_defaults=True):
    """Sequences whose records were found damaged; never served, always reported."""

    msgs: list[int] | None = field(default_factory=lambda: [])  # noqa: PIE807
    bytes: int = always(0)


class StreamState(Struct, omit_defaults=True):
    messages: UInt64 = always(0)
    bytes: UInt64 = always(0)
    first_seq: UInt64 = always(0)
    first_ts: str = always(ZERO_TIME)
    last_seq: UInt64 = always(0)
    last_ts: str = always(ZERO_TIME)
    num_subjects: int = 0
    subjects: dict[str, int] | None = None
    num_deleted: int = 0
    deleted: list[int] | None = None
    lost: LostData | None = None
    consumer_count: int = always(0)


class ApiErrorDetail(Struct, frozen=True, omit_defaults=True):
    """The `error` object of an answer."""

    code: int = always(0)
    err_code: int = 0
    description: str = ""


class SourceInfo(Struct, omit_defaults=True):
    """How far a mirror or source has come; `active` is -1 before the first contact."""

    name: str = always("")
    external: ExternalStream | None = None
    lag: UInt64 = always(0)
    seq: UInt64 = 0
    active: Int64 = always(-1)
    error: ApiErrorDetail | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransform] = field(default_factory=list)


class PeerInfo(Struct, omit_defaults=True):
    name: str = always("")
    current: bool = always(False)
    offline: bool = False
    active: Int64 = always(0)
    lag: UInt64 = 0


class ClusterInfo(Struct, omit_defaults=True):
    name: str = ""
    raft_group: str = ""
    leader: str = ""
    leader_since: str | None = None
    system_account: bool = False
    traffic_account: str = ""
    replicas: list[PeerInfo] = field(default_factory=list)


class StreamAlternate(Struct, omit_defaults=True):
    name: str = always("")
    domain: str = ""
    cluster: str = always("")


class StreamInfo(Struct, omit_defaults=True):
    config: StreamConfig = field(default_factory=lambda: StreamConfig())
    created: str = always(ZERO_TIME)
    state: StreamState = field(default_factory=lambda: StreamState())
    domain: str = ""
    cluster: ClusterInfo | None = None
    mirror: SourceInfo | None = None
    sources: list[SourceInfo] = field(default_factory=list)
    alternates: list[StreamAlternate] = field(default_factory=list)
    ts: str = always(ZERO_TIME)


class PubAck(Struct, omit_defaults=True):
    """The answer to a publish; `error` set means it was not stored."""

    error: ApiErrorDetail | None = None
    stream: str = always("")
    domain: str = ""
    seq: UInt64 = always(0)
    duplicate: bool = False
    val: str = ""
    batch: str = ""
    count: int = 0


class StoredMessage(Struct, omit_defaults=True):
    """A message as MSG.GET answers it: header block and body in base64."""

    subject: str = always("")
    seq: UInt64 = always(0)
    hdrs: bytes = b""
    data: bytes = b""
    time: str = always(ZERO_TIME)
