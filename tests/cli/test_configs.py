"""Configuration files and flags: read, compared, shown."""

from pathlib import Path

import pytest

from jetstream.cli import consumer_config, stream_config
from jetstream.cli.configs import (
    consumer_from_file,
    differences,
    normal_config,
    same,
    stream_from_file,
)
from jetstream.cli.problems import Failure

OLD = {
    "name": "LOGS",
    "subjects": ["logs.>"],
    "retention": "limits",
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 86_400_000_000_000,
    "max_msg_size": -1,
    "storage": "file",
    "discard": "old",
    "num_replicas": 1,
    "metadata": {"_nats.ver": "2.15.1"},
}


def test_the_difference_folds_what_is_equal() -> None:
    new = {**OLD, "max_bytes": 10_737_418_240}
    assert differences(OLD, new, "StreamConfig") == [
        "Differences (-old +new):",
        "  StreamConfig{",
        "      … // 4 identical fields",
        "      max_msgs:  -1,",
        "-     max_bytes: -1,",
        "+     max_bytes: 10737418240 (10 GiB),",
        "      max_age:   24h0m0s,",
        "      … // 4 identical fields",
        "  }",
    ]


def test_order_of_subjects_reserved_metadata_and_emptiness_make_no_difference() -> None:
    old = {**OLD, "subjects": ["a", "b"]}
    assert same(
        old, {**OLD, "subjects": ["b", "a"], "metadata": {}, "description": "", "no_ack": False}
    )
    assert not same(old, {**OLD, "subjects": ["a"]})


def test_a_file_may_hold_an_info_or_yaml_with_words(tmp_path: Path) -> None:
    info = tmp_path / "info.json"
    info.write_text('{"config": {"name": "A", "max_age": 5}, "state": {"messages": 1}}')
    assert stream_from_file(str(info)) == {"name": "A", "max_age": 5}
    words = tmp_path / "words.yaml"
    words.write_text("name: A\nmax_age: 24h\nmax_bytes: 1GB\n")
    assert stream_from_file(str(words)) == {
        "name": "A",
        "max_age": 86_400 * 10**9,
        "max_bytes": 1 << 30,
    }


def test_the_names_of_2020_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "tail.json"
    file.write_text(
        '{"stream_name": "LOGS", "config": {"delivery_subject": "out.tail", '
        '"start_time": "0001-01-01T00:00:00Z", "deliver_all": true, "durable_name": "TAIL"}}'
    )
    config, stream = consumer_from_file(str(file))
    assert stream == "LOGS"
    assert config == {
        "durable_name": "TAIL",
        "deliver_subject": "out.tail",
        "deliver_policy": "all",
    }


def test_a_broken_file_is_named_with_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{\n  "name": oops\n}')
    with pytest.raises(Failure, match="line 2, column 11"):
        stream_from_file(str(file))
    with pytest.raises(Failure, match="field max_age"):
        normal_config({"max_age": "soon"}, "x.json")


def test_stream_flags_become_fields() -> None:
    made = stream_config.apply_flags(
        stream_config.defaults(),
        {
            "subjects": ("a b", "c"),
            "retention": "work",
            "storage": "m",
            "max_age": -1,
            "ack": False,
            "metadata": (("team", "x"),),
            "transform_source": "a",
            "transform_destination": "b",
            "source": ("OTHER", '{"name": "X", "opt_start_seq": 5}'),
            "tag": ("ssd",),
        },
    )
    assert made["subjects"] == ["a", "b", "c"]
    assert (made["retention"], made["storage"], made["max_age"]) == ("workqueue", "memory", 0)
    assert made["no_ack"] is True
    assert made["subject_transform"] == {"src": "a", "dest": "b"}
    assert made["sources"] == [{"name": "OTHER"}, {"name": "X", "opt_start_seq": 5}]
    assert made["placement"] == {"tags": ["ssd"]}


def test_half_a_transform_is_refused_and_so_is_everything_with_acks() -> None:
    with pytest.raises(Failure, match="both ends"):
        stream_config.apply_flags({}, {"transform_source": "a"})
    with pytest.raises(Failure, match="own acknowledgements"):
        stream_config.finish({"subjects": [">"]})
    assert stream_config.finish({"subjects": [">"], "no_ack": True})["no_ack"]


def test_the_duplicate_window_is_never_longer_than_messages_live() -> None:
    assert stream_config.finish({"max_age": 5})["duplicate_window"] == 5
    assert stream_config.finish({"max_age": 0})["duplicate_window"] == 120 * 10**9
    assert "duplicate_window" not in stream_config.finish({"mirror": {"name": "X"}})


def test_consumer_flags_become_fields() -> None:
    flags = {
        "filter": ("a,b",),
        "deliver": "10m",
        "sample": "50",
        "backoff": "linear",
        "backoff_min": 60,
        "backoff_max": 240,
        "backoff_steps": 4,
        "pause": "1h",
        "pinned_groups": ("g1",),
        "pinned_ttl": 9,
    }
    made = consumer_config.apply_flags({"ack_wait": 5}, flags, now_ns=3600 * 10**9)
    assert made["filter_subjects"] == ["a", "b"]
    assert made["opt_start_time"] == "1970-01-01T00:50:00Z"
    assert made["sample_freq"] == "50%"
    assert made["backoff"] == [60, 120, 180, 240]
    assert made["max_deliver"] == 5
    assert "ack_wait" not in made
    assert made["pause_until"] == "1970-01-01T02:00:00Z"
    assert (made["priority_policy"], made["priority_groups"]) == ("pinned_client", ["g1"])


def test_a_consumer_gets_the_defaults_of_its_kind() -> None:
    pull = consumer_config.finish({"durable_name": "a", "deliver_group": "g"})
    assert (pull["ack_policy"], pull["name"], "deliver_group" in pull) == ("explicit", "a", False)
    push = consumer_config.finish({"durable_name": "a", "deliver_subject": "x"})
    assert push["ack_policy"] == "none"
    with pytest.raises(Failure, match="invalid consumer name"):
        consumer_config.finish({"durable_name": "a.b"})
