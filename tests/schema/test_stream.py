"""What we print is byte for byte what the reference prints."""

import msgspec

from jetstream.errors import ApiError
from jetstream.schema.addresses import AckAddress, ack, parse_ack
from jetstream.schema.api_errors import STREAM_NOT_FOUND
from jetstream.schema.encoding import to_json
from jetstream.schema.requests import Paged, answer
from jetstream.schema.stream import StreamConfig, StreamInfo

CAPTURED = (
    b'{"name":"T","subjects":["t.\\u003e"],"retention":"limits","max_consumers":-1,"max_msgs":-1,'
    b'"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old",'
    b'"storage":"file","num_replicas":1,"duplicate_window":120000000000,"compression":"none",'
    b'"allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,'
    b'"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,'
    b'"metadata":{"a":"b"}}'
)


def test_a_captured_config_is_printed_unchanged() -> None:
    config = msgspec.json.decode(CAPTURED, type=StreamConfig)
    assert config.subjects == ["t.>"]
    assert to_json(config) == CAPTURED


def test_an_empty_info_still_shows_the_fields_that_are_always_there() -> None:
    shown = msgspec.json.decode(to_json(StreamInfo()))
    assert list(shown) == ["config", "created", "state", "ts"]
    assert list(shown["state"]) == [
        "messages",
        "bytes",
        "first_seq",
        "first_ts",
        "last_seq",
        "last_ts",
        "consumer_count",
    ]


def test_an_error_follows_the_type_and_the_other_fields_follow_it() -> None:
    assert answer("stream_info_response", Paged(), error=ApiError(STREAM_NOT_FOUND)) == (
        b'{"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":404,'
        b'"err_code":10059,"description":"stream not found"},"total":0,"offset":0,"limit":0}'
    )


def test_ack_addresses_are_built_and_taken_apart() -> None:
    address = AckAddress("S", "C", 1, 2, 3, 4, 5)
    assert ack(address) == "$JS.ACK.S.C.1.2.3.4.5"
    assert parse_ack("$JS.ACK.S.C.1.2.3.4.5") == address
    with_domain = parse_ack("$JS.ACK.hub.HASH.S.C.1.2.3.4.5.tok")
    assert with_domain == AckAddress("S", "C", 1, 2, 3, 4, 5, "hub", "HASH", "tok")
    assert parse_ack("$JS.ACK.S.C") is None
    assert parse_ack("$JS.ACK.S.C.a.2.3.4.5") is None
