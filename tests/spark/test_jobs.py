"""Bulk jobs over whole streams."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from jetstream.spark import jobs
from jetstream.spark.control import Control

Make = Callable[..., Any]


def test_fields_are_taken_out_everywhere_and_other_payloads_stay() -> None:
    paths = [["email"], ["home", "street"]]
    body = b'{"email":"a@b","home":[{"street":"x","town":"y"}],"n":1}'
    assert json.loads(jobs.redacted(body, paths, None)) == {"home": [{"town": "y"}], "n": 1}
    assert json.loads(jobs.redacted(body, paths, "?"))["email"] == "?"
    assert jobs.redacted(b"not json", paths, None) == b"not json"
    assert jobs.redacted(b'{"n": 1}', paths, None) == b'{"n": 1}', "untouched byte by byte"


@pytest.mark.spark
def test_stats_verify_replay_redact_and_diff(
    spark: Any, server: Any, a_stream: Make, fill: Make, control: Control
) -> None:
    source, copy, clean = a_stream(), a_stream(), a_stream()
    fill(source, 100)
    options = {"servers": server.url}
    counted = jobs.stats(spark, source, options)
    assert len(counted) == 10 and counted[0]["messages"] == 10
    assert jobs.stats(spark, source, options, depth=1)[0]["messages"] == 100
    assert all(check.good for check in jobs.verify(spark, source, options, json_payloads=True))
    sql = "SELECT 'x' AS subject, data FROM messages"
    for stored in (100, 0):
        renamed = f"'{copy.lower()}.x'"
        assert jobs.replay(spark, source, copy, options, sql, renamed, job="once") == stored
    assert not jobs.diff(spark, source, copy, options)["same"]
    assert jobs.diff(spark, copy, copy, options, by="content")["same"]
    assert jobs.redact(spark, source, clean, options, ["id"], subject=f"'{clean.lower()}.x'") == 100
    last = control.last_message(clean, f"{clean.lower()}.x")
    assert last is not None and last["data"] == b"{}"
