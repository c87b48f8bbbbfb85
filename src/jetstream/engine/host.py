"""What the rooms of the engine may ask of the whole: time, chance, sending, waking."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from jetstream.clock import Random

if TYPE_CHECKING:
    from jetstream.engine.account import JetStreamAccount


class EngineHost(Protocol):
    """The engine, as accounts and consumers see it."""

    random: Random
    vault: Any
    max_payload: int
    server_name: str
    server_id: str

    def now(self) -> int: ...

    def publish(
        self,
        account: str,
        subject: bytes,
        headers: bytes,
        payload: bytes,
        reply: bytes = b"",
    ) -> int:
        """Publish inside an account; how many took it."""

    def has_interest(self, account: str, subject: bytes, queue: bytes = b"") -> bool: ...

    def schedule(self, deadline_ns: int, callback: Callable[[], None]) -> None:
        """Call back when this wall time has come (once)."""

    def wake(self, asset: Any) -> None:
        """Something changed in this stream: deliver, settle and write at the end of the turn."""

    def stream_added(self, account: "JetStreamAccount", asset: Any) -> None: ...
    def stream_changed(self, account: "JetStreamAccount", asset: Any) -> None: ...
    def stream_removed(self, account: "JetStreamAccount", asset: Any) -> None: ...
    def consumer_added(self, account: "JetStreamAccount", asset: Any, consumer: Any) -> None: ...
    def consumer_changed(self, account: "JetStreamAccount", asset: Any, consumer: Any) -> None: ...
    def consumer_removed(self, account: "JetStreamAccount", asset: Any, consumer: Any) -> None: ...
