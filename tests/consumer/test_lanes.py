"""Per-key lanes, parked retries, dead letters, the recorder and what explains it all."""

import pytest

from jetstream.consumer.explain import explain
from jetstream.consumer.options import NONE, Options, parse_options
from jetstream.errors import ApiError
from tests.consumer.builders import Rig, seqs_of

SECOND = 1_000_000_000


def lanes(key: str = "subject", most: str = "1", **config: object) -> Rig:
    return Rig(metadata={"jsx.lane.key": key, "jsx.lane.max": most}, **config)  # type: ignore[arg-type]


def test_one_of_a_key_is_out_at_a_time() -> None:
    rig = lanes()
    rig.publish("s.a", "s.a", "s.b", "s.a", "s.c")
    assert seqs_of(rig.pull(10, expires=60 * SECOND)) == [1, 3, 5]
    assert rig.info().num_pending == 2
    assert seqs_of(rig.ack(1)) == [2]
    assert seqs_of(rig.ack(3, 5)) == []
    assert seqs_of(rig.ack(2)) == [4]
    rig.ack(4)
    info = rig.info()
    assert (info.num_pending, info.num_ack_pending, info.ack_floor.stream_seq) == (0, 0, 5)


def test_the_floor_stays_below_what_is_held() -> None:
    rig = lanes()
    rig.publish("s.a", "s.b", "s.a", "s.b", "s.c")
    rig.pull(10)
    rig.ack(2, 5)
    assert rig.info().ack_floor.stream_seq <= 2


def test_lanes_take_turns() -> None:
    rig = lanes(key="2")
    rig.publish("s.a", "s.b", *["s.a"] * 5, *["s.b"] * 2)
    assert seqs_of(rig.pull(2)) == [1, 2]
    rig.pull(1, expires=60 * SECOND)
    rig.ack(1)
    rig.ack(2)
    order = []
    for _ in range(4):
        out = seqs_of(rig.pull(1, expires=60 * SECOND))
        order += out
        rig.ack(*rig.consumer.pending.table.seqs())
    subjects = [rig.consumer._subject_of(seq) for seq in order]
    assert b"s.b" in subjects[:3]


def test_held_messages_survive_a_restart() -> None:
    rig = lanes()
    rig.publish("s.a", "s.a", "s.b", "s.a")
    assert seqs_of(rig.pull(10)) == [1, 3]
    rig.restart()
    assert rig.info().num_pending == 2
    assert seqs_of(rig.pull(10, expires=60 * SECOND)) == []
    assert seqs_of(rig.ack(1)) == [2]
    assert seqs_of(rig.ack(2)) == [4]


def test_a_parked_message_makes_room() -> None:
    rig = Rig(max_ack_pending=1, metadata={"jsx.nak.park": "true", "jsx.nak.delay": "5s"})
    rig.publish("s.a", "s.b")
    rig.pull(1)
    rig.pull(5, expires=60 * SECOND)
    assert seqs_of(rig.ack(1, body=b"-NAK")) == [2]
    assert explain(rig.consumer, rig.now).startswith("Everything was delivered; 2 wait")
    rig.ack(2)
    assert explain(rig.consumer, rig.now).startswith("All 1 unfinished messages are parked")
    assert seqs_of(rig.wait(5.1)) == [1]


def test_jitter_spreads_delays() -> None:
    rig = Rig(metadata={"jsx.nak.delay": "10s", "jsx.nak.jitter": "0.5"})
    rig.publish(*["s.a"] * 20)
    rig.pull(20)
    rig.ack(*range(1, 21), body=b"-NAK")
    dues = {(rig.consumer.pending.table.get(seq) or (0, 0, 0, 0))[3] for seq in range(1, 21)}
    assert len(dues) > 10
    assert all(10 * SECOND <= due - rig.now <= 15 * SECOND for due in dues)


def test_given_up_messages_become_dead_letters_and_are_settled() -> None:
    rig = Rig(
        {"retention": "interest"},
        max_deliver=1,
        ack_wait=SECOND,
        metadata={"jsx.dead_letter.stream": "DEAD", "jsx.recorder": "10"},
    )
    rig.publish("s.a", "s.b")
    rig.pull(2)
    rig.ack(2, body=b"+TERM bad")
    (letter,) = rig.effects.dead_letters
    assert (letter.stream, letter.stream_seq, letter.reason) == ("DEAD", 2, "terminated")
    assert letter.detail == "bad"
    rig.wait(2)
    (letter,) = rig.effects.dead_letters
    assert (letter.stream_seq, letter.reason, letter.deliveries) == (1, "max_deliver", 1)
    assert "delivered@" in letter.history
    assert list(rig.effects.settled) == [1]
    assert rig.info().num_redelivered == 0


def test_the_keys_are_understood_or_refused() -> None:
    assert parse_options({"other": "x"}) is NONE
    assert parse_options({"jsx.lane.key": "subject", "jsx.lane.max": "3"}) == Options(
        lane_token=0, lane_max=3
    )
    for key, value in (
        ("jsx.lane.key", "0"),
        ("jsx.nak.jitter", "2"),
        ("jsx.nak.park", "yes"),
        ("jsx.recorder", "-1"),
        ("jsx.dead_letter.stream", "a b"),
        ("jsx.what", "x"),
    ):
        with pytest.raises(ApiError, match=f"metadata {key}"):
            parse_options({key: value})


def test_what_stands_in_the_way_is_told() -> None:
    rig = Rig(max_ack_pending=1, filter_subject="s.b")

    def told() -> str:
        return explain(rig.consumer, rig.now)

    assert told() == "The stream is empty."
    rig.publish("s.a")
    assert told() == "No stored message matches the filter s.b."
    rig.publish("s.b", "s.b")
    assert told() == "No pull request is waiting."
    rig.pull(1)
    rig.now += 2 * SECOND
    rig.pull(1)
    assert told() == (
        "max_ack_pending is reached: 1 of 1 deliveries wait for their acks, "
        "the oldest (sequence 2) for 2s."
    )
    rig.consumer.pause(rig.now + SECOND, rig.now)
    assert told() == "Paused until 1970-01-01T00:16:43Z."
    rig.consumer.pause(0, rig.now)
    rig.ack(2)
    rig.ack(3)
    assert told() == "Everything was delivered and acknowledged."
    push = Rig(deliver_subject="out")
    push.publish("s.a")
    assert explain(push.consumer, push.now) == "Nobody listens on out."
