"""Conversations about streams, as scripts: configuration, publishing, reading, removing."""

import json
from typing import Any

from .talk import Headers, Scenario, Talk

SECOND = 1_000_000_000
SCENARIOS: dict[str, Scenario] = {}


def scenario(run: Scenario) -> Scenario:
    SCENARIOS[run.__name__] = run
    return run


def create(talk: Talk, name: str, **fields: Any) -> Any:
    return talk.api(f"STREAM.CREATE.{name}", {"name": name, **fields})


def quietly(talk: Talk, name: str, **fields: Any) -> None:
    talk.ask(f"$JS.API.STREAM.CREATE.{name}", json.dumps({"name": name, **fields}).encode())


def put(talk: Talk, subject: str, headers: Headers | None = None, payload: bytes = b"x") -> None:
    talk.request(subject, payload, headers)


@scenario
def creating_and_listing(talk: Talk) -> None:
    create(talk, "CL1", subjects=["cl1.>"], metadata={"a": "b", "_nats.ver": "9"})
    create(talk, "CL1", subjects=["cl1.>"], metadata={"a": "b"})
    create(talk, "CL1", subjects=["cl1.other"])
    create(talk, "CL2")
    create(talk, "CL3", subjects=["cl1.x"])
    talk.api("STREAM.CREATE.CL4", {"name": "OTHER"})
    talk.api("STREAM.CREATE.CL4")
    talk.api("STREAM.CREATE.CL4", "{}")
    talk.api("STREAM.INFO.NOPE")
    talk.api("STREAM.INFO.CL1", {"bogus": 1})
    talk.api("STREAM.INFO.CL1", "ignored")
    talk.api("STREAM.INFO.CL1", {"subjects_filter": ">"})
    talk.api("STREAM.NAMES", {"subject": "cl1.foo"})
    talk.api("STREAM.NAMES", {"subject": "cl1.>", "offset": 99})
    talk.api("STREAM.NAMES", {"subject": "nothing"})
    talk.api("STREAM.NAMES", {"x": 1})
    talk.api("STREAM.LIST", {"subject": "CL2"})
    talk.api("STREAM.LIST", {"subject": "nothing"})
    talk.api("STREAM.LIST", {"x": 1})
    talk.api("STREAM.DELETE.CL2", {"x": 1})
    talk.api("STREAM.DELETE.CL2")
    talk.api("STREAM.DELETE.CL2")
    talk.api("STREAM.PURGE.NOPE")
    talk.api("STREAM.UPDATE.NOPE", {"name": "NOPE"})
    talk.api("STREAM.UPDATE.NOPE", {"name": "X"})
    talk.api("STREAM.MSG.GET.NOPE", {"seq": 1})
    talk.api("STREAM.MSG.DELETE.NOPE", {"seq": 1})
    talk.api("STREAM.MSG.GET.CL1")
    talk.api("STREAM.UNKNOWN.CL1", timeout=0.3)
    talk.api("STREAM.TEMPLATE.LIST", timeout=0.3)
    talk.api("STREAM.INFO.CL1", "", {"Nats-Required-Api-Level": "6"})
    talk.api("STREAM.INFO.CL1", "", {"Nats-Required-Api-Level": "x"})
    talk.api("STREAM.INFO.NOPE", "", {"Nats-Required-Api-Level": "5"})
    talk.api("STREAM.DELETE.CL1")


@scenario
def cluster_endpoints(talk: Talk) -> None:
    quietly(talk, "CE", subjects=["ce"])
    for endpoint in (
        "STREAM.LEADER.STEPDOWN.CE",
        "STREAM.PEER.REMOVE.CE",
        "STREAM.PEER.EVACUATE.CE",
        "STREAM.CANCEL_MOVE.CE",
        "STREAM.LEADER.STEPDOWN.NOPE",
        "CONSUMER.LEADER.STEPDOWN.CE.C",
        "CONSUMER.PEER.REMOVE.CE.C",
        "CONSUMER.PEER.EVACUATE.CE.C",
    ):
        talk.api(endpoint, timeout=0.5)
        talk.api(endpoint, {"peer": "x"}, timeout=0.5)
    for endpoint in ("META.LEADER.STEPDOWN", "SERVER.REMOVE", "ACCOUNT.PURGE.A", "META.RESCUE"):
        talk.api(endpoint, timeout=0.3)
    talk.api("STREAM.DELETE.CE")


