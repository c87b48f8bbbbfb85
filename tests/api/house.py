"""JetStream of one account without sockets or threads: the API answered straight away."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jetstream.api.route import ApiRequest
from jetstream.api.routes import answer
from jetstream.clock import Random
from jetstream.engine.account import JetStreamAccount
from jetstream.store.vault import Vault
from jetstream.subjects.match import matches
from jetstream.wire._parser import Batch

NOW = 1_800_000_000_000_000_000
SECOND = 1_000_000_000


class House:
    """An engine as accounts see it: time is handed in, what is published is kept."""

    def __init__(self, root: Path, spec: Any = None) -> None:
        self.time = NOW
        self.random = Random(7)
        self.vault = Vault(str(root))
        self.max_payload = 1 << 20
        self.server_name = "house"
        self.server_id = "ID"
        self.domain = ""
        self.options = None
        self.desks: dict[int, Any] = {}
        self.server = SimpleNamespace(accounts=SimpleNamespace(system=self))
        self.listening: list[bytes] = []
        self.published: list[tuple[bytes, bytes, bytes, bytes]] = []
        self.due: list[tuple[int, Callable[[], None]]] = []
        self.js = JetStreamAccount("A", self, spec)
        self.accounts = {"A": self.js}

    # what rooms ask of the engine
    def now(self) -> int:
        return self.time

    def publish(
        self, account: str, subject: bytes, headers: bytes, payload: bytes, reply: bytes = b""
    ) -> int:
        self.published.append((subject, headers, payload, reply))
        return 1

    def send(self, account: Any, subject: bytes, payload: bytes, headers: bytes = b"") -> None:
        self.published.append((subject, headers, payload, b""))

    def has_interest(self, account: str, subject: bytes, queue: bytes = b"") -> bool:
        return any(matches(pattern, subject) for pattern in self.listening)

    def schedule(self, deadline_ns: int, callback: Callable[[], None]) -> None:
        self.due.append((deadline_ns, callback))

    def wake(self, asset: Any) -> None:
        for feed in list(asset.followers):
            feed.pump()

    def stream_added(self, account: Any, asset: Any) -> None: ...
    def stream_changed(self, account: Any, asset: Any) -> None: ...
    def stream_removed(self, account: Any, asset: Any) -> None: ...
    def consumer_added(self, account: Any, asset: Any, consumer: Any) -> None: ...
    def consumer_changed(self, account: Any, asset: Any, consumer: Any) -> None: ...
    def consumer_removed(self, account: Any, asset: Any, consumer: Any) -> None: ...

    # what tests do
    def advance(self, seconds: float = 0.0) -> None:
        """Let time pass and call who is due."""
        self.time += int(seconds * SECOND)
        for _ in range(50):
            ready = [entry for entry in self.due if entry[0] <= self.time]
            self.due = [entry for entry in self.due if entry[0] > self.time]
            if not ready:
                break
            for _, callback in ready:
                callback()

    def raw(self, subject: str, body: Any = b"", headers: bytes = b"") -> bytes | None:
        """The answer to a request, None when there was none."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.published.clear()
        request = ApiRequest(subject, b"reply", headers, payload, None, self.time)
        if answer(self, None, self.js, request) is False:
            return b"503"
        return next((p for s, _, p, _ in self.published if s == b"reply"), None)

    def api(self, endpoint: str, body: Any = b"", headers: bytes = b"") -> Any:
        told = self.raw(f"$JS.API.{endpoint}", body, headers)
        return json.loads(told) if told else None

    def put(self, stream: str, subject: str, payload: bytes = b"x", headers: bytes = b"") -> None:
        asset = self.js.streams[stream]
        batch = Batch.of([(subject.encode(), b"", headers, payload)])
        asset.stream.publish(batch, 0, 1, self.time)
        self.wake(asset)
        asset.stream.take_effects()
