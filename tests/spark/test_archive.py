"""A stream as a table: exact commits, readable by anyone, one table with the live tail."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jetstream.client.pipe import header_block
from jetstream.spark.archive import Archiver, compact, describe
from jetstream.spark.control import Control
from jetstream.spark.offsets import DataLoss
from jetstream.spark.readers import read_consumer
from jetstream.spark.tables import open_table

pytestmark = pytest.mark.spark

Make = Callable[..., Any]
KINDS = ["parquet", "delta", "iceberg"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_goes_on_where_it_was_and_reads_as_one_table(
    a_stream: Make,
    fill: Make,
    publish: Make,
    table: Make,
    control: Control,
    tmp_path: Path,
    kind: str,
) -> None:
    name = a_stream()
    fill(name, 300)
    publish([(f"{name.lower()}.h", b"x")], header_block({"A": "b"}))
    where = str(tmp_path / "lake")
    archiver = Archiver(control, name, where, kind, read_consumer)
    done = archiver.run(rows_per_commit=100)
    assert (done.first, done.last, done.rows) == (1, 301, 301)
    assert archiver.run().rows == 0
    columns = "seq,subject,data,time_ns,raw_headers"
    live = [tuple(r) for r in table(name, columns=columns).orderBy("seq").collect()]
    control.purge(name, 250)
    fill(name, 20)
    options = {"archive": where, "archiveFormat": kind, "columns": columns}
    rows = [tuple(r) for r in table(name, **options).orderBy("seq").collect()]
    assert rows[:301] == live
    assert [r[0] for r in rows] == list(range(1, 322))
    assert table(name, **options, filterSubjects=f"{name.lower()}.7").count() == 32
    assert [
        r.seq
        for r in table(name, **options, startingOffsets=299, endingOffsets=303)
        .orderBy("seq")
        .collect()
    ] == [299, 300, 301, 302, 303]
    assert archiver.run().rows == 20
    assert describe(where, kind, name)["rows"] == 321


def test_a_repeated_commit_changes_nothing(
    a_stream: Make, fill: Make, control: Control, tmp_path: Path
) -> None:
    name = a_stream()
    fill(name, 10)
    for kind in KINDS:
        archiver = Archiver(control, name, str(tmp_path / kind), kind, read_consumer)
        archiver.run()
        state = control.state(name)
        archiver._commit_range(state, 1, 10)
        assert sum(f.rows for f in archiver.table.files()) == 10, kind


def test_what_left_before_it_was_archived_is_named(
    a_stream: Make, fill: Make, table: Make, control: Control, tmp_path: Path
) -> None:
    name = a_stream()
    fill(name, 10)
    archiver = Archiver(control, name, str(tmp_path), "parquet", read_consumer)
    archiver.run()
    fill(name, 10)
    control.purge(name, 15)
    with pytest.raises(Exception, match="sequences 11 to 15"):
        table(name, archive=str(tmp_path)).count()
    with pytest.raises(DataLoss, match="sequences 11 to 15 left the stream"):
        archiver.run()
    assert archiver.run(allow_gap=True).rows == 5


def test_small_files_are_merged_and_others_read_them(
    a_stream: Make, fill: Make, table: Make, control: Control, tmp_path: Path
) -> None:
    name = a_stream()
    fill(name, 100)
    Archiver(control, name, str(tmp_path), "parquet", read_consumer).run(rows_per_commit=10)
    assert compact(str(tmp_path), "parquet") == (10, 1)
    assert sum(f.rows for f in open_table(str(tmp_path), "parquet").files()) == 100
    assert table(name, archive=str(tmp_path)).count() == 100
    script = (
        "import duckdb, pandas, sys\n"
        f"p = {str(tmp_path)!r}\n"
        "print(duckdb.sql(f\"SELECT count(*), max(seq) FROM '{p}/**/*.parquet'\").fetchall())\n"
        "print(len(pandas.read_parquet(p, columns=['seq', 'day'])))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout.split("\n")[:2] == ["[(100, 100)]", "100"]
