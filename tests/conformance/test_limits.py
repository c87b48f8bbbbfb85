"""Domains, accounts without JetStream and account limits: told as the reference tells them."""

import json
from collections.abc import Iterator

import pytest

from .stream_scenarios import create, put, quietly
from .talk import OURS, REFERENCE, Scenario, Talk, a_server, hold

pytestmark = [pytest.mark.reference, pytest.mark.timeout(90)]

CONFIG = """
jetstream {
  store_dir: "@DIR@", domain: hub, max_mem: 10M, max_file: 20M
  limits { duplicate_window: "1m" }
}
accounts {
  A { users: [ { user: a, password: x } ]
      jetstream: { max_mem: 1000, max_file: 2000, max_streams: 3, max_consumers: 2 } }
  B { users: [ { user: b, password: x } ] }
  C { users: [ { user: c, password: x } ]
      jetstream: { max_file: 10000, disk_max_stream_bytes: 500, max_bytes_required: true } }
  SYS { users: [ { user: sys, password: x } ] }
}
system_account: SYS
"""


@pytest.fixture(scope="module")
def limited() -> Iterator[tuple[int, int]]:
    if not REFERENCE.exists():
        pytest.skip("nats-server is not installed")
    with a_server([str(REFERENCE)], CONFIG) as reference, a_server(OURS, CONFIG) as ours:
        yield reference, ours


def in_account_a(talk: Talk) -> None:
    heard = talk.ask("$JS.API.INFO")
    assert heard is not None
    talk.note({k: v for k, v in json.loads(heard[1]).items() if k != "api"})
    create(talk, "T1", subjects=["t1.>"])
    talk.api("STREAM.INFO.T1")
    create(talk, "T1", subjects=["t1.>"], duplicate_window=120_000_000_000)
    create(talk, "T2", subjects=["t2.>"], max_bytes=3000)
    create(talk, "T2", subjects=["t2.>"], max_bytes=1500)
    create(talk, "T3", subjects=["t3.>"], max_bytes=1000)
    create(talk, "T3", subjects=["t3.>"], storage="memory", max_bytes=2000)
    create(talk, "T3", subjects=["t3.>"], storage="memory")
    create(talk, "T4", subjects=["t4.>"])
    create(talk, "T1", subjects=["t1.>"])
    talk.api("STREAM.UPDATE.T2", {"name": "T2", "subjects": ["t2.>"], "max_bytes": 2500})
    talk.api("STREAM.UPDATE.T2", {"name": "T2", "subjects": ["t2.>"], "max_bytes": 1000})
    put(talk, "t1.1", {"Nats-Msg-Id": "x"})
    put(talk, "t1.1", {"Nats-Msg-Id": "x"})
    put(talk, "t1.1", {"Nats-Expected-Last-Sequence": "9"})
    for name in ("T1", "T2", "T3"):
        talk.ask(f"$JS.API.STREAM.DELETE.{name}")


def through_the_domain(talk: Talk) -> None:
    quietly(talk, "D1", subjects=["d1.>"], allow_direct=True)
    put(talk, "d1.1")
    for subject, payload in (
        ("$JS.hub.API.STREAM.INFO.D1", b""),
        ("$JS.hub.API.STREAM.NAMES", b""),
        ("$JS.hub.API.DIRECT.GET.D1", b'{"seq":1}'),
        ("$JS.other.API.INFO", b""),
        ("$JS.hub.API.NOTHING", b""),
    ):
        talk.request(subject, payload, timeout=0.5)
    talk.subscribe("$JS.EVENT.ADVISORY.STREAM.>")
    quietly(talk, "D2", subjects=["d2.>"])
    talk.heard(0.3)
    for name in ("D1", "D2"):
        talk.ask(f"$JS.API.STREAM.DELETE.{name}")


def without_jetstream(talk: Talk) -> None:
    for endpoint in (
        "INFO",
        "STREAM.NAMES",
        "STREAM.INFO.X",
        "CONSUMER.NAMES.X",
        "STREAM.CREATE.X",
    ):
        talk.api(endpoint, timeout=0.5)
    talk.api("STREAM.CREATE.X", {"name": "X"}, timeout=0.5)
    talk.request("$JS.API.DIRECT.GET.X", b'{"seq":1}', timeout=0.5)


def bytes_required(talk: Talk) -> None:
    create(talk, "R1", subjects=["r1"])
    create(talk, "R1", subjects=["r1"], max_bytes=600)
    create(talk, "R1", subjects=["r1"], max_bytes=400)
    talk.api("STREAM.UPDATE.R1", {"name": "R1", "subjects": ["r1"], "max_bytes": 600})
    talk.api("STREAM.DELETE.R1")


def in_the_system_account(talk: Talk) -> None:
    for endpoint in ("INFO", "STREAM.NAMES", "ACCOUNT.PURGE.A", "META.LEADER.STEPDOWN"):
        talk.api(endpoint, timeout=0.5)


CASES: list[tuple[str, Scenario]] = [
    ("a", in_account_a),
    ("a", through_the_domain),
    ("b", without_jetstream),
    ("c", bytes_required),
    ("sys", in_the_system_account),
]


@pytest.mark.parametrize(("user", "scenario"), CASES, ids=lambda v: getattr(v, "__name__", v))
def test_accounts_are_limited_alike(
    user: str, scenario: Scenario, limited: tuple[int, int]
) -> None:
    reference, ours = (hold(port, scenario, user, "x") for port in limited)
    different = [(a, b) for a, b in zip(reference, ours, strict=False) if a != b]
    shown = "\n".join(f"  reference {a[:900]}\n  ours      {b[:900]}" for a, b in different)
    assert not different, f"{len(different)} of {len(reference)} lines differ:\n{shown}"
