"""Conversations about batches, schedules, mirrors, sources and configuration mistakes."""

from typing import Any

from .stream_scenarios import SCENARIOS, SECOND, create, put, quietly, scenario
from .talk import Headers, Talk

__all__ = ["SCENARIOS"]


def in_batch(batch: str, seq: object, **more: str) -> Headers:
    headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(seq)}
    return headers | {name.replace("_", "-"): value for name, value in more.items()}


@scenario
def atomic_batches(talk: Talk) -> None:
    quietly(
        talk, "AB", subjects=["ab.>"], allow_atomic=True, allow_rollup_hdrs=True, allow_msg_ttl=True
    )
    talk.subscribe("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>")
    one = "1"
    last, subject = "Nats_Expected_Last_Sequence", "Nats_Expected_Last_Subject_Sequence"
    steps: list[tuple[str, Headers]] = [
        ("ab.1", in_batch("b1", 1)),
        ("ab.2", in_batch("b1", 2)),
        ("ab.3", in_batch("b1", 3, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b2", 1, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b3", 1)),
        ("ab.1", in_batch("b3", 2, Nats_Batch_Commit="eob")),
        ("ab.1", in_batch("b4", 1, Nats_Batch_Commit="eob")),
        ("ab.1", in_batch("b5", 2)),
        ("ab.1", in_batch("b6", 0)),
        ("ab.1", in_batch("b6", "x")),
        ("ab.1", {"Nats-Batch-Id": "b6"}),
        ("ab.1", in_batch("x" * 65, 1)),
        ("ab.1", in_batch("b8", 1, Nats_Batch_Commit="x")),
        ("ab.1", in_batch("b9", 1)),
        ("ab.1", in_batch("b9", 3)),
        ("ab.1", in_batch("b9", 2)),
        ("ab.1", in_batch("b10", 1)),
        ("ab.1", in_batch("b10", 1)),
        ("ab.1", in_batch("b11", 1, Nats_Expected_Last_Msg_Id="x")),
        ("ab.1", in_batch("b11", 2, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b12", 1, Nats_Msg_Id="m1")),
        ("ab.1", in_batch("b12", 2, Nats_Msg_Id="m1", Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b13", 1, Nats_Msg_Id="m2")),
        ("ab.1", in_batch("b13", 2, Nats_Batch_Commit=one)),
        ("ab.1", {"Nats-Msg-Id": "m2"}),
        ("ab.1", in_batch("b14", 1, Nats_Msg_Id="m2")),
        ("ab.1", in_batch("b14", 2, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b15", 1, **{last: "7"})),
        ("ab.1", in_batch("b15", 2, **{last: "8"}, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b16", 1)),
        ("ab.1", in_batch("b16", 2, **{last: "99"}, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b17", 1, **{last: "99"})),
        ("ab.1", in_batch("b17", 2, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b18", 1)),
        ("ab.1", in_batch("b18", 2, **{subject: "5"}, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b19", 1)),
        ("ab.zz", in_batch("b19", 2, **{subject: "5"}, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b20", 1)),
        ("ab.1", in_batch("b20", 2, Nats_Rollup="sub", Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b21", 1)),
        ("ab.2", in_batch("b21", 2, Nats_Rollup="all", Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b22", 1, Nats_Rollup="all")),
        ("ab.2", in_batch("b22", 2, Nats_Rollup="sub", Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b23", 1, Nats_TTL="x")),
        ("ab.2", in_batch("b23", 2, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b24", 1, Nats_Expected_Stream="x")),
        ("ab.2", in_batch("b24", 2, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b25", 1, Nats_Incr="1")),
        ("ab.2", in_batch("b25", 2, Nats_Batch_Commit=one)),
        ("ab.1", in_batch("b26", 1, Nats_Required_Api_Level="9")),
        ("ab.2", in_batch("b26", 2, Nats_Batch_Commit=one)),
    ]
    for to, headers in steps:
        put(talk, to, headers)
    talk.stored("AB", 1, 9)
    for i in range(1, 1001):
        talk.publish("ab.1", b"x", in_batch("big", i))
    put(talk, "ab.1", in_batch("big", 1001))
    put(talk, "ab.1", in_batch("big", 1002, Nats_Batch_Commit=one))
    for i in range(50):
        talk.publish("ab.1", b"x", in_batch(f"inflight{i}", 1))
    put(talk, "ab.1", in_batch("inflight50", 1))
    talk.heard(0.3)
    talk.api("STREAM.DELETE.AB")


@scenario
def fast_batches(talk: Talk) -> None:
    quietly(talk, "FB", subjects=["fb.>"], allow_batched=True)
    quietly(talk, "FN", subjects=["fn.>"])
    talk.subscribe("rp.>")
    wrong = {"Nats-Expected-Last-Sequence": "99"}

    def step(
        batch: str,
        flow: object,
        mode: str,
        seq: object,
        op: object,
        headers: Headers | None = None,
        subject: str = "fb.1",
    ) -> None:
        talk.publish(subject, b"x", headers, f"rp.{batch}.{flow}.{mode}.{seq}.{op}.$FI")
        talk.heard(0.06)

    step("b0", 10, "fail", 1, 0, subject="fn.1")
    for seq, op in ((1, 0), (2, 1), (3, 1), (4, 1), (4, 4), (5, 1), (6, 1), (7, 2), (8, 1)):
        step("b1", 3, "fail", seq, op)
    for seq, op in ((1, 0), (4, 1), (5, 1), (3, 1), (6, 3)):
        step("g1", 2, "ok", seq, op)
    for seq, op in ((1, 0), (4, 1), (5, 1)):
        step("g2", 2, "fail", seq, op)
    for seq, op in ((1, 0), (2, 1), (3, 1), (4, 3)):
        step("g3", 2, "ok", seq, op)
    for batch, mode in (("e1", "ok"), ("e2", "fail")):
        step(batch, 2, mode, 1, 0)
        step(batch, 2, mode, 2, 1, wrong)
        step(batch, 2, mode, 3, 1)
        step(batch, 2, mode, 4, 2)
    for batch, mode in (("e3", "fail"), ("e4", "ok")):
        step(batch, 2, mode, 1, 0, wrong)
        step(batch, 2, mode, 2, 1)
        step(batch, 2, mode, 3, 2)
    step("c1", 2, "ok", 1, 0)
    step("c1", 2, "ok", 2, 2, wrong)
    step("c2", 2, "fail", 1, 0)
    step("c2", 2, "fail", 2, 2, wrong)
    step("p1", 2, "maybe", 1, 0)
    step("p1", 2, "ok", "x", 0)
    step("p1", 2, "ok", 1, 9)
    step("p1", 2, "ok", 2, 0)
    step("p1", 2, "ok", 2, 1)
    step("x" * 65, 2, "ok", 1, 0)
    step("p4", 10, "ok", 1, 2)
    step("p5", 10, "ok", 1, 3)
    step("p6", 10, "ok", 1, 4)
    step("p7", 10, "ok", 1, 1)
    ids = [{"Nats-Msg-Id": i} for i in ("a", "a", "b", "b")]
    for seq, (op, headers) in enumerate(zip((0, 1, 1, 2), ids, strict=True), 1):
        step("d1", 2, "fail", seq, op, headers)
    step("t1", 100, "fail", 1, 0)
    step("t2", 100, "fail", 1, 0)
    for seq in range(2, 9):
        step("t2", 100, "fail", seq, 1)
    step("t1", 100, "fail", 1, 0)
    talk.state("FB")
    talk.api("STREAM.DELETE.FB")
    talk.api("STREAM.DELETE.FN")


@scenario
def schedules(talk: Talk) -> None:
    quietly(talk, "SC", subjects=["sc.>", "src.>"], allow_msg_schedules=True, allow_msg_ttl=True)
    plan, target = "Nats-Schedule", "Nats-Schedule-Target"
    for pattern in (
        "@at 2030-01-01T00:00:00Z",
        "@at 2030-01-01",
        "@every 1m",
        "@every 500ms",
        "@every x",
        "0 0 0 1 1 *",
        "* * * * *",
        "0 0 12 * JAN MON",
        "0 0 12 * 13 *",
        "60 0 0 * * *",
        "*/5 1-3 1,2 ? jan sun-tue",
        "@yearly",
        "@Daily",
        "@foo",
        "",
        "0 30 3-6/2 1 1 *",
        "0 0 0 L * *",
        "@every  1s",
        "0 0 0 31 2 *",
        "@AT 2030-01-01T00:00:00Z",
        "0 0 0 * * 7",
        "0 0 0 0 * *",
        "TZ=UTC 0 0 0 * * *",
        "0-59/0 * * * * *",
        "* * * * * * *",
        "0 0 0 1 1-x *",
        "0 0 0 1 jan-mar *",
    ):
        put(talk, "sc.a", {plan: pattern, target: "sc.t"})
    for to in ("", "sc.a", "sc.*", "x.y", "sc..x"):
        put(talk, "sc.a", {plan: "@yearly", target: to})
    zone, yearly = "Nats-Schedule-Time-Zone", "0 0 0 1 1 *"
    for extra in (
        {"Nats-Schedule-TTL": "5"},
        {"Nats-Schedule-TTL": "x"},
        {"Nats-Schedule-Rollup": "sub"},
        {"Nats-Schedule-Rollup": "all"},
        {"Nats-Rollup": "sub"},
        {"Nats-Rollup": "all"},
        {zone: "Europe/Paris"},
        {zone: "Nope/X"},
        {zone: ""},
        {"Nats-Schedule-Source": "src.a"},
        {"Nats-Schedule-Source": "sc.a"},
        {"Nats-Schedule-Source": "sc.t"},
        {"Nats-Schedule-Source": "sc.*"},
        {"Nats-Schedule-Source": "nope"},
    ):
        put(talk, "sc.a", {plan: yearly, target: "sc.t", **extra})
    put(talk, "sc.a", {plan: "@every 1m", target: "sc.t", zone: "UTC"})
    talk.state("SC")
    talk.ask("$JS.API.STREAM.PURGE.SC")
    put(
        talk,
        "sc.at",
        {
            plan: "@at 2020-01-01T00:00:00Z",
            target: "sc.t1",
            "X": "y",
            "Nats-Schedule-TTL": "60",
            "Nats-Msg-Id": "m",
        },
        b"body",
    )
    talk.pause(0.7)
    talk.api("STREAM.MSG.GET.SC", {"last_by_subj": "sc.t1"})
    talk.api("STREAM.MSG.GET.SC", {"last_by_subj": "sc.at"})
    put(talk, "src.a", {"Q": "r"}, b"from the source")
    put(
        talk,
        "sc.ev",
        {
            plan: "@every 1s",
            target: "sc.t3",
            "X": "y",
            "Nats-Schedule-Source": "src.a",
            "Nats-Schedule-Rollup": "sub",
        },
        b"own",
    )
    talk.pause(1.5)
    for subject in ("sc.ev", "sc.t3"):
        heard = talk.ask("$JS.API.STREAM.MSG.GET.SC", b'{"last_by_subj":"%s"}' % subject.encode())
        talk.note(subject, b'"hdrs"' in heard[1] if heard else None)
    # How often it fired until now depends on the phase of the second: sequences may differ.
    talk.ask("sc.c", b"x", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "sc.ev"})
    talk.api("STREAM.MSG.GET.SC", {"last_by_subj": "sc.ev"})
    talk.ask("sc.c", b"x", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "sc.nope"})
    put(talk, "sc.c", {"Nats-Schedule-Next": "x", "Nats-Scheduler": "sc.ev"})
    talk.api("STREAM.DELETE.SC")


@scenario
def mirrors_and_sources(talk: Talk) -> None:
    quietly(talk, "MO", subjects=["mo.>"])
    quietly(talk, "MP", subjects=["mp.>"], allow_msg_ttl=True)
    for i in range(4):
        put(talk, f"mo.{i % 2}", None, b"m%d" % i)
    put(talk, "mo.h", {"Nats-Msg-Id": "a", "A": "b", "Nats-Expected-Stream": "MO"})
    create(talk, "M1", mirror={"name": "MO"})
    quietly(talk, "M2", mirror={"name": "MO", "filter_subject": "mo.1"})
    changes = [{"src": "mo.0", "dest": "zero"}, {"src": "mo.h", "dest": "rest.h"}]
    quietly(talk, "M3", mirror={"name": "MO", "subject_transforms": changes})
    quietly(talk, "M4", mirror={"name": "MO", "opt_start_seq": 3})
    quietly(talk, "S1", subjects=["s1.>"], sources=[{"name": "MO", "filter_subject": "mo.1"}])
    quietly(
        talk, "S2", sources=[{"name": "MO", "subject_transforms": [{"src": "mo.0", "dest": "z.0"}]}]
    )
    quietly(talk, "S3", sources=[{"name": "NOPE"}])
    talk.pause(0.5)
    put(talk, "mo.1", None, b"later")
    put(talk, "s1.x", None, b"own")
    talk.pause(1.0)
    for name in ("M1", "M2", "M3", "M4", "S1", "S2", "S3"):
        info = talk.api(f"STREAM.INFO.{name}")
        talk.stored(name, max(info["state"]["first_seq"], 1), info["state"]["last_seq"])
    talk.request("M1", b"x")
    talk.api("STREAM.LIST", {"subject": "mo.1"})
    config = (talk.api("STREAM.INFO.M1") or {})["config"]
    del config["mirror"]
    talk.api("STREAM.UPDATE.M1", {**config, "subjects": ["m1.>"]})
    put(talk, "m1.1")
    create(talk, "CY", subjects=["cy"], sources=[{"name": "CY"}])
    for name in ("M1", "M2", "M3", "M4", "S1", "S2", "S3", "MO", "MP"):
        talk.ask(f"$JS.API.STREAM.DELETE.{name}")


@scenario
def sourced_counters(talk: Talk) -> None:
    quietly(talk, "K1", subjects=["k1.>"], allow_msg_counter=True)
    quietly(
        talk,
        "K2",
        subjects=["k2.>"],
        allow_msg_counter=True,
        sources=[{"name": "K1", "subject_transforms": [{"src": "k1.*", "dest": "k2.$1"}]}],
    )
    talk.pause(0.5)
    put(talk, "k1.a", {"Nats-Incr": "5"}, b"")
    put(talk, "k1.a", {"Nats-Incr": "3"}, b"")
    talk.pause(0.5)
    put(talk, "k2.a", {"Nats-Incr": "100"}, b"")
    talk.pause(0.3)
    put(talk, "k1.a", {"Nats-Incr": "1"}, b"")
    talk.pause(0.5)
    talk.stored("K2", 1, 4)
    for name in ("K2", "K1"):
        talk.ask(f"$JS.API.STREAM.DELETE.{name}")


@scenario
def configuration_mistakes(talk: Talk) -> None:
    quietly(talk, "ORIGIN", subjects=["o.>"], allow_direct=True, max_msg_size=100)
    quietly(talk, "O2", subjects=["p.>"], sources=[{"name": "ORIGIN"}])
    for fields in MISTAKES:
        create(talk, "X", **fields)
        talk.ask("$JS.API.STREAM.DELETE.X")
    for text in (
        '{"name":"X","retention":"x"}',
        '{"name":"X","discard":"NEW"}',
        '{"name":"X","storage":"Mem"}',
        '{"name":"X","compression":"zz"}',
        '{"name":"X","persist_mode":"zz"}',
        '{"name":"X","bogus":1}',
        '{"name":"X","retention":1}',
        '{"name":"X"',
        '{"NAME":"X","Subjects":null}',
    ):
        talk.api("STREAM.CREATE.X", text)
        talk.ask("$JS.API.STREAM.DELETE.X")
    talk.ask("$JS.API.STREAM.DELETE.O2")
    talk.ask("$JS.API.STREAM.DELETE.ORIGIN")


def _mirror(**fields: Any) -> dict[str, Any]:
    return {"mirror": {"name": "ORIGIN", **fields}}


def _source(**fields: Any) -> dict[str, Any]:
    return {"sources": [{"name": "ORIGIN", **fields}]}


_READY = {"name": "c", "deliver_subject": "d"}
_CHANGE = {"src": "a.*", "dest": "x.$1"}

MISTAKES: list[dict[str, Any]] = [
    {"description": "x" * 4097},
    {"metadata": {"a": "x" * 131072}},
    {"num_replicas": 2},
    {"num_replicas": 6},
    {"num_replicas": -1},
    {"num_replicas": 0},
    {"max_msgs": -5},
    {"max_msgs": -5, "pedantic": True},
    {"max_bytes": -5, "pedantic": True},
    {"max_age": 1},
    {"max_age": -1},
    {"duplicate_window": 1},
    {"duplicate_window": -1},
    {"duplicate_window": 2 * SECOND, "max_age": SECOND},
    {"max_age": SECOND},
    {"deny_purge": True, "allow_rollup_hdrs": True},
    {"discard_new_per_subject": True},
    {"discard_new_per_subject": True, "discard": "new"},
    {"discard_new_per_subject": True, "discard": "new", "max_msgs_per_subject": 1},
    {"subject_delete_marker_ttl": 1},
    {"subject_delete_marker_ttl": -1},
    {"subject_delete_marker_ttl": 2 * SECOND, "deny_purge": True},
    {"subject_delete_marker_ttl": 2 * SECOND, "pedantic": True},
    {"subject_delete_marker_ttl": 2 * SECOND, "pedantic": True, "allow_msg_ttl": True},
    {"persist_mode": "async", "storage": "memory"},
    {"persist_mode": "async", "allow_atomic": True},
    {"persist_mode": "async"},
    {"persist_mode": "default"},
    {"allow_msg_counter": True, "discard": "new"},
    {"allow_msg_counter": True, "allow_msg_ttl": True},
    {"allow_msg_counter": True, "allow_msg_schedules": True},
    {"allow_msg_counter": True, "retention": "interest"},
    {"allow_msg_counter": True},
    {"allow_msg_schedules": True, "discard": "new"},
    {"allow_msg_schedules": True},
    {"allow_msg_schedules": True, "deny_purge": True},
    {"allow_msg_schedules": True, "pedantic": True},
    {"allow_msg_schedules": True, **_source()},
    {**_mirror(), "subjects": ["x"]},
    {**_mirror(), **_source()},
    {**_mirror(), "first_seq": 5},
    {"mirror": {"name": "a.b"}},
    {"mirror": {"name": ""}},
    _mirror(filter_subject="o.a", subject_transforms=[_CHANGE]),
    {**_mirror(), "allow_msg_counter": True},
    {**_mirror(), "allow_atomic": True},
    {**_mirror(), "allow_batched": True},
    {**_mirror(), "allow_msg_schedules": True},
    {**_mirror(), "subject_delete_marker_ttl": 2 * SECOND},
    {**_mirror(), "max_msg_size": 10},
    {**_mirror(), "pedantic": True},
    {"mirror": {"name": "MISSING"}, "mirror_direct": True},
    _mirror(subject_transforms=[{"src": "a..b", "dest": "x"}]),
    _mirror(subject_transforms=[{"src": "a.*", "dest": "x.$2"}]),
    _mirror(subject_transforms=[_CHANGE, {"src": "a.b", "dest": "y"}]),
    _mirror(filter_subject="a..b"),
    _mirror(consumer={"name": "c"}),
    _mirror(consumer={"deliver_subject": "d"}),
    _mirror(consumer=_READY, opt_start_seq=1),
    _mirror(consumer={"name": "c", "deliver_subject": "d.*"}),
    _mirror(consumer={}),
    _mirror(consumer=_READY, filter_subject="o.a"),
    {"mirror_direct": True},
    {"sealed": True},
    _mirror(external={"api": "$JS.API", "deliver": "x"}),
    _mirror(external={"api": "$JS.hub.API", "deliver": "x.*"}),
    _mirror(external={"api": "a.*", "deliver": ""}),
    {"sources": [{"name": "ORIGIN"}, {"name": "ORIGIN"}]},
    {"sources": [{"name": "a.b"}]},
    {"sources": [{}]},
    {"sources": [None]},
    _source(filter_subject="o.a", subject_transforms=[_CHANGE]),
    _source(subject_transforms=[{"src": "a..b", "dest": "x"}]),
    _source(subject_transforms=[{"src": "a.*", "dest": "x.$2"}]),
    _source(subject_transforms=[_CHANGE, {"src": "a.b", "dest": "y"}]),
    {**_source(), "max_msg_size": 10},
    _source(consumer={"name": "c"}),
    _source(external={"api": "$JS.hub.API", "deliver": "x.*"}),
    {**_source(), "subjects": ["x"]},
    {"subjects": [">"]},
    {"subjects": ["$JS.API.x"]},
    {"subjects": ["*.EVENT.>"]},
    {"subjects": ["$SYS.x"]},
    {"subjects": ["$JSC.x"]},
    {"subjects": ["$NRG.a"]},
    {"subjects": ["*.x"]},
    {"subjects": ["*"]},
    {"subjects": ["*.>"]},
    {"subjects": ["a.*", "a.b"]},
    {"subjects": ["a", "a"]},
    {"subjects": ["a..b"]},
    {"subjects": ["a b"]},
    {"subjects": [""]},
    {"subjects": ["a.>.b"]},
    {"subjects": ["o.x"]},
    {"subjects": ["r.>"], "republish": {"src": "r.>", "dest": "r.x.>"}},
    {"subjects": ["r.>"], "republish": {"src": "a.*", "dest": "b.>"}},
    {"subjects": ["r.>"], "republish": {"dest": "b.>"}},
    {"subjects": ["r.>"], "republish": {"dest": "b.>"}, "pedantic": True},
    {"subjects": ["r.>"], "republish": {"src": ">", "dest": ">"}},
    {
        "subjects": ["r.>"],
        "republish": {"src": ">", "dest": ">"},
        "subject_transform": {"src": "r.>", "dest": "z.>"},
    },
    {"subjects": ["r.>"], "republish": {}},
    {"placement": {}},
    {"placement": {"cluster": "x"}},
    {"placement": {"preferred": "x"}},
    {"max_consumers": -5},
    {"consumer_limits": {"max_ack_pending": -1}},
    {"allow_batched": True},
    {"allow_atomic": True},
    {"retention": "workqueue"},
    {"compression": "s2"},
    {"metadata": {"_nats.ver": "1", "_nats.x": "y", "b": "c"}},
    {"max_msg_size": -7},
    {"subject_transform": {"src": "a..b", "dest": "b"}},
    {"subject_transform": {"src": "a.*", "dest": "b.$2"}},
    {"subject_transform": {"src": "a.*", "dest": "b.{{foo(1)}}"}},
    {"max_bytes": 2**62},
    {"storage": "memory", "max_bytes": 2**62},
]
