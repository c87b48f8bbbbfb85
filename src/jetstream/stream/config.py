"""What a stream's configuration may say: defaults, rules, allowed updates.

`check_create` and `check_update` return a configuration with every default filled in, or raise the
ApiError a client of the reference would see. The order of the checks is part of the contract: of
several mistakes the same one is reported first.
"""

from collections.abc import Callable
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from jetstream.errors import ApiError
from jetstream.schema.api_errors import (
    PEDANTIC,
    REPLICAS_COUNT_CANNOT_BE_NEGATIVE,
    STREAM_INVALID_CONFIG,
    STREAM_MIRROR_NOT_UPDATABLE,
    STREAM_REPLICAS_NOT_SUPPORTED,
    STREAM_TRANSFORM_INVALID_DESTINATION,
    STREAM_TRANSFORM_INVALID_SOURCE,
)
from jetstream.schema.requests import API_LEVEL
from jetstream.schema.stream import StreamConfig
from jetstream.schema.times import go_duration
from jetstream.stream.sources_config import (
    check_cycles,
    check_mirror,
    check_prepared_consumers,
    check_sources,
)
from jetstream.subjects.match import is_subset, overlaps
from jetstream.subjects.tokens import is_valid_subject
from jetstream.subjects.transform import BadTransform, SubjectTransform

NAME_BYTES_MAX: Final = 255
DESCRIPTION_BYTES_MAX: Final = 4096
METADATA_BYTES_MAX: Final = 128 * 1024
REPLICAS_MAX: Final = 5
DUPLICATE_WINDOW_DEFAULT: Final = 120_000_000_000
SHORTEST_NS: Final = 100_000_000
SECOND: Final = 1_000_000_000

VERSION_KEY: Final = "_nats.ver"
LEVEL_KEY: Final = "_nats.level"
REQUIRED_LEVEL_KEY: Final = "_nats.req.level"
# The version of the reference whose behaviour this server has; clients switch features by it.
SERVER_VERSION: Final = "2.15.1"

_NOT_IN_NAMES: Final = frozenset(" \t\r\n\f.*>\\/")

Lookup = Callable[[str], StreamConfig | None]


class ConfigLimits(Struct, frozen=True):
    """The server's own say in the matter: 0 means no limit."""

    duplicate_window: int = 0


def invalid(text: str) -> NoReturn:
    raise ApiError(STREAM_INVALID_CONFIG, err=text)


def check_create(
    given: StreamConfig,
    *,
    lookup: Lookup = lambda name: None,
    limits: ConfigLimits = ConfigLimits(),
    pedantic: bool = False,
) -> StreamConfig:
    """The configuration a new stream gets; `lookup` finds other streams of the account."""
    if given.sealed:
        invalid("stream configuration for create can not be sealed")
    if given.mirror_direct and given.mirror is None:
        invalid("stream has no mirror but does have mirror direct")
    return _checked(given, lookup, limits, pedantic)


