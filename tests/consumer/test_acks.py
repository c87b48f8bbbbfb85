"""Every answer a client can give to a delivery."""

import pytest

from jetstream.consumer import acks
from jetstream.consumer.acks import nak_delay, parse_ack, parse_kind
from jetstream.schema.advisory_consumer import AckMetric, MessageNaked, MessageTerminated
from tests.consumer.builders import Rig, counts_of, seqs_of

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("body", "kind", "argument"),
    [
        (b"", acks.ACK, b""),
        (b"+ACK", acks.ACK, b""),
        (b"+OK", acks.ACK, b""),
        (b"-NAK", acks.NAK, b""),
        (b'-NAK {"delay":5}', acks.NAK, b'{"delay":5}'),
        (b"+WPI", acks.PROGRESS, b""),
        (b"+NXT 5", acks.NEXT, b"5"),
        (b"+TERM too old", acks.TERM, b"too old"),
        (b"+FOO", acks.UNKNOWN, b""),
        (b"hello", acks.UNKNOWN, b""),
    ],
)
def test_what_a_body_means(body: bytes, kind: int, argument: bytes) -> None:
    assert parse_kind(body) == (kind, argument)


@pytest.mark.parametrize(
    "subject",
    [
        b"$JS.ACK.S.c.2.7.9.1763239000000000000.3",
        b"$JS.ACK._.NUmM6cRx.S.c.2.7.9.1763239000000000000.3",
        b"$JS.ACK.hub.NUmM6cRx.S.c.2.7.9.1763239000000000000.3.random",
        b"$JS.A.S.c.2.7.9",
    ],
)
def test_all_forms_of_ack_subjects_are_understood(subject: bytes) -> None:
    ack = parse_ack(subject, b"")
    assert ack is not None
    assert (ack.stream, ack.consumer, ack.deliveries) == ("S", "c", 2)
    assert (ack.stream_seq, ack.consumer_seq) == (7, 9)


@pytest.mark.parametrize(
    "subject",
    [b"$JS.ACK.S.c.1.2", b"$JS.ACK.S.c.x.y.z.0.0", b"$JS.ACK.S.c.1.2.3.4.5.6", b"foo.bar"],
)
def test_other_subjects_are_no_acks(subject: bytes) -> None:
    assert parse_ack(subject, b"") is None


@pytest.mark.parametrize(
    ("argument", "delay"),
    [
        (b"", None),
        (b'{"delay": 5000000000}', 5 * SECOND),
        (b"1m2.5s", 62_500_000_000),
        (b"100ms", 100_000_000),
        (b"soon", None),
        (b'{"delay": "x"}', None),
        (b"5", None),
    ],
)
def test_the_delay_of_a_nak(argument: bytes, delay: int | None) -> None:
    assert nak_delay(argument) == delay


def test_an_ack_settles_and_is_confirmed_after_the_disk() -> None:
    rig = Rig()
    rig.publish("s.a")
    rig.pull(1)
    rig.ack(1, reply=b"me")
    assert [(c.to, c.after_sync) for c in rig.effects.replies] == [(b"me", True)]
    assert rig.info().num_ack_pending == 0


def test_acking_again_is_confirmed_and_acking_the_future_is_not() -> None:
    rig = Rig()
    rig.publish("s.a", "s.b")
    rig.pull(1)
    rig.ack(1)
    rig.ack(1, reply=b"me")
    assert len(rig.effects.replies) == 1
    rig.ack(2, reply=b"me")
    assert rig.effects.replies == []


def test_unknown_bodies_change_nothing_but_are_confirmed() -> None:
    rig = Rig()
    rig.publish("s.a")
    rig.pull(1)
    rig.ack(1, body=b"+FOO", reply=b"me")
    assert len(rig.effects.replies) == 1
    assert rig.info().num_ack_pending == 1


def test_a_nak_brings_the_message_back_before_new_ones() -> None:
    rig = Rig()
    rig.publish("s.a", "s.b")
    rig.pull(1)
    rig.ack(1, body=b"-NAK")
    assert [type(event) for event in rig.effects.advisories] == [MessageNaked]
    out = rig.pull(2)
    assert (seqs_of(out), counts_of(out)) == ([1, 2], [2, 1])
    info = rig.info()
    assert (info.delivered.consumer_seq, info.delivered.stream_seq) == (3, 2)
    assert (info.num_redelivered, info.num_pending) == (1, 0)


def test_a_delayed_nak_waits_even_longer_than_ack_wait() -> None:
    rig = Rig(ack_wait=SECOND)
    rig.publish("s.a")
    rig.pull(1)
    rig.ack(1, body=b"-NAK 5s")
    rig.pull(1)
    assert rig.wait(4.9) == []
    assert seqs_of(rig.wait(0.2)) == [1]


def test_a_nak_of_a_settled_message_is_ignored() -> None:
    rig = Rig()
    rig.publish("s.a")
    rig.pull(1)
    rig.ack(1)
    rig.ack(1, body=b"-NAK")
    assert rig.effects.advisories == []
    assert rig.pull(1, no_wait=True) == []


def test_progress_starts_the_wait_again() -> None:
    rig = Rig(ack_wait=SECOND)
    rig.publish("s.a")
    rig.pull(1)
    rig.wait(0.9)
    rig.ack(1, body=b"+WPI")
    rig.pull(1)
    assert rig.wait(0.9) == []
    assert seqs_of(rig.wait(0.2)) == [1]


def test_term_settles_with_a_reason() -> None:
    rig = Rig(stream={"retention": "interest"})
    rig.publish("s.a")
    rig.pull(1)
    rig.ack(1, body=b"+TERM too old")
    (event,) = rig.effects.advisories
    assert isinstance(event, MessageTerminated)
    assert (event.reason, event.stream_seq) == ("too old", 1)
    assert list(rig.effects.settled) == [1]


def test_next_acks_and_asks_for_more() -> None:
    rig = Rig()
    rig.publish("s.a", "s.b", "s.c")
    rig.pull(1)
    out = rig.ack(1, body=b"+NXT 2", reply=b"more")
    assert (out[0].to, seqs_of(out)) == (b"more", [2, 3])
    assert rig.effects.replies == []


def test_ack_all_settles_everything_before_it() -> None:
    rig = Rig(ack_policy="all")
    rig.publish("s.a", "s.b", "s.c")
    rig.pull(3)
    rig.ack(2)
    info = rig.info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (1, 2)


def test_without_acks_the_floor_follows_and_acks_are_ignored() -> None:
    rig = Rig(ack_policy="none")
    rig.publish("s.a", "s.b")
    rig.pull(2)
    rig.ack(1, reply=b"me")
    info = rig.info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq, info.ack_floor.consumer_seq) == (
        0,
        2,
        2,
    )
    assert rig.effects.replies == []


def test_sampled_acks_are_measured() -> None:
    rig = Rig(sample_freq="50%")
    rig.publish(*["s.a"] * 4)
    rig.pull(4)
    rig.now += SECOND
    rig.ack(1, 2, 3, 4)
    metrics = [event for event in rig.effects.advisories if isinstance(event, AckMetric)]
    assert [metric.stream_seq for metric in metrics] == [2, 4]
    assert metrics[0].ack_time == SECOND
