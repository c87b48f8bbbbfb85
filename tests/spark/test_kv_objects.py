"""Buckets and objects as tables, and back."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from jetstream.client.pipe import header_block
from jetstream.spark.control import Control
from jetstream.spark.progress import bucket_config

pytestmark = pytest.mark.spark

Make = Callable[..., Any]
_numbers = itertools.count(1)


@pytest.fixture
def bucket(control: Control) -> Any:
    name = f"B{next(_numbers)}"
    control.create_stream(bucket_config(name, history=5))
    return name


@pytest.fixture
def store(control: Control) -> str:
    name = f"O{next(_numbers)}"
    control.create_stream(
        {
            "name": f"OBJ_{name}",
            "subjects": [f"$O.{name}.C.>", f"$O.{name}.M.>"],
            "discard": "new",
            "allow_rollup_hdrs": True,
            "allow_direct": True,
        }
    )
    return name


def _entries(spark: Any, server: Any, bucket: str, **options: Any) -> list[Any]:
    reader = spark.read.format("jetstream_kv").option("servers", server.url).options(**options)
    return sorted(
        tuple(r)
        for r in reader.load(bucket).select("key", "value", "revision", "operation").collect()
    )


def test_a_bucket_is_its_latest_values(spark: Any, server: Any, bucket: str, publish: Make) -> None:
    front = f"$KV.{bucket}"
    publish(
        [(f"{front}.a", b"1"), (f"{front}.b", b"2"), (f"{front}.a", b"3"), (f"{front}.c.d", b"4")]
    )
    publish([(f"{front}.b", b"")], header_block({"KV-Operation": "DEL"}))
    assert _entries(spark, server, bucket) == [("a", b"3", 3, "PUT"), ("c.d", b"4", 4, "PUT")]
    assert ("b", b"", 5, "DEL") in _entries(spark, server, bucket, includeDeletes=True)
    assert _entries(spark, server, bucket, asOf=2) == [("a", b"1", 1, "PUT"), ("b", b"2", 2, "PUT")]
    assert _entries(spark, server, bucket, keys="c.>") == [("c.d", b"4", 4, "PUT")]


def test_a_bucket_is_a_change_feed(
    spark: Any, server: Any, bucket: str, publish: Make, tmp_path: Any
) -> None:
    publish([(f"$KV.{bucket}.a", b"1"), (f"$KV.{bucket}.a", b"2")])
    publish([(f"$KV.{bucket}.a", b"")], header_block({"KV-Operation": "DEL"}))
    rows: list[Any] = []
    query = (
        spark.readStream.format("jetstream_kv")
        .option("servers", server.url)
        .load(bucket)
        .writeStream.foreachBatch(lambda df, _: rows.extend(df.collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [(r.key, r.revision, r.operation) for r in rows] == [
        ("a", 1, "PUT"),
        ("a", 2, "PUT"),
        ("a", 3, "DEL"),
    ]


def test_rows_are_put_created_compared_and_deleted(spark: Any, server: Any, bucket: str) -> None:
    def put(sql: str, **options: Any) -> None:
        writer = spark.sql(sql).write.format("jetstream_kv").option("servers", server.url)
        writer.options(**options).option("bucket", bucket).mode("append").save()

    put("SELECT * FROM VALUES ('a', '1'), ('b', '2') AS t(key, value)")
    put("SELECT 'c' AS key, 9 AS n", mode="create")
    with pytest.raises(Exception, match="key c: wrong revision"):
        put("SELECT 'c' AS key, 9 AS n", mode="create")
    [c] = [e for e in _entries(spark, server, bucket) if e[0] == "c"]
    assert c[1] == b'{"n":9}'
    put(f"SELECT 'c' AS key, 'x' AS value, {c[2]} AS revision", mode="update")
    with pytest.raises(Exception, match="key c: wrong revision"):
        put(f"SELECT 'c' AS key, 'y' AS value, {c[2]} AS revision", mode="update")
    put("SELECT 'a' AS key, '' AS value, 'DEL' AS operation")
    assert [e[:2] for e in _entries(spark, server, bucket)] == [("b", b"2"), ("c", b"x")]


def test_objects_are_rows_with_checked_contents(
    spark: Any, server: Any, store: str, control: Control
) -> None:
    body = bytes(range(256)) * 2000
    rows = spark.createDataFrame([("a/b c", body), ("empty", b"")], "name string, content binary")
    for _ in range(2):
        rows.write.format("jetstream_object").option("servers", server.url).option(
            "bucket", store
        ).mode("append").save()
    found = spark.read.format("jetstream_object").option("servers", server.url).load(store)
    stored = {r.name: r for r in found.collect()}
    assert bytes(stored["a/b c"].content) == body
    assert stored["a/b c"].chunks == 4
    assert stored["empty"].size == 0
    # The second put replaced the first: only one set of chunks is left.
    assert control.state(f"OBJ_{store}").messages == 4 + 2
    names = (
        spark.read.format("jetstream_object").option("servers", server.url).option("names", "e*")
    )
    assert [r.name for r in names.schema("name string, size bigint").load(store).collect()] == [
        "empty"
    ]