@scenario
def updating(talk: Talk) -> None:
    base: dict[str, Any] = {"name": "UP", "subjects": ["up.>"], "max_msgs": 100}
    talk.api("STREAM.CREATE.UP", base)
    for change in (
        {"max_msgs": 5, "description": "x"},
        {"subjects": ["up.a", "upb"]},
        {"storage": "memory"},
        {"retention": "interest"},
        {"retention": "workqueue"},
        {"num_replicas": 3},
        {"max_consumers": 3},
        {"sealed": True, "max_age": SECOND},
        {"mirror": {"name": "X"}, "subjects": []},
        {"deny_delete": True},
        {"allow_msg_ttl": True},
        {"allow_msg_counter": True},
        {"persist_mode": "async"},
        {"first_seq": 20},
        {"compression": "s2"},
        {"max_msgs": -2, "pedantic": True},
        {"placement": {"cluster": "x"}},
        {"sources": [{"name": "NOPE"}]},
    ):
        talk.api("STREAM.UPDATE.UP", {**base, **change})
    talk.api("STREAM.DELETE.UP")
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"deny_delete": True}, {}),
        ({"deny_purge": True}, {}),
        ({"allow_msg_ttl": True}, {}),
        ({"allow_msg_schedules": True}, {}),
        ({"allow_msg_counter": True}, {}),
        ({"subject_delete_marker_ttl": SECOND}, {}),
        ({"subject_delete_marker_ttl": SECOND}, {"allow_msg_ttl": True}),
        ({"retention": "workqueue"}, {}),
        ({"retention": "interest"}, {}),
        ({"persist_mode": "async"}, {}),
        ({"allow_rollup_hdrs": True}, {"deny_purge": True}),
        ({"max_age": SECOND}, {}),
        ({"duplicate_window": 5 * SECOND}, {"max_age": SECOND}),
        ({"mirror_direct": False}, {"mirror_direct": True}),
    ]
    for before, after in pairs:
        quietly(talk, "UP2", subjects=["up2.>"], **before)
        talk.api("STREAM.UPDATE.UP2", {"name": "UP2", "subjects": ["up2.>"], **after})
        talk.ask("$JS.API.STREAM.DELETE.UP2")


@scenario
def sealing(talk: Talk) -> None:
    quietly(talk, "SEAL", subjects=["seal.>"], max_age=3600 * SECOND)
    put(talk, "seal.1")
    sealed = {"name": "SEAL", "subjects": ["seal.>"], "max_age": 3600 * SECOND, "sealed": True}
    talk.api("STREAM.UPDATE.SEAL", sealed)
    put(talk, "seal.1")
    talk.api("STREAM.PURGE.SEAL")
    talk.api("STREAM.MSG.DELETE.SEAL", {"seq": 1})
    talk.api("STREAM.UPDATE.SEAL", {**sealed, "description": "x"})
    info = talk.api("STREAM.INFO.SEAL")
    talk.api("STREAM.UPDATE.SEAL", info["config"])
    talk.api("STREAM.UPDATE.SEAL", {**info["config"], "sealed": False})
    talk.api("STREAM.DELETE.SEAL")


