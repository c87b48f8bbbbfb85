"""The pushing side: who listens, how much may be under way, how fast, and what to say when idle.

Flow control counts the bytes sent since the client last answered. At half the window we ask for an
answer (`100 FlowControl Request`), at the full window we stop. Every answer doubles the window, up
to its limit. A rate limit is a bucket of bytes that fills with time.
"""

from array import array
from typing import Final

from jetstream.clock import SECOND
from jetstream.consumer import statuses
from jetstream.consumer._pending import fitting
from jetstream.consumer.values import Status
from jetstream.schema.consumer import ConsumerConfig

WINDOW_MAX: Final = 32 << 20
WINDOW_START: Final = WINDOW_MAX // 16
BURST_DEFAULT: Final = 1 << 20

_LETTERS: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Push:
    """Delivery of one push consumer."""

    __slots__ = (
        "_asked",
        "_asked_bytes",
        "_asked_seq",
        "_bucket",
        "_bucket_at",
        "_burst",
        "_prefix",
        "_rate",
        "_serial",
        "_used",
        "_window",
        "bound",
        "flow_control",
        "heartbeat",
        "heartbeat_at",
        "rate_at",
        "to",
    )

    def __init__(
        self, config: ConsumerConfig, fc_prefix: bytes, burst: int = BURST_DEFAULT
    ) -> None:
        self.to = config.deliver_subject.encode()
        self.bound = False
        self.flow_control = config.flow_control
        self.heartbeat = config.idle_heartbeat
        self.heartbeat_at = 0
        self._prefix = fc_prefix
        self._serial = 0
        self._window = WINDOW_START
        self._used = 0
        self._asked = b""
        self._asked_bytes = 0
        self._asked_seq = 0
        self._burst = burst
        self._rate = config.rate_limit_bps // 8
        self._bucket = burst
        self._bucket_at = 0
        self.rate_at = 0

    def update(self, config: ConsumerConfig) -> None:
        self.to = config.deliver_subject.encode()
        self._rate = config.rate_limit_bps // 8

    def bind(self, bound: bool, now: int) -> None:
        """Somebody began or ceased to listen. A new listener starts with an empty window."""
        if bound and not self.bound:
            self._used = self._asked_bytes = 0
            self._asked = b""
            if self.heartbeat:
                self.heartbeat_at = now + self.heartbeat
        if not bound:
            self.heartbeat_at = 0
        self.bound = bound

    @property
    def counts_bytes(self) -> bool:
        return self.flow_control or self._rate > 0

    @property
    def stalled(self) -> bytes:
        """The flow-control subject we wait for, if the window is full."""
        return self._asked if self._asked and self._used >= self._window else b""

    def room(self, sizes: "array[int]", extra: int, now: int) -> int:
        """How many messages of these sizes (plus `extra` each) may go out now."""
        count = len(sizes)
        if self.flow_control:
            # The message that crosses the line still goes.
            free = self._window - self._used
            fit, _ = fitting(sizes, extra, max(free, 0))
            count = min(count, fit + 1 if free > 0 else 0)
        if self._rate and count:
            count = self._rate_room(sizes[:count], extra, now)
        self._used += sum(sizes[:count]) + extra * count if self.flow_control else 0
        return count

    def _rate_room(self, sizes: "array[int]", extra: int, now: int) -> int:
        elapsed = max(now - self._bucket_at, 0) if self._bucket_at else 0
        self._bucket = min(self._burst, self._bucket + elapsed * self._rate // SECOND)
        self._bucket_at = now
        # Something larger than the bucket may pass when the bucket is full.
        full = self._bucket >= self._burst
        count, used = fitting(sizes, extra, self._bucket)
        if count == 0 and full:
            count, used = 1, sizes[0] + extra
        self._bucket -= used
        self.rate_at = 0
        if count < len(sizes):
            missing = min(sizes[count] + extra, self._burst) - self._bucket
            self.rate_at = now + max(missing, 1) * SECOND // self._rate + 1
        return count

    def sent(self, last_seq: int, now: int) -> Status | None:
        """Messages went out; perhaps it is time to ask for an answer."""
        if self.heartbeat:
            self.heartbeat_at = now + self.heartbeat
        if not self.flow_control or self._asked or self._used <= self._window // 2:
            return None
        return self._ask(last_seq)

    def _ask(self, last_seq: int) -> Status:
        self._serial += 1
        number, token = self._serial * 2_654_435_761, bytearray()
        for _ in range(4):
            number, letter = divmod(number, len(_LETTERS))
            token.append(_LETTERS[letter])
        self._asked = self._prefix + bytes(token)
        self._asked_bytes = self._used
        self._asked_seq = last_seq
        return Status(self.to, statuses.FLOW_CONTROL, self._asked)

    def answered(self, subject: bytes) -> int:
        """The client has processed what came before; the last sequence of that, 0 if not ours."""
        if not self._asked or subject != self._asked:
            return 0
        self._window = min(self._window * 2, WINDOW_MAX)
        self._used = max(self._used - self._asked_bytes, 0)
        self._asked, self._asked_bytes = b"", 0
        return self._asked_seq

    def ask_when_idle(self, last_seq: int) -> Status | None:
        """With ack policy flow_control the last few must be asked for too."""
        if self._asked or not self.bound or last_seq <= self._asked_seq:
            return None
        return self._ask(last_seq)
