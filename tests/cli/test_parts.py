"""Smaller pure parts: expressions, checks, events, reports, dead letters, jsm's answers."""

import base64
from typing import Any

import pytest

from jetstream.cli import bench_report, checks, dlq, events, jsm
from jetstream.cli.bench_runs import Result
from jetstream.cli.consumer_pages import why_nothing
from jetstream.cli.doctor import optional_parts
from jetstream.cli.expressions import evaluate
from jetstream.cli.graph import Sparkline, bars
from jetstream.cli.problems import Failure
from jetstream.cli.stream_messages import ranges
from jetstream.cli.stream_report import fits, graph
from jetstream.cli.top_data import Rates, pipeline_rows, stream_rows


def test_conditions_are_worked_out_over_plain_data() -> None:
    names = {"state": {"messages": 7, "list": [1, 2]}, "config": {"storage": "file"}}
    assert evaluate('state.messages > 5 and config.storage == "file"', names)
    assert evaluate("state.messages in [7, 8] && not false", names)
    assert evaluate("len(state.list) * 2 == 4 || config.nothing", names)
    assert evaluate('state["messages"] - 7 == 0', names)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "open('x')", "(lambda: 1)()", "nobody > 1", "1 +"]
)
def test_nothing_else_can_be_reached(text: str) -> None:
    with pytest.raises(Failure):
        evaluate(text, {"state": {}})


def test_a_check_is_as_bad_as_its_worst_finding() -> None:
    found = checks.Check(name="ORDERS", kind="stream")
    found.above(checks.Number(name="messages", value=5, warn=10, critical=20), "5 messages")
    assert (found.status, found.code) == ("OK", 0)
    found.above(checks.Number(name="subjects", value=15, warn=10, critical=20), "15 subjects")
    assert (found.status, found.code) == ("WARNING", 1)
    found.critical("gone")
    assert found.code == 2
    assert checks.nagios(found) == (
        "ORDERS CRITICAL Crit:gone Warn:15 subjects | messages=5;10;20 subjects=15;10;20"
    )
    assert 'nats_server_check_stream_messages{item="ORDERS"} 5' in checks.prometheus(found)
    assert checks.as_json(found)["status"] == "CRITICAL"


def test_thresholds_may_run_downwards() -> None:
    found = checks.Check(name="x", kind="x")
    found.above(checks.Number(name="n", value=3, warn=10, critical=5), "3 left")
    assert found.status == "CRITICAL"


def test_events_have_titles_and_subjects() -> None:
    assert events.title("io.nats.jetstream.advisory.v1.stream_action") == "Stream Action"
    flags: dict[str, Any] = {
        "subjects": (),
        "everything": False,
        "js_advisory": True,
        "js_metric": False,
        "srv_advisory": False,
    }
    assert events.subjects(flags, "$JS.EVENT") == ["$JS.EVENT.ADVISORY.>"]
    line = events.short_line({"type": "a.b.max_deliver", "stream": "S", "deliveries": 5})
    assert "[Max Deliver] stream: S, deliveries: 5" in line


def test_latencies_are_told_in_quantiles() -> None:
    results = [
        Result(
            client=1,
            msgs=100,
            bytes=1000,
            start=0.0,
            stop=1.0,
            latencies=[i / 1e6 for i in range(1, 101)],
        ),
        Result(client=2, msgs=100, bytes=1000, start=0.5, stop=2.0, latencies=[]),
    ]
    total = bench_report.summary(results)
    assert (total["msgs"], total["seconds"], total["msgs_per_second"]) == (200, 2.0, 100.0)
    assert total["latency_us"]["p50"] == pytest.approx(51)
    assert total["latency_us"]["max"] == pytest.approx(100)
    assert bench_report.line(1234.5, 2048, {}) == "1,234 msgs/sec ~ 2.0 KiB/sec"


def test_a_dead_letter_tells_its_story() -> None:
    block = (
        b"NATS/1.0\r\nK: v\r\nJsx-Dead-Reason: max_deliver\r\nJsx-Dead-Subject: a.b\r\n"
        b"Jsx-Dead-Seq: 7\r\nJsx-Dead-Consumer: c\r\n\r\n"
    )
    message = {
        "seq": 3,
        "time": "2026-01-01T00:00:00Z",
        "hdrs": base64.b64encode(block).decode(),
        "data": "",
    }
    letter = dlq.letter_of(message)
    assert (letter["reason"], letter["subject"], letter["stream_seq"]) == ("max_deliver", "a.b", 7)
    assert dlq.picked(letter, {"subject": "a.*", "reason": "max_deliver"}, 0)
    assert not dlq.picked(letter, {"consumer": "other"}, 0)


