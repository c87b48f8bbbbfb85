"""One heap for all deadlines."""

from jetstream.engine.timers import Timers


def test_what_is_due_comes_earliest_first() -> None:
    timers, called = Timers(), []
    timers.set("b", 20, lambda: called.append("b"))
    timers.set("a", 10, lambda: called.append("a"))
    timers.set("c", 30, lambda: called.append("c"))
    for callback in timers.take_due(20):
        callback()
    assert called == ["a", "b"]
    assert timers.next_deadline() == 30


def test_a_new_deadline_replaces_the_old_one() -> None:
    timers, called = Timers(), []
    timers.set("a", 10, lambda: called.append("early"))
    timers.set("a", 50, lambda: called.append("late"))
    assert timers.next_deadline() == 50
    assert timers.take_due(10) == []
    for callback in timers.take_due(50):
        callback()
    assert called == ["late"]


def test_a_deadline_that_was_taken_away_never_comes() -> None:
    timers = Timers()
    timers.set("a", 10, lambda: None)
    timers.set("a", 0, lambda: None)
    timers.set("b", 5, lambda: None)
    timers.drop("b")
    assert timers.next_deadline() == 0
    assert timers.take_due(100) == []
    assert len(timers) == 0
