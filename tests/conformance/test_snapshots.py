"""Backups travel both ways: ours are restored by the reference, the reference's by us."""

import json
from typing import Any

import pytest

from .talk import Talk

pytestmark = [pytest.mark.reference, pytest.mark.timeout(120)]


def fill(talk: Talk, name: str) -> None:
    ask(talk, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
    for i in range(700):
        headers = {"A": "b"} if i % 3 == 0 else None
        talk.ask(f"{name}.{i % 5}", b"hello world hello %d" % i * (1 + i % 20), headers)
    ask(talk, f"STREAM.MSG.DELETE.{name}", {"seq": 5})
    ask(talk, f"STREAM.MSG.DELETE.{name}", {"seq": 700})
    config = {
        "name": "C",
        "durable_name": "C",
        "ack_policy": "explicit",
        "filter_subject": f"{name}.1",
    }
    body = {"stream_name": name, "config": config}
    ask(talk, f"CONSUMER.DURABLE.CREATE.{name}.C", body)
    talk.publish(f"$JS.API.CONSUMER.MSG.NEXT.{name}.C", b"3", None, "_INBOX.talk.next")
    assert all(talk.hear(2) is not None for _ in range(3))


def ask(talk: Talk, endpoint: str, body: Any = b"") -> dict[str, Any]:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    heard = talk.ask(f"$JS.API.{endpoint}", payload, timeout=10)
    assert heard is not None, endpoint
    answer: dict[str, Any] = json.loads(heard[1])
    assert "error" not in answer, answer
    return answer


def back_up(talk: Talk, name: str) -> tuple[dict[str, Any], bytes]:
    talk.subscribe(f"backup.{name}")
    body = {"deliver_subject": f"backup.{name}", "chunk_size": 20_000, "window_size": 40_000}
    told = ask(talk, f"STREAM.SNAPSHOT.{name}", body)
    data = b""
    waiting, talk._others = talk._others, []
    while True:
        heard = waiting.pop(0) if waiting else talk.hear(8)
        assert heard is not None
        subject, reply, block, piece = heard
        if subject != f"backup.{name}":
            continue
        if not piece:
            assert block in (b"", b"NATS/1.0 204\r\n\r\n"), block
            return told, data
        data += piece
        if reply:
            talk.publish(reply)


def put_back(talk: Talk, name: str, told: dict[str, Any], data: bytes) -> dict[str, Any]:
    body = {"config": told["config"], "state": told["state"]}
    to = ask(talk, f"STREAM.RESTORE.{name}", body)["deliver_subject"]
    for at in range(0, len(data), 30_000):
        heard = talk.ask(to, data[at : at + 30_000], timeout=10)
        assert heard == (b"", b"")
    heard = talk.ask(to, b"", timeout=10)
    assert heard is not None
    answer: dict[str, Any] = json.loads(heard[1])
    assert "error" not in answer, answer
    return answer


@pytest.mark.parametrize("direction", ["from the reference", "from us", "from us to us"])
def test_a_backup_is_restored_elsewhere(direction: str, peers: tuple[int, int]) -> None:
    reference, ours = (Talk(port) for port in peers)
    name = "SN" + direction.replace(" ", "")
    giver, taker = (reference, ours) if direction == "from the reference" else (ours, reference)
    if direction == "from us to us":
        taker = ours
    fill(giver, name)
    told, data = back_up(giver, name)
    before = ask(giver, f"STREAM.INFO.{name}")
    consumer = ask(giver, f"CONSUMER.INFO.{name}.C")
    giver.stored(name, 1, 700)
    if taker is giver:
        ask(giver, f"STREAM.DELETE.{name}")
    put_back(taker, name, told, data)
    expected = giver.transcript
    taker.transcript = []
    taker.stored(name, 1, 700)
    assert taker.transcript == expected[-700:]
    after = ask(taker, f"STREAM.INFO.{name}")
    if taker is reference:
        # It forgets when the last message was stored if that one was deleted.
        before["state"]["last_ts"] = after["state"]["last_ts"]
    assert after["state"] == before["state"]
    again = ask(taker, f"CONSUMER.INFO.{name}.C")
    for field in ("delivered", "ack_floor", "num_ack_pending", "num_pending"):
        kept = (
            {k: v for k, v in again[field].items() if k != "last_active"}
            if isinstance(again[field], dict)
            else again[field]
        )
        had = (
            {k: v for k, v in consumer[field].items() if k != "last_active"}
            if isinstance(consumer[field], dict)
            else consumer[field]
        )
        assert kept == had, field


def test_what_is_no_archive_is_refused(peers: tuple[int, int]) -> None:
    for port in peers:
        talk = Talk(port)
        to = ask(talk, "STREAM.RESTORE.JUNK", {"config": {"name": "JUNK"}, "state": {}})
        assert talk.ask(to["deliver_subject"], b"garbage") == (b"", b"")
        heard = talk.ask(to["deliver_subject"], b"")
        assert heard is not None
        assert json.loads(heard[1])["error"]["err_code"] == 10062
        heard = talk.ask(to["deliver_subject"], b"")
        assert heard is not None and heard[0].startswith(b"NATS/1.0 503")
