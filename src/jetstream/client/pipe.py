"""One blocking connection for bulk work: the way Spark's driver and workers talk to a server.

No event loop, no threads, no callbacks: a `Pipe` sends requests and waits, reads a subscription
straight into columns (`columns.py`) and publishes rows with a window of unanswered ones. It answers
the server's PINGs wherever they arrive. When the connection is lost the operation under way raises
`ConnectionLost`; who reads by sequence reconnects and resumes there.
"""

import contextlib
import json
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from jetstream.clock import Random
from jetstream.errors import ApiError, JetStreamError, ProtocolError, Refusal

Answer = TypeVar("Answer")

RECEIVE_BYTES = 1 << 20
CONNECT_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 10.0


class ConnectionLost(JetStreamError):
    """The server went away, or no server could be reached."""


class NoResponders(JetStreamError):
    """Nobody listens on the subject of a request."""


class RequestTimeout(JetStreamError):
    """No answer came in time."""


class Target(Struct, frozen=True):
    """Where to connect and who we are. Credentials are content, never paths: workers may run on
    machines that do not have the driver's files."""

    servers: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    user: str = ""
    password: str = ""
    token: str = ""
    nkey: str = ""
    creds: str = ""
    tls: bool = False
    tls_first: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_insecure: bool = False
    name: str = "jetstream-pipe"
    inbox_prefix: str = "_INBOX"


class Message(Struct, frozen=True):
    """What came back on a subscription."""

    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes

    @property
    def status(self) -> int:
        """The status number of a header-only answer, 0 when there is none."""
        code = self.headers[9:12]
        return int(code) if code.isdigit() else 0

    @property
    def description(self) -> str:
        line = self.headers[:].split(b"\r\n", 1)[0]
        return line[13:].decode(errors="replace").strip()

    def header(self, name: bytes) -> bytes:
        """First value of a header, b"" when absent."""
        at = self.headers.find(b"\r\n" + name + b":")
        if at < 0:
            return b""
        return self.headers[at + len(name) + 3 :].split(b"\r\n", 1)[0].strip()


