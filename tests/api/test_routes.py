"""From a subject to an answer: bodies, levels, paging, errors, audits."""

import json
from pathlib import Path

import pytest

from jetstream.api.routes import find

from .house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_subjects_lead_to_endpoints_with_their_names() -> None:
    found = find("$JS.API.STREAM.MSG.GET.ORDERS")
    assert found is not None and (found[0].kind, found[1]) == (
        "stream_msg_get_response",
        ["ORDERS"],
    )
    assert find("$JS.API.STREAM.INFO") is None
    assert find("$JS.API.STREAM.INFO.A.B") is None
    assert find("$JS.API.NOTHING") is None


def test_endpoints_insist_on_the_bodies_they_take(house: House) -> None:
    house.api("STREAM.CREATE.S", {"name": "S"})
    assert house.api("STREAM.DELETE.S", {"x": 1})["error"]["err_code"] == 10038
    assert house.api("STREAM.MSG.GET.S")["error"]["err_code"] == 10003
    assert "error" not in house.api("STREAM.INFO.S", b"not json")
    assert house.api("STREAM.INFO.S", {"x": 1})["error"]["err_code"] == 10025


def test_a_level_above_ours_is_refused(house: House) -> None:
    block = b"NATS/1.0\r\nNats-Required-Api-Level: %s\r\n\r\n"
    assert house.api("INFO", b"", block % b"6")["error"]["err_code"] == 10185
    assert house.api("INFO", b"", block % b"x")["error"]["err_code"] == 10185
    assert "error" not in house.api("INFO", b"", block % b"5")


def test_unknown_endpoints_are_not_answered(house: House) -> None:
    assert house.raw("$JS.API.STREAM.TEMPLATE.LIST") is None


def test_requests_and_errors_are_counted(house: House) -> None:
    house.api("STREAM.INFO.NOPE")
    house.api("STREAM.NAMES")
    api = house.api("INFO")["api"]
    assert (api["total"], api["errors"], api["level"]) == (2, 1, 5)


def test_names_come_in_pages(house: House) -> None:
    for i in range(1030):
        config = {"name": f"S{i:04}", "subjects": [f"s{i}"], "storage": "memory"}
        assert "error" not in house.api(f"STREAM.CREATE.S{i:04}", config)
    first = house.api("STREAM.NAMES")
    assert (first["total"], first["limit"], len(first["streams"])) == (1030, 1024, 1024)
    rest = house.api("STREAM.NAMES", {"offset": 1024})
    assert rest["streams"][0] == "S1024"
    assert house.api("STREAM.NAMES", {"offset": 5000})["offset"] == 1030
    page = house.api("STREAM.LIST", {"offset": 1000})
    assert (page["limit"], len(page["streams"])) == (256, 30)
    assert house.api("STREAM.NAMES", {"subject": "s7"})["streams"] == ["S0007"]


def test_every_request_is_audited_for_those_who_listen(house: House) -> None:
    house.listening = [b"$JS.EVENT.ADVISORY.API"]
    house.api("STREAM.NAMES", {"offset": 0})
    (told,) = [json.loads(p) for s, _, p, _ in house.published if s.endswith(b"ADVISORY.API")]
    assert told["type"] == "io.nats.jetstream.advisory.v1.api_audit"
    assert (told["subject"], told["request"]) == ("$JS.API.STREAM.NAMES", '{"offset": 0}')
    assert json.loads(told["response"])["total"] == 0


def test_cluster_endpoints_need_a_cluster(house: House) -> None:
    for endpoint in (
        "STREAM.LEADER.STEPDOWN.S",
        "STREAM.PEER.REMOVE.S",
        "CONSUMER.PEER.REMOVE.S.C",
    ):
        assert house.api(endpoint)["error"]["err_code"] == 10010


def test_an_account_without_jetstream_is_told_so(house: House) -> None:
    house.js = None  # type: ignore[assignment]
    told = house.api("STREAM.INFO.S")
    assert told["error"]["err_code"] == 10039
    assert told["type"].endswith("stream_info_response")
