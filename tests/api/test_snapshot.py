"""Snapshots flow as fast as they are acknowledged; restores are whole or not at all."""

import json
from pathlib import Path

import pytest

from jetstream.store.snapshot import ArchiveReader

from .house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    made = House(tmp_path / "one")
    made.listening = [b"backup"]
    made.api("STREAM.CREATE.S", {"name": "S", "subjects": ["a.>"]})
    for i in range(50):
        made.put("S", f"a.{i % 3}", b"%d" % i * 100)
    made.api("STREAM.MSG.DELETE.S", {"seq": 50})
    return made


def begin(house: House, **more: int) -> None:
    body = {"deliver_subject": "backup", "chunk_size": 1024, "window_size": 2048, **more}
    assert "error" not in house.api("STREAM.SNAPSHOT.S", body)
    house.published.clear()
    house.advance()


def test_only_a_window_is_on_the_way(house: House) -> None:
    begin(house)
    assert [len(payload) for _, _, payload, _ in house.published] == [1024, 1024]
    replies = [reply.decode() for _, _, _, reply in house.published]
    assert replies[0].startswith("$JS.SNAPSHOT.ACK.S.") and replies[0].endswith(".1024.1")
    house.raw(replies[0])
    assert [len(payload) for s, _, payload, _ in house.published if s == b"backup"] == [1024]


def collected(house: House) -> bytes:
    """Acknowledge everything until the end comes."""
    data = b""
    while True:
        waiting, house.published = house.published, []
        for subject, block, payload, reply in waiting:
            if subject != b"backup":
                continue
            if not payload:
                assert block == b"NATS/1.0 204\r\n\r\n"
                return data
            data += payload
            if reply:
                kept, house.published = house.published, []
                house.raw(reply.decode())
                house.published = kept + house.published
        house.advance()


def test_a_backup_is_restored_in_another_house(house: House, tmp_path: Path) -> None:
    told = house.api("STREAM.SNAPSHOT.S", {"deliver_subject": "backup", "chunk_size": 1024})
    house.published.clear()
    house.advance()
    data = collected(house)
    reader = ArchiveReader()
    assert len(reader.feed(data)) == 50 and reader.finished
    other = House(tmp_path / "two")
    to = other.api("STREAM.RESTORE.S", {"config": told["config"], "state": told["state"]})
    assert other.raw(to["deliver_subject"], data) == b""
    assert other.api("STREAM.INFO.S")["error"]["err_code"] == 10059
    done = json.loads(other.raw(to["deliver_subject"], b"") or b"")
    assert "error" not in done
    assert other.api("STREAM.INFO.S")["state"] == house.api("STREAM.INFO.S")["state"]
    again = other.api("STREAM.RESTORE.S", {"config": told["config"], "state": told["state"]})
    assert again["error"]["err_code"] == 10130


def test_silence_ends_a_snapshot(house: House) -> None:
    begin(house)
    house.published.clear()
    house.advance(5)
    assert house.published[0][1] == b"NATS/1.0 408 No Flow Response\r\n\r\n"


def test_nobody_listening_ends_a_snapshot(house: House) -> None:
    house.listening = []
    begin(house)
    assert house.published[0][1] == b"NATS/1.0 408 No Interest\r\n\r\n"


def test_an_unfinished_restore_leaves_nothing(house: House, tmp_path: Path) -> None:
    other = House(tmp_path / "two")
    to = other.api("STREAM.RESTORE.S", {"config": {"name": "S"}, "state": {}})["deliver_subject"]
    other.advance(6)
    assert other.raw(to, b"") == b"503"
    assert other.vault.streams("A") == []
    to = other.api("STREAM.RESTORE.S", {"config": {"name": "S"}, "state": {}})["deliver_subject"]
    assert other.raw(to, b"junk junk") == b""
    done = json.loads(other.raw(to, b"") or b"")
    assert done["error"]["err_code"] == 10062
    assert other.vault.streams("A") == []


def test_a_restore_cut_off_by_a_crash_is_no_stream(house: House, tmp_path: Path) -> None:
    other = House(tmp_path / "two")
    other.api("STREAM.RESTORE.S", {"config": {"name": "S"}, "state": {}})
    third = House(tmp_path / "two")
    third.js.recover()
    assert third.api("STREAM.NAMES")["streams"] is None
    assert third.vault.streams("A") == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"deliver_subject": "a..b"}, 10015),
        ({"deliver_subject": "a.*"}, 10015),
        ({}, 10003),
    ],
)
def test_requests_that_make_no_sense(house: House, body: dict[str, str], code: int) -> None:
    assert house.api("STREAM.SNAPSHOT.S", body)["error"]["err_code"] == code
