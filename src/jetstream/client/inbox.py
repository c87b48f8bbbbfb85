"""Inboxes that pulls share, one after the other."""

from collections.abc import Callable

from jetstream.wire._parser import Batch


class PullInbox:
    """A subscription that one pull after the other uses, so that a fetch costs no SUB and UNSUB."""

    __slots__ = ("receiver", "sid", "subject", "subject_bytes")

    def __init__(self, subject: str) -> None:
        self.sid = 0
        self.subject = subject
        self.subject_bytes = subject.encode()
        self.receiver: Callable[[Batch, int, int], None] | None = None

    def receive(self, batch: Batch, start: int, stop: int) -> None:
        if self.receiver is not None:
            self.receiver(batch, start, stop)
