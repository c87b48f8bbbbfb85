"""What a consumer's configuration may say: defaults, rules, allowed updates.

`check_create` and `check_update` return a configuration with every default filled in, or raise the
ApiError a client of the reference would see. The order of the checks is part of the contract: of
several mistakes the same one is reported first.
"""

import re
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from jetstream.clock import MILLISECOND, MINUTE, SECOND
from jetstream.consumer.options import parse_options
from jetstream.errors import ApiError, Refusal
from jetstream.schema import api_errors as refusals
from jetstream.schema.consumer import PRIORITY_POLICIES, ConsumerConfig
from jetstream.schema.stream import StreamConfig
from jetstream.schema.times import go_duration, parse_rfc3339
from jetstream.subjects.match import overlaps
from jetstream.subjects.tokens import has_wildcard, is_valid_subject

ACK_WAIT_DEFAULT: Final = 30 * SECOND
MAX_ACK_PENDING_DEFAULT: Final = 1000
MAX_WAITING_DEFAULT: Final = 512
INACTIVE_DEFAULT: Final = 5 * SECOND
PINNED_DEFAULT: Final = 2 * MINUTE
HEARTBEAT_SHORTEST: Final = 100 * MILLISECOND
NAME_BYTES_MAX: Final = 255
DESCRIPTION_BYTES_MAX: Final = 4096
METADATA_BYTES_MAX: Final = 128 * 1024

_GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_SERVER_METADATA: Final = frozenset({"_nats.ver", "_nats.level"})
_REQUIRED_LEVEL: Final = "_nats.req.level"


class Ceilings(Struct, frozen=True):
    """What account and server allow at most; 0 and below: no limit."""

    max_ack_pending: int = 0
    max_request_batch: int = 0


NO_CEILINGS: Final = Ceilings()


def check_create(
    given: ConsumerConfig,
    stream: StreamConfig,
    ceilings: Ceilings = NO_CEILINGS,
    pedantic: bool = False,
) -> ConsumerConfig:
    """The configuration a consumer gets: rules kept, defaults filled in."""
    config = msgspec.structs.replace(given)
    if config.num_replicas > 1:
        _refuse(refusals.STREAM_REPLICAS_NOT_SUPPORTED)
    if config.deliver_policy == "undefined":
        config.deliver_policy = "all"
    if config.priority_policy == "none":
        config.priority_policy = ""
    config.metadata = stored_metadata(config)
    _fill_defaults(config, stream, ceilings, pedantic)
    _check_numbers(config)
    _check_flow_control_acks(config, given)
    if len(config.description.encode()) > DESCRIPTION_BYTES_MAX:
        _refuse(refusals.CONSUMER_DESCRIPTION_TOO_LONG, max=DESCRIPTION_BYTES_MAX)
    if config.is_pull:
        _check_pull(config, stream, ceilings)
    else:
        _check_push(config, stream)
    _check_ceilings(config, stream, ceilings)
    if config.direct and config.is_pull:
        _refuse(refusals.CONSUMER_DIRECT_REQUIRES_PUSH)
    if config.direct and config.durable_name:
        _refuse(refusals.CONSUMER_DIRECT_REQUIRES_EPHEMERAL)
    _check_filters(config)
    _check_start(config)
    sample_percent(config.sample_freq)
    if config.flow_control and not config.idle_heartbeat:
        _refuse(refusals.CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS)
    if sum(len(k.encode()) + len(v.encode()) for k, v in config.metadata.items()) > (
        METADATA_BYTES_MAX
    ):
        _refuse(refusals.CONSUMER_METADATA_LENGTH, limit="128KB")
    _check_priority(config)
    if stream.retention == "workqueue":
        _check_workqueue(config)
    parse_options(config.metadata)
    return config


def sample_percent(sample_freq: str) -> int:
    """`"50"` and `"50%"` are 50; what is not a number is refused."""
    if not sample_freq:
        return 0
    digits = sample_freq.removesuffix("%")
    if not re.fullmatch(r"[+-]?\d+", digits):
        text = f'strconv.Atoi: parsing "{digits}": invalid syntax'
        raise ApiError(refusals.CONSUMER_INVALID_SAMPLING, err=text)
    return int(digits)