class Pipe:
    """A connection; not safe to share between threads."""

    def __init__(self, target: Target, connect: bool = True) -> None:
        self.target = target
        self.info: dict[str, Any] = {}
        self.buffer = bytearray(RECEIVE_BYTES * 2)
        self.start = 0
        self.end = 0
        self._random = Random()
        self._sids = 0
        self._requests = 0
        self._socket: socket.socket | None = None
        self._known: list[str] = list(target.servers)
        if connect:
            self.connect()

    # Connecting

    def connect(self) -> None:
        """Connect to the first server that takes us; also after a loss."""
        self.close()
        problems: list[str] = []
        urls = list(dict.fromkeys(self._known))
        random.shuffle(urls)
        for url in urls:
            try:
                self._open(url)
                return
            except ApiError:
                raise
            except (OSError, JetStreamError) as error:
                self.close()
                problems.append(f"{_shown(url)}: {error}")
        raise ConnectionLost("no server reached: " + "; ".join(problems))

    def reconnect(self, deadline_s: float) -> None:
        """Try again until it works or `deadline_s` seconds have passed."""
        until = time.monotonic() + deadline_s
        pause = 0.05
        while True:
            try:
                return self.connect()
            except ConnectionLost:
                if time.monotonic() + pause > until:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 1.0)

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = None
        self.start = self.end = 0
        self._sids = 0

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def __enter__(self) -> "Pipe":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, url: str) -> None:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname or "127.0.0.1", parts.port or 4222
        raw = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = raw
        wants_tls = self.target.tls or parts.scheme == "tls" or bool(self.target.tls_ca)
        if self.target.tls_first:
            self._socket = self._wrapped(raw, host)
        line = self._line(time.monotonic() + CONNECT_TIMEOUT_S)
        if not line.startswith(b"INFO "):
            raise ProtocolError(f"expected INFO, got {line[:40]!r}")
        self.info = json.loads(line[5:])
        if not self.target.tls_first and (wants_tls or self.info.get("tls_required")):
            self._socket = self._wrapped(raw, host)
        self.send(b"CONNECT " + json.dumps(self._hello(parts)).encode() + b"\r\nPING\r\n")
        until = time.monotonic() + CONNECT_TIMEOUT_S
        while True:
            line = self._line(until)
            if line == b"PONG":
                break
            if line.startswith(b"-ERR"):
                raise ConnectionLost(line[5:].decode(errors="replace").strip("'"))
        scheme = parts.scheme if parts.scheme in ("tls", "nats") else "nats"
        self._known += [f"{scheme}://{u}" for u in self.info.get("connect_urls") or []]
        self._inbox = f"{self.target.inbox_prefix}.{self._random.nuid()}".encode()
        self._request_sid = self.subscribe(self._inbox + b".*")

    def _wrapped(self, raw: socket.socket, host: str) -> socket.socket:
        context = ssl.create_default_context(cadata=self.target.tls_ca or None)
        if self.target.tls_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.target.tls_cert:
            _load_chain(context, self.target.tls_cert, self.target.tls_key)
        return context.wrap_socket(raw, server_hostname=host)

    def _hello(self, parts: Any) -> dict[str, Any]:
        hello: dict[str, Any] = {
            "verbose": False,
            "pedantic": False,
            "lang": "python",
            "version": "0.1.0",
            "protocol": 1,
            "name": self.target.name,
            "headers": True,
            "no_responders": True,
            "echo": True,
        }
        user, password = parts.username or self.target.user, parts.password or self.target.password
        if user and password:
            hello |= {"user": user, "pass": password}
        elif user or self.target.token:
            hello["auth_token"] = self.target.token or user
        if self.target.creds:
            from jetstream.security.creds import parse_creds
            from jetstream.security.nkeys import encode_signature

            creds = parse_creds(self.target.creds)
            nonce = str(self.info.get("nonce", "")).encode()
            hello["jwt"] = creds.jwt
            hello["sig"] = encode_signature(creds.key_pair().sign(nonce))
        elif self.target.nkey:
            from jetstream.security.nkeys import KeyPair, encode_signature

            pair = KeyPair.from_seed(self.target.nkey.strip())
            hello["nkey"] = pair.public_key
            nonce = str(self.info.get("nonce", "")).encode()
            hello["sig"] = encode_signature(pair.sign(nonce))
        return hello

    # Bytes

    def send(self, data: Any) -> None:
        if self._socket is None:
            raise ConnectionLost("not connected")
        try:
            self._socket.settimeout(30.0)
            self._socket.sendall(data)
        except OSError as error:
            self.close()
            raise ConnectionLost(f"sending failed: {error}") from error

    def receive(self, until: float) -> bool:
        """Read more bytes into the buffer; False when `until` (monotonic seconds) came first."""
        if self._socket is None:
            raise ConnectionLost("not connected")
        self._make_room()
        wait = until - time.monotonic()
        if wait <= 0:
            wait = 0.0001
        try:
            self._socket.settimeout(wait)
            count = self._socket.recv_into(memoryview(self.buffer)[self.end :])
        except TimeoutError:
            return False
        except OSError as error:
            self.close()
            raise ConnectionLost(f"receiving failed: {error}") from error
        if count == 0:
            self.close()
            raise ConnectionLost("the server closed the connection")
        self.end += count
        return True

    def _make_room(self) -> None:
        if self.start == self.end:
            self.start = self.end = 0
        elif len(self.buffer) - self.end < RECEIVE_BYTES // 2:
            kept = self.end - self.start
            if kept + RECEIVE_BYTES > len(self.buffer):
                # A frame larger than the buffer: grow once, in one step.
                self.buffer = self.buffer[self.start : self.end] + bytes(kept + 2 * RECEIVE_BYTES)
            else:
                self.buffer[:kept] = self.buffer[self.start : self.end]
            self.start, self.end = 0, kept

    def _line(self, until: float) -> bytes:
        while True:
            at = self.buffer.find(b"\r\n", self.start, self.end)
            if at >= 0:
                line = bytes(self.buffer[self.start : at])
                self.start = at + 2
                return line
            if not self.receive(until):
                raise ConnectionLost("timeout")

    def next_message(self, until: float) -> tuple[int, Message] | None:
        """The next message of any subscription as (sid, message); None when time is up."""
        while True:
            found = self.step(until)
            if found is not None:
                return found
            if time.monotonic() >= until:
                return None

    def step(self, until: float) -> tuple[int, Message] | None:
        """Deal with exactly one operation; a message is handed out, anything else gives None.

        Who reads frames by itself comes here for the one it did not know: taking more than that
        one would swallow the frame behind a PING.
        """
        while (at := self.buffer.find(b"\r\n", self.start, self.end)) < 0:
            if not self.receive(until):
                return None
        words = bytes(self.buffer[self.start : at]).split()
        kind = words[0].upper() if words else b""
        if kind not in (b"MSG", b"HMSG"):
            self.start = at + 2
            self._on_control(kind, words)
            return None
        total, head = int(words[-1]), int(words[-2]) if kind == b"HMSG" else 0
        body = at + 2 - self.start
        while self.end - self.start - body < total + 2:
            if not self.receive(until):
                return None
        has_reply = len(words) == (6 if kind == b"HMSG" else 5)
        block = bytes(self.buffer[self.start + body : self.start + body + total])
        self.start += body + total + 2
        reply = words[3] if has_reply else b""
        return int(words[2]), Message(words[1], reply, block[:head], block[head:])

    def _on_control(self, kind: bytes, words: list[bytes]) -> None:
        if kind == b"PING":
            self.send(b"PONG\r\n")
        elif kind == b"-ERR":
            text = b" ".join(words[1:]).decode(errors="replace").strip("'")
            if "permissions violation" in text.lower():
                raise JetStreamError(text)
            self.close()
            raise ConnectionLost(text)
        elif kind == b"INFO":
            info = json.loads(b" ".join(words[1:]))
            self._known += [f"nats://{u}" for u in info.get("connect_urls") or []]

    # Subjects

    def new_inbox(self) -> bytes:
        return f"{self.target.inbox_prefix}.{self._random.nuid()}".encode()

    def subscribe(self, subject: bytes, queue: bytes = b"") -> int:
        self._sids += 1
        middle = b" " + queue if queue else b""
        self.send(b"SUB %b%b %d\r\n" % (subject, middle, self._sids))
        return self._sids

    def unsubscribe(self, sid: int) -> None:
        self.send(b"UNSUB %d\r\n" % sid)

    def publish(
        self, subject: str, payload: bytes = b"", reply: bytes = b"", headers: bytes = b""
    ) -> None:
        self.send(frame(subject.encode(), payload, reply, headers))

    def request(
        self,
        subject: str,
        payload: bytes = b"",
        headers: bytes = b"",
        timeout: float = REQUEST_TIMEOUT_S,
    ) -> Message:
        """Ask and wait for one answer."""
        for message in self.request_many(subject, payload, headers, timeout):
            if message.status == 503 and not message.payload:
                raise NoResponders(f"nobody answers on {subject}")
            return message
        raise RequestTimeout(f"no answer on {subject} within {timeout:g} s")

    def request_many(
        self,
        subject: str,
        payload: bytes = b"",
        headers: bytes = b"",
        timeout: float = REQUEST_TIMEOUT_S,
    ) -> Iterator[Message]:
        """Ask once, hand out every answer until `timeout` passes without one."""
        self._requests += 1
        reply = self._inbox + b".%d" % self._requests
        self.send(frame(subject.encode(), payload, reply, headers))
        while True:
            found = self.next_message(time.monotonic() + timeout)
            if found is None:
                return
            if found[0] == self._request_sid and found[1].subject == reply:
                yield found[1]

    def api(
        self, subject: str, body: Any = None, timeout: float = REQUEST_TIMEOUT_S
    ) -> dict[str, Any]:
        """A JetStream API request as JSON; a refusal is raised as `ApiError`."""
        payload = b"" if body is None else json.dumps(body).encode()
        answer: dict[str, Any] = json.loads(self.request(subject, payload, timeout=timeout).payload)
        refused = answer.get("error")
        if refused:
            raise ApiError(
                Refusal(
                    refused.get("code", 500),
                    refused.get("err_code", 0),
                    str(refused.get("description", "")).replace("{", "{{").replace("}", "}}"),
                )
            )
        return answer

    def ping(self, timeout: float = 2.0) -> bool:
        """Is anybody there? Messages that arrive meanwhile stay in the buffer."""
        self.send(b"PING\r\n")
        until = time.monotonic() + timeout
        seen = self.end
        while True:
            at = self.buffer.find(b"PONG\r\n", max(self.start, seen - 6), self.end)
            if at >= 0:
                return True
            before = self.end - self.start
            if not self.receive(until):
                return False
            seen = self.start + before


