"""Again, or never: ack_wait, backoff, max_deliver, and messages that are gone."""

from array import array

from jetstream.consumer.redelivery import is_over
from jetstream.schema.advisory_consumer import MaxDeliver, MessageTerminated
from tests.consumer.builders import Rig, counts_of, seqs_of

SECOND = 1_000_000_000


def test_max_deliver_counts_deliveries() -> None:
    assert is_over(1, 1)
    assert not is_over(1, 2)
    assert not is_over(1_000_000, -1)


def test_an_unacked_message_comes_again_after_ack_wait() -> None:
    rig = Rig(ack_wait=2 * SECOND)
    rig.publish("s.a", "s.b")
    rig.pull(1)
    rig.now += SECOND // 2
    rig.pull(1)
    rig.pull(5)
    assert rig.wait(1.4) == []
    out = rig.wait(0.2)
    assert (seqs_of(out), counts_of(out)) == ([1], [2])
    assert seqs_of(rig.wait(0.5)) == [2]


def test_backoff_sets_the_wait_of_each_attempt() -> None:
    rig = Rig(backoff=[SECOND, 3 * SECOND])
    rig.publish("s.a")
    rig.pull(1)
    rig.pull(9)
    times = []
    start = rig.now
    for _ in range(90):
        if rig.wait(0.1):
            times.append(round((rig.now - start) / SECOND, 1))
    assert times == [1.0, 4.0, 7.0]


def test_a_message_is_given_up_when_it_was_delivered_max_deliver_times() -> None:
    rig = Rig(max_deliver=2, ack_wait=SECOND)
    rig.publish("s.a")
    rig.pull(1)
    rig.pull(5)
    assert counts_of(rig.wait(1.1)) == [2]
    assert rig.wait(5) == []
    (event,) = rig.effects.advisories
    assert isinstance(event, MaxDeliver)
    assert (event.stream_seq, event.deliveries) == (1, 2)
    info = rig.info()
    assert (info.num_ack_pending, info.num_redelivered) == (0, 1)
    assert list(rig.effects.settled) == []


def test_a_late_ack_of_a_given_up_message_settles_it() -> None:
    rig = Rig({"retention": "interest"}, max_deliver=1, ack_wait=SECOND)
    rig.publish("s.a")
    rig.pull(1)
    rig.wait(2)
    assert list(rig.consumer.needs(array("Q", [1]))) == [1]
    rig.ack(1)
    assert list(rig.effects.settled) == [1]
    assert list(rig.consumer.needs(array("Q", [1]))) == []


def test_redeliveries_go_on_while_max_ack_pending_is_reached() -> None:
    rig = Rig(max_ack_pending=1, ack_wait=SECOND)
    rig.publish("s.a", "s.b")
    rig.pull(1)
    rig.pull(5)
    assert seqs_of(rig.wait(1.1)) == [1]
    assert seqs_of(rig.ack(1)) == [2]


def test_a_deleted_message_is_terminated_and_the_floor_moves() -> None:
    rig = Rig()
    rig.publish("s.a", "s.b", "s.c")
    rig.pull(2)
    rig.store.remove(1)
    rig.consumer.on_removed(array("Q", [1]), rig.now)
    rig.take()
    (event,) = rig.effects.advisories
    assert isinstance(event, MessageTerminated)
    assert event.reason == "Unacknowledged message was deleted"
    assert rig.info().ack_floor.stream_seq == 1


def test_a_purge_is_quiet_and_moves_the_position() -> None:
    rig = Rig()
    rig.publish(*["s.a"] * 11)
    rig.pull(3)
    rig.store.purge()
    rig.consumer.on_purged(rig.now)
    rig.take()
    assert rig.effects.advisories == []
    info = rig.info()
    assert (info.delivered.consumer_seq, info.delivered.stream_seq) == (3, 11)
    assert (info.ack_floor.consumer_seq, info.ack_floor.stream_seq) == (3, 11)
    assert (info.num_ack_pending, info.num_pending) == (0, 0)


def test_a_message_found_missing_at_redelivery_is_terminated() -> None:
    rig = Rig(ack_wait=SECOND)
    rig.publish("s.a")
    rig.pull(1)
    rig.store.remove(1)
    rig.pull(1)
    assert rig.wait(1.5) == []
    (event,) = rig.effects.advisories
    assert isinstance(event, MessageTerminated)
    assert event.reason == "Message deleted by stream limits"
