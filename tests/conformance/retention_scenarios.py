"""Conversations about retention, consumers and streams together, chains of mirrors, odd input."""

import json

from .feature_scenarios import SCENARIOS
from .stream_scenarios import SECOND, create, put, quietly, scenario
from .talk import Talk

__all__ = ["SCENARIOS"]


def consumer(talk: Talk, stream: str, name: str, **config: object) -> None:
    body = {"stream_name": stream, "config": {"name": name, "durable_name": name, **config}}
    heard = talk.ask(f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{name}", json.dumps(body).encode())
    told = json.loads(heard[1]) if heard else {}
    talk.note("consumer", name, told.get("error"), told.get("num_pending"))


def take(talk: Talk, stream: str, name: str, count: int, ack: bytes = b"+ACK") -> None:
    """Pull and answer each message."""
    # The reference tells its consumers of new messages a little later than it acknowledges them.
    talk.pause(0.15)
    asked = b'{"batch":%d,"no_wait":true}' % count
    talk.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", asked, None, "_INBOX.talk.pull")
    for _ in range(count):
        heard = talk.hear(1.0)
        if heard is None or heard[2].startswith(b"NATS/1.0 4"):
            talk.note("pulled nothing", heard[2] if heard else None)
            return
        talk.note("pulled", heard[0], heard[3])
        if ack:
            talk.ask(heard[1], ack)


@scenario
def interest_retention(talk: Talk) -> None:
    quietly(talk, "IR", subjects=["ir.>"], retention="interest")
    put(talk, "ir.1", {"Nats-Msg-Id": "x"})
    put(talk, "ir.1", {"Nats-Msg-Id": "x"})
    talk.state("IR")
    consumer(talk, "IR", "A", ack_policy="explicit", filter_subject="ir.1")
    consumer(talk, "IR", "B", ack_policy="explicit")
    for subject in ("ir.1", "ir.2", "ir.1"):
        put(talk, subject)
    talk.state("IR")
    take(talk, "IR", "A", 2)
    talk.state("IR")
    take(talk, "IR", "B", 1)
    talk.state("IR")
    take(talk, "IR", "B", 1, b"+TERM")
    talk.state("IR")
    talk.ask("$JS.API.CONSUMER.DELETE.IR.B")
    talk.state("IR")
    put(talk, "ir.2")
    put(talk, "ir.1")
    talk.state("IR")
    talk.ask("$JS.API.CONSUMER.DELETE.IR.A")
    talk.state("IR")
    talk.api("STREAM.DELETE.IR")


@scenario
def workqueue_retention(talk: Talk) -> None:
    quietly(talk, "WQ", subjects=["wq.>"], retention="workqueue", max_msgs=5)
    for i in range(4):
        put(talk, f"wq.{i % 2}", None, b"%d" % i)
    consumer(talk, "WQ", "A", ack_policy="explicit", filter_subject="wq.0")
    consumer(talk, "WQ", "B", ack_policy="explicit", filter_subject="wq.>")
    consumer(talk, "WQ", "C", ack_policy="none", filter_subject="wq.1")
    take(talk, "WQ", "A", 2)
    talk.state("WQ")
    talk.ask("$JS.API.CONSUMER.DELETE.WQ.A")
    talk.state("WQ")
    for i in range(5):
        put(talk, "wq.1", None, b"later %d" % i)
    talk.state("WQ")
    consumer(talk, "WQ", "D", ack_policy="explicit")
    take(talk, "WQ", "D", 2, b"-NAK")
    take(talk, "WQ", "D", 3, b"+TERM")
    talk.state("WQ")
    talk.api("STREAM.DELETE.WQ")


@scenario
def consumer_limits(talk: Talk) -> None:
    quietly(talk, "LC", subjects=["lc.>"])
    consumer(talk, "LC", "A", ack_policy="explicit", max_ack_pending=500)
    base = {"name": "LC", "subjects": ["lc.>"]}
    talk.api("STREAM.UPDATE.LC", {**base, "consumer_limits": {"max_ack_pending": 100}})
    talk.api("STREAM.UPDATE.LC", {**base, "consumer_limits": {"max_ack_pending": 600}})
    talk.api("STREAM.UPDATE.LC", {**base, "max_consumers": 1})
    consumer(talk, "LC", "B", ack_policy="explicit")
    put(talk, "lc.1")
    take(talk, "LC", "A", 1, b"")
    talk.api("STREAM.MSG.DELETE.LC", {"seq": 1})
    put(talk, "lc.1")
    take(talk, "LC", "A", 1, b"")
    talk.api("STREAM.PURGE.LC")
    heard = talk.ask("$JS.API.CONSUMER.INFO.LC.A")
    told = json.loads(heard[1]) if heard else {}
    talk.note([told.get(k) for k in ("num_ack_pending", "num_pending", "num_redelivered")])
    talk.api("STREAM.DELETE.LC")


@scenario
def chains_of_mirrors(talk: Talk) -> None:
    quietly(talk, "CH1", subjects=["ch.>"], allow_direct=True)
    quietly(talk, "CH2", mirror={"name": "CH1"}, max_msgs=2)
    quietly(talk, "CH3", sources=[{"name": "CH2"}], duplicate_window=60 * SECOND)
    talk.pause(0.5)
    for i in range(4):
        put(talk, f"ch.{i}", {"Nats-Msg-Id": f"id{i}"}, b"%d" % i)
        talk.pause(0.3)
    talk.pause(0.8)
    for name in ("CH1", "CH2", "CH3"):
        talk.api(f"STREAM.INFO.{name}")
    talk.stored("CH2", 1, 4)
    talk.stored("CH3", 1, 4)
    talk.ask("$JS.API.STREAM.PURGE.CH1")
    put(talk, "ch.9")
    talk.pause(0.5)
    talk.state("CH2")
    for name in ("CH3", "CH2", "CH1"):
        talk.ask(f"$JS.API.STREAM.DELETE.{name}")


@scenario
def sourced_headers(talk: Talk) -> None:
    quietly(
        talk,
        "SH1",
        subjects=["sh.>"],
        allow_rollup_hdrs=True,
        allow_msg_ttl=True,
        allow_atomic=True,
    )
    quietly(talk, "SH2", sources=[{"name": "SH1"}], allow_rollup_hdrs=True)
    quietly(
        talk,
        "SH3",
        sources=[{"name": "SH1", "opt_start_seq": 3}],
        republish={"src": ">", "dest": "copy.>"},
    )
    changes = [
        {"src": "sh.1", "dest": "x.1"},
        {"src": "sh.2", "dest": ""},
        {"src": "sh.3", "dest": "y"},
    ]
    quietly(talk, "SH4", sources=[{"name": "SH1", "subject_transforms": changes}])
    talk.pause(0.5)
    talk.subscribe("copy.>")
    put(talk, "sh.1", {"A": "b"})
    put(talk, "sh.2", {"Nats-TTL": "100"})
    put(talk, "sh.1", {"Nats-Rollup": "sub"})
    put(talk, "sh.3", {"Nats-Expected-Last-Sequence": "3", "K": "v"})
    put(talk, "sh.4", {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"})
    talk.pause(0.8)
    talk.stored("SH2", 1, 5)
    talk.stored("SH3", 1, 3)
    talk.stored("SH4", 1, 4)
    talk.heard(0.2)
    for name in ("SH4", "SH3", "SH2", "SH1"):
        talk.ask(f"$JS.API.STREAM.DELETE.{name}")


@scenario
def odd_requests(talk: Talk) -> None:
    create(talk, "OD", subjects=["od.>"], metadata={"ü": "<&>"}, description="tab\there")
    talk.api("STREAM.INFO.OD", '{"offset":-5}')
    talk.api("STREAM.INFO.OD", '{"offset":5,"subjects_filter":"od.>"}')
    put(talk, "od.1")
    talk.api("STREAM.INFO.OD", '{"offset":5,"subjects_filter":"od.>"}')
    talk.api("STREAM.INFO.OD", '{"subjects_filter":"nope"}')
    talk.api("STREAM.NAMES", '{"offset":-1,"subject":"od.1"}')
    talk.api("STREAM.PURGE.OD", "junk")
    talk.api("STREAM.PURGE.OD", '{"filter":"a..b"}')
    talk.api("STREAM.MSG.DELETE.OD", '{"seq":0}')
    talk.api("STREAM.MSG.GET.OD", '{"seq":1,"next_by_subj":"od.1"}')
    talk.api("STREAM.UPDATE.OD", "")
    talk.api("STREAM.UPDATE.OD", '{"name":"OD","subjects":["od.>"],"metadata":null}')
    talk.api("STREAM.DELETE.OD", "{}")
    talk.api("STREAM.CREATE.a*b", {"name": "a*b"}, timeout=0.5)
    talk.api("STREAM.CREATE.a\\b", {"name": "a\\b"}, timeout=0.5)
    talk.api("STREAM.CREATE." + "x" * 256, {"name": "x" * 256})