def frame(subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes = b"") -> bytes:
    """One PUB or HPUB."""
    answer = b" " + reply if reply else b""
    if headers:
        total = len(headers) + len(payload)
        head = b"HPUB %b%b %d %d\r\n" % (subject, answer, len(headers), total)
        return head + headers + payload + b"\r\n"
    return b"PUB %b%b %d\r\n" % (subject, answer, len(payload)) + payload + b"\r\n"


def header_block(headers: dict[str, str] | list[tuple[str, str]]) -> bytes:
    """A NATS/1.0 header block of simple headers."""
    pairs = headers.items() if isinstance(headers, dict) else headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in pairs)
    return f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""


_idle: dict[Target, list[Pipe]] = {}


@contextlib.contextmanager
def lease(target: Target) -> Iterator[Pipe]:
    """A connection of this process for as long as the block lasts.

    Workers are reused, and so are connections: a connection whose block ended well waits for the
    next one, any other is closed.
    """
    idle = _idle.setdefault(target, [])
    pipe: Pipe | None = None
    while idle and pipe is None:
        pipe = idle.pop()
        if not _alive(pipe):
            pipe.close()
            pipe = None
    if pipe is None:
        pipe = Pipe(target)
    try:
        yield pipe
    except BaseException:
        pipe.close()
        raise
    if pipe.is_open:
        idle.append(pipe)