def required_level(config: ConsumerConfig) -> int:
    """The API level a server needs to serve this consumer."""
    if config.ack_policy == "flow_control":
        return 4
    return 1 if config.pause_until or config.priority_policy or config.priority_groups else 0


def stored_metadata(config: ConsumerConfig) -> dict[str, str]:
    """The client's keys and the level we need; sorted, as the reference prints maps."""
    kept = {k: v for k, v in config.metadata.items() if k not in _SERVER_METADATA}
    kept[_REQUIRED_LEVEL] = str(required_level(config))
    return dict(sorted(kept.items()))


def _refuse(refusal: Refusal, **details: object) -> NoReturn:
    raise ApiError(refusal, **details)


def _pedantic(text: str) -> NoReturn:
    raise ApiError(refusals.PEDANTIC, err=text)


def _fill_defaults(
    config: ConsumerConfig, stream: StreamConfig, ceilings: Ceilings, pedantic: bool
) -> None:
    if config.max_deliver == 0 or config.max_deliver < -1:
        if pedantic and config.max_deliver < -1:
            _pedantic("max_deliver must be set to -1")
        config.max_deliver = -1
    for name in ("max_waiting", "max_batch", "max_expires", "max_bytes", "inactive_threshold"):
        if getattr(config, name) < 0:
            if pedantic:
                _pedantic(f"{name} must not be negative")
            setattr(config, name, 0)
    if config.max_ack_pending < -1:
        if pedantic:
            _pedantic("max_ack_pending must be set to -1")
        config.max_ack_pending = -1
    if config.ack_policy == "flow_control":
        config.flow_control = True
        config.idle_heartbeat = config.idle_heartbeat or SECOND
        if config.idle_heartbeat < HEARTBEAT_SHORTEST:
            config.idle_heartbeat = SECOND
    if config.backoff:
        if pedantic and config.ack_wait != config.backoff[0]:
            _pedantic("first backoff value has to equal batch AckWait")
        config.ack_wait = config.backoff[0]
    elif config.ack_wait == 0 and config.ack_policy in ("explicit", "all"):
        config.ack_wait = ACK_WAIT_DEFAULT
    if config.is_pull and config.max_waiting == 0:
        config.max_waiting = MAX_WAITING_DEFAULT
    _fill_max_ack_pending(config, stream, ceilings, pedantic)
    _fill_inactive_threshold(config, stream, pedantic)
    if config.is_pull and config.max_batch == 0 and ceilings.max_request_batch > 0:
        if pedantic:
            _pedantic("max_request_batch must be set if it's JetStream limits are set")
        config.max_batch = ceilings.max_request_batch
    if config.priority_policy == "pinned_client" and config.priority_timeout == 0:
        config.priority_timeout = PINNED_DEFAULT


def _fill_max_ack_pending(
    config: ConsumerConfig, stream: StreamConfig, ceilings: Ceilings, pedantic: bool
) -> None:
    limit = stream.consumer_limits.max_ack_pending
    if config.max_ack_pending == 0 and limit > 0:
        if pedantic:
            _pedantic("max_ack_pending must be set if it's configured in stream limits")
        config.max_ack_pending = limit
    if config.max_ack_pending == 0 and config.ack_policy != "none":
        config.max_ack_pending = MAX_ACK_PENDING_DEFAULT
        if 0 < ceilings.max_ack_pending < MAX_ACK_PENDING_DEFAULT:
            config.max_ack_pending = ceilings.max_ack_pending


def _fill_inactive_threshold(config: ConsumerConfig, stream: StreamConfig, pedantic: bool) -> None:
    limit = stream.consumer_limits.inactive_threshold
    if config.inactive_threshold == 0 and limit > 0:
        if pedantic:
            _pedantic("inactive_threshold must be set if it's configured in stream limits")
        config.inactive_threshold = limit
    if config.inactive_threshold == 0 and not config.durable_name:
        config.inactive_threshold = INACTIVE_DEFAULT


