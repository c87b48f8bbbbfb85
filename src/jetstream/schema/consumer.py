"""What the two ends say about consumers: configuration, information, requests.

Field names and their order are the wire's. A field that the server always emits has a default that
msgspec does not recognise as one (`always`), every other field is left out while it is zero.
Times are RFC 3339 text (empty: not given), durations integer nanoseconds.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from msgspec import Struct, field

from jetstream.schema.encoding import always
from jetstream.schema.stream import UInt64 as Unsigned
from jetstream.schema.times import ZERO_TIME

DELIVER_POLICIES: Final = (
    "all",
    "last",
    "new",
    "by_start_sequence",
    "by_start_time",
    "last_per_subject",
)
ACK_POLICIES: Final = ("none", "all", "explicit", "flow_control")
REPLAY_POLICIES: Final = ("instant", "original")
PRIORITY_POLICIES: Final = ("none", "overflow", "pinned_client", "prioritized")
ACTIONS: Final = ("", "create", "update")


class ConsumerConfig(Struct, omit_defaults=True, kw_only=True):
    """How a consumer reads its stream. Unset numbers are 0; the server fills defaults in."""

    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "deliver_policy": (*DELIVER_POLICIES, "undefined"),
        "ack_policy": ACK_POLICIES,
        "replay_policy": REPLAY_POLICIES,
    }

    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: str = always("all")
    opt_start_seq: Unsigned = 0
    opt_start_time: str = ""
    ack_policy: str = always("none")
    ack_wait: int = 0
    max_deliver: int = 0
    backoff: list[int] = field(default_factory=list)
    filter_subject: str = ""
    filter_subjects: list[str] = field(default_factory=list)
    replay_policy: str = always("instant")
    rate_limit_bps: Unsigned = 0
    sample_freq: str = ""
    max_waiting: int = 0
    max_ack_pending: int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: int = 0
    max_expires: int = 0
    max_bytes: int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: int = 0
    inactive_threshold: int = 0
    num_replicas: int = always(0)
    mem_storage: bool = False
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = field(default_factory=dict)
    pause_until: str = ""
    priority_groups: list[str] = field(default_factory=list)
    priority_policy: str = ""
    priority_timeout: int = 0

    @property
    def is_pull(self) -> bool:
        return not self.deliver_subject

    @property
    def filters(self) -> list[str]:
        """The filters in whichever of the two fields they were given."""
        return [self.filter_subject] if self.filter_subject else self.filter_subjects


class SequenceInfo(Struct, omit_defaults=True):
    """A position, counted in deliveries and in stored messages."""

    consumer_seq: int = always(0)
    stream_seq: int = always(0)
    last_active: str = ""


class PriorityGroupState(Struct, omit_defaults=True, kw_only=True):
    """Who is pinned in a priority group, and since when."""

    group: str = always("")
    pinned_client_id: str = ""
    pinned_ts: str = always(ZERO_TIME)


class ConsumerInfo(Struct, omit_defaults=True, kw_only=True):
    """Everything a server tells about one consumer."""

    stream_name: str = always("")
    name: str = always("")
    created: str = always(ZERO_TIME)
    config: ConsumerConfig = field(default_factory=ConsumerConfig)
    delivered: SequenceInfo = field(default_factory=SequenceInfo)
    ack_floor: SequenceInfo = field(default_factory=SequenceInfo)
    num_ack_pending: int = always(0)
    num_redelivered: int = always(0)
    num_waiting: int = always(0)
    num_pending: int = always(0)
    cluster: dict[str, Any] | None = None
    push_bound: bool = False
    paused: bool = False
    pause_remaining: int = 0
    ts: str = always(ZERO_TIME)
    priority_groups: list[PriorityGroupState] = field(default_factory=list)


class ConsumerCreateRequest(Struct, omit_defaults=True, kw_only=True):
    """Body of CONSUMER.CREATE and CONSUMER.DURABLE.CREATE."""

    stream_name: str = always("")
    config: ConsumerConfig = field(default_factory=ConsumerConfig)
    action: str = ""
    pedantic: bool = False


class ConsumerPageRequest(Struct, omit_defaults=True):
    """Body of CONSUMER.NAMES and CONSUMER.LIST."""

    offset: int = 0


class ConsumerPauseRequest(Struct, omit_defaults=True):
    pause_until: str = ""


class ConsumerPauseResponse(Struct, omit_defaults=True, kw_only=True):
    paused: bool = always(False)
    pause_until: str = always(ZERO_TIME)
    pause_remaining: int = 0


class ConsumerResetRequest(Struct, omit_defaults=True):
    seq: Unsigned = 0


class ConsumerUnpinRequest(Struct, omit_defaults=True):
    group: str = ""


class ConsumerNames(Struct, kw_only=True):
    """One page of CONSUMER.NAMES."""

    total: int = 0
    offset: int = 0
    limit: int = 0
    consumers: list[str] = field(default_factory=list)


class ConsumerList(Struct, kw_only=True):
    """One page of CONSUMER.LIST."""

    total: int = 0
    offset: int = 0
    limit: int = 0
    consumers: list[ConsumerInfo] = field(default_factory=list)


class NextRequest(Struct, omit_defaults=True, kw_only=True):
    """Body of CONSUMER.MSG.NEXT: a pull request."""

    expires: int = 0
    batch: int = 0
    max_bytes: int = 0
    no_wait: bool = False
    idle_heartbeat: int = 0
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    id: str = ""
    priority: int = 0