@scenario
def expectations_and_ids(talk: Talk) -> None:
    quietly(talk, "EX", subjects=["ex.>"])
    last, subject = "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Subject-Sequence"
    for headers in (
        {"Nats-TTL": "1"},
        {"Nats-TTL": ""},
        {"Nats-Rollup": "sub"},
        {"Nats-Rollup": ""},
        {last: "x"},
        {last: ""},
        {last: "2"},
        {subject: "x"},
        {subject: "0"},
        {subject: "3"},
        {f"{subject}-Subject": "ex.*"},
        {f"{subject}-Subject": "ex.*", subject: "99"},
        {f"{subject}-Subject": "ex.*", subject: "4"},
        {f"{subject}-Subject": "ex..x", subject: "99"},
        {"Nats-Msg-Id": "A"},
        {"Nats-Expected-Last-Msg-Id": "A"},
        {"Nats-Expected-Last-Msg-Id": "A"},
        {"Nats-Expected-Last-Msg-Id": ""},
        {"Nats-Msg-Id": ""},
        {"Nats-Msg-Id": "A", last: "0"},
        {"Nats-Msg-Id": "A"},
        {"nats-msg-id": "A"},
        {"Nats-Expected-Stream": "X"},
        {"Nats-Expected-Stream": "EX"},
        {"Nats-Required-Api-Level": "6"},
        {"Nats-Stream-Source": "x"},
        {"Nats-Schedule": "@every 1s"},
        {"Nats-Schedule-Next": "purge"},
        {"Nats-Scheduler": "x"},
        {"Nats-Schedule-Target": "ex.x"},
        {"Nats-Batch-Id": "x"},
        {"Nats-Batch-Sequence": "1"},
        {"Nats-Request-Info": "x", "A": "b"},
        {"Nats-Request-Info": "x"},
        {"Nats-Marker-Reason": "x"},
        {"Nats-Incr": "1"},
        {"H": "x" * 65536},
        {"H": "x" * 65400},
        {"Nats-Msg-Id": "  Z  "},
        {"Nats-Msg-Id": "Z  "},
    ):
        put(talk, "ex.1", headers)
    put(talk, "ex.1", {"Nats-Msg-Id": "P"})
    talk.api("STREAM.PURGE.EX")
    put(talk, "ex.1", {"Nats-Msg-Id": "P"})
    put(talk, "ex.1", {last: "99"})
    put(talk, "ex.1", {subject: "0"})
    talk.state("EX")
    talk.api("STREAM.DELETE.EX")


@scenario
def dedupe_window(talk: Talk) -> None:
    quietly(talk, "DW", subjects=["dw.>"], duplicate_window=200_000_000)
    put(talk, "dw.1", {"Nats-Msg-Id": "A"})
    put(talk, "dw.2", {"Nats-Msg-Id": "A"})
    talk.pause(0.5)
    put(talk, "dw.1", {"Nats-Msg-Id": "A"})
    talk.api("STREAM.DELETE.DW")


@scenario
def counters(talk: Talk) -> None:
    quietly(talk, "CO", subjects=["co.>"], allow_msg_counter=True)
    for value in ("1", "+1", "-2", "1.5", "x", "", "+", "9" * 27, "+0", "0", "00012", " 5", "--1"):
        put(talk, "co.a", {"Nats-Incr": value}, b"")
    put(talk, "co.a", None, b"")
    put(talk, "co.a", {"X": "y"}, b"")
    put(talk, "co.a", {"Nats-Incr": "1"}, b"body")
    for extra in (
        {"Nats-Expected-Last-Sequence": "1"},
        {"Nats-Rollup": "sub"},
        {"Nats-Msg-Id": "a"},
        {"Nats-Msg-Id": "a"},
        {"Nats-Expected-Stream": "CO"},
        {"Nats-TTL": "5"},
        {"Nats-Expected-Last-Msg-Id": "5"},
        {"Nats-Counter-Sources": "{}"},
    ):
        put(talk, "co.a", {"Nats-Incr": "1", **extra}, b"")
    talk.stored("CO", 1, 10)
    talk.api("STREAM.DELETE.CO")


