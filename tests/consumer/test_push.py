"""Pushing: interest, heartbeats, flow control, rate, replay, inactivity."""

from jetstream.consumer.push import WINDOW_START
from tests.consumer.builders import Rig, seqs_of

SECOND = 1_000_000_000


def a_push(bound: bool = True, **config: object) -> Rig:
    rig = Rig(deliver_subject="out", **config)  # type: ignore[arg-type]
    if bound:
        rig.consumer.on_interest(True, rig.now)
    return rig


def test_nothing_goes_out_while_nobody_listens() -> None:
    rig = a_push(bound=False)
    rig.publish("s.a", "s.b")
    assert rig.turn() == []
    assert not rig.info().push_bound
    rig.consumer.on_interest(True, rig.now)
    (delivery,) = rig.turn()
    assert (delivery.to, list(delivery.seqs), delivery.pending) == (b"out", [1, 2], 1)
    assert rig.info().push_bound


def test_an_idle_consumer_beats() -> None:
    rig = a_push(idle_heartbeat=SECOND)
    rig.publish("s.a")
    rig.turn()
    rig.wait(2.5)
    assert rig.said == [("out", "100 Idle Heartbeat")] * 2
    rig.consumer.on_interest(False, rig.now)
    rig.wait(5)
    assert rig.said == []


def test_flow_control_asks_at_half_and_stops_at_the_full_window() -> None:
    rig = a_push(ack_policy="none", flow_control=True, idle_heartbeat=SECOND)
    rig.publish(*["s.a"] * 400, body=b"x" * 10_000)
    sent = len(seqs_of(rig.turn()))
    assert WINDOW_START // 10_200 <= sent <= WINDOW_START // 10_000 + 1
    (status,) = rig.effects.statuses
    assert status.headers == b"NATS/1.0 100 FlowControl Request\r\n\r\n"
    assert status.reply.startswith(b"$JS.FC.S.c.")
    assert rig.turn() == []
    rig.wait(1.1)
    assert b"Nats-Consumer-Stalled: " + status.reply in rig.effects.statuses[0].headers
    rig.consumer.on_flow_control(b"$JS.FC.S.c.zzzz", rig.now)
    assert rig.turn() == []
    rig.consumer.on_flow_control(status.reply, rig.now)
    more = len(seqs_of(rig.turn()))
    assert more == 400 - sent or more > sent


def test_acks_by_flow_control_settle_what_was_sent_before() -> None:
    rig = a_push(ack_policy="flow_control", max_ack_pending=5)
    rig.publish(*["s.a"] * 8)
    assert seqs_of(rig.turn()) == [1, 2, 3, 4, 5]
    (status,) = rig.effects.statuses
    rig.consumer.on_flow_control(status.reply, rig.now)
    assert seqs_of(rig.turn()) == [6, 7, 8]
    assert rig.info().ack_floor.stream_seq == 5


def test_a_rate_limit_spreads_messages_over_time() -> None:
    rig = a_push(ack_policy="none", rate_limit_bps=8 * 100_000)
    rig.publish(*["s.a"] * 30, body=b"x" * 100_000)
    sent = len(seqs_of(rig.turn()))
    assert 9 <= sent <= 11
    later = len(seqs_of(rig.wait(5)))
    assert 3 <= later <= 6


def test_original_replay_keeps_the_gaps_and_new_ones_come_at_once() -> None:
    rig = Rig(deliver_subject="out", replay_policy="original")
    for gap in (0, 1, 3):
        rig.now += gap * SECOND
        rig.publish("s.a")
    rig.consumer.on_interest(True, rig.now)
    assert seqs_of(rig.turn()) == [1]
    assert rig.wait(0.9) == []
    assert seqs_of(rig.wait(0.2)) == [2]
    assert rig.wait(2.8) == []
    assert seqs_of(rig.wait(0.2)) == [3]
    rig.publish("s.a", "s.a")
    assert seqs_of(rig.turn()) == [4, 5]


def test_a_new_deliver_subject_gets_again_what_was_out() -> None:
    from jetstream.consumer.config import check_create, check_update
    from jetstream.schema.consumer import ConsumerConfig

    rig = a_push()
    rig.publish("s.a", "s.b")
    rig.turn()
    given = ConsumerConfig(name="c", durable_name="c", ack_policy="explicit", deliver_subject="new")
    rig.consumer.update(check_update(rig.consumer.config, check_create(given, rig.stream)), rig.now)
    assert rig.turn() == []
    rig.consumer.on_interest(True, rig.now)
    (delivery,) = rig.turn()
    assert (delivery.to, list(delivery.seqs), list(delivery.deliveries or [])) == (
        b"new",
        [1, 2],
        [2, 2],
    )


def test_an_ephemeral_ends_when_its_listener_left() -> None:
    rig = a_push(durable_name="")
    rig.wait(60)
    assert not rig.effects.deleted
    rig.consumer.on_interest(False, rig.now)
    rig.wait(4.9)
    assert not rig.effects.deleted
    rig.wait(0.2)
    assert rig.effects.deleted


def test_a_pull_ephemeral_lives_as_long_as_somebody_asks() -> None:
    rig = Rig(durable_name="")
    rig.wait(4)
    rig.pull(1, expires=20 * SECOND)
    rig.wait(19)
    assert not rig.effects.deleted
    rig.wait(8)
    assert rig.effects.deleted


def test_a_durable_stays() -> None:
    rig = Rig()
    assert rig.consumer.next_deadline() == 0
    rig.wait(1_000_000)
    assert not rig.effects.deleted


def test_acks_by_flow_control_know_no_ack_wait() -> None:
    rig = a_push(ack_policy="flow_control", max_ack_pending=5, idle_heartbeat=SECOND)
    rig.publish("s.a", "s.a")
    assert seqs_of(rig.turn()) == [1, 2]
    assert rig.wait(1000) == []
    assert rig.info().num_redelivered == 0
