"""Defaults, rules and updates of a consumer's configuration."""

# ruff: noqa: E501 - the texts are as long as they are

from typing import Any

import pytest

from jetstream.consumer.config import Ceilings, check_create, check_update, same
from jetstream.errors import ApiError
from jetstream.schema.consumer import ConsumerConfig
from jetstream.schema.stream import ConsumerLimits, StreamConfig

SECOND = 1_000_000_000
STREAM = StreamConfig(name="P", subjects=["p.>"])
WORK = StreamConfig(name="W", subjects=["w.>"], retention="workqueue")


def checked(stream: StreamConfig = STREAM, **given: Any) -> ConsumerConfig:
    return check_create(ConsumerConfig(**given), stream)


# As the reference answered them.
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"num_replicas": 3}, 10074, "replicas > 1 not supported in non-clustered mode"),
    ({"num_replicas": -1}, 10133, "replicas count cannot be negative"),
    ({"ack_wait": -1, "ack_policy": "explicit"}, 10183, "consumer ack wait needs to be positive"),
    ({"backoff": [-1], "ack_policy": "explicit"}, 10184, "consumer backoff needs to be positive"),
    (
        {"backoff": [1, 2, 3], "max_deliver": 2, "ack_policy": "explicit"},
        10116,
        "max deliver is required to be > length of backoff values",
    ),
    ({"filter_subject": "a..b"}, 10052, "invalid subject"),
    (
        {"filter_subject": "t.a", "filter_subjects": ["t.b"]},
        10136,
        "consumer cannot have both FilterSubject and FilterSubjects specified",
    ),
    ({"filter_subjects": ["t.a", "t.*"]}, 10138, "consumer subject filters cannot overlap"),
    ({"filter_subjects": ["t.a", ""]}, 10139, "consumer filter in FilterSubjects cannot be empty"),
    ({"filter_subjects": ["t.a", "t..b"]}, 10052, "invalid subject"),
    (
        {"sample_freq": "zz"},
        10095,
        'failed to parse consumer sampling configuration: strconv.Atoi: parsing "zz": invalid syntax',
    ),
    ({"rate_limit_bps": 100}, 10086, "consumer in pull mode can not have rate limit set"),
    ({"flow_control": True}, 10089, "consumer flow control requires a push based consumer"),
    (
        {"idle_heartbeat": 1000000000},
        10088,
        "consumer idle heartbeat requires a push based consumer",
    ),
    ({"max_expires": 10}, 10115, "consumer max request expires needs to be >= 1ms"),
    ({"direct": True}, 10090, "consumer direct requires a push based consumer"),
    (
        {"opt_start_seq": 3},
        10094,
        "consumer delivery policy is deliver all, but optional start sequence is also set",
    ),
    (
        {"opt_start_time": "2024-01-01T00:00:00Z"},
        10094,
        "consumer delivery policy is deliver all, but optional start time is also set",
    ),
    (
        {"deliver_policy": "last_per_subject"},
        10094,
        "consumer delivery policy is deliver last per subject, but optional filter subject is not set",
    ),
    (
        {"deliver_policy": "by_start_sequence"},
        10094,
        "consumer delivery policy is deliver by start sequence, but optional start sequence is not set",
    ),
    (
        {"deliver_policy": "by_start_time"},
        10094,
        "consumer delivery policy is deliver by start time, but optional start time is not set",
    ),
    (
        {"priority_policy": "overflow"},
        10159,
        "Setting PriorityPolicy requires at least one PriorityGroup to be set",
    ),
    (
        {"priority_groups": ["A"]},
        10196,
        "consumer can not have priority groups when policy is none",
    ),
    (
        {"priority_groups": ["a b"], "priority_policy": "overflow"},
        10162,
        "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters",
    ),
    (
        {"priority_groups": [""], "priority_policy": "overflow"},
        10161,
        "Group name cannot be an empty string",
    ),
    (
        {"priority_timeout": 1000000000},
        10197,
        "PinnedTTL cannot be set when PriorityPolicy is none",
    ),
    (
        {"ack_policy": "flow_control"},
        10218,
        "flow control ack policy requires a push based consumer",
    ),
    ({"deliver_subject": "out.*"}, 10079, "consumer deliver subject has wildcards"),
    ({"deliver_subject": "out..x"}, 10112, "invalid push consumer deliver subject"),
    (
        {"deliver_subject": "out.x", "max_waiting": 4},
        10080,
        "consumer in push mode can not set max waiting",
    ),
    (
        {"deliver_subject": "out.x", "max_ack_pending": 4, "ack_policy": "none"},
        10082,
        "consumer requires ack policy for max ack pending",
    ),
    (
        {"deliver_subject": "out.x", "idle_heartbeat": 1000},
        10083,
        "consumer idle heartbeat needs to be >= 100ms",
    ),
    (
        {"deliver_subject": "out.x", "flow_control": True},
        10108,
        "consumer with flow control also needs heartbeats",
    ),
    (
        {"deliver_subject": "out.x", "priority_policy": "overflow", "priority_groups": ["A"]},
        10178,
        "priority groups can not be used with push consumers",
    ),
    (
        {"deliver_subject": "out.x", "direct": True, "durable_name": "DUR"},
        10091,
        "consumer direct requires an ephemeral consumer",
    ),
    (
        {
            "deliver_subject": "out.x",
            "ack_policy": "flow_control",
            "ack_wait": 1000000000,
            "max_ack_pending": 10,
        },
        10221,
        "flow control ack policy requires unset ack wait",
    ),
    (
        {
            "deliver_subject": "out.x",
            "ack_policy": "flow_control",
            "max_deliver": 3,
            "max_ack_pending": 10,
        },
        10222,
        "flow control ack policy requires unset max deliver",
    ),
]


