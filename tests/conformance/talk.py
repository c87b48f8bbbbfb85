"""One scripted conversation, held with the reference and with our server, and compared.

A scenario is a function that talks through a `Talk`; everything it hears is written down with the
parts masked that may differ (times, random ids). Two transcripts must be equal line by line.
"""

import base64
import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REFERENCE = Path(sys.executable).with_name("nats-server")
Headers = dict[str, str]

_MASKS = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r'"id":"[0-9A-Za-z]{22}"'), '"id":"<id>"'),
    (re.compile(r'"active":[1-9]\d*'), '"active":<ns>'),
    (re.compile(r'"rtt":\d+,'), ""),
    (re.compile(r'"host":"127.0.0.1","id":\d+'), '"host":"127.0.0.1","id":<cid>'),
    (re.compile(r"(\$JS\.SNAPSHOT\.\w+\.\w+)\.[0-9A-Za-z]+"), r"\1.<id>"),
    (re.compile(r"(Nats-Stream-Source: .*) \w{8}\b"), r"\1 <identity>"),
]
_KEEP_ZERO = "0001-01-01T00:00:00Z"


def mask(text: str) -> str:
    text = text.replace(_KEEP_ZERO, "<never>")
    for pattern, shown in _MASKS:
        text = pattern.sub(shown, text)
    return text


class Talk:
    """A raw client that writes down what it hears."""

    def __init__(self, port: int, user: str = "", password: str = "") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self._buffer = b""
        self._line()
        options: dict[str, Any] = {"verbose": False, "headers": True, "no_responders": True}
        options |= {"lang": "talk", "version": "1", "name": "talk", "protocol": 1}
        if user:
            options |= {"user": user, "pass": password}
        self._send(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        while not self._line().startswith(b"PONG"):
            pass
        self.transcript: list[str] = []
        self._asked = 0
        self._sids = 0
        self._others: list[tuple[str, str, bytes, bytes]] = []
        self.subscribe("_INBOX.talk.*")

    def close(self) -> None:
        self._socket.close()

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("closed")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\r\n", 1)
        return line

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size + 2:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("closed")
            self._buffer += data
        body, self._buffer = self._buffer[:size], self._buffer[size + 2 :]
        return body

    def subscribe(self, subject: str) -> None:
        self._sids += 1
        self._send(f"SUB {subject} {self._sids}\r\n".encode())

    def publish(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Headers | None = None,
        reply: str = "",
    ) -> None:
        if headers is None:
            self._send(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
            return
        lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        block = f"NATS/1.0\r\n{lines}\r\n".encode()
        sizes = f"{len(block)} {len(block) + len(payload)}"
        self._send(f"HPUB {subject} {reply} {sizes}\r\n".encode() + block + payload + b"\r\n")

    def hear(self, timeout: float) -> tuple[str, str, bytes, bytes] | None:
        """The next message: subject, reply, headers, body."""
        end = time.monotonic() + timeout
        while True:
            self._socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                line = self._line()
            except TimeoutError:
                return None
            finally:
                self._socket.settimeout(5)
            words = line.split()
            if line.startswith(b"PING"):
                self._send(b"PONG\r\n")
            elif words and words[0] in (b"MSG", b"HMSG"):
                fixed = 4 if words[0] == b"MSG" else 5
                reply = words[3].decode() if len(words) > fixed else ""
                body = self._take(int(words[-1]))
                cut = int(words[-2]) if words[0] == b"HMSG" else 0
                return words[1].decode(), reply, body[:cut], body[cut:]

    # -- what scenarios use -------------------------------------------------------------------

    def note(self, *parts: object) -> None:
        self.transcript.append(mask(" ".join(str(part) for part in parts)))

    def ask(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Headers | None = None,
        timeout: float = 2.0,
    ) -> tuple[bytes, bytes] | None:
        self._asked += 1
        inbox = f"_INBOX.talk.{self._asked}"
        self.publish(subject, payload, headers, inbox)
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            heard = self.hear(left)
            if heard is None:
                break
            if heard[0] == inbox:
                return heard[2], heard[3]
            self._others.append(heard)
        return None

    def request(
        self, subject: str, payload: bytes = b"", headers: Headers | None = None, **more: Any
    ) -> None:
        """Ask and write the answer down."""
        heard = self.ask(subject, payload, headers, **more)
        shown = (heard[0].decode("latin-1"), heard[1].decode("latin-1")) if heard else None
        self.note(subject, headers or "", payload[:60], "->", shown)

    def api(
        self, endpoint: str, body: Any = b"", headers: Headers | None = None, **more: Any
    ) -> Any:
        """Ask `$JS.API`; a dict becomes JSON. Returns the decoded answer."""
        if isinstance(body, str):
            body = body.encode()
        elif not isinstance(body, bytes):
            body = json.dumps(body).encode()
        heard = self.ask(f"$JS.API.{endpoint}", body, headers, **more)
        text = heard[1].decode() if heard else None
        self.note(endpoint, headers or "", body[:300], "->", heard[0] if heard else "", text)
        try:
            return json.loads(text) if text else None
        except ValueError:
            return None

    def stored(self, stream: str, first: int, last: int) -> None:
        """Write down the messages of a stream."""
        for seq in range(first, last + 1):
            heard = self.ask(f"$JS.API.STREAM.MSG.GET.{stream}", b'{"seq":%d}' % seq)
            answer = json.loads(heard[1]) if heard else {}
            found = answer.get("message")
            if found is None:
                self.note(stream, seq, "absent", answer.get("error"))
                continue
            block = base64.b64decode(found.get("hdrs", "")).decode("latin-1")
            body = base64.b64decode(found.get("data", ""))
            self.note(stream, seq, found["subject"], repr(block), body)

    def state(self, stream: str) -> None:
        heard = self.ask(f"$JS.API.STREAM.INFO.{stream}", b'{"subjects_filter":">"}')
        self.note(stream, "state", json.loads(heard[1]).get("state") if heard else None)

    def heard(self, timeout: float = 0.3) -> None:
        """Write down what came on other subscriptions."""
        while (message := self.hear(timeout)) is not None:
            self._others.append(message)
        for subject, reply, block, body in self._others:
            shown = (block.decode("latin-1"), body.decode("latin-1"))
            self.note("heard", subject, reply, shown)
        self._others = []

    @staticmethod
    def pause(seconds: float) -> None:
        time.sleep(seconds)


@contextlib.contextmanager
def a_server(command: list[str], config: str) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    directory = Path(tempfile.mkdtemp(prefix="conformance"))
    conf = directory / "server.conf"
    conf.write_text(
        f'listen: "127.0.0.1:{port}"\nserver_name: peer\n' + config.replace("@DIR@", str(directory))
    )
    log = (directory / "log").open("wb")
    process = subprocess.Popen([*command, "-c", str(conf)], stdout=log, stderr=log)
    try:
        _wait_for(port, process, directory / "log")
        yield port
    finally:
        process.kill()
        process.wait(10)
        log.close()
        shutil.rmtree(directory, ignore_errors=True)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(200):
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the server does not listen: " + log.read_text())


JETSTREAM = 'jetstream { store_dir: "@DIR@" }\n'
OURS = [sys.executable, "-c", "from jetstream.server.main import run; run()"]

Scenario = Callable[[Talk], None]


def hold(port: int, scenario: Scenario, user: str = "", password: str = "") -> list[str]:
    talk = Talk(port, user, password)
    try:
        scenario(talk)
    finally:
        talk.close()
    return talk.transcript
