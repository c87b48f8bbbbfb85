"""Direct gets: one message, rows of them, and the status lines for everything else."""

from pathlib import Path
from typing import Any

import pytest

from jetstream.api.direct import answer

from .house import House


@pytest.fixture
def asset(tmp_path: Path) -> Any:
    house = House(tmp_path)
    house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["a.>"], "allow_direct": True})
    for i in range(9):
        house.put("S", f"a.{i % 3}", b"m%d" % i)
    return house.js.direct("S")


def get(
    asset: Any, payload: bytes, key: bytes = b"", headers: bytes = b""
) -> list[tuple[bytes, bytes]]:
    return list(answer(asset, key, headers, payload))


def seqs(answers: list[tuple[bytes, bytes]]) -> list[int]:
    found = [b for b, _ in answers if b"Nats-Sequence: " in b]
    return [int(b.split(b"Nats-Sequence: ")[1].split(b"\r\n")[0]) for b in found]


def test_a_message_comes_with_where_it_was_found(asset: Any) -> None:
    ((block, body),) = get(asset, b'{"seq":2}')
    assert body == b"m1"
    assert block.startswith(
        b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: a.1\r\nNats-Sequence: 2\r\nNats-Time-Stamp: "
    )
    assert get(asset, b'{"seq":2,"no_hdr":true}') == [(b"", b"m1")]
    assert seqs(get(asset, b"", b"a.1")) == [8]
    assert seqs(get(asset, b"", b"a.*")) == [9]
    assert seqs(get(asset, b'{"last_by_subj":"a.0"}')) == [7]
    assert seqs(get(asset, b'{"next_by_subj":"a.0","seq":2}')) == [4]


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (b"", b"408 Empty Request"),
        (b'{"batch":3}', b"408 Empty Request"),
        (b"{", b"408 Malformed Request"),
        (b'{"seq":1,"last_by_subj":"a"}', b"408 Bad Request"),
        (b'{"last_by_subj":"a","batch":2}', b"408 Bad Request"),
        (
            b'{"multi_last":["a"],"up_to_seq":1,"up_to_time":"2020-01-01T00:00:00Z"}',
            b"408 Bad Request",
        ),
        (b'{"seq":99}', b"404 Message Not Found"),
        (b'{"seq":99,"batch":2}', b"404 Message Not Found"),
        (b'{"multi_last":["nope"]}', b"404 No Results"),
    ],
)
def test_status_lines(asset: Any, payload: bytes, status: bytes) -> None:
    assert get(asset, payload) == [(b"NATS/1.0 " + status + b"\r\n\r\n", b"")]


def test_a_newer_level_is_refused(asset: Any) -> None:
    block = b"NATS/1.0\r\nNats-Required-Api-Level: 9\r\n\r\n"
    assert get(asset, b'{"seq":1}', b"", block)[0][0].startswith(b"NATS/1.0 412")


def test_a_batch_counts_down_and_ends_with_a_marker(asset: Any) -> None:
    answers = get(asset, b'{"seq":2,"batch":3}')
    assert seqs(answers) == [2, 3, 4]
    assert b"Nats-Num-Pending: 7\r\nNats-Last-Sequence: 0\r\n" in answers[0][0]
    assert answers[-1] == (
        b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 5\r\nNats-Last-Sequence: 4\r\n\r\n",
        b"",
    )
    assert len(get(asset, b'{"seq":1,"batch":9,"max_bytes":1}')) == 2


def test_multi_last_is_a_consistent_picture(asset: Any) -> None:
    assert seqs(get(asset, b'{"multi_last":["a.*"]}')) == [7, 8, 9]
    answers = get(asset, b'{"multi_last":["a.0","a.1"],"up_to_seq":5}')
    assert seqs(answers) == [4, 5]
    assert answers[-1][0].endswith(b"Nats-UpTo-Sequence: 5\r\n\r\n")
    assert seqs(get(asset, b'{"multi_last":[">"],"batch":2}')) == [7, 8]


def test_too_many_subjects_are_too_many(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.api("STREAM.CREATE.S", {"name": "S", "subjects": ["a.>"], "allow_direct": True})
    for i in range(1025):
        house.put("S", f"a.{i}")
    ((block, _),) = get(house.js.direct("S"), b'{"multi_last":["a.>"]}')
    assert block.startswith(b"NATS/1.0 413 Too Many Results")


def test_a_mirror_may_answer_for_its_origin(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.api("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "allow_direct": True})
    house.api("STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}, "mirror_direct": True})
    assert house.js.direct("O") is house.js.streams["O"]
    house.api("STREAM.UPDATE.O", {"name": "O", "subjects": ["o"]})
    found = house.js.direct("O")
    assert found is not None and found.name == "M"
    assert house.js.direct("NOPE") is None