def check_update(
    old: StreamConfig,
    given: StreamConfig,
    *,
    lookup: Lookup = lambda name: None,
    limits: ConfigLimits = ConfigLimits(),
    pedantic: bool = False,
) -> StreamConfig:
    """The configuration after an update, or the refusal."""
    config = _checked(given, lookup, limits, pedantic, old)
    if config.name != old.name:
        invalid("stream configuration name must match original")
    if config.storage != old.storage:
        invalid("stream configuration update can not change storage type")
    if config.retention != old.retention and "workqueue" in (config.retention, old.retention):
        invalid("stream configuration update can not change retention policy to/from workqueue")
    if old.sealed and not config.sealed:
        invalid("stream configuration update can not unseal a sealed stream")
    if old.deny_delete and not config.deny_delete:
        invalid("stream configuration update can not cancel deny message deletes")
    if old.deny_purge and not config.deny_purge:
        invalid("stream configuration update can not cancel deny purge")
    if config.mirror is not None and config.mirror != old.mirror:
        raise ApiError(STREAM_MIRROR_NOT_UPDATABLE)
    if old.allow_msg_ttl and not config.allow_msg_ttl:
        invalid("message TTL status can not be disabled")
    if config.allow_msg_counter != old.allow_msg_counter:
        invalid("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not config.allow_msg_schedules:
        invalid("message schedules can not be disabled")
    if config.persist_mode != old.persist_mode:
        invalid("stream configuration update can not change persist mode")
    if config.sealed:
        _seal(config)
    return config


def _seal(config: StreamConfig) -> None:
    config.max_age = 0
    config.discard = "new"
    config.deny_delete = config.deny_purge = True
    config.allow_rollup_hdrs = False


# -- the checks, in the reference's order -----------------------------------------------------


def _checked(
    given: StreamConfig,
    lookup: Lookup,
    limits: ConfigLimits,
    pedantic: bool,
    old: StreamConfig | None = None,
) -> StreamConfig:
    config = plain_copy(given)
    _check_texts(config)
    _check_replicas(config)
    _default_limits(config, pedantic)
    _check_ages(config, limits, pedantic)
    _check_flags(config, pedantic)
    _check_counters_and_schedules(config, pedantic)
    if config.mirror is not None:
        check_mirror(config, lookup, pedantic)
    if config.sources:
        check_sources(config, lookup)
    check_cycles(config, lookup)
    check_prepared_consumers(config)
    _check_subjects(config)
    _check_republish(config, pedantic)
    _check_transform(config)
    _check_placement(config)
    config.metadata[REQUIRED_LEVEL_KEY] = str(required_level(config))
    return config


def plain_copy(given: StreamConfig) -> StreamConfig:
    """A StreamConfig of its own (not a request), without the metadata servers add."""
    config = StreamConfig(**{name: getattr(given, name) for name in StreamConfig.__struct_fields__})
    config.metadata = {k: v for k, v in given.metadata.items() if k not in DYNAMIC_KEYS}
    config.subjects = list(given.subjects)
    return config


def check_name(name: str) -> None:
    if not name or not _NOT_IN_NAMES.isdisjoint(name):
        invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")


def _check_texts(config: StreamConfig) -> None:
    name = config.name
    check_name(name)
    if len(name.encode()) > NAME_BYTES_MAX:
        invalid(f"stream name is too long, maximum allowed is {NAME_BYTES_MAX}")
    if len(config.description.encode()) > DESCRIPTION_BYTES_MAX:
        invalid(f"stream description is too long, maximum allowed is {DESCRIPTION_BYTES_MAX}")
    size = sum(len(k.encode()) + len(v.encode()) for k, v in config.metadata.items())
    if size > METADATA_BYTES_MAX:
        invalid(f"stream metadata exceeds maximum size of {METADATA_BYTES_MAX} bytes")


def _check_replicas(config: StreamConfig) -> None:
    if config.num_replicas == 0:
        config.num_replicas = 1
    if config.num_replicas > REPLICAS_MAX:
        invalid(f"maximum replicas is {REPLICAS_MAX}")
    if config.num_replicas < 0:
        raise ApiError(REPLICAS_COUNT_CANNOT_BE_NEGATIVE)
    if config.num_replicas > 1:
        refused = ApiError(STREAM_REPLICAS_NOT_SUPPORTED)
        refused.hint = "this server keeps one copy; set num_replicas to 1 or use a NATS cluster"
        raise refused


_LIMITS: Final = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")


def _default_limits(config: StreamConfig, pedantic: bool) -> None:
    for name in _LIMITS:
        value = getattr(config, name)
        if value < -1 and pedantic:
            raise ApiError(PEDANTIC, err=f"{name} must be set to -1")
        if value <= 0:
            setattr(config, name, -1)


def _check_ages(config: StreamConfig, limits: ConfigLimits, pedantic: bool) -> None:
    if config.max_age < 0:
        invalid("max age can not be negative")
    if 0 < config.max_age < SHORTEST_NS:
        invalid("max age needs to be >= 100ms")
    if config.duplicate_window < 0:
        invalid("duplicates window can not be negative")
    if config.duplicate_window == 0 and config.mirror is None and not config.sources:
        window = DUPLICATE_WINDOW_DEFAULT
        if limits.duplicate_window and limits.duplicate_window < window:
            window = limits.duplicate_window
        if config.max_age and config.max_age < window:
            window = config.max_age
        config.duplicate_window = window
    window = config.duplicate_window
    if config.max_age and window > config.max_age:
        invalid("duplicates window can not be larger then max age")
    if limits.duplicate_window and window > limits.duplicate_window:
        shown = go_duration(limits.duplicate_window)
        invalid(f"duplicates window can not be larger then server limit of {shown}")
    if 0 < window < SHORTEST_NS:
        invalid("duplicates window needs to be >= 100ms")


def _check_flags(config: StreamConfig, pedantic: bool) -> None:
    if config.deny_purge and config.allow_rollup_hdrs:
        invalid("roll-ups require the purge permission")
    if config.discard_new_per_subject:
        if config.discard != "new":
            invalid("discard new per subject requires discard new policy to be set")
        if config.max_msgs_per_subject <= 0:
            invalid("discard new per subject requires max msgs per subject > 0")
    marker = config.subject_delete_marker_ttl
    if marker < 0:
        invalid("subject delete marker TTL must not be negative")
    if marker:
        if marker < SECOND:
            invalid("subject delete marker TTL must be at least 1 second")
        if pedantic and not config.allow_msg_ttl:
            invalid("subject delete marker cannot be set if message TTLs are disabled")
        if pedantic and not config.allow_rollup_hdrs:
            invalid("subject delete marker cannot be set if roll-ups are disabled")
        config.allow_msg_ttl = config.allow_rollup_hdrs = True
        config.deny_purge = False
    if config.persist_mode == "default":
        config.persist_mode = ""
    if config.persist_mode == "async":
        if config.storage != "file":
            invalid("async persist mode is only supported on file storage")
        if config.allow_atomic:
            invalid("async persist mode is not supported with atomic batch publish")


def _check_counters_and_schedules(config: StreamConfig, pedantic: bool) -> None:
    if config.allow_msg_counter:
        if config.discard == "new":
            invalid("counter stream cannot use discard new")
        if config.allow_msg_ttl:
            invalid("counter stream cannot use message TTLs")
        if config.retention != "limits":
            invalid("counter stream can only use limits retention")
        if config.allow_msg_schedules:
            invalid("counter stream cannot use message schedules")
    if config.allow_msg_schedules:
        if config.discard == "new":
            invalid("message scheduling cannot use discard new")
        if config.mirror is None and not config.sources:
            if pedantic and not config.allow_rollup_hdrs:
                invalid("message scheduling cannot be set if roll-ups are disabled")
            config.allow_rollup_hdrs = True
            config.deny_purge = False


def _check_subjects(config: StreamConfig) -> None:
    if not config.subjects:
        if config.mirror is None and not config.sources:
            config.subjects = [config.name]
        return
    for i, subject in enumerate(config.subjects):
        if not is_valid_subject(subject):
            invalid("invalid subject")
        if not config.no_ack:
            _check_reserved(subject)
        for other in config.subjects[:i]:
            if overlaps(other, subject):
                invalid(f'subject "{other}" overlaps with "{subject}"')


def _check_reserved(subject: str) -> None:
    if subject == ">":
        invalid("capturing all subjects requires no-ack to be true")
    for space in ("$JS.>", "$JSC.>", "$NRG.>"):
        if overlaps(subject, space) and not is_subset(subject, "$JS.EVENT.>"):
            invalid("subjects that overlap with jetstream api require no-ack to be true")
    if overlaps(subject, "$SYS.>") and not is_subset(subject, "$SYS.ACCOUNT.>"):
        invalid("subjects that overlap with system api require no-ack to be true")


def _check_republish(config: StreamConfig, pedantic: bool) -> None:
    given = config.republish
    if given is None:
        return
    if not given.src:
        if pedantic:
            raise ApiError(PEDANTIC, err="republish source can not be empty")
        given = msgspec.structs.replace(given, src=">")
    change = config.subject_transform
    if given.src == given.dest == ">" and change and config.subjects == [change.src]:
        # Republishing everything "as it is" means as it is after the transform.
        given = msgspec.structs.replace(given, src=change.dest, dest=change.dest)
    config.republish = given
    if any(overlaps(given.dest, subject) for subject in config.subjects):
        invalid("stream configuration for republish destination forms a cycle")
    try:
        SubjectTransform(given.src, given.dest)
    except BadTransform:
        invalid(
            "stream configuration for republish with transform from "
            f"'{given.src}' to '{given.dest}' not valid"
        )


def _check_transform(config: StreamConfig) -> None:
    change = config.subject_transform
    if change is None:
        return
    if change.src and not is_valid_subject(change.src):
        raise ApiError(STREAM_TRANSFORM_INVALID_SOURCE, err=f"invalid subject {change.src}")
    try:
        SubjectTransform(change.src, change.dest)
    except BadTransform as error:
        raise ApiError(STREAM_TRANSFORM_INVALID_DESTINATION, err=str(error)) from None


def _check_placement(config: StreamConfig) -> None:
    where = config.placement
    if where is None:
        return
    if where.preferred:
        invalid("preferred server not permitted in placement")
    if not where.cluster and not where.tags:
        config.placement = None


# -- metadata servers add ---------------------------------------------------------------------

# Ours: how long an acknowledged message may be without the disk, when that is not "never".
SYNC_KEY: Final = "_jetstream.sync_interval"
DYNAMIC_KEYS: Final = frozenset((VERSION_KEY, LEVEL_KEY, REQUIRED_LEVEL_KEY, SYNC_KEY))


def required_level(config: StreamConfig) -> int:
    """The API level a server must have to honour this configuration."""
    if config.allow_batched:
        return 4
    if (
        config.allow_msg_counter
        or config.allow_atomic
        or config.allow_msg_schedules
        or config.persist_mode == "async"
    ):
        return 2
    return 1 if config.allow_msg_ttl or config.subject_delete_marker_ttl else 0


def with_dynamic_metadata(config: StreamConfig, sync_interval: str = "") -> StreamConfig:
    """As create, update and info answers show it; sorted, as Go prints maps."""
    metadata = dict(config.metadata)
    if sync_interval:
        metadata[SYNC_KEY] = sync_interval
    metadata[VERSION_KEY] = SERVER_VERSION
    metadata[LEVEL_KEY] = str(API_LEVEL)
    metadata.setdefault(REQUIRED_LEVEL_KEY, str(required_level(config)))
    return msgspec.structs.replace(config, metadata=dict(sorted(metadata.items())))


def with_static_metadata(config: StreamConfig) -> StreamConfig:
    """As lists and snapshots show it: what is stored, sorted."""
    metadata = {k: v for k, v in config.metadata.items() if k not in (VERSION_KEY, LEVEL_KEY)}
    return msgspec.structs.replace(config, metadata=dict(sorted(metadata.items())))
