"""`apply`'s planning, without a server."""

import pytest

from jetstream.cli.desired import Desired, plan, read_desired
from jetstream.cli.problems import Failure

FILE = {
    "streams": [
        {
            "name": "COPY",
            "sources": [{"name": "ORDERS"}],
        },
        {
            "name": "ORDERS",
            "subjects": ["orders.*"],
            "max_age": "7d",
            "consumers": [{"name": "work", "ack_wait": "30s"}],
        },
    ],
    "kv": [{"bucket": "profiles", "history": 5, "ttl": "1h"}],
    "objects": [{"bucket": "files"}],
}


def desired() -> Desired:
    return read_desired(FILE, "streams.yaml")


def verbs(steps: list[object]) -> list[str]:
    return [step.title for step in steps]  # type: ignore[attr-defined]


def test_an_empty_server_gets_everything_origins_first() -> None:
    steps = plan(desired(), {}, {})
    assert verbs(steps) == [  # type: ignore[arg-type]
        "create stream ORDERS",
        "create stream COPY",
        "create kv bucket profiles",
        "create object bucket files",
        "create consumer ORDERS > work",
    ]
    kv = next(step.config for step in steps if step.stream == "KV_profiles")
    assert kv["max_msgs_per_subject"] == 5
    assert kv["max_age"] == 3600 * 10**9


def applied() -> tuple[dict[str, dict[str, object]], dict[tuple[str, str], dict[str, object]]]:
    """The server after everything was applied: the same, with its own defaults besides."""
    wanted = desired()
    extra = {"max_msgs": -1, "storage": "file", "metadata": {"_nats.level": "5"}}
    streams = {name: {**extra, **config} for name, config in wanted.streams.items()}
    consumers = {key: {"max_deliver": -1, **config} for key, config in wanted.consumers.items()}
    return streams, consumers


def test_applying_twice_changes_nothing() -> None:
    assert plan(desired(), *applied()) == []


def test_only_what_the_file_states_counts_as_drift() -> None:
    streams, consumers = applied()
    streams["ORDERS"]["description"] = "somebody's"
    streams["ORDERS"]["max_age"] = 5
    steps = plan(desired(), streams, consumers)
    assert verbs(steps) == ["update stream ORDERS"]  # type: ignore[arg-type]
    assert steps[0].config["description"] == "somebody's"
    assert steps[0].config["max_age"] == 7 * 86_400 * 10**9
    assert any(line.startswith("+") and "168h0m0s" in line for line in steps[0].lines)


def test_pruning_removes_what_no_file_mentions() -> None:
    streams, consumers = applied()
    streams["OLD"] = {"name": "OLD"}
    consumers["ORDERS", "old"] = {"durable_name": "old"}
    assert plan(desired(), streams, consumers) == []
    steps = plan(desired(), streams, consumers, prune=True)
    assert verbs(steps) == ["delete consumer ORDERS > old", "delete stream OLD"]  # type: ignore[arg-type]


def test_a_single_configuration_is_enough() -> None:
    one = read_desired({"config": {"name": "A", "subjects": ["a"]}, "state": {}}, "a.json")
    assert list(one.streams) == ["A"]
    consumer = read_desired({"stream_name": "A", "config": {"durable_name": "c"}}, "c.json")
    assert list(consumer.consumers) == [("A", "c")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"streams": [{"subjects": ["a"]}]}, "without a name"),
        ({"streams": [{"name": "A"}, {"name": "A"}]}, "twice"),
        ({"streems": []}, "neither"),
        ({"streams": [], "more": 1}, "unknown section more"),
        ({"kv": [{"bucket": "a", "histroy": 1}]}, "unknown field histroy"),
        ({"streams": [{"name": "A", "max_age": "soon"}]}, "max_age"),
        ("text", "does not hold"),
    ],
)
def test_mistakes_are_named(content: object, complaint: str) -> None:
    with pytest.raises(Failure, match=complaint):
        read_desired(content, "file.yaml")
