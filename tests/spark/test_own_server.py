"""Our own server: four ways to read, identical rows; bulk writes; everything else as elsewhere."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetstream.client.columns import publishes
from jetstream.client.pipe import Pipe, frame, header_block
from jetstream.spark.bulk import read_bulk, segments, split, write_frame
from jetstream.spark.control import Control
from jetstream.spark.files import file_reader
from jetstream.spark.readers import Reader, Wanted, read_consumer, read_direct

pytestmark = pytest.mark.spark

Make = Callable[..., Any]
COUNT = 50_000


@pytest.fixture(scope="module")
def own(own_server: Any) -> Control:
    control: Control = own_server.control()
    control.create_stream({"name": "BIG", "subjects": ["big.>"], "allow_direct": True})
    head = header_block({"K": "v"})
    with Pipe(control.target) as pipe:
        for at in range(0, COUNT, 1000):
            some = [
                frame(
                    b"big.%d" % (i % 100), b"%d " % i + b"x" * 200, b"", head if i % 7 == 0 else b""
                )
                for i in range(at, at + 999)
            ]
            pipe.send(b"".join(some))
            pipe.request("big.end", b"%d" % at)
    for seq in (10, 11, COUNT - 3):
        control.ask("STREAM.MSG.DELETE.BIG", {"seq": seq})
    until = time.monotonic() + 20
    while not any(p["sealed"] for p in segments(control, "BIG")["segments"]):
        assert time.monotonic() < until, "no segment was sealed"
        time.sleep(0.1)
    return control


def _rows(control: Control, reader: Reader, wanted: Wanted) -> list[tuple[Any, ...]]:
    from jetstream.spark.archive import _READ_AS
    from jetstream.spark.rows import Layout

    layout = Layout(_READ_AS)
    return [
        tuple(row.values())
        for taken in reader(control, wanted)
        for row in layout.batch(taken, "BIG").to_pylist()
    ]


@pytest.mark.parametrize(
    ("lo", "hi", "filters"),
    [
        (1, COUNT, ()),
        (5, 30, ()),
        (COUNT - 100, COUNT, ()),
        (1, COUNT, ("big.7",)),
        (900, 9000, ("big.end", "big.8")),
    ],
)
def test_all_four_ways_give_identical_rows(
    own: Control, own_server: Any, lo: int, hi: int, filters: tuple[str, ...]
) -> None:
    wanted = Wanted("BIG", lo, hi, filters, headers=True)
    expected = _rows(own, read_consumer, wanted)
    assert expected
    readers = [read_bulk, file_reader(str(own_server.folder)), file_reader("/not/here")]
    if len(filters) < 2:
        readers.append(read_direct)
    for reader in readers:
        assert _rows(own, reader, wanted) == expected


def test_spark_takes_the_fastest_way_by_itself(
    spark: Any, own: Control, own_server: Any, run_stream: Make, tmp_path: Path
) -> None:
    table = spark.read.format("jetstream").option("servers", own_server.url).load("BIG")
    assert table.count() == COUNT - 3
    rows, query = run_stream("BIG", servers=own_server.url, filterSubjects="big.end")
    assert len(rows) == COUNT // 1000
    assert json.loads(query.lastProgress.sources[0].latestOffset)["readMode"] == "file"


def test_a_range_is_split_by_what_it_holds(own: Control) -> None:
    rows, cuts = split(own, "BIG", 1, COUNT, 4, ("big.end",))
    assert rows == COUNT // 1000
    counts = [0, 0, 0, 0]
    for row in _rows(own, read_bulk, Wanted("BIG", 1, COUNT, ("big.end",))):
        counts[sum(row[0] > cut for cut in cuts)] += 1
    assert max(counts) - min(counts) <= 2


def test_a_bulk_write_is_one_request_and_one_answer(own: Control) -> None:
    import pyarrow as pa

    own.create_stream({"name": "BW", "subjects": ["bw.>"], "max_msg_size": 100})
    payloads = pa.array([b"a", b"b", b"c" * 200, b"a"])
    subjects = pa.array(["bw.1"] * 4)
    names, texts = subjects.buffers()[1:]
    ends, bodies = payloads.buffers()[1:]
    data = bytes(
        publishes(names, texts, ends, bodies, None, b"", b"job.", b"", b"r.", 0, 4, 0, None)
    )
    with Pipe(own.target) as pipe:
        first = write_frame(pipe, "BW", data)
        again = write_frame(pipe, "BW", data)
        outside = pipe.request("$JSX.API.BULK.WRITE.BW", frame(b"other.x", b"y"))
    assert (first["rows"], first["stored"], first["duplicates"]) == (4, 3, 0)
    assert first["errors"][0]["row"] == 2
    assert (again["stored"], again["duplicates"]) == (0, 3)
    assert own.state("BW").messages == 3
    assert b'"error"' in outside.payload


def test_a_missing_stream_is_refused(own: Control) -> None:
    with Pipe(own.target) as pipe:
        for verb in ("BULK.READ", "SEGMENTS", "SPLIT"):
            answer = json.loads(pipe.request(f"$JSX.API.{verb}.NOPE", b"{}").payload)
            assert answer["error"]["err_code"] == 10059


def test_rows_go_in_exactly_once(spark: Any, own: Control, own_server: Any, tmp_path: Path) -> None:
    own.create_stream({"name": "OUT", "subjects": ["out.>"], "duplicate_window": 200_000_000})
    rows = spark.range(3000).selectExpr("'out.x' AS subject", "id")
    for _ in range(2):
        writer = rows.write.format("jetstream").option("servers", own_server.url)
        writer.option("stream", "OUT").option("jobId", "j").mode("append").save()
    assert own.state("OUT").messages == 3000
