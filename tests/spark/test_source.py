"""Streams as tables and streams, on real Spark and a real server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetstream.client.pipe import header_block
from jetstream.spark.control import Control

pytestmark = pytest.mark.spark

Make = Callable[..., Any]


def test_the_format_is_found_by_name_and_has_four_columns(
    a_stream: Make, fill: Make, table: Make
) -> None:
    name = a_stream()
    fill(name, 5)
    found = table(name)
    assert found.dtypes == [
        ("subject", "string"),
        ("data", "binary"),
        ("seq", "bigint"),
        ("time", "timestamp"),
    ]
    rows = found.orderBy("seq").collect()
    assert [r.seq for r in rows] == [1, 2, 3, 4, 5]
    assert rows[2].subject == f"{name.lower()}.2"
    assert bytes(rows[2].data) == b'{"id": 2}'


def test_an_empty_stream_is_an_empty_table(a_stream: Make, table: Make) -> None:
    assert table(a_stream()).count() == 0


def test_consumer_and_direct_get_give_identical_rows(
    a_stream: Make, fill: Make, publish: Make, table: Make
) -> None:
    name = a_stream()
    fill(name, 3000)
    publish([(f"{name.lower()}.h", b"with headers")], header_block({"A": "1", "Nats-Msg-Id": "x"}))
    columns = "subject,data,seq,time_ns,raw_headers,msgid,size,stream"
    ways = [
        [
            tuple(r)
            for r in table(name, readMode=mode, columns=columns, minPartitions=3)
            .orderBy("seq")
            .collect()
        ]
        for mode in ("consumer", "direct")
    ]
    assert ways[0] == ways[1]
    assert len(ways[0]) == 3001
    assert ways[0][-1][5:] == ("x", 12, name)


def test_headers_and_tokens_are_columns_on_request(
    a_stream: Make, publish: Make, table: Make
) -> None:
    name = a_stream()
    block = b"NATS/1.0\r\nColor: red\r\nColor: blue\r\nSize: 1\r\n\r\n"
    publish([(f"{name.lower()}.a.b", b"x")], block)
    [row] = table(name, columns="tokens", includeHeaders=True).collect()
    assert row.tokens == [name.lower(), "a", "b"]
    assert row.headers == {"Color": ["red", "blue"], "Size": ["1"]}


def test_a_user_schema_picks_columns_and_reads_text(
    a_stream: Make, fill: Make, table: Make
) -> None:
    name = a_stream()
    fill(name, 2)
    assert [tuple(r) for r in table(name, "seq bigint, data string").orderBy("seq").collect()] == [
        (1, '{"id": 0}'),
        (2, '{"id": 1}'),
    ]


def test_sequences_times_and_subjects_are_pushed_down(
    a_stream: Make, fill: Make, table: Make, control: Control
) -> None:
    name = a_stream()
    fill(name, 100)
    assert sorted(
        r.seq for r in table(name, startingOffsets=91, endingOffsets=95).collect()
    ) == list(range(91, 96))
    assert table(name, filterSubjects=f"{name.lower()}.3,{name.lower()}.4").count() == 20
    middle = control.ask(f"STREAM.MSG.GET.{name}", {"seq": 50})["message"]["time"]
    assert table(name, startingTimestamp=middle).count() == 51
    assert table(name, endingTimestamp=middle).count() == 49


def test_partitions_cover_the_range_once(a_stream: Make, fill: Make, table: Make) -> None:
    name = a_stream()
    fill(name, 1000)
    found = table(name, minPartitions=7)
    assert found.rdd.getNumPartitions() == 7
    assert found.select("seq").distinct().count() == found.count() == 1000


def test_gaps_inside_a_stream_are_not_loss(
    a_stream: Make, fill: Make, table: Make, control: Control
) -> None:
    name = a_stream()
    fill(name, 50)
    for seq in (10, 11, 12, 50):
        control.ask(f"STREAM.MSG.DELETE.{name}", {"seq": seq})
    assert table(name).count() == 46


def test_a_wrong_option_is_named_with_the_right_one(a_stream: Make, table: Make) -> None:
    with pytest.raises(
        Exception, match="no option named 'filtersubject'; did you mean filterSubjects"
    ):
        table(a_stream(), filterSubject="x").count()


def test_a_missing_stream_is_named_with_a_near_one(a_stream: Make, table: Make) -> None:
    name = a_stream()
    with pytest.raises(Exception, match=f"there is no stream named '{name}x'; did you mean"):
        table(f"{name}x").count()


def test_a_start_below_retention_fails_with_the_missing_range(
    a_stream: Make, fill: Make, table: Make, control: Control
) -> None:
    name = a_stream()
    fill(name, 20)
    control.purge(name, 10)
    with pytest.raises(Exception, match=r"sequences 5 to 10 \(6\) can no longer be read"):
        table(name, startingOffsets=5).count()
    assert table(name, startingOffsets=5, failOnDataLoss=False).count() == 10


def test_json_payloads_become_typed_columns(a_stream: Make, fill: Make, table: Make) -> None:
    name = a_stream()
    fill(name, 10)
    found = table(name, "id int, missing string, _seq bigint", format="json")
    assert [tuple(r) for r in found.orderBy("_seq").collect()][:2] == [(0, None, 1), (1, None, 2)]


def test_bad_rows_fail_by_name_or_go_where_they_should(
    a_stream: Make, publish: Make, table: Make, control: Control
) -> None:
    name, dead = a_stream(), a_stream()
    low = name.lower()
    publish([(f"{low}.a", b'{"id": 1}'), (f"{low}.b", b"nonsense"), (f"{low}.c", b'{"id": "x"}')])
    schema = "id int, _error string, _seq bigint"
    with pytest.raises(Exception, match=f"stream {name}, sequence 2: payload is not json"):
        table(name, schema, format="json").collect()
    rows = table(name, schema, format="json", badRows="null").orderBy("_seq").collect()
    assert [r.id for r in rows] == [1, None, None]
    assert rows[0]._error is None and "field id" in rows[2]._error
    assert table(name, schema, format="json", badRows="drop").count() == 1
    letters = {"badRows": "deadletter", "deadLetter": f"{dead.lower()}.x", "format": "json"}
    assert table(name, schema, **letters).count() == 1
    assert table(name, schema, **letters).count() == 1, "the same dead letters are not stored twice"
    assert control.state(dead).messages == 2


def test_csv_and_text_payloads(a_stream: Make, publish: Make, table: Make) -> None:
    name = a_stream()
    publish([(f"{name.lower()}.a", b"1,one"), (f"{name.lower()}.a", b'2,"two, or so"')])
    found = table(name, "n int, word string, _seq bigint", format="csv").orderBy("_seq").collect()
    assert [tuple(r)[:2] for r in found] == [(1, "one"), (2, "two, or so")]
    assert {r.value for r in table(name, format="text").collect()} == {"1,one", '2,"two, or so"'}


def test_several_streams_are_one_table(
    a_stream: Make, fill: Make, table: Make, spark: Any, server: Any
) -> None:
    one, two = a_stream(), a_stream()
    fill(one, 3)
    fill(two, 4)
    reader = (
        spark.read.format("jetstream")
        .option("servers", server.url)
        .option("streams", f"{one},{two}")
    )
    counts = {
        r.stream: r["count"]
        for r in reader.option("columns", "stream,seq").load().groupBy("stream").count().collect()
    }
    assert counts == {one: 3, two: 4}


def test_available_now_keeps_to_the_rate_limit_and_reports_lag(
    a_stream: Make, fill: Make, run_stream: Make
) -> None:
    name = a_stream()
    fill(name, 250)
    rows, query = run_stream(name, maxOffsetsPerTrigger=100)
    assert sorted(r.seq for r in rows) == list(range(1, 251))
    assert [p.numInputRows for p in query.recentProgress if p.numInputRows] == [100, 100, 50]
    latest = json.loads(query.recentProgress[1].sources[0].latestOffset)
    assert latest["streams"][name]["seq"] == 250
    assert latest["readMode"] == "consumer"


def test_a_restarted_query_reads_on_where_it_was(
    a_stream: Make, fill: Make, run_stream: Make
) -> None:
    name = a_stream()
    fill(name, 30)
    assert len(run_stream(name)[0]) == 30
    fill(name, 5, first=30)
    rows, _ = run_stream(name)
    assert sorted(r.seq for r in rows) == [31, 32, 33, 34, 35]


def test_a_failed_batch_is_replayed_with_the_same_partitions(
    a_stream: Make, fill: Make, run_stream: Make
) -> None:
    name = a_stream()
    fill(name, 40)
    seen: list[list[list[int]]] = []

    def fail_once(df: Any, _: int) -> None:
        seen.append([[r.seq for r in part] for part in df.rdd.glom().collect()])
        if len(seen) == 1:
            raise RuntimeError("stop here")

    with pytest.raises(Exception, match="stop here"):
        run_stream(name, sink=fail_once, minPartitions=4)
    fill(name, 10, first=40)
    run_stream(name, sink=fail_once, minPartitions=2)
    assert seen[0] == seen[1], "options changed, messages came, and still the very same rows"
    assert len(seen[0]) == 4


def test_retention_that_overtook_the_checkpoint_fails_loudly(
    a_stream: Make, fill: Make, run_stream: Make, control: Control
) -> None:
    name = a_stream()
    fill(name, 20)
    run_stream(name)
    fill(name, 20)
    control.purge(name, 30)
    with pytest.raises(Exception, match=r"sequences 21 to 30 \(10\) can no longer be read"):
        run_stream(name)
    rows, _ = run_stream(name, failOnDataLoss=False)
    assert [r.seq for r in sorted(rows)] == list(range(31, 41))


def test_a_stream_deleted_and_created_again_is_loss(
    a_stream: Make, fill: Make, run_stream: Make, control: Control
) -> None:
    name = a_stream()
    fill(name, 10)
    run_stream(name)
    config = control.info(name)["config"]
    control.ask(f"STREAM.DELETE.{name}")
    control.create_stream(config)
    fill(name, 12)
    with pytest.raises(Exception, match="was deleted and created again"):
        run_stream(name)
    assert len(run_stream(name, failOnDataLoss=False)[0]) == 12


def test_on_commit_purge_empties_a_work_queue(
    a_stream: Make, fill: Make, run_stream: Make, control: Control
) -> None:
    name = a_stream(retention="workqueue")
    fill(name, 25)
    rows, _ = run_stream(name, onCommit="purge", maxOffsetsPerTrigger=10)
    assert len(rows) == 25
    assert control.state(name).messages == 0


def test_a_filtered_stream_reads_only_its_subjects(
    a_stream: Make, fill: Make, run_stream: Make
) -> None:
    name = a_stream()
    fill(name, 100)
    rows, _ = run_stream(name, filterSubjects=f"{name.lower()}.7")
    assert {r.subject for r in rows} == {f"{name.lower()}.7"}
    assert len(rows) == 10


def test_new_messages_start_a_batch_at_once(
    spark: Any, server: Any, a_stream: Make, fill: Make, tmp_path: Path
) -> None:
    name = a_stream()
    seen: list[int] = []
    query = (
        spark.readStream.format("jetstream")
        .option("servers", server.url)
        .load(name)
        .writeStream.foreachBatch(lambda df, _: seen.extend(r.seq for r in df.collect()))
        .option("checkpointLocation", str(tmp_path / "cp"))
        .start()
    )
    try:
        for round_ in range(3):
            fill(name, 5, first=round_ * 5)
            query.processAllAvailable()
            assert sorted(seen) == list(range(1, 6 + round_ * 5))
    finally:
        query.stop()