def _check_numbers(config: ConsumerConfig) -> None:
    if config.num_replicas < 0:
        _refuse(refusals.REPLICAS_COUNT_CANNOT_BE_NEGATIVE)
    if any(wait < 0 for wait in config.backoff):
        _refuse(refusals.CONSUMER_BACK_OFF_NEGATIVE)
    if config.backoff and config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        _refuse(refusals.CONSUMER_MAX_DELIVER_BACKOFF)
    if config.ack_wait < 0:
        _refuse(refusals.CONSUMER_ACK_WAIT_NEGATIVE)


def _check_flow_control_acks(config: ConsumerConfig, given: ConsumerConfig) -> None:
    """ack_policy flow_control: answers to flow control settle what was delivered before them."""
    if config.ack_policy != "flow_control":
        return
    if config.is_pull:
        _refuse(refusals.CONSUMER_ACK_FC_REQUIRES_PUSH)
    if config.max_ack_pending <= 0:
        _refuse(refusals.CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING)
    if given.ack_wait or given.backoff:
        _refuse(refusals.CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT)
    if config.max_deliver != -1:
        _refuse(refusals.CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER)


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    if has_wildcard(config.deliver_subject):
        _refuse(refusals.CONSUMER_DELIVER_TO_WILDCARDS)
    if not is_valid_subject(config.deliver_subject):
        _refuse(refusals.CONSUMER_INVALID_DELIVER_SUBJECT)
    if any(overlaps(subject, config.deliver_subject) for subject in stream.subjects):
        _refuse(refusals.CONSUMER_DELIVER_CYCLE)
    if config.max_waiting:
        _refuse(refusals.CONSUMER_PUSH_MAX_WAITING)
    if config.max_ack_pending > 0 and config.ack_policy == "none":
        _refuse(refusals.CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED)
    if 0 < config.idle_heartbeat < HEARTBEAT_SHORTEST:
        _refuse(refusals.CONSUMER_SMALL_HEARTBEAT)


def _check_pull(config: ConsumerConfig, stream: StreamConfig, ceilings: Ceilings) -> None:
    if stream.retention == "workqueue" and config.ack_policy != "explicit":
        _refuse(refusals.CONSUMER_PULL_REQUIRES_ACK)
    if config.rate_limit_bps:
        _refuse(refusals.CONSUMER_PULL_WITH_RATE_LIMIT)
    if config.idle_heartbeat:
        _refuse(refusals.CONSUMER_HB_REQUIRES_PUSH)
    if config.flow_control:
        _refuse(refusals.CONSUMER_FC_REQUIRES_PUSH)
    if 0 < config.max_expires < MILLISECOND:
        _refuse(refusals.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL)
    if 0 < ceilings.max_request_batch < config.max_batch:
        _refuse(refusals.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED, limit=ceilings.max_request_batch)


def _check_ceilings(config: ConsumerConfig, stream: StreamConfig, ceilings: Ceilings) -> None:
    for limit in (stream.consumer_limits.max_ack_pending, ceilings.max_ack_pending):
        if 0 < limit < config.max_ack_pending:
            _refuse(refusals.CONSUMER_MAX_PENDING_ACK_EXCESS, limit=limit)
    inactive = stream.consumer_limits.inactive_threshold
    if 0 < inactive < config.inactive_threshold:
        _refuse(refusals.CONSUMER_INACTIVE_THRESHOLD_EXCESS, limit=go_duration(inactive))


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        _refuse(refusals.CONSUMER_DUPLICATE_FILTER_SUBJECTS)
    if "" in config.filter_subjects:
        _refuse(refusals.CONSUMER_EMPTY_FILTER)
    filters = config.filters
    if not all(is_valid_subject(subject) for subject in filters):
        raise ApiError(refusals.STREAM_INVALID_CONFIG, err="invalid subject")
    for at, subject in enumerate(filters):
        if any(overlaps(subject, other) for other in filters[at + 1 :]):
            _refuse(refusals.CONSUMER_OVERLAPPING_SUBJECT_FILTERS)


