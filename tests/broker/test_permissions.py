"""Who may publish and subscribe where; the tables were asked of nats-server 2.15.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.broker.permissions import (
    REPLIES_MAX,
    PermissionRules,
    Permissions,
    ResponseRule,
    SubjectRules,
)
from jetstream.clock import MINUTE, SECOND


def a_subscriber(allow: list[str] | None = None, deny: list[str] | None = None) -> Permissions:
    rules = SubjectRules(None if allow is None else tuple(allow), tuple(deny or ()))
    return Permissions(PermissionRules(subscribe=rules))


def a_publisher(allow: list[str] | None = None, deny: list[str] | None = None) -> Permissions:
    rules = SubjectRules(None if allow is None else tuple(allow), tuple(deny or ()))
    return Permissions(PermissionRules(publish=rules))


ALLOWED = ["foo", "bar q1", "baz", "baz v*.*", "w.>", "x", "x *.dev"]


@pytest.mark.parametrize(
    ("subject", "queue", "allowed"),
    [
        ("foo", "", True),
        ("foo", "q", True),
        ("bar", "", False),
        ("bar", "q1", True),
        ("bar", "q2", False),
        ("baz", "", True),
        ("baz", "q", False),
        ("baz", "v1.x", False),
        ("w.>", "", True),
        ("w.*", "", True),
        (">", "", False),
        ("x", "", True),
        ("x", "a.dev", True),
        ("x", "dev", False),
    ],
)
def test_subscribing_with_an_allow_list(subject: str, queue: str, allowed: bool) -> None:
    permissions = a_subscriber(ALLOWED)
    assert permissions.can_subscribe(subject.encode(), queue.encode() or None) is allowed


@pytest.mark.parametrize(
    ("subject", "queue", "allowed"),
    [
        ("foo", "", True),
        ("foo", "q1", False),
        ("foo", "q2", True),
        ("bar", "", False),
        ("bar", "q", False),
        (">", "", True),
        (">", "q1", True),
    ],
)
def test_subscribing_with_a_deny_list(subject: str, queue: str, allowed: bool) -> None:
    permissions = a_subscriber(deny=["foo q1", "bar"])
    assert permissions.can_subscribe(subject.encode(), queue.encode() or None) is allowed


def test_a_subscription_wider_than_a_deny_entry_is_filtered_at_delivery() -> None:
    permissions = a_subscriber(deny=["foo.bar", "baz q"])
    assert permissions.can_subscribe(b"foo.*")
    assert permissions.needs_filter(b"foo.*")
    assert not permissions.needs_filter(b"other.>")
    assert permissions.denies_delivery(b"foo.bar")
    assert not permissions.denies_delivery(b"foo.baz")
    assert not permissions.denies_delivery(b"baz")


def test_publishing_needs_an_allow_entry_and_no_deny_entry() -> None:
    permissions = a_publisher(["a.>", "b"], ["a.secret.>"])
    assert permissions.can_publish(b"a.x") and permissions.can_publish(b"b")
    assert not permissions.can_publish(b"c")
    assert not permissions.can_publish(b"a.secret.x")
    assert a_publisher([]).can_publish(b"a") is False
    assert a_publisher(None, ["z"]).can_publish(b"a") is True


@given(st.lists(st.sampled_from(["a", "b", "c", "a.b", "a.c", "b.a"]), max_size=40))
def test_the_cache_changes_no_answer(subjects: list[str]) -> None:
    cached = a_publisher(["a.*", "b"], ["a.c"])
    for subject in subjects:
        fresh = a_publisher(["a.*", "b"], ["a.c"])
        assert cached.can_publish(subject.encode()) == fresh.can_publish(subject.encode())


def responder(max_msgs: int = 1, expires_ns: int = 2 * MINUTE) -> Permissions:
    return Permissions(PermissionRules(responses=ResponseRule(max_msgs, expires_ns)))


def test_a_reply_may_be_sent_once_by_default() -> None:
    permissions = responder()
    assert not permissions.can_publish(b"_INBOX.1", 0)
    permissions.note_reply(b"_INBOX.1", 0)
    assert permissions.can_publish(b"_INBOX.1", 1)
    assert not permissions.can_publish(b"_INBOX.1", 1)
    assert not permissions.can_publish(b"other", 1)


def test_replies_are_counted_and_expire() -> None:
    permissions = responder(max_msgs=2, expires_ns=SECOND)
    permissions.note_reply(b"r", 0)
    assert [permissions.can_publish(b"r", 1) for _ in range(3)] == [True, True, False]
    permissions.note_reply(b"r", 0)
    assert not permissions.can_publish(b"r", SECOND + 1)


def test_negative_response_limits_mean_unlimited() -> None:
    permissions = responder(max_msgs=-1, expires_ns=-1)
    permissions.note_reply(b"r", 0)
    assert all(permissions.can_publish(b"r", 10**18) for _ in range(10))


def test_remembered_replies_are_bounded() -> None:
    permissions = responder(expires_ns=SECOND)
    for number in range(REPLIES_MAX + 10):
        permissions.note_reply(b"r%d" % number, 0)
    assert not permissions.can_publish(b"r0", 1)
    assert permissions.can_publish(b"r%d" % (REPLIES_MAX + 9), 1)


def test_a_publish_allow_list_stays_beside_responses() -> None:
    rules = PermissionRules(publish=SubjectRules(("a",)), responses=ResponseRule())
    permissions = Permissions(rules)
    permissions.note_reply(b"r", 0)
    assert permissions.can_publish(b"a", 0) and permissions.can_publish(b"r", 0)
    assert not permissions.can_publish(b"b", 0)


def test_rules_that_forbid_nothing_are_open() -> None:
    assert PermissionRules().is_open
    assert not PermissionRules(publish=SubjectRules(deny=("a",))).is_open
