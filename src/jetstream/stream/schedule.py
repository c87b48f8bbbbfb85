"""Messages that publish another message later: `Nats-Schedule` and its companions.

A schedule is itself a stored message, one per subject. This module checks the headers, remembers
when each schedule is due and makes the message it produces; storing it is the stream's work.
"""

import heapq
from collections.abc import Callable, Sequence

from jetstream.errors import ApiError
from jetstream.schema.api_errors import (
    MESSAGE_SCHEDULES_DISABLED,
    MESSAGE_SCHEDULES_PATTERN_INVALID,
    MESSAGE_SCHEDULES_ROLLUP_INVALID,
    MESSAGE_SCHEDULES_SCHEDULER_INVALID,
    MESSAGE_SCHEDULES_SOURCE_INVALID,
    MESSAGE_SCHEDULES_TARGET_INVALID,
    MESSAGE_SCHEDULES_TIME_ZONE_INVALID,
    MESSAGE_SCHEDULES_TTL_INVALID,
)
from jetstream.schema.stream import StreamConfig
from jetstream.schema.times import rfc3339
from jetstream.stream import cron
from jetstream.stream import headers as h
from jetstream.stream.ttl import parse_ttl
from jetstream.subjects.match import matches
from jetstream.subjects.tokens import is_valid_literal
from jetstream.wire.headers import with_header

_NOT_CARRIED = (h.MSG_ID, h.TTL, h.ROLLUP)
_NOT_CARRIED_PREFIXES = (b"Nats-Schedule", b"Nats-Expected-")


def check(config: StreamConfig, subject: bytes, wants: dict[bytes, bytes]) -> cron.Schedule | None:
    """The schedule these headers ask for, None if they ask for none."""
    _check_scheduler(wants)
    pattern = wants.get(h.SCHEDULE)
    if not pattern:
        return None
    if not config.allow_msg_schedules:
        raise ApiError(MESSAGE_SCHEDULES_DISABLED)
    schedule = schedule_of(wants)
    _check_target(config, subject, wants)
    ttl = wants.get(h.SCHEDULE_TTL)
    if ttl:
        try:
            if not config.allow_msg_ttl or not parse_ttl(ttl):
                raise ApiError(MESSAGE_SCHEDULES_TTL_INVALID)
        except ApiError:
            raise ApiError(MESSAGE_SCHEDULES_TTL_INVALID) from None
    for name in (h.SCHEDULE_ROLLUP, h.ROLLUP):
        if wants.get(name, b"").lower() not in (b"", b"sub"):
            raise ApiError(MESSAGE_SCHEDULES_ROLLUP_INVALID)
    return schedule


def _check_scheduler(wants: dict[bytes, bytes]) -> None:
    then, scheduler = wants.get(h.SCHEDULE_NEXT), wants.get(h.SCHEDULER)
    if (then or scheduler) and (then != b"purge" or not scheduler):
        raise ApiError(MESSAGE_SCHEDULES_SCHEDULER_INVALID)


def _check_target(config: StreamConfig, subject: bytes, wants: dict[bytes, bytes]) -> None:
    target = wants.get(h.SCHEDULE_TARGET, b"").decode("utf-8", "replace")
    own = subject.decode("utf-8", "replace")
    if not is_valid_literal(target) or target == own or not _inside(config.subjects, target):
        raise ApiError(MESSAGE_SCHEDULES_TARGET_INVALID)
    source = wants.get(h.SCHEDULE_SOURCE, b"").decode("utf-8", "replace")
    if source and (
        not is_valid_literal(source)
        or source in (own, target)
        or not _inside(config.subjects, source)
    ):
        raise ApiError(MESSAGE_SCHEDULES_SOURCE_INVALID)


def _inside(subjects: Sequence[str], subject: str) -> bool:
    return any(matches(pattern, subject) for pattern in subjects)


def schedule_of(wants: dict[bytes, bytes]) -> cron.Schedule:
    zone = None
    name = wants.get(h.SCHEDULE_TIME_ZONE)
    if name is not None:
        try:
            zone = cron.find_zone(name.decode("utf-8", "replace"))
        except ValueError:
            raise ApiError(MESSAGE_SCHEDULES_TIME_ZONE_INVALID) from None
    try:
        return cron.parse(wants[h.SCHEDULE].decode("utf-8", "replace"), zone)
    except ValueError:
        raise ApiError(MESSAGE_SCHEDULES_PATTERN_INVALID) from None


def produced(
    subject: bytes, wants: dict[bytes, bytes], block: bytes, next_ns: int
) -> tuple[bytes, bytes]:
    """(target, headers) of the message a due schedule makes; `block` is where headers come from."""
    block = h.drop_headers(block, _NOT_CARRIED, _NOT_CARRIED_PREFIXES)
    block = with_header(block, h.SCHEDULER, subject)
    then = rfc3339(next_ns).encode() if next_ns else b"purge"
    block = with_header(block, h.SCHEDULE_NEXT, then)
    if wants.get(h.SCHEDULE_TTL):
        block = with_header(block, h.TTL, wants[h.SCHEDULE_TTL])
    if wants.get(h.SCHEDULE_ROLLUP):
        block = with_header(block, h.ROLLUP, b"sub")
    return wants[h.SCHEDULE_TARGET], block


class Schedules:
    """Which schedule message is due when; at most one per subject."""

    __slots__ = ("_by_subject", "_heap")

    def __init__(self) -> None:
        self._by_subject: dict[bytes, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, bytes]] = []

    def __len__(self) -> int:
        return len(self._by_subject)

    def put(self, subject: bytes, seq: int, due_ns: int) -> None:
        self._by_subject[subject] = (seq, due_ns)
        heapq.heappush(self._heap, (due_ns, seq, subject))

    def drop(self, subject: bytes) -> None:
        self._by_subject.pop(subject, None)

    def next_due(self) -> int:
        """When the next schedule fires, 0 if there is none."""
        while self._heap:
            due, seq, subject = self._heap[0]
            if self._by_subject.get(subject) == (seq, due):
                return due
            heapq.heappop(self._heap)
        return 0

    def take_due(self, now: int, alive: Callable[[int], bool]) -> list[tuple[bytes, int]]:
        """(subject, sequence) of schedules to fire; those whose message is gone are forgotten."""
        taken = []
        while (due := self.next_due()) and due <= now:
            _, seq, subject = heapq.heappop(self._heap)
            del self._by_subject[subject]
            if alive(seq):
                taken.append((subject, seq))
        return taken
