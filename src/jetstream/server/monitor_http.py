"""The monitoring port: a very small HTTP/1.1 server for GET requests.

It answers from memory and never waits, so one protocol object per socket and a handful of lines
are enough; a web framework would cost more to import than everything else here.
"""

import asyncio
import sys
import traceback
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from jetstream.schema.encoding import escape, to_json
from jetstream.server import monitor, monitor_connz, monitor_js
from jetstream.server.monitor import PAGE, Bad
from jetstream.server.monitor_connz import OPEN, STATES, ConnzOptions
from jetstream.server.monitor_js import HealthzOptions, JszOptions

if TYPE_CHECKING:
    from jetstream.server.server import Server

REQUEST_BYTES_MAX = 16 * 1024
IDLE_S = 30.0
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"

Answer = tuple[int, str, bytes]


class Query:
    """The parameters of a request; wrong ones raise Bad in the reference's words."""

    def __init__(self, text: str) -> None:
        self.values = {k: v[0] for k, v in parse_qs(text, keep_blank_values=True).items()}

    def text(self, name: str) -> str:
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        value = self.values.get(name, "")
        if not value or value in _FALSE:
            return False
        if value in _TRUE:
            return True
        raise Bad(
            f"Error decoding boolean for '{name}': strconv.ParseBool: "
            f'parsing "{value}": invalid syntax'
        )

    def number(self, name: str, default: int = 0) -> int:
        value = self.values.get(name, "")
        if not value:
            return default
        try:
            return int(value)
        except ValueError:
            raise Bad(
                f"Error decoding int for '{name}': strconv.Atoi: "
                f'parsing "{value}": invalid syntax'
            ) from None


