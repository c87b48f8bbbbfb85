"""Priority groups: overflow, prioritized, pinned."""

from jetstream.schema.advisory_consumer import GroupPinned, GroupUnpinned
from tests.consumer.builders import Rig, seqs_of

SECOND = 1_000_000_000


def a_group(policy: str, **config: object) -> Rig:
    return Rig(priority_groups=["A"], priority_policy=policy, **config)  # type: ignore[arg-type]


def test_a_request_must_name_a_group_of_the_consumer() -> None:
    rig = a_group("overflow")
    for asked, text in (
        ({}, "Priority Group missing"),
        ({"group": "B"}, "Invalid Priority Group"),
        ({"group": "A", "id": "x"}, "Not a Pinned Client Priority consumer"),
        ({"group": "A", "priority": 10}, "Priority must be between 0 and 9"),
    ):
        rig.pull(1, **asked)
        assert rig.said == [("inbox", f"400 Bad Request - {text}")]
    rig.publish("s.a")
    assert seqs_of(rig.raw_pull(b"")) == [1]


def test_overflow_serves_only_when_enough_is_there() -> None:
    rig = a_group("overflow")
    rig.publish("s.a", "s.a")
    assert rig.pull(1, "far", group="A", min_pending=3) == []
    assert seqs_of(rig.pull(1, "near", group="A")) == [1]
    rig.publish("s.a", "s.a")
    assert [delivery.to for delivery in rig.turn()] == [b"far"]
    assert rig.pull(1, "acks", group="A", min_ack_pending=3) == []
    # With the third one out the other request meets its condition, too.
    out = rig.pull(1, "near", group="A")
    assert [(delivery.to, list(delivery.seqs)) for delivery in out] == [
        (b"near", [3]),
        (b"acks", [4]),
    ]


def test_lower_numbers_are_served_first() -> None:
    rig = a_group("prioritized")
    rig.pull(2, "low", group="A", priority=5)
    rig.pull(2, "high", group="A", priority=1)
    rig.publish("s.a", "s.a", "s.a")
    assert [(d.to, list(d.seqs)) for d in rig.turn()] == [(b"high", [1, 2]), (b"low", [3])]


def test_one_client_is_pinned_until_it_is_silent() -> None:
    rig = a_group("pinned_client", priority_timeout=10 * SECOND)
    rig.publish("s.a", "s.a", "s.a", "s.a")
    (delivery,) = rig.pull(1, "one", group="A")
    assert delivery.extra_headers == b"Nats-Pin-Id: " + b"p" * 22 + b"\r\n"
    assert isinstance(rig.effects.advisories[0], GroupPinned)
    assert rig.info().priority_groups[0].pinned_client_id == "p" * 22
    assert rig.pull(1, "two", group="A", expires=60 * SECOND) == []
    rig.pull(1, "three", group="A", id="wrong")
    assert rig.said == [("three", "423 Nats-Pin-Id mismatch")]
    assert seqs_of(rig.pull(1, "one", group="A", id="p" * 22)) == [2]
    assert rig.wait(9) == []
    out = rig.wait(2)
    assert [delivery.to for delivery in out] == [b"two"]
    kinds = [type(event).__name__ for event in rig.effects.advisories]
    assert kinds == ["GroupUnpinned", "GroupPinned"]


def test_an_administrator_lets_the_pinned_client_go() -> None:
    rig = a_group("pinned_client")
    rig.publish("s.a")
    rig.pull(1, "one", group="A")
    rig.pull(5, "one", group="A", id="p" * 22, expires=SECOND)
    rig.consumer.unpin("A")
    rig.turn()
    assert rig.said == [("one", "423 Nats-Wrong-Pin-Id")]
    (event,) = [e for e in rig.effects.advisories if isinstance(e, GroupUnpinned)]
    assert event.reason == "admin"
