"""Streams over the API: create, update, info, purge, delete, and what is found after a restart."""

import json
from pathlib import Path
from typing import Any

import pytest

from jetstream.broker.accounts_spec import AccountJetStream
from jetstream.engine.account import JetStreamAccount
from jetstream.store.base import LostData
from jetstream.wire._parser import Batch

from .house import NOW, SECOND, House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def again(house: House, tmp_path: Path) -> House:
    """The house after a restart."""
    for asset in house.js.streams.values():
        asset.store.write()
        asset.store.sync()
    house.js.close()
    other = House(tmp_path)
    other.time = house.time
    other.js.recover()
    other.advance()
    return other


def test_create_is_idempotent_and_different_configs_collide(house: House) -> None:
    made = house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["a"]})
    assert made["did_create"] and made["config"]["metadata"]["_nats.req.level"] == "0"
    assert house.api("STREAM.CREATE.S", made["config"])["did_create"]
    other = house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["b"]})
    assert other["error"]["err_code"] == 10058
    assert (
        house.api("STREAM.CREATE.T", {"name": "T", "subjects": ["*"]})["error"]["err_code"] == 10065
    )


def test_streams_and_their_messages_survive_a_restart(house: House, tmp_path: Path) -> None:
    house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["a.>"], "description": "kept"})
    house.api("STREAM.CREATE.M", {"name": "M", "subjects": ["m.>"], "storage": "memory"})
    for i in range(5):
        house.put("S", f"a.{i}", b"m%d" % i)
    house.api("STREAM.MSG.DELETE.S", {"seq": 2})
    house.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["a.>"], "description": "changed"})
    before = house.api("STREAM.INFO.S")
    after = again(house, tmp_path).api("STREAM.INFO.S")
    assert after["config"] == before["config"]
    assert after["config"]["description"] == "changed"
    assert after["state"] == before["state"]
    assert after["created"] == before["created"]


def test_a_deleted_stream_is_gone_for_good(house: House, tmp_path: Path) -> None:
    house.api("STREAM.CREATE.S", {"name": "S"})
    assert house.api("STREAM.DELETE.S")["success"]
    assert house.api("STREAM.INFO.S")["error"]["err_code"] == 10059
    assert again(house, tmp_path).api("STREAM.NAMES")["streams"] is None


def test_info_shows_subjects_and_gaps_when_asked(house: House) -> None:
    house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["a.>"]})
    for subject in ("a.1", "a.2", "a.1", "a.3"):
        house.put("S", subject)
    house.api("STREAM.MSG.DELETE.S", {"seq": 2})
    told = house.api("STREAM.INFO.S", {"subjects_filter": "a.*", "deleted_details": True})
    assert (told["total"], told["limit"]) == (2, 100_000)
    assert told["state"]["subjects"] == {"a.1": 2, "a.3": 1}
    assert told["state"]["deleted"] == [2]
    assert "subjects" not in house.api("STREAM.INFO.S")["state"]


def test_account_limits_are_held(tmp_path: Path) -> None:
    spec = AccountJetStream(max_store=1000, max_streams=2, store_max_stream_bytes=600)
    house = House(tmp_path, spec)

    def create(name: str, **fields: Any) -> int:
        told = house.api(f"STREAM.CREATE.{name}", {"name": name, **fields})
        return int(told.get("error", {}).get("err_code", 0))

    assert create("A") == 10113
    assert create("A", max_bytes=700) == 10122
    assert create("A", max_bytes=600) == 0
    assert create("B", max_bytes=500) == 10047
    assert create("B", max_bytes=400) == 0
    assert create("C", max_bytes=100) == 10027
    info = house.api("INFO")
    assert (info["reserved_storage"], info["streams"]) == (1000, 2)


def test_a_full_account_takes_no_more_messages(tmp_path: Path) -> None:
    house = House(tmp_path, AccountJetStream(max_store=200))
    house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["a"]})
    for _ in range(20):
        house.put("S", "a", b"x" * 20)
    used = house.api("INFO")["storage"]
    assert 100 < used <= 200


def test_limits_may_change_while_streams_are_there(house: House) -> None:
    house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["a"]})
    house.put("S", "a", b"x" * 100)
    house.js.configure(AccountJetStream(max_store=50, max_streams=1))
    house.put("S", "a", b"x" * 100)
    assert house.api("STREAM.INFO.S")["state"]["messages"] == 1
    assert house.api("STREAM.CREATE.T", {"name": "T"})["error"]["err_code"] == 10027
    assert house.api("INFO")["limits"]["max_storage"] == 50


def test_stream_advisories_are_published(house: House) -> None:
    house.listening = [b"$JS.EVENT.ADVISORY.STREAM.>"]
    house.api("STREAM.CREATE.S", {"name": "S"})
    told = [json.loads(p) for s, _, p, _ in house.published if b"ADVISORY" in s]
    assert [(t["type"].rsplit(".", 1)[1], t["action"]) for t in told] == [
        ("stream_action", "create")
    ]


def test_the_account_hash_is_the_documented_one(house: House) -> None:
    assert JetStreamAccount("A", house).hash == "NUmM6cRx"


# -- mirrors and sources ----------------------------------------------------------------------


def texts(house: House, stream: str) -> list[tuple[int, str, bytes]]:
    store = house.js.streams[stream].store
    return [
        (s, store.get(s).subject.decode(), store.get(s).payload) for s in store.next_seqs(1, 99)
    ]