@pytest.mark.parametrize(("given", "code", "text"), REFUSED)
def test_what_is_refused(given: dict[str, Any], code: int, text: str) -> None:
    with pytest.raises(ApiError) as refused:
        checked(**{"name": "X", **given})
    assert (refused.value.err_code, refused.value.description) == (code, text)


PEDANTIC: list[tuple[dict[str, Any], str]] = [
    ({"max_waiting": -1}, "pedantic mode: max_waiting must not be negative"),
    ({"max_batch": -1}, "pedantic mode: max_batch must not be negative"),
    ({"inactive_threshold": -1}, "pedantic mode: inactive_threshold must not be negative"),
    (
        {"max_ack_pending": -5, "ack_policy": "explicit"},
        "pedantic mode: max_ack_pending must be set to -1",
    ),
    ({"max_deliver": -7}, "pedantic mode: max_deliver must be set to -1"),
    (
        {"backoff": [-1], "ack_policy": "explicit"},
        "pedantic mode: first backoff value has to equal batch AckWait",
    ),
]


@pytest.mark.parametrize(("given", "text"), PEDANTIC)
def test_what_pedantic_requests_do_not_want_adjusted(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_create(ConsumerConfig(name="X", **given), STREAM, pedantic=True)
    assert (refused.value.err_code, refused.value.description) == (10157, text)


def test_long_texts_are_refused() -> None:
    with pytest.raises(ApiError, match="description is too long"):
        checked(description="x" * 4097)
    with pytest.raises(ApiError, match="metadata exceeds maximum size of 128KB"):
        checked(metadata={"a": "x" * 132_000})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {"max_deliver": -1, "max_waiting": 512, "inactive_threshold": 5 * SECOND}),
        ({"durable_name": "d"}, {"inactive_threshold": 0, "ack_wait": 0, "max_ack_pending": 0}),
        ({"ack_policy": "explicit"}, {"ack_wait": 30 * SECOND, "max_ack_pending": 1000}),
        (
            {"ack_policy": "all", "deliver_subject": "o"},
            {"max_waiting": 0, "ack_wait": 30 * SECOND},
        ),
        ({"backoff": [SECOND], "ack_policy": "explicit"}, {"ack_wait": SECOND}),
        ({"deliver_policy": "undefined"}, {"deliver_policy": "all"}),
        ({"priority_policy": "none"}, {"priority_policy": ""}),
        (
            {"priority_policy": "pinned_client", "priority_groups": ["A"]},
            {"priority_timeout": 120 * SECOND},
        ),
        (
            {"ack_policy": "flow_control", "deliver_subject": "o"},
            {"flow_control": True, "idle_heartbeat": SECOND, "max_ack_pending": 1000},
        ),
    ],
)
def test_what_is_filled_in(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    config = checked(**given)
    assert {name: getattr(config, name) for name in wanted} == wanted


def test_the_tightest_limit_sets_the_default() -> None:
    given = ConsumerConfig(ack_policy="explicit")
    assert check_create(given, STREAM, Ceilings(max_ack_pending=7)).max_ack_pending == 7
    limited = StreamConfig(name="L", consumer_limits=ConsumerLimits(max_ack_pending=5))
    assert check_create(given, limited).max_ack_pending == 5
    with pytest.raises(ApiError, match="exceeds system limit of 7"):
        check_create(ConsumerConfig(max_ack_pending=8), STREAM, Ceilings(max_ack_pending=7))
    with pytest.raises(ApiError, match="exceeds server limit of 3"):
        check_create(ConsumerConfig(max_batch=4), STREAM, Ceilings(max_request_batch=3))


def test_a_work_queue_wants_explicit_acks_from_the_start() -> None:
    for given, code in (
        ({}, 10084),
        ({"deliver_subject": "o"}, 10098),
        ({"ack_policy": "explicit", "deliver_policy": "new"}, 10101),
    ):
        with pytest.raises(ApiError) as refused:
            checked(WORK, **given)
        assert refused.value.err_code == code


def test_the_level_an_asset_needs_is_kept_and_the_servers_own_keys_are_not() -> None:
    config = checked(metadata={"z": "1", "_nats.ver": "9", "_nats.level": "9", "a": "2"})
    assert list(config.metadata.items()) == [("_nats.req.level", "0"), ("a", "2"), ("z", "1")]
    assert checked(priority_groups=["A"], priority_policy="overflow").metadata == {
        "_nats.req.level": "1"
    }


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"deliver_policy": "new"}, "deliver policy can not be updated"),
        ({"ack_policy": "none"}, "ack policy can not be updated"),
        ({"replay_policy": "original"}, "replay policy can not be updated"),
        ({"max_waiting": 5}, "max waiting can not be updated"),
        ({"mem_storage": True}, "storage type can not be updated"),
        ({"deliver_subject": "o"}, "can not update pull consumer to push based"),
    ],
)
def test_what_an_update_can_not_change(change: dict[str, Any], text: str) -> None:
    base: dict[str, Any] = {"durable_name": "d", "name": "d", "ack_policy": "explicit"}
    old = checked(**base)
    with pytest.raises(ApiError) as refused:
        check_update(old, checked(**{**base, **change}))
    assert (refused.value.err_code, refused.value.description) == (10012, text)


def test_an_update_keeps_the_pause_and_takes_the_rest() -> None:
    base: dict[str, Any] = {"durable_name": "d", "name": "d", "ack_policy": "explicit"}
    old = checked(**base, pause_until="2099-01-01T00:00:00Z")
    new = check_update(old, checked(**base, description="new", max_deliver=3))
    assert (new.description, new.max_deliver) == ("new", 3)
    assert new.pause_until == old.pause_until
    assert new.metadata["_nats.req.level"] == "1"


def test_how_a_time_is_written_does_not_matter() -> None:
    base: dict[str, Any] = {"name": "d", "deliver_policy": "by_start_time"}
    one = checked(**base, opt_start_time="2024-01-01T00:00:00Z")
    two = checked(**base, opt_start_time="2024-01-01T01:00:00+01:00")
    assert same(one, two)
