"""The subjects of the 2019 and 2020 documents work literally."""

import json
from pathlib import Path

import pytest

from .house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House(tmp_path)
    assert (
        made.raw("$JS.STREAM.ORDERS.CREATE", {"name": "ORDERS", "subjects": ["orders.>"]}) == b"+OK"
    )
    return made


def test_is_it_enabled(house: House) -> None:
    assert house.raw("$JS.ENABLED") == b"+OK"
    house.js = None  # type: ignore[assignment]
    assert house.raw("$JS.ENABLED") == b"503"


def test_account_and_stream_information(house: House) -> None:
    told = house.raw("$JS.INFO")
    assert told is not None and told.startswith(b'{\n  "memory": 0')
    assert list(json.loads(told)) == ["memory", "storage", "streams", "limits"]
    assert json.loads(house.raw("$JS.STREAM.LIST") or b"") == ["ORDERS"]
    info = json.loads(house.raw("$JS.STREAM.ORDERS.INFO") or b"")
    assert info["config"]["subjects"] == ["orders.>"]
    assert list(info["state"]) == ["messages", "bytes", "first_seq", "last_seq", "consumer_count"]


def test_messages_and_streams_are_removed(house: House) -> None:
    house.put("ORDERS", "orders.1")
    house.put("ORDERS", "orders.2")
    assert house.raw("$JS.STREAM.ORDERS.MSG.DELETE", b"1") == b"+OK"
    assert house.raw("$JS.STREAM.ORDERS.MSG.DELETE", b"1") == b"-ERR no message found"
    assert house.raw("$JS.STREAM.ORDERS.PURGE") == b"+OK"
    assert house.raw("$JS.STREAM.ORDERS.DELETE") == b"+OK"
    assert house.raw("$JS.STREAM.ORDERS.INFO") == b"-ERR stream not found"


def test_consumers_in_the_old_words(house: House) -> None:
    config = {
        "delivery_subject": "out.tail",
        "durable_name": "TAIL",
        "start_time": "0001-01-01T00:00:00Z",
        "deliver_all": True,
        "ack_policy": "none",
        "max_deliver": -1,
        "replay_policy": "instant",
    }
    body = {"stream_name": "ORDERS", "config": config}
    assert house.raw("$JS.STREAM.ORDERS.CONSUMER.TAIL.CREATE", body) == b"+OK"
    assert json.loads(house.raw("$JS.STREAM.ORDERS.CONSUMERS") or b"") == ["TAIL"]
    info = json.loads(house.raw("$JS.STREAM.ORDERS.CONSUMER.TAIL.INFO") or b"")
    assert info["config"]["deliver_subject"] == "out.tail"
    assert info["config"]["deliver_policy"] == "all"
    assert house.raw("$JS.STREAM.ORDERS.CONSUMER.TAIL.DELETE") == b"+OK"
    made = house.raw(
        "$JS.STREAM.ORDERS.EPHEMERAL.CONSUMER.CREATE",
        {"stream_name": "ORDERS", "config": {"delivery_subject": "out.x", "start_seq": 1}},
    )
    assert made is not None and made.startswith(b"+OK ")


def test_what_never_was_a_subject_is_nobodys(house: House) -> None:
    assert house.raw("$JS.STREAM.ORDERS.NOTHING") == b"503"