def test_a_mirror_keeps_sequences_and_follows(house: House) -> None:
    house.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
    for i in range(4):
        house.put("O", f"o.{i % 2}", b"%d" % i)
    house.api("STREAM.MSG.DELETE.O", {"seq": 2})
    house.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    house.api("STREAM.CREATE.F", {"name": "F", "mirror": {"name": "O", "filter_subject": "o.1"}})
    house.advance()
    house.put("O", "o.1", b"later")
    assert texts(house, "M") == [
        (1, "o.0", b"0"),
        (3, "o.0", b"2"),
        (4, "o.1", b"3"),
        (5, "o.1", b"later"),
    ]
    assert [seq for seq, _, _ in texts(house, "F")] == [4, 5]
    assert house.js.streams["M"].store.get(1).time_ns == NOW


def test_a_source_goes_on_after_a_restart_where_it_was(house: House, tmp_path: Path) -> None:
    house.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
    source = {"name": "O", "subject_transforms": [{"src": "o.*", "dest": "t.$1"}]}
    house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "sources": [source]})
    house.advance()
    house.put("O", "o.1", b"one")
    house.put("S", "s", b"own")
    house.put("O", "o.2", b"two")
    other = again(house, tmp_path)
    other.put("O", "o.3", b"three")
    found = texts(other, "S")
    assert [payload for _, _, payload in found] == [b"one", b"own", b"two", b"three"]
    assert [subject for _, subject, _ in found] == ["t.1", "s", "t.2", "t.3"]
    note = other.js.streams["S"].store.get(4).headers
    assert note.startswith(b"NATS/1.0\r\nNats-Stream-Source: O 3 o.* t.$1 o.3 ")
    info = other.api("STREAM.INFO.S")["sources"][0]
    assert (info["name"], info["seq"], info["lag"]) == ("O", 3, 0)


def test_a_missing_origin_is_reported_and_waited_for(house: House) -> None:
    made = house.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    assert made["mirror"] == {"name": "O", "lag": 0, "active": -1}
    house.advance()
    house.advance(1)
    assert house.api("STREAM.INFO.M")["mirror"]["error"]["err_code"] == 10059
    house.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
    house.put("O", "o.1")
    assert len(texts(house, "M")) == 1
    assert "error" not in house.api("STREAM.INFO.M")["mirror"]


def test_a_promoted_mirror_is_an_ordinary_stream(house: House) -> None:
    house.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
    house.put("O", "o.1")
    house.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
    house.advance()
    refused = house.api("STREAM.UPDATE.M", {"name": "M", "mirror": {"name": "X"}})
    assert refused["error"]["err_code"] == 10055
    assert "error" not in house.api("STREAM.UPDATE.M", {"name": "M", "subjects": ["m.>"]})
    house.put("O", "o.2")
    house.put("M", "m.1")
    assert [subject for _, subject, _ in texts(house, "M")] == ["o.1", "m.1"]


def test_sourcing_from_a_workqueue_consumes_it(house: House) -> None:
    house.api("STREAM.CREATE.W", {"name": "W", "subjects": ["w"], "retention": "workqueue"})
    house.api("STREAM.CREATE.S", {"name": "S", "sources": [{"name": "W"}]})
    house.advance()
    house.put("W", "w")
    assert len(texts(house, "S")) == 1
    assert texts(house, "W") == []


def test_a_mirror_is_interest_enough(house: House) -> None:
    house.api("STREAM.CREATE.I", {"name": "I", "subjects": ["i.>"], "retention": "interest"})
    source = {"name": "I", "filter_subject": "i.1"}
    house.api("STREAM.CREATE.S", {"name": "S", "sources": [source]})
    house.advance()
    house.put("I", "i.1", b"wanted")
    house.put("I", "i.2", b"nobody's")
    assert [payload for _, _, payload in texts(house, "S")] == [b"wanted"]
    assert texts(house, "I") == []


def test_damage_is_told_once_in_an_advisory(house: House) -> None:
    house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["a"]})
    house.listening = [b"$JS.EVENT.ADVISORY.STREAM.DATA_LOST.S"]
    house.js.streams["S"].store.lost = lambda: LostData([(3, 4), (9, 9)], 120)
    house.published.clear()
    house.js.watch_losses()
    ((_, _, body, _),) = house.published
    told = json.loads(body)
    assert (told["stream"], told["ranges"], told["bytes"]) == ("S", [[3, 4], [9, 9]], 120)
    house.advance(5)
    assert len(house.published) == 1


def test_a_lowered_limit_is_reached_in_steps(house: House) -> None:
    config = {"name": "S", "subjects": ["a"], "storage": "memory"}
    house.api("STREAM.CREATE.S", config)
    stream = house.js.streams["S"].stream
    batch = Batch.of([(b"a", b"", b"", b"x")] * 5000)
    for _ in range(5):
        stream.publish(batch, 0, 5000, NOW)
    house.api("STREAM.UPDATE.S", {**config, "max_msgs": 10})
    assert stream.state().messages == 15_000
    assert stream.next_deadline() == 1
    while stream.next_deadline():
        stream.expire(NOW)
    assert stream.state().messages == 10


def test_lower_limits_hold_at_once_and_sealing_ends_changes(house: House) -> None:
    config = {"name": "S", "subjects": ["a"], "max_age": 3600 * SECOND}
    house.api("STREAM.CREATE.S", config)
    for _ in range(5):
        house.put("S", "a")
    assert house.api("STREAM.UPDATE.S", {**config, "max_msgs": 2})["state"]["messages"] == 2
    sealed = house.api("STREAM.UPDATE.S", {**config, "sealed": True})["config"]
    assert (sealed["max_age"], sealed["discard"], sealed["deny_purge"]) == (0, "new", True)
    assert house.api("STREAM.PURGE.S")["error"]["err_code"] == 10109