def forget_pipes() -> None:
    """Close every idle connection of this process."""
    while _idle:
        for pipe in _idle.popitem()[1]:
            pipe.close()


def with_retries(
    target: Target, work: Callable[[Pipe], Answer], deadline_s: float = 20.0
) -> Answer:
    """Do something repeatable on a connection; again on a new one when it was lost."""
    until = time.monotonic() + deadline_s
    pause = 0.05
    while True:
        try:
            with lease(target) as pipe:
                return work(pipe)
        except (ConnectionLost, RequestTimeout, NoResponders):
            if time.monotonic() + pause > until:
                raise
            time.sleep(pause)
            pause = min(pause * 2, 1.0)


def _alive(pipe: Pipe) -> bool:
    try:
        return pipe.ping(1.0)
    except JetStreamError:
        return False


def _load_chain(context: ssl.SSLContext, cert: str, key: str) -> None:
    # The standard library reads certificates from files only; ours are content.
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        cert_file, key_file = Path(folder) / "cert.pem", Path(folder) / "key.pem"
        cert_file.write_text(cert)
        key_file.touch(mode=0o600)
        key_file.write_text(key or cert)
        context.load_cert_chain(cert_file, key_file)


def _shown(url: str) -> str:
    """A URL without its password."""
    return url.rsplit("@", 1)[-1]