@scenario
def time_to_live(talk: Talk) -> None:
    quietly(talk, "TL", subjects=["tl.>"], allow_msg_ttl=True, subject_delete_marker_ttl=5 * SECOND)
    for value in ("1", "90m", "1.5s", "never", "", "0", "-1", "500ms", "abc", "1h30m", "Never"):
        put(talk, "tl.a", {"Nats-TTL": value})
    put(talk, "tl.a", {"Nats-TTL": "10", "A": "b"})
    talk.stored("TL", 1, 8)
    talk.api("STREAM.DELETE.TL")
    quietly(talk, "TL2", subjects=["tl2.>"], allow_msg_ttl=True)
    put(talk, "tl2.a", {"Nats-TTL": "1"})
    put(talk, "tl2.b")
    talk.pause(2.0)
    talk.state("TL2")
    talk.api("STREAM.DELETE.TL2")
    quietly(talk, "TL3", subjects=["tl3.>"], max_age=SECOND, subject_delete_marker_ttl=SECOND)
    put(talk, "tl3.a")
    put(talk, "tl3.b", {"KV-Operation": "PURGE"})
    talk.pause(1.5)
    talk.stored("TL3", 1, 3)
    talk.api("STREAM.DELETE.TL3")


@scenario
def discarding(talk: Talk) -> None:
    for storage in ("file", "memory"):
        quietly(
            talk,
            f"D{storage[0]}1",
            subjects=[f"d{storage[0]}1.>"],
            max_msgs=2,
            discard="new",
            storage=storage,
        )
        for _ in range(3):
            put(talk, f"d{storage[0]}1.1")
        talk.state(f"D{storage[0]}1")
        talk.ask(f"$JS.API.STREAM.DELETE.D{storage[0]}1")
        quietly(
            talk,
            f"D{storage[0]}2",
            subjects=[f"d{storage[0]}2.>"],
            max_msgs=2,
            discard="new",
            max_msgs_per_subject=1,
            storage=storage,
        )
        for subject in (
            f"d{storage[0]}2.1",
            f"d{storage[0]}2.2",
            f"d{storage[0]}2.3",
            f"d{storage[0]}2.1",
        ):
            put(talk, subject)
        talk.state(f"D{storage[0]}2")
        talk.ask(f"$JS.API.STREAM.DELETE.D{storage[0]}2")
        quietly(
            talk,
            f"D{storage[0]}3",
            subjects=[f"d{storage[0]}3.>"],
            max_bytes=150,
            discard="new",
            max_msgs_per_subject=1,
            storage=storage,
        )
        for subject, size in (
            (f"d{storage[0]}3.1", 50),
            (f"d{storage[0]}3.2", 20),
            (f"d{storage[0]}3.1", 50),
            (f"d{storage[0]}3.1", 40),
            (f"d{storage[0]}3.1", 60),
        ):
            put(talk, subject, None, b"x" * size)
        talk.state(f"D{storage[0]}3")
        talk.ask(f"$JS.API.STREAM.DELETE.D{storage[0]}3")
        quietly(
            talk,
            f"D{storage[0]}4",
            subjects=[f"d{storage[0]}4.>"],
            max_msgs_per_subject=1,
            discard="new",
            discard_new_per_subject=True,
            allow_rollup_hdrs=True,
            storage=storage,
        )
        put(talk, f"d{storage[0]}4.1")
        put(talk, f"d{storage[0]}4.1")
        put(talk, f"d{storage[0]}4.1", {"Nats-Rollup": "sub"})
        talk.state(f"D{storage[0]}4")
        talk.ask(f"$JS.API.STREAM.DELETE.D{storage[0]}4")
        quietly(
            talk, f"D{storage[0]}5", subjects=[f"d{storage[0]}5.>"], max_bytes=200, storage=storage
        )
        for size in (50, 50, 50, 500, 10):
            put(talk, f"d{storage[0]}5.1", {"A": "b"}, b"x" * size)
            talk.state(f"D{storage[0]}5")
        talk.ask(f"$JS.API.STREAM.DELETE.D{storage[0]}5")
        quietly(
            talk,
            f"D{storage[0]}6",
            subjects=[f"d{storage[0]}6.>"],
            max_msgs=3,
            max_msg_size=10,
            storage=storage,
        )
        for i in range(5):
            put(talk, f"d{storage[0]}6.{i}")
        put(talk, f"d{storage[0]}6.9", None, b"x" * 11)
        put(talk, f"d{storage[0]}6.9", {"A": "b"}, b"x")
        talk.state(f"D{storage[0]}6")
        talk.api(
            f"STREAM.UPDATE.D{storage[0]}6",
            {
                "name": f"D{storage[0]}6",
                "subjects": [f"d{storage[0]}6.>"],
                "max_msgs": 1,
                "storage": storage,
            },
        )
        talk.state(f"D{storage[0]}6")
        talk.ask(f"$JS.API.STREAM.DELETE.D{storage[0]}6")


