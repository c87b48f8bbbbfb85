"""Where a consumer starts and what it sees."""

from array import array

import pytest

from tests.consumer.builders import START, Rig, seqs_of

SECOND = 1_000_000_000


def a_stream(**config: object) -> Rig:
    """Six messages a second apart: a b b a b a."""
    rig = Rig(**config)  # type: ignore[arg-type]
    for subject in ("s.a", "s.b", "s.b", "s.a", "s.b", "s.a"):
        rig.publish(subject)
        rig.now += SECOND
    return rig


TIME = "1970-01-01T00:16:43Z"  # START + 3 s: the fourth message


@pytest.mark.parametrize(
    ("config", "start", "pending", "first"),
    [
        ({}, 0, 6, 1),
        ({"filter_subject": "s.b"}, 0, 3, 2),
        ({"deliver_policy": "last"}, 5, 1, 6),
        ({"deliver_policy": "last", "filter_subject": "s.b"}, 4, 1, 5),
        ({"deliver_policy": "last", "filter_subject": "s.z"}, 0, 0, 0),
        ({"deliver_policy": "new"}, 6, 0, 0),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 3}, 2, 4, 3),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 20}, 19, 0, 0),
        ({"deliver_policy": "by_start_time", "opt_start_time": TIME}, 3, 3, 4),
        ({"deliver_policy": "last_per_subject", "filter_subject": "s.>"}, 4, 2, 5),
        ({"deliver_policy": "last_per_subject", "filter_subjects": ["s.a", "s.b"]}, 4, 2, 5),
    ],
)
def test_the_starting_point(
    config: dict[str, object], start: int, pending: int, first: int
) -> None:
    assert START == 1000 * SECOND
    rig = a_stream(**config)
    info = rig.info()
    assert (info.delivered.stream_seq, info.ack_floor.stream_seq) == (start, start)
    assert info.num_pending == pending
    assert seqs_of(rig.pull(1)) == ([first] if first else [])


def test_last_per_subject_goes_on_with_everything_new() -> None:
    rig = a_stream(deliver_policy="last_per_subject", filter_subject="s.>")
    assert rig.info().num_pending == 2
    rig.publish("s.a", "s.c")
    assert rig.info().num_pending == 4
    assert seqs_of(rig.pull(10)) == [5, 6, 7, 8]


def test_last_per_subject_passes_over_what_was_deleted() -> None:
    rig = a_stream(deliver_policy="last_per_subject", filter_subject="s.>")
    assert rig.consumer
    rig.store.remove(5)
    rig.consumer.on_removed(array("Q", [5]), rig.now)
    assert rig.info().num_pending == 1
    assert seqs_of(rig.pull(10)) == [6]


def test_a_start_beyond_the_end_waits_for_its_sequence() -> None:
    rig = Rig(deliver_policy="by_start_sequence", opt_start_seq=3)
    assert rig.pull(9) == []
    rig.publish("s.a", "s.a")
    assert rig.turn() == []
    rig.publish("s.a")
    assert seqs_of(rig.turn()) == [3]


def test_several_filters_are_merged_in_order() -> None:
    rig = Rig(filter_subjects=["s.a", "s.c"])
    rig.publish("s.a", "s.b", "s.c", "s.a")
    assert seqs_of(rig.pull(9)) == [1, 3, 4]


def test_a_new_filter_counts_from_the_current_position() -> None:
    from jetstream.consumer.config import check_create, check_update
    from jetstream.schema.consumer import ConsumerConfig

    rig = Rig(filter_subject="s.a")
    rig.publish("s.a", "s.b", "s.a", "s.b")
    rig.pull(1)
    given = ConsumerConfig(name="c", durable_name="c", ack_policy="explicit", filter_subject="s.b")
    config = check_update(rig.consumer.config, check_create(given, rig.stream))
    rig.consumer.update(config, rig.now)
    info = rig.info()
    assert (info.num_pending, info.num_ack_pending) == (2, 1)
    assert seqs_of(rig.pull(5)) == [2, 4]


def test_limits_reduce_what_is_pending() -> None:
    rig = a_stream()
    assert rig.info().num_pending == 6
    rig.store.truncate_front(4)
    assert rig.info().num_pending == 3
    assert seqs_of(rig.pull(9)) == [4, 5, 6]
