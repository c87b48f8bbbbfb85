"""Priority groups: which of the waiting requests may have the next message.

*overflow* serves a request only when enough is waiting or unacknowledged, *prioritized* serves the
lower priority number first, *pinned_client* serves one client only until it is silent for too long
or an administrator lets it go.
"""

from collections.abc import Callable

from jetstream.consumer import statuses
from jetstream.consumer.pulls import Waiting
from jetstream.consumer.values import Status
from jetstream.schema.advisory_consumer import ConsumerEvent, GroupPinned, GroupUnpinned
from jetstream.schema.consumer import ConsumerConfig, NextRequest, PriorityGroupState
from jetstream.schema.times import rfc3339

NewId = Callable[[], str]


class Groups:
    """The priority groups of one consumer; the reference keeps one pin for all of them."""

    __slots__ = (
        "_consumer",
        "_new_id",
        "_stream",
        "names",
        "pin",
        "pinned_at",
        "policy",
        "timeout",
    )

    def __init__(self, config: ConsumerConfig, stream: str, consumer: str, new_id: NewId) -> None:
        self._stream, self._consumer, self._new_id = stream, consumer, new_id
        self.pin = ""
        self.pinned_at = 0
        self.update(config)

    def update(self, config: ConsumerConfig) -> None:
        self.policy = config.priority_policy
        self.names = config.priority_groups
        self.timeout = config.priority_timeout

    def refusal_of(self, request: NextRequest, now: int) -> bytes | None:
        """A pinned client names its pin; a wrong one is told so at once."""
        if self.policy != "pinned_client" or not request.id:
            return None
        if self.pin and request.id != self.pin:
            return statuses.PIN_MISMATCH
        self.pinned_at = now
        return None

    def choose(
        self, queue: list[Waiting], pending: int, ack_pending: int, now: int
    ) -> tuple[Waiting | None, list[ConsumerEvent]]:
        """Who gets the next message; pinning somebody is an event."""
        if self.policy == "overflow":
            for waiting in queue:
                if _overflows(waiting, pending, ack_pending):
                    return waiting, []
            return None, []
        if self.policy == "prioritized":
            return min(queue, key=lambda waiting: waiting.priority, default=None), []
        for waiting in queue:
            if self.pin and waiting.pin == self.pin:
                self.pinned_at = now
                return waiting, []
        if self.pin or not queue:
            return None, []
        return self._pin(queue[0], now)

    def _pin(self, waiting: Waiting, now: int) -> tuple[Waiting, list[ConsumerEvent]]:
        self.pin = waiting.pin = self._new_id()
        self.pinned_at = now
        event = GroupPinned(
            stream=self._stream,
            consumer=self._consumer,
            group=waiting.group or self.names[0],
            pinned_id=self.pin,
        )
        return waiting, [event]

    @property
    def headers(self) -> bytes:
        return b"Nats-Pin-Id: %b\r\n" % self.pin.encode() if self.pin else b""

    def next_deadline(self) -> int:
        return self.pinned_at + self.timeout if self.pin and self.timeout else 0

    def expire(self, now: int) -> list[ConsumerEvent]:
        """The pinned client was silent for too long."""
        deadline = self.next_deadline()
        if not deadline or now < deadline:
            return []
        return self.unpin("timeout")

    def unpin(self, reason: str) -> list[ConsumerEvent]:
        if not self.pin:
            return []
        self.pin, self.pinned_at = "", 0
        event = GroupUnpinned(
            stream=self._stream, consumer=self._consumer, group=self.names[0], reason=reason
        )
        return [event]

    def wrong_pins(self, queue: list[Waiting]) -> tuple[list[Waiting], list[Status]]:
        """Requests that name a pin that is gone: those to keep, and what the others hear."""
        if self.policy != "pinned_client":
            return queue, []
        wrong = [waiting for waiting in queue if waiting.pin and waiting.pin != self.pin]
        if not wrong:
            return queue, []
        kept = [waiting for waiting in queue if not waiting.pin or waiting.pin == self.pin]
        return kept, [waiting.pending_status(423, "Nats-Wrong-Pin-Id") for waiting in wrong]

    def state(self) -> list[PriorityGroupState]:
        return [
            PriorityGroupState(
                group=self.names[0], pinned_client_id=self.pin, pinned_ts=rfc3339(self.pinned_at)
            )
        ]


def _overflows(waiting: Waiting, pending: int, ack_pending: int) -> bool:
    if not waiting.min_pending and not waiting.min_ack_pending:
        return True
    return bool(
        (waiting.min_pending and pending >= waiting.min_pending)
        or (waiting.min_ack_pending and ack_pending >= waiting.min_ack_pending)
    )