def _check_start(config: ConsumerConfig) -> None:
    """Only the policies that begin somewhere may say where; those must."""
    policy = config.deliver_policy
    words = policy.replace("_", " ")
    if policy == "by_start_sequence":
        if not config.opt_start_seq:
            _bad_start(words, "sequence is not set")
        if config.opt_start_time:
            _bad_start(words, "time is also set")
    elif policy == "by_start_time":
        if not config.opt_start_time:
            _bad_start(words, "time is not set")
        if config.opt_start_seq:
            _bad_start(words, "start sequence is also set")
    else:
        if config.opt_start_seq:
            _bad_start(words, "sequence is also set")
        if config.opt_start_time:
            _bad_start(words, "time is also set")
        if policy == "last_per_subject" and not config.filters:
            raise ApiError(
                refusals.CONSUMER_INVALID_POLICY,
                err=f"consumer delivery policy is deliver {words}, "
                "but optional filter subject is not set",
            )


def _bad_start(policy: str, what: str) -> NoReturn:
    raise ApiError(
        refusals.CONSUMER_INVALID_POLICY,
        err=f"consumer delivery policy is deliver {policy}, but optional start {what}",
    )


def _check_priority(config: ConsumerConfig) -> None:
    assert config.priority_policy in ("", *PRIORITY_POLICIES), "the api checks the word"
    if config.priority_policy:
        if not config.is_pull:
            _refuse(refusals.CONSUMER_PUSH_WITH_PRIORITY_GROUP)
        for group in config.priority_groups:
            if not group:
                _refuse(refusals.CONSUMER_EMPTY_GROUP_NAME)
            if not _GROUP_NAME.fullmatch(group):
                _refuse(refusals.CONSUMER_INVALID_GROUP_NAME)
        if not config.priority_groups:
            _refuse(refusals.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP)
        if config.priority_policy != "pinned_client" and config.priority_timeout:
            _refuse(refusals.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE)
        return
    if config.priority_groups:
        _refuse(refusals.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE)
    if config.priority_timeout:
        _refuse(refusals.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE)


def _check_workqueue(config: ConsumerConfig) -> None:
    if config.ack_policy not in ("explicit", "flow_control"):
        _refuse(refusals.CONSUMER_WQ_REQUIRES_EXPLICIT_ACK)
    if config.deliver_policy != "all":
        _refuse(refusals.CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL)


_FIXED: Final = (
    ("deliver_policy", "deliver policy can not be updated"),
    ("opt_start_seq", "start sequence can not be updated"),
    ("opt_start_time", "start time can not be updated"),
    ("ack_policy", "ack policy can not be updated"),
    ("replay_policy", "replay policy can not be updated"),
    ("idle_heartbeat", "heart beats can not be updated"),
    ("flow_control", "flow control can not be updated"),
    ("mem_storage", "storage type can not be updated"),
)


def check_update(old: ConsumerConfig, new: ConsumerConfig) -> ConsumerConfig:
    """The configuration after an update: both are checked ones, `new` may change only some fields.

    `pause_until` is kept: pausing has its own endpoint.
    """
    for name, text in _FIXED:
        if getattr(old, name) != getattr(new, name):
            raise ApiError(refusals.CONSUMER_CREATE, err=text)
    if old.is_pull and not new.is_pull:
        raise ApiError(refusals.CONSUMER_CREATE, err="can not update pull consumer to push based")
    if new.is_pull and not old.is_pull:
        raise ApiError(refusals.CONSUMER_CREATE, err="can not update push consumer to pull based")
    if old.max_waiting != new.max_waiting:
        raise ApiError(refusals.CONSUMER_CREATE, err="max waiting can not be updated")
    updated = msgspec.structs.replace(new, pause_until=old.pause_until)
    if new.durable_name and not old.durable_name and not new.inactive_threshold:
        # An ephemeral one that becomes durable keeps its threshold.
        updated.inactive_threshold = old.inactive_threshold
    updated.metadata = stored_metadata(updated)
    return updated


def same(old: ConsumerConfig, new: ConsumerConfig) -> bool:
    """Would a create with `new` find what is already there? Both checked.

    How a time is written does not matter, nor does the pause, which has its own endpoint.
    """
    if old.opt_start_time != new.opt_start_time and _time(old) == _time(new):
        new = msgspec.structs.replace(new, opt_start_time=old.opt_start_time)
    return old == new


def _time(config: ConsumerConfig) -> int:
    return parse_rfc3339(config.opt_start_time) if config.opt_start_time else -1
