"""Pipelines: mistakes with their lines, and real runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetstream.spark.control import Control
from jetstream.spark.nodes import BadPipeline
from jetstream.spark.pipelines import (
    TEMPLATE,
    PipelineFailed,
    Runner,
    check_server,
    control_of,
    order_stop,
    reset,
    status,
)
from jetstream.spark.progress import bucket_config
from jetstream.spark.spec import check
from jetstream.spark.tables import open_table

Make = Callable[..., Any]

GOOD = """\
name: p
sources:
  orders: {stream: ORDERS, format: json, schema: "id long, amount double"}
steps:
  big: {sql: "WITH x AS (SELECT * FROM orders) SELECT id FROM x WHERE amount > 1 -- from nowhere"}
sinks:
  out: {from: big, stream: OUT, subject: out.x}
"""


def _problems(tmp_path: Path, text: str, name: str = "p.yaml") -> list[tuple[int, str]]:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadPipeline) as caught:
        check(path)
    return [(p.line, p.text) for p in caught.value.problems]


def test_a_good_file_passes(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD)
    made = check(tmp_path / "p.yaml")
    assert (made.name, made.sources[0].options, made.sinks[0].where) == (
        "p",
        {"format": "json"},
        "OUT",
    )


def test_the_template_passes(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TEMPLATE.format(name="t", file="t.yaml"))
    assert check(tmp_path / "t.yaml").name == "t"


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("stream: ORDERS", "strem: ORDERS", 3, "say exactly one of stream, kv"),
        ("format: json", "fromat: json", 3, "no option 'fromat'; did you mean format"),
        ("from: big", "from: bag", 7, "no source or step named 'bag'; did you mean big"),
        (
            "SELECT * FROM orders",
            "SELECT * FROM order",
            5,
            "no source or step named 'order'; did you mean orders",
        ),
        ("sinks:", "sink:", 6, "nothing is called 'sink' here; did you mean sinks"),
        ("id long, amount double", "id, amount", 3, "schema is not like"),
        ("WHERE amount > 1", "WHERE (amount > 1", 5, "parentheses"),
        ("name: p", "trigger: soon", 1, "'soon' is not a duration"),
        ("name: p", "name: p\nname: q", 2, "name stands here twice"),
        ('{sql: "', '{python: "no.py:f", from: orders, dedup: "', 5, "no such file no.py"),
    ],
)
def test_a_mistake_is_shown_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, text: str
) -> None:
    assert old in GOOD
    problems = _problems(tmp_path, GOOD.replace(old, new, 1))
    assert any(at == line and text in told for at, told in problems), problems


def test_a_python_file_is_checked_the_same_way(tmp_path: Path) -> None:
    good = (
        "def shout(spark, orders):\n    return orders.selectExpr('upper(data) AS data')\n\n"
        "pipeline = {\n"
        "    'name': 'p',\n"
        "    'sources': {'orders': {'stream': 'ORDERS'}},\n"
        "    'steps': {'loud': {'python': shout, 'from': ['orders']}},\n"
        "    'sinks': {'out': {'from': 'loud', 'stream': 'OUT', 'subject': 'out.x'}},\n"
        "}\n"
    )
    (tmp_path / "good.py").write_text(good)
    assert callable(check(tmp_path / "good.py").steps[0].function)
    assert _problems(tmp_path, good.replace("'from': 'loud'", "'from': 'lod'"), "bad.py")[0][0] == 8
    assert _problems(tmp_path, good.replace("'name': 'p'", "'name': 1/0"), "err.py")[0][0] == 5
    assert _problems(tmp_path, good.replace("pipeline = {", "pipeline = {{"), "syn.py")


def _run(text: str, spark: Any, tmp_path: Path, **options: Any) -> Runner:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    runner = Runner(check(path), spark, once=options.pop("once", True))
    runner.start()
    runner.watch(
        options.pop("on_event", lambda n, e: None), options.pop("should_stop", lambda: False)
    )
    return runner


@pytest.mark.spark
def test_a_pipeline_with_expectations_and_many_sinks(
    spark: Any, server: Any, a_stream: Make, publish: Make, control: Control, tmp_path: Path
) -> None:
    source, target, dead = a_stream(), a_stream(), a_stream()
    control.create_stream(bucket_config(f"K{source}"))
    low = source.lower()
    amounts = [5, 50, 500, -1, None]
    publish(
        [(f"{low}.x", json.dumps({"id": i, "amount": a}).encode()) for i, a in enumerate(amounts)]
    )
    (tmp_path / "steps.py").write_text(
        "def double(spark, good):\n    return good.selectExpr('id', 'amount * 2 AS amount')\n"
    )
    text = f"""\
name: shop
servers: {server.url}
checkpoint: {tmp_path}/cp
dead_letter: {dead.lower()}.bad
sources:
  orders: {{stream: {source}, format: json, schema: "id long, amount double"}}
