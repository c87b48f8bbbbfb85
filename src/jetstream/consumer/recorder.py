"""The flight recorder: the last few things that happened, to tell the life of a message.

Bounded, off unless asked for (`jsx.recorder`), and never part of a decision.
"""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct


class Event(Struct, frozen=True, omit_defaults=True):
    """One thing that happened to one message."""

    at: int
    stream_seq: int
    what: str
    """delivered, redelivered, acked, naked, progress, terminated, given up, deleted"""
    to: str = ""
    consumer_seq: int = 0
    deliveries: int = 0
    detail: str = ""


class Recorder:
    """The last `limit` events of a consumer."""

    __slots__ = ("_events",)

    def __init__(self, limit: int) -> None:
        self._events: deque[Event] = deque(maxlen=limit)

    def note(self, event: Event) -> None:
        self._events.append(event)

    def note_all(self, what: str, seqs: Iterable[int], at: int, to: bytes = b"") -> None:
        whom = to.decode("utf-8", "replace")
        for seq in seqs:
            self._events.append(Event(at, seq, what, whom))

    def life_of(self, seq: int) -> list[Event]:
        return [event for event in self._events if event.stream_seq == seq]

    def history_of(self, seq: int) -> str:
        """In one line, oldest first: `delivered@…; naked@…`."""
        return "; ".join(f"{event.what}@{event.at}" for event in self.life_of(seq))
