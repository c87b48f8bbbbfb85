"""Configurations: seconds in, nanoseconds out, and back; addresses; back-off; hints; infos."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.client.config import (
    ConsumerConfig,
    ConsumerLimits,
    StreamConfig,
    StreamSource,
    merged,
    moment,
    parse_time,
    time_to_wire,
    to_ns,
)
from jetstream.client.errors import ApiError, StreamNotFoundError, api_error
from jetstream.client.hints import HINTS, hint_for
from jetstream.client.info import ConsumerInfo, StreamInfo, read_info
from jetstream.client.kv import KeyValueConfig, bucket_config
from jetstream.client.objects import ObjectStoreConfig, digest_text, encoded_name, store_config
from jetstream.client.options import Address, Options, back_off, parse_address, parse_addresses
from jetstream.client.publish import publish_headers, ttl_text
from jetstream.schema.stream import StreamConfig as WireConfig
from jetstream.wire.headers import Headers


def test_durations_are_seconds_here_and_nanoseconds_on_the_wire() -> None:
    config = StreamConfig(
        name="S", max_age=timedelta(minutes=1), consumer_limits=ConsumerLimits(inactive_threshold=2)
    )
    assert config.to_wire() == {
        "name": "S",
        "max_age": 60_000_000_000,
        "consumer_limits": {"inactive_threshold": 2_000_000_000},
    }
    consumer = ConsumerConfig(
        backoff=[0.5, 1], ack_wait=1.25, pause_until=datetime(2030, 1, 1, tzinfo=UTC)
    )
    assert consumer.to_wire() == {
        "backoff": [500_000_000, 1_000_000_000],
        "ack_wait": 1_250_000_000,
        "pause_until": "2030-01-01T00:00:00Z",
    }
    assert StreamConfig.from_wire({"name": "S", "max_age": 1_500_000_000}).max_age == 1.5


@given(st.integers(0, 10**9).map(lambda n: n / 1000))
def test_seconds_survive_the_way_there_and_back(seconds: float) -> None:
    wire = StreamConfig(name="S", max_age=seconds).to_wire()
    assert StreamConfig.from_wire(wire).max_age == pytest.approx(seconds, abs=1e-9)


@given(st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)))
def test_times_survive_too(naive: datetime) -> None:
    when = naive.replace(tzinfo=UTC)
    assert parse_time(time_to_wire(when)) == when


def test_a_moment_is_never_later_than_it_was() -> None:
    assert moment(1_999_999_999).microsecond == 999_999
    assert to_ns(0.1) == 100_000_000


def test_a_config_from_any_shape() -> None:
    assert merged(StreamConfig, None, {"name": "S", "max_age": 1}) == {
        "name": "S",
        "max_age": 1_000_000_000,
    }
    assert merged(StreamConfig, {"name": "S", "max_age": 5}, {"max_msgs": 1}) == {
        "name": "S",
        "max_age": 5,
        "max_msgs": 1,
    }
    assert merged(StreamConfig, WireConfig(name="S", max_age=5), {})["max_age"] == 5
    assert "max_age=" not in repr(StreamConfig(name="S"))


def test_a_source_in_another_domain() -> None:
    assert StreamSource(name="S", domain="hub").to_wire() == {
        "name": "S",
        "external": {"api": "$JS.hub.API", "deliver": ""},
    }


def test_a_bucket_becomes_a_stream() -> None:
    stream = bucket_config(KeyValueConfig(bucket="B", history=3, ttl=60, limit_marker_ttl=5))
    assert (stream.name, stream.subjects, stream.max_msgs_per_subject) == ("KV_B", ["$KV.B.>"], 3)
    assert (stream.duplicate_window, stream.discard, stream.deny_delete) == (60, "new", True)
    assert (stream.allow_msg_ttl, stream.subject_delete_marker_ttl) == (True, 5)
    mirror = bucket_config(KeyValueConfig(bucket="M", mirror=StreamSource(name="B")))
    assert (mirror.mirror and mirror.mirror.name, mirror.subjects) == ("KV_B", None)
    far = StreamSource(name="KV_B", domain="hub")
    assert bucket_config(KeyValueConfig(bucket="B", sources=[far])).sources == [far]


def test_an_object_bucket_becomes_a_stream() -> None:
    stream = store_config(ObjectStoreConfig(bucket="O"))
    assert stream.subjects == ["$O.O.C.>", "$O.O.M.>"]
    assert encoded_name("a/ü") == "YS_DvA=="
    assert digest_text(b"\xff" * 3) == "SHA-256=____"


def test_wishes_become_headers() -> None:
    block = publish_headers(
        {"A": ["1", "2"]},
        msg_id="m",
        expect_last_seq=0,
        ttl=90,
        increment=3,
        schedule=datetime(2030, 1, 1, tzinfo=UTC),
        schedule_target="t",
    )
    assert block is not None
    assert dict(Headers.parse(block).items()) == {
        "A": ["1", "2"],
        "Nats-Msg-Id": ["m"],
        "Nats-Expected-Last-Sequence": ["0"],
        "Nats-TTL": ["1m30s"],
        "Nats-Incr": ["+3"],
        "Nats-Schedule": ["@at 2030-01-01T00:00:00Z"],
        "Nats-Schedule-Target": ["t"],
    }
    assert publish_headers() is None
    assert ttl_text("never") == "never"


def test_addresses() -> None:
    assert parse_address("h") == Address("nats", "h", 4222)
    assert parse_address("tls://u%40:p@h:1") == Address("tls", "h", 1, "u@", "p")
    assert str(parse_address("ws://[::1]:80/path")) == "ws://[::1]:80"
    assert [a.port for a in parse_addresses("a:1, b:2")] == [1, 2]
    for wrong in ("http://x", "", ","):
        with pytest.raises(ValueError, match=r"server|scheme"):
            parse_addresses(wrong)


def test_waiting_grows_and_is_bounded_and_jittered() -> None:
    options = Options(reconnect_wait=0.1, reconnect_wait_max=1, reconnect_jitter=0.5)
    waits = [back_off(n, options, 0.0) for n in range(7)]
    assert waits == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 1, 1])
    assert back_off(3, options, 1.0) == pytest.approx(0.6)
    assert back_off(10_000, options, 0.0) == 1


def test_errors_know_their_kind_and_a_hint() -> None:
    error = api_error(404, 10059, "stream not found")
    assert isinstance(error, StreamNotFoundError)
    assert error.hint == HINTS[10059]
    assert type(api_error(400, 1, "x")) is ApiError
    assert (
        hint_for(10052, "max age needs to be >= 100ms")
        == "max_age is in seconds here, at least 0.1"
    )
    assert hint_for(10052, "something new") is None


def test_infos_take_what_they_know_and_keep_the_rest() -> None:
    info = read_info(
        StreamInfo,
        {
            "config": {"name": "S", "brand_new": 1, "max_age": 2_000_000_000, "metadata": None},
            "created": "2026-11-15T18:28:08.016417165Z",
            "state": {"messages": 3, "subjects": {"time": 3}, "first_ts": "0001-01-01T00:00:00Z"},
            "future": {},
        },
    )
    assert (info.name, info.config.max_age, info.state.subjects) == ("S", 2.0, {"time": 3})
    assert info.state.first_ts is None
    assert info.raw["config"]["brand_new"] == 1
    assert "raw" not in repr(info)
    assert "<b>" not in read_info(ConsumerInfo, {"name": "<b>"})._repr_html_()
