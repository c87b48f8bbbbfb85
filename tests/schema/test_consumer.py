"""Consumers are spelled as the reference spells them: same order, same omissions."""

import msgspec

from jetstream.schema.consumer import ConsumerConfig, ConsumerInfo, ConsumerNames
from jetstream.schema.requests import answer

FULL = (
    b'{"durable_name":"C","name":"C","description":"d","deliver_policy":"by_start_sequence",'
    b'"opt_start_seq":3,"ack_policy":"explicit","ack_wait":1000000000,"max_deliver":5,'
    b'"backoff":[1000000000,2000000000],"filter_subjects":["t.a","t.b"],'
    b'"replay_policy":"original","sample_freq":"50%","max_waiting":5,"max_ack_pending":7,'
    b'"headers_only":true,"max_batch":10,"max_expires":1000000000,"max_bytes":1000,'
    b'"inactive_threshold":10000000000,"num_replicas":1,"mem_storage":true,'
    b'"metadata":{"a":"2","z":"1"},"pause_until":"2099-01-01T00:00:00Z",'
    b'"priority_groups":["A","B"],"priority_policy":"pinned_client","priority_timeout":10000000000}'
)


def test_a_full_config_comes_back_byte_for_byte() -> None:
    assert msgspec.json.encode(msgspec.json.decode(FULL, type=ConsumerConfig)) == FULL


def test_policies_and_replicas_are_always_told_and_zeros_are_not() -> None:
    assert msgspec.json.encode(ConsumerConfig()) == (
        b'{"deliver_policy":"all","ack_policy":"none","replay_policy":"instant","num_replicas":0}'
    )


def test_counters_are_told_while_they_are_zero() -> None:
    info = msgspec.json.decode(msgspec.json.encode(ConsumerInfo(stream_name="S", name="c")))
    assert list(info) == [
        "stream_name",
        "name",
        "created",
        "config",
        "delivered",
        "ack_floor",
        "num_ack_pending",
        "num_redelivered",
        "num_waiting",
        "num_pending",
        "ts",
    ]
    assert info["delivered"] == {"consumer_seq": 0, "stream_seq": 0}


def test_a_response_begins_with_its_type() -> None:
    assert answer("consumer_names_response", ConsumerNames(limit=1024)) == (
        b'{"type":"io.nats.jetstream.api.v1.consumer_names_response",'
        b'"total":0,"offset":0,"limit":1024,"consumers":[]}'
    )
