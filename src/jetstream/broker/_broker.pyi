from collections.abc import Callable
from typing import Any

from jetstream.subjects._tree import SubjectTree
from jetstream.wire._outbox import Outbox
from jetstream.wire._parser import Batch

class Subscription:
    client: Client | None
    account: Account
    subject: bytes
    queue: bytes | None
    sid: bytes
    limit: int
    delivered: int
    closed: bool
    handler: Callable[[Any, bytes, bytes, bytes, bytes], object] | None
    sink: Any
    rename: Callable[[bytes], bytes | None] | None
    filtered: bool
    shadows: list[Subscription] | None
    parent: Subscription | None
    def __init__(
        self,
        client: Client | None,
        account: Account,
        subject: bytes,
        queue: bytes | None = None,
        sid: bytes = b"",
    ) -> None: ...

class Client:
    cid: int
    outbox: Outbox
    account: Account
    subscriptions: dict[bytes, Subscription]
    headers: bool
    echo: bool
    verbose: bool
    pedantic: bool
    no_responders: bool
    dirty: bool
    gone: bool
    overflowing: bool
    stalled: bool
    draining: bool
    waits_for: Client | None
    ready: bool
    pending_max: int
    in_transport: int
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    permissions: Any
    tracks_replies: bool
    def __init__(self) -> None: ...
    def on_operation(self, kind: int, batch: Batch, i: int) -> bool: ...
    def refuse_publish(self, subject: bytes, reply: bytes) -> None: ...
    def bad_publish_subject(self, subject: bytes) -> None: ...
    def put(self, data: bytes) -> None: ...

class Account:
    name: str
    tree: SubjectTree
    mapping: Callable[[bytes], bytes | None] | None
    on_acks: Callable[[Client, Batch, int, int], None] | None
    on_direct_gets: Callable[[Client, Batch, int, int], None] | None
    on_interest: Callable[[Subscription, bool], None] | None
    watched: bool
    spec: Any
    jetstream: Any
    clients: set[Any]
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    def __init__(self, name: str) -> None: ...
    def subscribe(self, sub: Subscription) -> None: ...
    def unsubscribe(self, sub: Subscription) -> None: ...
    def forget_routes(self) -> None: ...
    def has_interest(self, subject: bytes, queue: bytes | None = None) -> bool: ...

class Route: ...

class Broker:
    dirty: list[Client]
    wake: Callable[[], None] | None
    on_error: Callable[[Exception], None] | None
    on_overflow: Callable[[Client], None] | None
    now: Callable[[], int]
    shown: bytes | None
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    def __init__(self, seed: int = ...) -> None: ...
    def take_dirty(self) -> list[Client]: ...
    def mark(self, client: Client) -> None: ...
    def drop(self, sub: Subscription) -> None: ...
    def publish(
        self,
        account: Account,
        subject: bytes,
        payload: bytes,
        reply: bytes = b"",
        headers: bytes = b"",
        origin: Client | None = None,
        capture: bool = True,
        shown: bytes | None = None,
    ) -> int: ...
    def walk(self, client: Client, batch: Batch, start: int = 0) -> int: ...
    def no_responders(self, client: Client | None, subject: bytes, reply: bytes) -> None: ...
