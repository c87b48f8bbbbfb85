"""What happens to a connection, as values: for callbacks and for `async for event in …events()`."""

from enum import StrEnum

from msgspec import Struct


class Status(StrEnum):
    """Where a connection is in its life."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    DRAINING = "draining"
    CLOSED = "closed"


class EventKind(StrEnum):
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    RECONNECTED = "reconnected"
    RECONNECT_FAILED = "reconnect_failed"
    CLOSED = "closed"
    ERROR = "error"
    SLOW_CONSUMER = "slow_consumer"
    LAME_DUCK = "lame_duck"
    SERVERS_DISCOVERED = "servers_discovered"


class Event(Struct, frozen=True):
    """Something a user may want to know about the connection."""

    kind: EventKind
    server: str = ""
    error: Exception | None = None
    detail: str = ""


class Statistics(Struct):
    """Counters since the connection was opened."""

    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    reconnects: int = 0
    errors_received: int = 0
