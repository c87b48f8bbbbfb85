"""Pull requests: what is delivered, in which turn, and every status."""

from typing import Any

import pytest

from jetstream.consumer.pulls import parse_request
from jetstream.errors import ApiError
from tests.consumer.builders import Rig, seqs_of

SECOND = 1_000_000_000


def test_a_pull_gets_what_is_stored_and_waits_for_the_rest() -> None:
    rig = Rig()
    rig.publish("s.a", "s.b")
    (delivery,) = rig.pull(3)
    assert (list(delivery.seqs), delivery.first_consumer_seq, delivery.pending) == ([1, 2], 1, 1)
    rig.publish("s.c", "s.d")
    assert seqs_of(rig.turn()) == [3]
    assert rig.turn() == []
    assert rig.info().num_pending == 1


@pytest.mark.parametrize(
    ("body", "batch"),
    [(b"", 1), (b"5", 5), (b"x", 1), (b'{"batch":0}', 1), (b"{}", 1), (b'{"batch":7}', 7)],
)
def test_what_a_body_asks_for(body: bytes, batch: int) -> None:
    assert parse_request(body).batch == batch


def test_broken_json_is_refused() -> None:
    with pytest.raises(ApiError):
        parse_request(b'{"batch":')
    rig = Rig()
    rig.raw_pull(b'{"batch":')
    assert rig.said[0][1].startswith("400 Bad Request - ")


def test_waiting_requests_take_turns_message_by_message() -> None:
    rig = Rig()
    rig.pull(2, "one")
    rig.pull(3, "two")
    rig.publish(*["s.a"] * 5)
    got: dict[bytes, list[tuple[int, int]]] = {}
    for delivery in rig.turn():
        got.setdefault(delivery.to, []).extend(
            (delivery.first_consumer_seq + i * delivery.step, seq)
            for i, seq in enumerate(delivery.seqs)
        )
    assert got == {b"one": [(1, 1), (3, 3)], b"two": [(2, 2), (4, 4), (5, 5)]}


def test_who_was_served_goes_behind_who_was_not() -> None:
    rig = Rig()
    rig.pull(5, "one")
    rig.pull(5, "two")
    order = []
    for _ in range(4):
        rig.publish("s.a")
        order += [delivery.to for delivery in rig.turn()]
    assert order == [b"one", b"two", b"one", b"two"]


def test_pending_counts_down_along_shared_deliveries() -> None:
    rig = Rig()
    rig.pull(2, "one")
    rig.pull(2, "two")
    rig.publish(*["s.a"] * 6)
    one, two = rig.turn()
    assert (one.pending, one.countdown, one.step) == (5, 2, 2)
    assert (two.pending, two.first_consumer_seq) == (4, 2)


def test_no_wait_says_404_when_nothing_is_there_or_left() -> None:
    rig = Rig()
    assert rig.pull(2, no_wait=True) == []
    assert rig.said == [("inbox", "404 No Messages")]
    rig.publish("s.a")
    assert seqs_of(rig.pull(2, no_wait=True)) == [1]
    assert rig.said == [("inbox", "404 No Messages")]
    assert rig.info().num_waiting == 0


def test_no_wait_with_expiry_waits_for_the_first_message_only() -> None:
    rig = Rig()
    rig.pull(5, no_wait=True, expires=SECOND)
    assert rig.said == []
    rig.publish("s.a")
    assert seqs_of(rig.turn()) == [1]
    assert rig.said == [("inbox", "404 No Messages")]
    rig.pull(5, no_wait=True, expires=SECOND)
    rig.wait(2)
    assert rig.said == [("inbox", "408 Request Timeout")]


def test_no_wait_is_silent_while_max_ack_pending_blocks() -> None:
    rig = Rig(max_ack_pending=1)
    rig.publish("s.a", "s.b")
    rig.pull(1)
    assert rig.pull(1, no_wait=True) == []
    assert rig.said == []
    assert seqs_of(rig.ack(1)) == [2]


def test_no_wait_behind_requests_that_want_everything() -> None:
    rig = Rig(max_ack_pending=1)
    rig.publish("s.a", "s.b")
    rig.pull(1)
    rig.pull(3, "patient")
    rig.pull(1, "hasty", no_wait=True)
    assert rig.said == [("hasty", "408 Requests Pending")]


def test_an_expired_request_hears_what_remained() -> None:
    rig = Rig()
    rig.publish("s.a")
    rig.pull(3, expires=2 * SECOND)
    rig.wait(1.9)
    assert rig.said == []
    rig.wait(0.2)
    assert rig.effects.statuses[0].headers == (
        b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 2\r\nNats-Pending-Bytes: 0\r\n\r\n"
    )


def test_a_quiet_request_gets_heartbeats() -> None:
    rig = Rig()
    rig.publish("s.a")
    rig.pull(3, expires=10 * SECOND, idle_heartbeat=SECOND)
    rig.wait(2.5)
    assert [text for _, text in rig.said] == ["100 Idle Heartbeat"] * 2
    assert b"Nats-Last-Consumer: 1\r\nNats-Last-Stream: 1\r\n" in rig.effects.statuses[0].headers


