"""Rows into streams, exactly once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetstream.spark.control import Control

pytestmark = pytest.mark.spark

Make = Callable[..., Any]


def _write(df: Any, server: Any, **options: Any) -> None:
    writer = df.write.format("jetstream").option("servers", server.url).options(**options)
    writer.mode("append").save()


def test_rows_become_messages_with_their_own_subjects(
    spark: Any, server: Any, a_stream: Make, table: Make
) -> None:
    name = a_stream()
    rows = spark.createDataFrame(
        [(f"{name.lower()}.a", b"one"), (f"{name.lower()}.b", b"two")],
        "subject string, data binary",
    )
    _write(rows, server, stream=name)
    stored = {(r.subject, bytes(r.data)) for r in table(name).collect()}
    assert stored == {(f"{name.lower()}.a", b"one"), (f"{name.lower()}.b", b"two")}


def test_other_columns_become_json_and_headers_ids_and_ttl_travel(
    spark: Any, server: Any, a_stream: Make, table: Make
) -> None:
    name = a_stream(allow_msg_ttl=True)
    rows = spark.sql(
        "SELECT 7 AS id, 'x' AS word, CAST(NULL AS INT) AS gone,"
        " map('Color', array('red')) AS headers,"
        " 'my-id' AS msgid, '10s' AS ttl"
    )
    _write(rows, server, subject=f"{name.lower()}.x")
    [row] = table(name, includeHeaders=True).collect()
    assert json.loads(row.data) == {"id": 7, "word": "x"}
    assert row.headers["Color"] == ["red"]
    assert row.headers["Nats-Msg-Id"] == ["my-id"]
    assert row.headers["Nats-TTL"] == ["10s"]


def test_the_same_job_again_stores_nothing_twice(
    spark: Any, server: Any, a_stream: Make, control: Control
) -> None:
    # A window this short is over before the second run: the read-back has to find the rows.
    name = a_stream(duplicate_window=100_000_000)
    rows = spark.range(500).selectExpr(f"'{name.lower()}.x' AS subject", "id")
    for _ in range(2):
        _write(rows, server, stream=name, jobId="nightly")
    assert control.state(name).messages == 500
    _write(rows, server, stream=name)
    assert control.state(name).messages == 1000


def test_content_ids_survive_another_order_of_rows(
    spark: Any, server: Any, a_stream: Make, control: Control
) -> None:
    name = a_stream()
    for ascending in (True, False):
        rows = spark.range(50).coalesce(1).sortWithinPartitions("id", ascending=ascending)
        rows = rows.selectExpr(f"'{name.lower()}.x' AS subject", "id % 25 AS id")
        _write(rows, server, stream=name, jobId="j", messageIds="content")
    assert control.state(name).messages == 50


def test_a_refused_row_is_named_or_goes_to_the_dead_letters(
    spark: Any, server: Any, a_stream: Make, control: Control
) -> None:
    name, dead = a_stream(max_msg_size=200), a_stream()
    rows = spark.createDataFrame(
        [(f"{name.lower()}.ok", b"x"), (f"{name.lower()}.big", b"x" * 1000)],
        "subject string, data binary",
    ).coalesce(1)
    with pytest.raises(Exception, match=rf"row 1 of partition 0, subject '{name.lower()}.big'"):
        _write(rows, server, stream=name)
    _write(rows, server, stream=name, deadLetter=f"{dead.lower()}.x")
    assert control.state(dead).messages == 1


def test_a_subject_that_no_stream_takes_fails_in_time(spark: Any, server: Any) -> None:
    rows = spark.sql("SELECT 'nowhere.at.all' AS subject, 'x' AS data")
    with pytest.raises(Exception, match="no stream takes this subject"):
        _write(rows, server, timeout="1s")


def test_stream_to_stream_is_exact_and_progress_is_in_the_bucket(
    spark: Any, server: Any, a_stream: Make, fill: Make, control: Control, tmp_path: Path
) -> None:
    source, target = a_stream(), a_stream()
    fill(source, 300)

    def run() -> Any:
        query = (
            spark.readStream.format("jetstream")
            .option("servers", server.url)
            .option("maxOffsetsPerTrigger", 100)
            .load(source)
            .selectExpr(
                f"replace(subject, '{source.lower()}', '{target.lower()}') AS subject", "data"
            )
            .writeStream.format("jetstream")
            .option("servers", server.url)
            .option("stream", target)
            .option("checkpointLocation", str(tmp_path / "cp"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    query = run()
    assert control.state(target).messages == 300
    record = control.last_message("KV_spark_progress", f"$KV.spark_progress.query.{query.id}")
    assert record is not None
    assert json.loads(record["data"])["rows"] == 100
    # The last batch forgotten by the checkpoint is written again, and nothing is stored twice.
    last = max((tmp_path / "cp" / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    last.unlink()
    run()
    assert control.state(target).messages == 300


def test_options_that_cannot_work_are_refused_before_anything_is_written(
    spark: Any, server: Any, a_stream: Make
) -> None:
    rows = spark.range(1)
    with pytest.raises(Exception, match="give a column `subject` or the option subject"):
        _write(rows, server, stream=a_stream())
    with pytest.raises(Exception, match="columns id would be lost"):
        _write(rows.selectExpr("id", "'x' AS data", "'s' AS subject"), server)


def test_a_shared_durable_is_acknowledged_after_the_batch(
    spark: Any, a_stream: Make, fill: Make, run_stream: Make, control: Control
) -> None:
    name = a_stream(retention="workqueue")
    control.create_consumer(
        name, {"name": "workers", "durable_name": "workers", "ack_policy": "explicit"}
    )
    fill(name, 30)
    rows, _ = run_stream(name, onCommit="ack", consumer="workers", maxOffsetsPerTrigger=20)
    assert sorted(r.seq for r in rows) == list(range(1, 31))
    assert control.state(name).messages == 0