class MonitorDoor:
    """Knows what to answer on which path."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.requests: dict[str, int] = {}
        server.http_requests = self.requests
        base = "/" + server.options.http_base_path.strip("/")
        self.base = "" if base == "/" else base
        self.routes: dict[str, Callable[[Query], Answer]] = {
            "/": self._index,
            "/varz": lambda q: _json(monitor.varz(server, self.requests)),
            "/connz": self._connz,
            "/subsz": self._subsz,
            "/subscriptionsz": self._subsz,
            "/accountz": lambda q: _json(monitor.accountz(server, q.text("acc"))),
            "/accstatz": lambda q: _json(monitor.accstatz(server, unused=q.flag("unused"))),
            "/jsz": self._jsz,
            "/healthz": self._healthz,
            "/routez": lambda q: _json(monitor.routez(server)),
            "/gatewayz": lambda q: _json(monitor.gatewayz(server)),
            "/leafz": lambda q: _json(monitor.leafz(server)),
            "/ipqueuesz": lambda q: _json({}),
            "/raftz": lambda q: (404, _TEXT, b"No Raft nodes registered"),
            "/expvarz": lambda q: _json({"cmdline": sys.argv}),
            "/debug/vars": lambda q: _json({"cmdline": sys.argv}),
            "/stacksz": lambda q: (200, _JSON, _stacks().encode()),
            "/metrics": self._metrics,
        }

    def accept(self) -> asyncio.BaseProtocol:
        return _HttpConnection(self)

    def answer(self, target: str) -> Answer:
        """Answer a request target such as `/connz?limit=5`."""
        parts = urlsplit(target)
        path = unquote(parts.path)
        if self.base:
            if not path.startswith(self.base):
                return 404, _TEXT, b"404 page not found\n"
            path = path[len(self.base) :] or "/"
        route = self.routes.get(path.rstrip("/") or "/")
        if route is None:
            return 404, _TEXT, b"404 page not found\n"
        if path != "/metrics":
            self.requests[path] = self.requests.get(path, 0) + 1
        try:
            return route(Query(parts.query))
        except Bad as bad:
            return bad.status, _TEXT, bad.text.encode()

    def _connz(self, query: Query) -> Answer:
        detail = query.text("subs").lower() == "detail"
        state = query.text("state").lower()
        if state and state not in STATES:
            raise Bad(f"Error decoding state for {query.text('state')}")
        asked = ConnzOptions(
            sort=query.text("sort"),
            auth=query.flag("auth"),
            subscriptions=not detail and query.flag("subs"),
            subscriptions_detail=detail,
            offset=query.number("offset"),
            limit=query.number("limit", PAGE),
            cid=query.number("cid"),
            mqtt_client=query.text("mqtt_client"),
            state=STATES.get(state, OPEN),
            user=query.text("user"),
            acc=query.text("acc"),
            filter_subject=query.text("filter_subject"),
        )
        return _json(monitor_connz.connz(self.server, asked))

    def _subsz(self, query: Query) -> Answer:
        return _json(
            monitor.subsz(
                self.server,
                subs=query.flag("subs"),
                offset=query.number("offset"),
                limit=query.number("limit", PAGE),
                account=query.text("acc"),
                test=query.text("test"),
            )
        )

    def _jsz(self, query: Query) -> Answer:
        asked = JszOptions(
            account=query.text("acc"),
            accounts=query.flag("accounts"),
            streams=query.flag("streams"),
            consumer=query.flag("consumers"),
            direct_consumer=query.flag("direct-consumers"),
            config=query.flag("config"),
            leader_only=query.flag("leader-only"),
            offset=query.number("offset"),
            limit=query.number("limit", PAGE),
            raft=query.flag("raft"),
            stream_leader_only=query.flag("stream-leader-only"),
        )
        return _json(monitor_js.jsz(self.server, asked))

    def _healthz(self, query: Query) -> Answer:
        asked = HealthzOptions(
            account=query.text("account"),
            stream=query.text("stream"),
            consumer=query.text("consumer"),
            details=query.flag("details"),
            js_enabled=query.flag("js-enabled"),
            js_enabled_only=query.flag("js-enabled-only"),
            js_server_only=query.flag("js-server-only"),
            js_meta_only=query.flag("js-meta-only"),
        )
        status, found = monitor_js.healthz(self.server, asked)
        return status, _JSON, to_json(found)

    def _metrics(self, query: Query) -> Answer:
        from jetstream.server.metrics import metrics

        return 200, "text/plain; version=0.0.4; charset=utf-8", metrics(self.server).encode()

    def _index(self, query: Query) -> Answer:
        names = [name for name in self.routes if name not in ("/", "/subscriptionsz")]
        links = "\n".join(f'<li><a href=".{name}">{name}</a></li>' for name in names)
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f"<title>{self.server.name}</title>"
            "<style>body{font-family:system-ui,sans-serif;margin:2em}li{margin:.3em 0}</style>"
            f"</head><body><h1>jetstream</h1><ul>\n{links}\n</ul></body></html>\n"
        )
        return 200, "text/html; charset=utf-8", page.encode()


def _json(value: Any) -> Answer:
    return 200, _JSON, escape(msgspec.json.format(msgspec.json.encode(value)))


def _stacks() -> str:
    """Where every thread is right now."""
    parts = []
    for number, frame in sys._current_frames().items():
        lines = "".join(traceback.format_stack(frame))
        parts.append(f"thread {number}:\n{lines}")
    return "\n".join(parts)


class _HttpConnection(asyncio.Protocol):
    """One socket of the monitoring port; connections are kept open for the next question."""

    def __init__(self, door: MonitorDoor) -> None:
        self.door = door
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an instance under uvloop, whose transports only look like one.
        self._transport = cast(asyncio.Transport, transport)
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        assert self._transport is not None
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._buffer += data
        self._rest()
        while not self._transport.is_closing():
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > REQUEST_BYTES_MAX:
                    self._send(431, _TEXT, b"request is too large\n", keep=False)
                return
            head = bytes(self._buffer[:end]).decode("latin-1")
            del self._buffer[: end + 4]
            self._handle(head)

    def _handle(self, head: str) -> None:
        lines = head.split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._send(400, _TEXT, b"400 Bad Request\n", keep=False)
            return
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip().lower()
        asked = headers.get("connection", "")
        keep = asked != "close" if words[2] == "HTTP/1.1" else asked == "keep-alive"
        if words[0] not in ("GET", "HEAD"):
            self._send(405, _TEXT, b"Method Not Allowed\n", keep=False)
            return
        try:
            status, kind, body = self.door.answer(words[1])
        except Exception as problem:
            # One broken view must not take the port down; the log has the rest.
            self.door.server.on_handler_error(problem)
            status, kind, body = 500, _TEXT, b"Internal Server Error\n"
        self._send(status, kind, body, keep=keep, only_head=words[0] == "HEAD")

    def _send(
        self, status: int, kind: str, body: bytes, *, keep: bool, only_head: bool = False
    ) -> None:
        assert self._transport is not None
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        if kind == _JSON:
            lines.append("Access-Control-Allow-Origin: *")
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        if not keep:
            lines.append("Connection: close")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode()
        self._transport.write(head if only_head else head + body)
        if not keep:
            self._transport.close()