@scenario
def rollups(talk: Talk) -> None:
    quietly(talk, "RO", subjects=["ro.>"], allow_rollup_hdrs=True)
    for subject in ("ro.1", "ro.2", "ro.1"):
        put(talk, subject)
    put(talk, "ro.1", {"Nats-Rollup": "SUB"})
    talk.state("RO")
    put(talk, "ro.1", {"Nats-Rollup": "zz"})
    put(talk, "ro.1", {"Nats-Rollup": "all"})
    talk.state("RO")
    talk.api("STREAM.DELETE.RO")


@scenario
def removing(talk: Talk) -> None:
    quietly(talk, "RM", subjects=["rm.>"])
    talk.api("STREAM.MSG.DELETE.RM", {"seq": 1})
    talk.api("STREAM.PURGE.RM", {"seq": 5})
    talk.state("RM")
    for i in range(10):
        put(talk, f"rm.{i % 3}")
    for body in ({"seq": 6}, {"seq": 6}, {"seq": 99}, {"seq": 0}, {"seq": 1}, {"seq": 5}, {"x": 1}):
        talk.api("STREAM.MSG.DELETE.RM", body)
        talk.state("RM")
    talk.api("STREAM.MSG.DELETE.RM", {"seq": 14, "no_erase": True})
    talk.api("STREAM.INFO.RM", {"deleted_details": True})
    purges: list[dict[str, Any]] = [
        {"filter": "rm.1", "keep": 1},
        {"seq": 8},
        {"seq": 2, "keep": 1},
        {"filter": "rm.*", "seq": 10},
        {"keep": 2},
        {"keep": 100},
        {"filter": "nope"},
        {"x": 1},
        {},
        {"seq": 50},
    ]
    for asked in purges:
        talk.api("STREAM.PURGE.RM", asked)
        talk.state("RM")
    talk.api("STREAM.DELETE.RM")
    quietly(talk, "RM2", subjects=["rm2.>"], deny_delete=True, deny_purge=True)
    put(talk, "rm2.1")
    talk.api("STREAM.MSG.DELETE.RM2", {"seq": 1})
    talk.api("STREAM.PURGE.RM2")
    talk.api("STREAM.DELETE.RM2")


@scenario
def first_sequences(talk: Talk) -> None:
    for storage in ("file", "memory"):
        name, subject = f"FS{storage}", f"fs.{storage}"
        quietly(talk, name, subjects=[subject], first_seq=100, storage=storage)
        talk.state(name)
        put(talk, subject, {"Nats-Expected-Last-Sequence": "99"})
        put(talk, subject, {"Nats-Expected-Last-Subject-Sequence": "100"})
        talk.api(f"STREAM.MSG.DELETE.{name}", {"seq": 101})
        talk.state(name)
        talk.api(f"STREAM.MSG.DELETE.{name}", {"seq": 100})
        talk.state(name)
        put(talk, subject)
        talk.state(name)
        talk.ask(f"$JS.API.STREAM.DELETE.{name}")


