"""The pending table against a plain model, and the ack floor."""

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from jetstream.consumer._pending import PendingTable, fitting, pack_runs, unpack_runs
from tests.consumer.builders import Rig, seqs_of

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "settle", "up_to", "again", "touch", "delay", "queue", "expire"]),
        st.integers(1, 40),
        st.integers(0, 50),
    ),
    max_size=120,
)


@settings(max_examples=300, deadline=None)
@given(steps=steps)
def test_the_table_agrees_with_a_plain_dictionary(steps: list[tuple[str, int, int]]) -> None:
    waits = [10, 20, 40]
    table = PendingTable(waits)
    model: dict[int, list[int]] = {}  # seq -> [consumer_seq, at, deliveries, due, delayed]
    now = high = consumer_seq = 0
    for what, number, passed in steps:
        now += passed
        seq = number
        if what == "add":
            high += 1
            consumer_seq += 1
            table.add(array("Q", [high]), consumer_seq, now)
            model[high] = [consumer_seq, now, 1, now + waits[0], 0]
        elif what == "settle":
            got = table.settle(array("Q", [seq, seq + 2]))
            want = [s for s in (seq, seq + 2) if model.pop(s, None)]
            assert list(got) == want
        elif what == "up_to":
            got = table.settle_up_to(seq)
            assert list(got) == sorted(s for s in model if s <= seq)
            model = {s: v for s, v in model.items() if s > seq}
        elif what == "again":
            count = table.delivered_again(seq, now)
            if seq in model:
                entry = model[seq]
                entry[1], entry[2], entry[4] = now, entry[2] + 1, 0
                entry[3] = now + waits[min(entry[2] - 1, 2)]
                assert count == entry[2]
            else:
                assert count == 0
        elif what == "touch":
            assert table.touch(seq, now) == (seq in model)
            if seq in model:
                entry = model[seq]
                entry[1], entry[4] = now, 0
                entry[3] = now + waits[min(entry[2] - 1, 2)]
        elif what == "delay":
            assert table.delay(seq, now + 7) == (seq in model)
            if seq in model:
                model[seq][3], model[seq][4] = now + 7, 1
        elif what == "queue":
            expected = seq in model and model[seq][4] != 2
            assert table.queue(seq) == expected
            if expected:
                model[seq][4] = 2
        else:
            due = sorted(s for s, v in model.items() if v[4] == 0 and v[3] <= now)
            assert list(table.expire(now)) == due
            for s in due:
                model[s][4] = 2
        assert len(table) == len(model)
        assert list(table.seqs()) == sorted(model)
        assert table.redelivered == sum(1 for v in model.values() if v[2] > 1)
        assert table.delayed == sum(1 for v in model.values() if v[4] == 1)
        assert table.next_due() == min((v[3] for v in model.values() if v[4] == 0), default=0)
        first = min(model, default=0)
        assert table.first() == (first, model[first][0] if first else 0)
    copy = PendingTable(waits)
    copy.load(table.dump())
    assert list(copy.seqs()) == sorted(model)
    for seq, value in model.items():
        found = copy.get(seq)
        assert found is not None and found[:3] == (value[0], value[1], value[2])


@given(seqs=st.lists(st.integers(1, 60)))
def test_runs_pack_and_unpack(seqs: list[int]) -> None:
    assert list(unpack_runs(pack_runs(array("Q", seqs)))) == seqs


def test_a_long_run_packs_into_one_pair() -> None:
    assert len(pack_runs(array("Q", range(5, 505)))) == 16


def test_fitting_counts_what_goes_into_the_room() -> None:
    assert fitting(array("Q", [10, 10, 10]), 2, 24) == (2, 24)
    assert fitting(array("Q", [10]), 0, 9) == (0, 0)


def test_the_floor_stays_until_the_lowest_is_acked() -> None:
    rig = Rig()
    rig.publish("s.a", "s.b", "s.c")
    assert seqs_of(rig.pull(3)) == [1, 2, 3]
    rig.ack(2)
    assert (rig.info().ack_floor.consumer_seq, rig.info().ack_floor.stream_seq) == (0, 0)
    rig.ack(1)
    assert (rig.info().ack_floor.consumer_seq, rig.info().ack_floor.stream_seq) == (2, 2)
    rig.ack(3)
    assert (rig.info().ack_floor.consumer_seq, rig.info().ack_floor.stream_seq) == (3, 3)


def test_a_given_up_message_does_not_move_the_floor() -> None:
    rig = Rig(max_deliver=1, ack_wait=1_000_000_000)
    rig.publish("s.a", "s.b")
    rig.pull(1)
    rig.wait(2)
    info = rig.info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 0)
    assert info.num_redelivered == 0


def test_the_ack_of_redelivered_messages_moves_the_floor_to_the_first_delivery_still_out() -> None:
    rig = Rig(ack_wait=1_000_000_000)
    rig.publish("s.a", "s.b", "s.c")
    rig.pull(2)
    rig.wait(1.5)
    rig.pull(2)
    rig.pull(1)
    rig.ack(1)
    rig.ack(2)
    floor = rig.info().ack_floor
    assert (floor.consumer_seq, floor.stream_seq) == (4, 2)
