"""What both ends say about an account's JetStream: usage, limits, tiers, API counters."""

from msgspec import Struct, field

from jetstream.schema.encoding import always


class AccountLimits(Struct, frozen=True):
    """-1 means unlimited."""

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False


class ApiStats(Struct, omit_defaults=True):
    level: int = always(0)
    total: int = always(0)
    errors: int = always(0)
    inflight: int = 0


class Tier(Struct, omit_defaults=True):
    memory: int = always(0)
    storage: int = always(0)
    reserved_memory: int = always(0)
    reserved_storage: int = always(0)
    streams: int = always(0)
    consumers: int = always(0)
    limits: AccountLimits = field(default_factory=lambda: AccountLimits())


class AccountInfo(Struct, omit_defaults=True):
    memory: int = always(0)
    storage: int = always(0)
    reserved_memory: int = always(0)
    reserved_storage: int = always(0)
    streams: int = always(0)
    consumers: int = always(0)
    limits: AccountLimits = field(default_factory=lambda: AccountLimits())
    domain: str = ""
    api: ApiStats = field(default_factory=lambda: ApiStats())
    tiers: dict[str, Tier] = field(default_factory=dict)