steps:
  good:
    sql: SELECT id, amount FROM orders
    expect:
      known: {{check: amount IS NOT NULL, otherwise: drop}}
      positive: {{check: amount > 0, otherwise: deadletter}}
  doubled: {{python: steps.py:double, from: good}}
sinks:
  out: {{from: doubled, stream: {target}, subject: {target.lower()}.x}}
  table: {{from: good, parquet: {tmp_path}/lake}}
  delta: {{from: good, delta: {tmp_path}/delta}}
  latest: {{from: keyed, kv: K{source}}}
"""
    text = text.replace(
        "sinks:", '  keyed: {sql: "SELECT CAST(id AS STRING) AS key, amount FROM good"}\nsinks:'
    )
    events: list[str] = []
    for _ in range(2):
        runner = _run(text, spark, tmp_path, on_event=lambda n, e: events.append(n))
    assert control.state(target).messages == 3
    assert control.state(dead).messages == 1
    assert sum(f.rows for f in open_table(f"{tmp_path}/lake", "parquet").files()) == 3
    assert sum(f.rows for f in open_table(f"{tmp_path}/delta", "delta").files()) == 3
    assert control.state(f"KV_K{source}").messages == 3
    assert {"out", "table", "delta", "latest", "good_dead"} <= set(events)
    [record] = [r for r in status(control, "spark_progress") if r["name"] == "shop"]
    assert record["state"] == "finished"
    assert runner.record["queries"].keys() >= {"out"} or record["queries"] == {}
    made = check(tmp_path / "run.yaml")
    reset(made, control)
    assert not (tmp_path / "cp").exists()


@pytest.mark.spark
def test_a_broken_expectation_fails_the_pipeline_by_name(
    spark: Any, server: Any, a_stream: Make, fill: Make, tmp_path: Path
) -> None:
    source = a_stream()
    fill(source, 3)
    text = f"""\
name: strict
servers: {server.url}
checkpoint: {tmp_path}/cp
sources:
  things: {{stream: {source}, format: json, schema: "id long"}}
steps:
  small: {{sql: SELECT id FROM things, expect: {{tiny: id < 2}}}}
sinks:
  out: {{from: small, noop: }}
"""
    with pytest.raises(PipelineFailed, match=r"expectation tiny of strict\.small failed"):
        _run(text, spark, tmp_path)


@pytest.mark.spark
def test_a_running_pipeline_stops_when_it_is_told_and_shows_its_lag(
    spark: Any, server: Any, a_stream: Make, fill: Make, control: Control, tmp_path: Path
) -> None:
    source, target = a_stream(), a_stream()
    fill(source, 50)
    text = f"""\
name: live
servers: {server.url}
checkpoint: {tmp_path}/cp
sources:
  things: {{stream: {source}}}
sinks:
  out: {{from: moved, stream: {target}}}
steps:
  moved: {{sql: "SELECT '{target.lower()}.x' AS subject, data FROM things"}}
"""
    seen: list[dict[str, Any]] = []

    def on_event(name: str, event: dict[str, Any]) -> None:
        seen.append(event)
        order_stop(control, "spark_progress", "live")

    runner = _run(text, spark, tmp_path, once=False, on_event=on_event)
    assert runner.record["state"] == "stopped"
    assert control.state(target).messages == 50
    assert seen[0]["lag"] == 0 and seen[0]["read_mode"] == "consumer"


@pytest.mark.spark
def test_missing_streams_are_found_before_spark_starts(server: Any, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD + f"servers: {server.url}\n")
    made = check(tmp_path / "p.yaml")
    told = check_server(made, control_of(made))
    assert told == [
        (3, "orders: there is no stream named 'ORDERS'"),
        (7, "out: there is no stream named 'OUT'"),
    ]


@pytest.mark.spark
def test_totals_over_a_stream_end_in_a_bucket(
    spark: Any, server: Any, a_stream: Make, publish: Make, control: Control, tmp_path: Path
) -> None:
    source = a_stream()
    control.create_stream(bucket_config(f"T{source}"))
    rows = [{"who": who, "amount": amount} for who, amount in (("a", 1), ("b", 2), ("a", 4))]
    publish([(f"{source.lower()}.x", json.dumps(row).encode()) for row in rows])
    text = f"""\
name: totals
servers: {server.url}
checkpoint: {tmp_path}/cp
sources:
  orders: {{stream: {source}, format: json, schema: "who string, amount long"}}
steps:
  totals: {{sql: "SELECT who AS key, sum(amount) AS total FROM orders GROUP BY who"}}
sinks:
  out: {{from: totals, kv: T{source}, output: update}}
"""
    _run(text, spark, tmp_path)
    publish([(f"{source.lower()}.x", b'{"who": "b", "amount": 10}')])
    _run(text, spark, tmp_path)
    told = {}
    for key in ("a", "b"):
        found = control.last_message(f"KV_T{source}", f"$KV.T{source}.{key}")
        assert found is not None
        told[key] = json.loads(found["data"])["total"]
    assert told == {"a": 5, "b": 12}
