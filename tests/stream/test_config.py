"""Configurations: defaults, refusals and updates, as captured from the reference."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jetstream.errors import ApiError
from jetstream.schema.decoding import decode
from jetstream.schema.encoding import to_json
from jetstream.schema.requests import StreamConfigRequest
from jetstream.schema.stream import Placement, StreamConfig, StreamSource
from jetstream.stream.config import (
    ConfigLimits,
    check_create,
    check_update,
    required_level,
    with_dynamic_metadata,
)

SECOND = 1_000_000_000
# What the reference (2.15.1) answered, one configuration per line.
CAPTURED = json.loads((Path(__file__).parent / "reference_configs.json").read_text())
OTHERS = {
    "ORIGIN": StreamConfig(name="ORIGIN", subjects=["o.>"], allow_direct=True, max_msg_size=100),
    "O2": StreamConfig(name="O2", subjects=["p.>"], sources=[StreamSource("ORIGIN")]),
}


def whole(value: Any) -> Any:
    """Long texts are kept as what they repeat."""
    if isinstance(value, dict):
        if set(value) == {"repeat"}:
            letter, times = value["repeat"]
            return letter * times
        return {key: whole(inner) for key, inner in value.items()}
    return [whole(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", CAPTURED, ids=lambda case: json.dumps(case["given"])[:70])
def test_as_the_reference_decides(case: dict[str, Any]) -> None:
    given = decode(json.dumps({"name": "X", **whole(case["given"])}).encode(), StreamConfigRequest)
    try:
        config = check_create(given, lookup=OTHERS.get, pedantic=given.pedantic)
    except ApiError as error:
        assert [error.code, error.err_code, error.description] == case.get("error")
        return
    shown = json.loads(to_json(with_dynamic_metadata(config)))
    assert shown == case.get("config")
    assert list(shown) == list(case["config"])


def base(**fields: Any) -> StreamConfig:
    return check_create(StreamConfig(name="S", subjects=["a"], **fields))


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({}, {"storage": "memory"}, "stream configuration update can not change storage type"),
        (
            {},
            {"retention": "workqueue"},
            "stream configuration update can not change retention policy to/from workqueue",
        ),
        (
            {"deny_delete": True},
            {},
            "stream configuration update can not cancel deny message deletes",
        ),
        ({"deny_purge": True}, {}, "stream configuration update can not cancel deny purge"),
        ({"allow_msg_ttl": True}, {}, "message TTL status can not be disabled"),
        ({"allow_msg_schedules": True}, {}, "message schedules can not be disabled"),
        (
            {},
            {"allow_msg_counter": True},
            "stream configuration update can not change message counter setting",
        ),
        ({}, {"persist_mode": "async"}, "stream configuration update can not change persist mode"),
        ({}, {"mirror": StreamSource("X"), "subjects": []}, ""),
    ],
)
def test_updates_that_are_refused(before: dict[str, Any], after: dict[str, Any], text: str) -> None:
    given = StreamConfig(**{"name": "S", "subjects": ["a"], **after})
    with pytest.raises(ApiError) as caught:
        check_update(base(**before), given)
    if text:
        assert (caught.value.err_code, caught.value.description) == (10052, text)
    else:
        assert caught.value.err_code == 10055


def test_updates_that_are_fine() -> None:
    old = base()
    for fields in (
        {"retention": "interest"},
        {"max_consumers": 3},
        {"allow_msg_ttl": True},
        {"compression": "s2"},
        {"placement": Placement(cluster="x")},
    ):
        config = check_update(old, StreamConfig(name="S", subjects=["a"], **fields))
        assert getattr(config, next(iter(fields))) == next(iter(fields.values()))


def test_the_server_may_limit_the_duplicate_window() -> None:
    limits = ConfigLimits(duplicate_window=60 * SECOND)
    assert check_create(StreamConfig(name="S"), limits=limits).duplicate_window == 60 * SECOND
    with pytest.raises(ApiError) as caught:
        check_create(StreamConfig(name="S", duplicate_window=61 * SECOND), limits=limits)
    assert caught.value.description.endswith("server limit of 1m0s")


def test_more_than_one_replica_comes_with_a_hint() -> None:
    with pytest.raises(ApiError) as caught:
        check_create(StreamConfig(name="S", num_replicas=3))
    assert caught.value.err_code == 10074
    assert caught.value.hint


def test_the_required_level_follows_the_features() -> None:
    assert required_level(StreamConfig()) == 0
    assert required_level(StreamConfig(allow_msg_ttl=True)) == 1
    assert required_level(StreamConfig(allow_atomic=True)) == 2
    assert required_level(StreamConfig(allow_batched=True)) == 4


def test_what_servers_add_is_stripped_before_comparing() -> None:
    config = base(metadata={"a": "b"})
    sent_back = with_dynamic_metadata(config)
    assert check_create(msgspec.structs.replace(sent_back)) == config