@pytest.mark.parametrize(
    ("config", "asked", "said"),
    [
        ({"max_batch": 10}, {"batch": 11}, "409 Exceeded MaxRequestBatch of 10"),
        (
            {"max_expires": 2 * SECOND},
            {"expires": 3 * SECOND},
            "409 Exceeded MaxRequestExpires of 2s",
        ),
        ({"max_bytes": 1000}, {"max_bytes": 1001}, "409 Exceeded MaxRequestMaxBytes of 1000"),
        ({}, {"idle_heartbeat": SECOND}, "400 Bad Request - heartbeat value too large"),
        (
            {},
            {"idle_heartbeat": SECOND, "expires": SECOND},
            "400 Bad Request - heartbeat value too large",
        ),
    ],
)
def test_requests_beyond_a_limit_are_refused(
    config: dict[str, Any], asked: dict[str, Any], said: str
) -> None:
    rig = Rig(**config)
    rig.pull(**{"batch": 1, **asked})
    assert rig.said == [("inbox", said)]
    assert rig.info().num_waiting == 0


def test_max_waiting_evicts_the_dead_before_it_refuses() -> None:
    rig = Rig(max_waiting=2)
    rig.listeners = {b"a", b"b", b"c"}
    rig.pull(1, "a")
    rig.pull(1, "b")
    rig.pull(1, "c")
    assert rig.said == [("c", "409 Exceeded MaxWaiting")]
    rig.listeners = {b"b", b"c"}
    rig.pull(1, "c")
    assert rig.said == []
    rig.listeners = {b"b", b"c", b"d"}
    rig.pull(1, "d", idle_heartbeat=SECOND, expires=5 * SECOND)
    assert rig.said == []


def test_requests_of_vanished_clients_are_forgotten() -> None:
    rig = Rig()
    rig.listeners = {b"here"}
    rig.pull(1, "gone")
    rig.pull(1, "here")
    rig.publish("s.a")
    assert [delivery.to for delivery in rig.turn()] == [b"here"]


def test_max_bytes_ends_with_the_message_that_does_not_fit() -> None:
    rig = Rig()
    rig.publish("s.a", "s.a", body=b"x" * 100)
    out = rig.pull(10, max_bytes=250)
    assert seqs_of(out) == [1]
    assert rig.said == [("inbox", "409 Message Size Exceeds MaxBytes")]
    assert b"Nats-Pending-Messages: 9\r\n" in rig.effects.statuses[0].headers


def test_a_filled_batch_that_counted_bytes_says_so() -> None:
    rig = Rig()
    rig.publish("s.a", "s.a")
    assert seqs_of(rig.pull(2, max_bytes=10_000)) == [1, 2]
    assert rig.said == [("inbox", "409 Batch Completed")]


def test_a_paused_consumer_lets_requests_wait_and_tells_hasty_ones() -> None:
    rig = Rig()
    rig.publish("s.a")
    rig.consumer.pause(rig.now + 5 * SECOND, rig.now)
    assert rig.pull(1, "patient") == []
    rig.pull(1, "hasty", no_wait=True)
    assert rig.said[-1][1] in ("404 No Messages", "408 Requests Pending")
    assert seqs_of(rig.wait(6)) == [1]


def test_a_push_consumer_refuses_pulls() -> None:
    rig = Rig(deliver_subject="out")
    rig.pull(1)
    assert rig.said == [("inbox", "409 Consumer is push based")]


def test_a_newer_api_level_is_refused() -> None:
    from jetstream.consumer.values import PullRequest

    rig = Rig()
    rig.consumer.on_pull(PullRequest(reply=b"inbox", required_level=b"99"), rig.now)
    rig.turn()
    assert rig.said == [("inbox", "412 Required Api Level")]


def test_deleting_tells_those_who_wait() -> None:
    rig = Rig()
    rig.pull(1, "a")
    rig.pull(1, "b")
    rig.consumer.close(rig.now)
    rig.take()
    assert rig.said == [("a", "409 Consumer Deleted"), ("b", "409 Consumer Deleted")]


def test_a_request_that_is_over_gets_nothing_even_if_nobody_noticed() -> None:
    rig = Rig()
    rig.pull(1, expires=SECOND)
    rig.now += 2 * SECOND
    rig.publish("s.a")
    assert rig.turn() == []
    assert rig.said == [("inbox", "408 Request Timeout")]


def test_a_blocked_no_wait_request_ends_with_its_first_heartbeat() -> None:
    rig = Rig(max_ack_pending=1)
    rig.publish("s.a", "s.b")
    asked: dict[str, Any] = {"no_wait": True, "expires": 5 * SECOND, "idle_heartbeat": SECOND}
    assert seqs_of(rig.pull(5, **asked)) == [1]
    assert rig.said == []
    rig.wait(3)
    assert rig.said == [("inbox", "404 No Messages")]