@scenario
def getting(talk: Talk) -> None:
    quietly(talk, "GE", subjects=["ge.>"])
    for i in range(6):
        put(talk, f"ge.{i % 3}", {"N": str(i)} if i % 2 else None, b"m%d" % i)
    put(talk, "ge.empty", None, b"")
    talk.api("STREAM.MSG.DELETE.GE", {"seq": 2})
    for body in (
        {"seq": 1},
        {"seq": 2},
        {"seq": 7},
        {"seq": 99},
        {"seq": 0},
        {"last_by_subj": "ge.1"},
        {"last_by_subj": "ge.*"},
        {"last_by_subj": "nope"},
        {"next_by_subj": "ge.2"},
        {"next_by_subj": "ge.2", "seq": 4},
        {"next_by_subj": "ge.>", "seq": 2},
        {"next_by_subj": "ge.1", "seq": 9},
        {"seq": 1, "last_by_subj": "ge.1"},
        {"last_by_subj": "ge.1", "next_by_subj": "ge.1"},
        {"batch": 3},
        {"seq": 1, "batch": 3},
        {"multi_last": ["ge.1"]},
        {"seq": 4, "no_hdr": True},
        {"start_time": "2020-01-01T00:00:00Z"},
        {"start_time": "2020-01-01T00:00:00Z", "next_by_subj": "ge.2"},
        {"start_time": "2120-01-01T00:00:00Z"},
        {"start_time": "2020-01-01T00:00:00Z", "seq": 2},
        {"x": 1},
    ):
        talk.api("STREAM.MSG.GET.GE", body)
    talk.api("STREAM.DELETE.GE")


@scenario
def getting_directly(talk: Talk) -> None:
    quietly(talk, "DG", subjects=["dg.>"], allow_direct=True)
    quietly(talk, "DN", subjects=["dn.>"])
    talk.request("$JS.API.DIRECT.GET.DN", b'{"seq":1}')
    talk.request("$JS.API.DIRECT.GET.NOPE", b'{"seq":1}')
    for i in range(9):
        put(talk, f"dg.{i % 3}", {"N": str(i)} if i % 2 else None, b"m%d" % i)
    talk.ask("$JS.API.STREAM.MSG.DELETE.DG", b'{"seq":5}')
    talk.subscribe("into.*")
    for i, body in enumerate(
        (
            {"seq": 1},
            {"seq": 5},
            {"seq": 99},
            {"last_by_subj": "dg.1"},
            {"last_by_subj": "dg.*"},
            {"last_by_subj": "nope"},
            {"next_by_subj": "dg.1", "seq": 3},
            {"next_by_subj": "dg.1"},
            {"start_time": "2020-01-01T00:00:00Z"},
            {"seq": 2, "no_hdr": True},
            {"unknown": 1},
            {"seq": 1, "unknown": 1},
            {"batch": 3},
            {"seq": 1, "batch": 3},
            {"seq": 3, "batch": 100},
            {"seq": 99, "batch": 3},
            {"seq": 1, "batch": 3, "no_hdr": True},
            {"next_by_subj": "dg.1", "batch": 2},
            {"next_by_subj": "nope", "batch": 2},
            {"start_time": "2020-01-01T00:00:00Z", "batch": 2},
            {"seq": 1, "batch": 10, "max_bytes": 20},
            {"seq": 1, "batch": 10, "max_bytes": 1},
            {"last_by_subj": "dg.1", "batch": 2},
            {"seq": 1, "last_by_subj": "dg.1"},
            {"seq": 1, "start_time": "2020-01-01T00:00:00Z"},
            {"multi_last": ["dg.*"]},
            {"multi_last": ["dg.1", "dg.2"]},
            {"multi_last": ["nope"]},
            {"multi_last": [">"], "batch": 2},
            {"multi_last": [">"], "batch": 2, "seq": 9},
            {"multi_last": [">"], "up_to_seq": 4},
            {"multi_last": [">"], "up_to_seq": 4, "up_to_time": "2020-01-01T00:00:00Z"},
            {"multi_last": [">"], "up_to_time": "2020-01-01T00:00:00Z"},
            {"multi_last": [">"], "up_to_time": "2120-01-01T00:00:00Z"},
            {"multi_last": [">"], "max_bytes": 10},
            {"multi_last": [">"], "next_by_subj": "dg.1"},
            {"multi_last": [">"], "last_by_subj": "dg.1"},
            {"multi_last": []},
            {"seq": 1, "batch": -1},
            {"seq": 1, "up_to_seq": 3},
        )
    ):
        talk.note(body)
        talk.publish("$JS.API.DIRECT.GET.DG", json.dumps(body).encode(), None, f"into.{i}")
        talk.heard(0.1)
    for payload in (b"", b"{}", b"x", b"[]", b'{"seq":"x"}', b'{"SEQ":1}', b'{"seq":null}'):
        talk.request("$JS.API.DIRECT.GET.DG", payload)
    for key, payload in (
        ("dg.1", b""),
        ("dg.nope", b""),
        ("dg.*", b""),
        ("dg.1", b'{"no_hdr":true}'),
        ("dg.1", b'{"seq":1}'),
        ("dg.1", b"{}"),
        ("dg.1", b"x"),
    ):
        talk.request(f"$JS.API.DIRECT.GET.DG.{key}", payload)
    talk.request("$JS.API.DIRECT.GET.DG", b'{"seq":1}', {"Nats-Required-Api-Level": "9"})
    talk.request("$JS.API.DIRECT.GET.DG", b'{"seq":1}', {"Nats-Required-Api-Level": "5"})
    talk.api("STREAM.DELETE.DG")
    talk.api("STREAM.DELETE.DN")


