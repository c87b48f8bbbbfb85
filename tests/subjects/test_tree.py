"""The tree finds what the plain matcher finds, through any coming and going."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jetstream.subjects import _tree, tree
from jetstream.subjects.match import matches

AnyTree = _tree.SubjectTree | tree.SubjectTree
Make = type[_tree.SubjectTree] | type[tree.SubjectTree]
TWINS: list[Make] = [_tree.SubjectTree, tree.SubjectTree]

tokens = st.sampled_from([b"a", b"b", b"c", b"ab", b"$JS", b"x*", b">y"])
literals = st.lists(tokens, min_size=1, max_size=4).map(b".".join)
patterns = st.tuples(
    st.lists(st.one_of(tokens, st.just(b"*")), min_size=0, max_size=4), st.booleans()
).map(lambda parts: b".".join([*parts[0], *([b">"] if parts[1] or not parts[0] else [])]))
queues = st.sampled_from([None, None, b"q1", b"q2"])


class Value:
    """Something of its own; equality is identity."""

    def __init__(self, pattern: bytes, queue: bytes | None) -> None:
        self.pattern = pattern
        self.queue = queue


class Churn(RuleBasedStateMachine):
    """Subscriptions come and go; after every step each subject leads to the right ones."""

    make: Make = _tree.SubjectTree

    @initialize()
    def start(self) -> None:
        self.tree: AnyTree = self.make()
        self.held: list[Value] = []

    @rule(pattern=patterns, queue=queues)
    def subscribe(self, pattern: bytes, queue: bytes | None) -> None:
        value = Value(pattern, queue)
        self.tree.insert(pattern, value, queue)
        self.held.append(value)

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 1000))
    def unsubscribe(self, which: int) -> None:
        value = self.held.pop(which % len(self.held))
        assert self.tree.remove(value.pattern, value, value.queue)
        assert not self.tree.remove(value.pattern, value, value.queue)

    @rule(subject=literals)
    def ask(self, subject: bytes) -> None:
        found = self.tree.match(subject)
        wanted = [value for value in self.held if matches(value.pattern, subject)]
        assert Counter(found.plain) == Counter(v for v in wanted if v.queue is None)
        groups = {queue: Counter(members) for queue, members in found.by_queue().items()}
        for queue in (b"q1", b"q2"):
            assert groups.get(queue, Counter()) == Counter(v for v in wanted if v.queue == queue)
        assert sorted(map(len, found.groups)) == sorted(map(len, found.by_queue().values()))
        assert self.tree.has_match(subject) == bool(wanted)

    @invariant()
    def counts(self) -> None:
        assert len(self.tree) == len(self.held)


class ChurnOfTheTwin(Churn):
    make = tree.SubjectTree


TestChurn = Churn.TestCase
TestChurnOfTheTwin = ChurnOfTheTwin.TestCase


@pytest.mark.parametrize("make", TWINS)
@pytest.mark.parametrize("subject", [b"", b".", b"a.", b".a", b"a..b", b"..", b"a.b."])
def test_a_subject_with_an_empty_token_matches_nothing(make: Make, subject: bytes) -> None:
    found = make()
    for pattern in (b">", b"*", b"a.>", b"*.*", b"a.*.b"):
        found.insert(pattern, pattern)
    assert not found.has_match(subject)


@pytest.mark.parametrize("make", TWINS)
@given(pattern=patterns, subject=literals)
def test_one_pattern_agrees_with_the_plain_matcher(
    make: Make, pattern: bytes, subject: bytes
) -> None:
    found = make()
    found.insert(pattern, 1)
    assert found.has_match(subject) == matches(pattern, subject)


@pytest.mark.parametrize("make", TWINS)
def test_an_empty_tree_leaves_nothing_behind(make: Make) -> None:
    found = make()
    for i in range(100):
        found.insert(b"a.%d.*.>" % i, i, b"q")
    for i in range(100):
        assert found.remove(b"a.%d.*.>" % i, i, b"q")
    assert len(found) == 0
    assert not found.remove(b"a.1.*.>", 1, b"q")
    assert not found.has_match(b"a.1.b.c")


def cost_of_match(subscriptions: int) -> float:
    """Seconds for ten thousand matches among so many unrelated subscriptions; the best of three."""
    found = _tree.SubjectTree()
    for i in range(subscriptions):
        found.insert(b"user.%d.inbox.*" % i, i)
        found.insert(b"device.*.%d.>" % i, i, b"q")
    found.insert(b"orders.*.new", "wanted")
    subjects = [b"orders.%d.new" % i for i in range(10_000)]
    best = 1e9
    for _ in range(3):
        start = time.perf_counter()
        for subject in subjects:
            found.match(subject)
        best = min(best, time.perf_counter() - start)
    return best


def test_unrelated_subscriptions_cost_a_match_nothing() -> None:
    few, many = cost_of_match(50), cost_of_match(50_000)
    # A generous factor: the machine may be busy. A linear cost would be a factor of a thousand.
    assert many < few * 5 + 0.01