def test_jsm_reads_limits_on_one_line_and_speaks_as_it_did() -> None:
    assert jsm.limits("") == {}
    assert jsm.limits("-1 -1 1m") == {"max_msgs": -1, "max_bytes": -1, "max_age": 60 * 10**9}
    with pytest.raises(Failure):
        jsm.limits("1 2 3 4")
    usage = {
        "memory": 0,
        "storage": 0,
        "streams": 1,
        "limits": {"max_memory": 103 * 10**9, "max_storage": 1_100 * 10**9, "max_streams": -1},
    }
    assert jsm.account_text(usage) == (
        "\nMemory:  0 B of 103 GB\nStorage: 0 B of 1.1 TB\nMsgSets: 1 of Unlimited\n"
    )
    state = jsm.observable_state({"delivered": {"consumer_seq": 0, "stream_seq": 0}})
    assert state["Delivered"] == {"ObsSeq": 1, "SetSeq": 1}
    assert state["Pending"] is None


def a_consumer(**changes: Any) -> dict[str, Any]:
    return {"config": {"ack_wait": 30 * 10**9}, "num_pending": 5, "num_waiting": 0, **changes}


def test_a_consumer_says_why_nothing_comes() -> None:
    full = {"state": {"messages": 10}}
    assert "no pull request" in why_nothing(a_consumer(), full)[0]
    assert why_nothing(a_consumer(num_waiting=1), full) == []
    assert "stream is empty" in why_nothing(a_consumer(), {"state": {"messages": 0}})[0]
    assert "paused" in why_nothing(a_consumer(paused=True, pause_remaining=10**9), full)[0]
    stuck = a_consumer(num_ack_pending=5, config={"max_ack_pending": 5}, num_waiting=1)
    assert "max_ack_pending" in why_nothing(stuck, full)[0]
    push = a_consumer(config={"deliver_subject": "out"})
    assert "nobody subscribes" in why_nothing(push, full)[0]
    assert (
        "everything was delivered"
        in why_nothing(a_consumer(num_pending=0, num_ack_pending=2), full)[0]
    )
    assert "delivered everything" in why_nothing(a_consumer(num_pending=0), full)[0]


def test_streams_are_found_by_description() -> None:
    info = {
        "config": {"name": "A", "sources": [{"name": "B"}], "metadata": {"_nats.req.level": "2"}},
        "state": {"messages": 0, "consumer_count": 3, "last_ts": "1970-01-01T00:00:01Z"},
        "created": "1970-01-01T00:00:00Z",
    }
    hour = 3600 * 10**9
    assert fits(info, {"empty": True, "sourced": True, "idle": hour - 10**9, "api_level": 2}, hour)
    assert not fits(info, {"consumers": 2}, hour)
    assert not fits(info, {"mirrored": True}, hour)
    assert fits(info, {"expression": 'config.name == "A"'}, hour)
    assert '"B" -> "A" [label="source"];' in graph([info])


def test_single_sequences_become_runs() -> None:
    assert ranges([3, 1, 2, 7, 9, 8]) == [(1, 3), (7, 9)]
    assert ranges([]) == []


def test_rates_come_from_two_looks() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    info: dict[str, Any] = {
        "config": {"name": "A"},
        "state": {"messages": 1, "bytes": 10, "last_seq": 100},
    }
    assert stream_rows([info], rates).rows[0][2] == "0"
    now[0] = 2.0
    info["state"]["last_seq"] = 500
    assert stream_rows([info], rates).rows[0][2] == "200"


def test_missing_parts_are_worth_knowing_but_not_broken() -> None:
    found = list(optional_parts(lambda name: False))
    assert {finding.level for finding in found} <= {"note", "ok"}
    assert any("jetstream-py[tui]" in finding.hint for finding in found)


def test_a_rate_is_drawn_as_bars() -> None:
    line = Sparkline()
    for second, count in ((1, 1), (2, 7), (4, 3)):
        for _ in range(count):
            line.count(float(second))
    assert line.text() == "▂█▁▄ 3 msgs/s (most 7)"


def test_pipelines_are_summed_up_over_their_queries() -> None:
    record = {
        "name": "p",
        "state": "running",
        "queries": {"a": {"total": 5, "lag": 1}, "b": {"total": 2}},
    }
    assert pipeline_rows([record]).rows[0][:5] == ("p", "running", "2", "7", "1")
    assert "no pipeline" in pipeline_rows([]).note
    assert bars([0.0, 5.0, 10.0]) == "▁▄█"
