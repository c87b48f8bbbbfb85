"""What a consumer remembers: snapshot and notes say the same."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from jetstream.consumer import state
from jetstream.consumer.state import Head
from tests.consumer.builders import Rig, seqs_of

SECOND = 1_000_000_000
numbers = st.integers(0, 2**63)


@given(values=st.lists(numbers, min_size=7, max_size=7), seqs=st.lists(st.integers(1, 90)))
def test_operations_come_back_as_they_were(values: list[int], seqs: list[int]) -> None:
    head = Head(*values)
    note = (
        state.delivered(array("Q", seqs), 5, 7)
        + state.pair(b"N", 1, 2)
        + state.runs(b"S", array("Q", seqs))
        + state.CLEARED
        + state.head(head)
    )
    delivered, delayed, settled, cleared, last = state.operations(note)
    assert (list(delivered.seqs), delivered.first, delivered.second) == (seqs, 7, 5)
    assert (delayed.what, delayed.first, delayed.second) == (b"N", 1, 2)
    assert list(settled.seqs) == seqs
    assert cleared.what == b"C"
    assert last.head == head


def test_counts_delays_and_floors_survive_a_restart() -> None:
    rig = Rig(ack_wait=10 * SECOND, max_deliver=3)
    rig.publish(*["s.a"] * 6)
    rig.pull(5)
    rig.ack(1, 3)
    rig.ack(2, body=b"-NAK")
    rig.pull(1)
    rig.ack(4, body=b"-NAK 5s")
    before = rig.info()
    rig.restart()
    assert rig.info() == before
    assert seqs_of(rig.pull(9, expires=60 * SECOND)) == [6]
    assert seqs_of(rig.wait(5.1)) == [4]
    assert rig.info().num_ack_pending == 4


def test_a_snapshot_alone_is_enough() -> None:
    rig = Rig(ack_wait=10 * SECOND)
    rig.publish(*["s.a"] * 6)
    rig.pull(4)
    rig.ack(2, body=b"-NAK")
    rig.ack(1)
    before = rig.info()
    rig.snapshot, rig.journal = rig.consumer.snapshot(), []
    rig.restart()
    assert rig.info() == before
    rig.wait(0.1)
    assert seqs_of(rig.pull(1)) == [2]


def test_max_deliver_holds_across_restarts() -> None:
    rig = Rig(ack_wait=SECOND, max_deliver=2)
    rig.publish("s.a")
    rig.pull(1)
    rig.restart()
    assert seqs_of(rig.pull(1, expires=60 * SECOND)) == []
    assert seqs_of(rig.wait(1.1)) == [1]
    rig.restart()
    rig.pull(1, expires=60 * SECOND)
    assert rig.wait(30) == []
    assert rig.info().num_redelivered == 1


def test_what_the_log_lost_is_delivered_when_it_is_written_again() -> None:
    rig = Rig()
    rig.publish("s.a", "s.b", "s.c")
    rig.pull(3)
    rig.ack(1)
    kept = rig.store
    rig.store = type(kept)()
    rig.publish("s.a")
    rig.restart()
    assert rig.info().delivered.stream_seq == 1
    rig.publish("s.x")
    assert seqs_of(rig.pull(5)) == [2]


def test_last_per_subject_goes_on_with_its_list() -> None:
    rig = Rig(deliver_policy="last_per_subject", filter_subject="s.>")
    rig.publish("s.a", "s.b", "s.c", "s.a")
    assert seqs_of(rig.pull(1)) == [2]
    rig.snapshot, rig.journal = rig.consumer.snapshot(), []
    rig.restart()
    assert rig.info().num_pending == 2
    assert seqs_of(rig.pull(5)) == [3, 4]


def test_nothing_is_noted_when_nothing_changed() -> None:
    rig = Rig()
    rig.pull(1)
    assert rig.effects.state_delta == b""
    rig.publish("s.a")
    rig.turn()
    assert rig.effects.state_delta
    rig.turn()
    assert rig.effects.state_delta == b""
