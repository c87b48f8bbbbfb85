"""Offsets, cuts and predicates, without Spark and without a server."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.errors import JetStreamError
from jetstream.spark.offsets import Mark, State, check_loss, from_json, lag, limited_end, to_json
from jetstream.spark.options import BadOption, Options
from jetstream.spark.partitions import balanced_cuts, part_count, ranges
from jetstream.spark.rows import subject_regex
from jetstream.spark.where import pushed, terms


def a_state(first: int = 1, last: int = 100, messages: int = 100, created: str = "c") -> State:
    return State("S", created, first, last, messages, messages * 200)


def test_an_offset_survives_the_checkpoint() -> None:
    offset = {"S": Mark(7, "c", 3, (2, 4)), "T": Mark(0, "d")}
    assert from_json(to_json(offset)) == offset


def test_an_unknown_offset_is_refused() -> None:
    with pytest.raises(JetStreamError, match="an offset we do not know"):
        from_json({"v": 9})


def test_what_counts_as_loss() -> None:
    assert check_loss(Mark(10, "c"), a_state(first=11, messages=90), 11) is None
    assert str(check_loss(Mark(10, "c"), a_state(first=20, messages=81), 11)).startswith(
        "stream S: sequences 11 to 19 (9) can no longer be read"
    )
    assert "created again" in str(check_loss(Mark(10, "old"), a_state(), 11))
    assert "older state" in str(check_loss(Mark(200, "c"), a_state(), 201))


def test_an_emptied_stream_has_lost_what_was_not_read() -> None:
    empty = a_state(first=101, last=100, messages=0)
    assert check_loss(Mark(100, "c"), empty, 101) is None
    loss = check_loss(Mark(90, "c"), empty, 91)
    assert loss is not None and (loss.first, loss.last) == (91, 100)


def test_limits_count_from_what_still_exists() -> None:
    assert limited_end(0, a_state(), 30, 0) == 30
    assert limited_end(0, a_state(first=51, messages=50), 30, 0) == 80
    assert limited_end(0, a_state(), 0, 2000) == 10
    assert limited_end(100, a_state(), 30, 0) == 100


def test_lag_is_counted_over_all_streams() -> None:
    assert lag({"S": Mark(5, "c")}, {"S": Mark(15, "c"), "T": Mark(3, "d")}) == 13


@given(lo=st.integers(1, 1000), size=st.integers(1, 5000), parts=st.integers(1, 40))
def test_ranges_cover_everything_once(lo: int, size: int, parts: int) -> None:
    cut = ranges("S", lo, lo + size - 1, parts)
    assert cut[0].lo == lo and cut[-1].hi == lo + size - 1
    assert all(b.lo == a.hi + 1 for a, b in pairwise(cut))
    assert len(cut) == min(parts, size)


@given(seqs=st.sets(st.integers(1, 20_000), min_size=200, max_size=400), parts=st.integers(2, 6))
def test_cuts_follow_the_messages_where_a_stream_is_sparse(seqs: set[int], parts: int) -> None:
    cuts = balanced_cuts(1, 20_000, parts, lambda seq: sum(s >= seq for s in seqs))
    counts = [sum(r.lo <= s <= r.hi for s in seqs) for r in ranges("S", 1, 20_000, parts, cuts)]
    assert sum(counts) == len(seqs)
    assert max(counts) <= 2 * len(seqs) / parts


def test_how_many_partitions() -> None:
    assert part_count(1000, 8) == 1
    assert part_count(1_000_000, 8) == 8
    assert part_count(1000, 8, least=4) == 4
    assert part_count(1000, 8, rows_max=100) == 10
    assert part_count(3, 8, least=10) == 3


def test_predicates_become_options() -> None:
    assert pushed("seq > 100 AND seq <= 200") == {
        "startingOffsets": "101",
        "failOnDataLoss": "false",
        "endingOffsets": "200",
    }
    assert pushed("subject LIKE 'orders.eu.%'") == {"filterSubjects": "orders.eu.>"}
    assert pushed("subject LIKE 'orders.eu%' and data is not null") == {
        "filterSubjects": "orders.>"
    }
    assert pushed("subject in ('a.b', 'c')") == {"filterSubjects": "a.b,c"}
    assert pushed("time >= '2026-01-02 03:04:05'") == {"startingTimestamp": "2026-01-02T03:04:05Z"}
    assert pushed("seq between 3 and 5 and subject = 'x'", streaming=True) == {
        "startingOffsets": "3",
        "failOnDataLoss": "false",
        "filterSubjects": "x",
    }


def test_what_is_not_understood_is_not_pushed() -> None:
    for where in (
        "seq > 1 OR seq < 3",
        "seq + 1 > 5",
        "subject LIKE '%.x'",
        "subject = 'a.*'",
        "not seq > 3",
    ):
        assert pushed(where) == {}, where
    assert terms("a = 'x and y' AND (b or c)") == ["a = 'x and y'", "b or c"]


def test_filters_as_an_expression_match_as_the_server_does() -> None:
    from jetstream.subjects.match import matches

    subjects = ["a", "a.b", "a.b.c", "a.bx", "$KV.B.k", "a+b", "x.y"]
    for filters in (("a.*",), ("a.>",), (">",), ("a", "x.y"), ("$KV.B.>",), ("a+b",), ("*.b.*",)):
        pattern = re.compile(subject_regex(filters))
        for subject in subjects:
            expected = any(matches(f, subject) for f in filters)
            assert (pattern.match(subject) is not None) == expected, (filters, subject)


def test_options_say_what_is_wrong() -> None:
    for given_, text in (
        ({"startingofset": "1"}, "did you mean startingOffsets"),
        ({"readmode": "fast"}, "is not one of auto, file, bulk, consumer, direct"),
        ({"failondataloss": "maybe"}, "neither true nor false"),
        ({"maxbytespertrigger": "lots"}, "is not a size like 64m"),
        ({"stream": "a.b"}, "is not the name of a stream"),
        ({"startingoffsets": "first"}, "is not earliest, latest, a sequence"),
        ({"creds": "/no/such/file"}, "no such file"),
        ({"onCommit": "ack", "stream": "S"}, "needs option consumer"),
    ):
        from jetstream.spark.plan import source_config

        with pytest.raises(BadOption, match=text):
            source_config(Options({"stream": "S"} | given_, "s"))