@scenario
def transforming_and_republishing(talk: Talk) -> None:
    quietly(
        talk,
        "TR",
        subjects=["tr.>"],
        subject_transform={"src": "tr.a.*", "dest": "tx.$1"},
        republish={"src": ">", "dest": "again.>"},
    )
    talk.subscribe("again.>")
    put(talk, "tr.a.1", {"A": "b"}, b"one")
    put(talk, "tr.a.1", {"Nats-Expected-Last-Subject-Sequence": "1"}, b"two")
    put(talk, "tr.b", None, b"three")
    talk.heard()
    talk.stored("TR", 1, 3)
    talk.api("STREAM.DELETE.TR")
    quietly(
        talk,
        "TR2",
        subjects=["tr2.>"],
        republish={"src": "tr2.*", "dest": "only.$1", "headers_only": True},
    )
    talk.subscribe("only.>")
    put(talk, "tr2.a", None, b"body")
    put(talk, "tr2.a.b", None, b"body")
    talk.heard()
    talk.api("STREAM.DELETE.TR2")


@scenario
def no_acks(talk: Talk) -> None:
    quietly(talk, "NA", subjects=["na.>"], no_ack=True)
    talk.request("na.1", b"x", timeout=0.3)
    talk.state("NA")
    talk.api("STREAM.DELETE.NA")


@scenario
def advisories(talk: Talk) -> None:
    talk.subscribe("$JS.EVENT.ADVISORY.>")
    quietly(talk, "AD", subjects=["ad.>"])
    quietly(talk, "AD", subjects=["ad.>"])
    talk.ask("$JS.API.STREAM.UPDATE.AD", b'{"name":"AD","subjects":["ad.>"],"description":"x"}')
    talk.ask("$JS.API.STREAM.MSG.GET.AD", b'{"seq":1}')
    talk.ask("$JS.API.STREAM.INFO.AD")
    talk.ask("$JS.API.STREAM.NAMES", b'{"subject":"ad.1"}')
    talk.ask("$JS.API.STREAM.DELETE.AD")
    talk.heard(0.5)
    # The reference sends them from several threads: their order is chance.
    talk.transcript.sort()


@scenario
def account_numbers(talk: Talk) -> None:
    heard = talk.ask("$JS.API.STREAM.NAMES")
    for name in json.loads(heard[1])["streams"] or () if heard else ():
        talk.ask(f"$JS.API.STREAM.DELETE.{name}")
    quietly(talk, "AN", subjects=["an"], max_bytes=1000)
    quietly(talk, "AM", subjects=["am"], max_bytes=500, storage="memory")
    put(talk, "an")
    put(talk, "am")
    heard = talk.ask("$JS.API.INFO")
    assert heard is not None
    info = json.loads(heard[1])
    talk.note({k: v for k, v in info.items() if k != "api"}, list(info["api"]))
    talk.api("STREAM.DELETE.AN")
    talk.api("STREAM.DELETE.AM")
