"""kill -9 while several publishers write to the real server: what was acknowledged is there.

The same store directory lives through all kills of a run. After each one the directory is read
offline, as the next start will find it, and every acknowledged message is compared byte for byte.
"""

import json
import random
import re
import signal
import socket
import tempfile
import threading
import time

import pytest

from jetstream.store.files import Files
from jetstream.store.overlay import Overlay
from jetstream.store.vault import Vault
from tests.conformance.servers import Ours

PUBLISHERS = 3
ACK = re.compile(rb"MSG in\d*\.(\d+) 1 (\d+)\r\n(\{[^\r]*\})\r\n")


class Publisher(threading.Thread):
    """Publishes in small bursts and remembers which sequence was acknowledged for which payload."""

    def __init__(self, port: int, number: int, start_at: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.number = number
        self.count = start_at
        self.acked: dict[int, bytes] = {}

    def run(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as door:
                door.sendall(b'CONNECT {"verbose":false}\r\nSUB in%d.* 1\r\n' % self.number)
                self._publish(door)
        except OSError:
            pass  # the server was killed

    def _publish(self, door: socket.socket) -> None:
        waiting: dict[int, bytes] = {}
        rest = b""
        while True:
            burst = b""
            for _ in range(8):
                payload = b"%d/%d " % (self.number, self.count) + b"x" * (self.count % 300)
                waiting[self.count] = payload
                reply = b"in%d.%d" % (self.number, self.count)
                head = b"PUB k.%d %s %d\r\n" % (self.count % 50, reply, len(payload))
                burst += head + payload + b"\r\n"
                self.count += 1
            door.sendall(burst)
            while waiting:
                piece = door.recv(65536)
                if not piece:
                    return
                rest += piece
                end = 0
                for found in ACK.finditer(rest):
                    end = found.end()
                    self.acked[json.loads(found[3])["seq"]] = waiting.pop(int(found[1]))
                rest = rest[end:]


def request(port: int, subject: str, body: bytes = b"") -> dict[str, object]:
    """One API request, by hand."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as door:
        door.sendall(b'CONNECT {"verbose":false}\r\nSUB in.* 1\r\n')
        door.sendall(b"PUB %s in.1 %d\r\n%s\r\n" % (subject.encode(), len(body), body))
        seen = b""
        while True:
            found = ACK.search(seen)
            if found:
                answer: dict[str, object] = json.loads(found[3])
                return answer
            seen += door.recv(65536)


def check(directory: str, acked: dict[int, bytes]) -> None:
    """What the next start will find holds everything that was acknowledged."""
    vault = Vault(f"{directory}/jetstream", Overlay(Files()))
    (home,) = vault.streams("$G")
    store = home.open()
    for seq, payload in acked.items():
        message = store.get(seq)
        assert message is not None, f"sequence {seq} was acknowledged and is gone"
        assert message.payload == payload
    lost = store.lost()
    assert lost is None or not set(lost.seqs()) & set(acked)


def run_kills(kills: int, seed: int) -> int:
    chance = random.Random(seed)
    total = 0
    with tempfile.TemporaryDirectory() as directory:
        acked: dict[int, bytes] = {}
        count = 0
        for turn in range(kills):
            server = Ours("-js", "-sd", directory).start()
            try:
                if turn == 0:
                    config = {"name": "KILLED", "subjects": ["k.*"], "max_msgs": 20_000}
                    request(
                        server.port, "$JS.API.STREAM.CREATE.KILLED", json.dumps(config).encode()
                    )
                publishers = [Publisher(server.port, i, count) for i in range(PUBLISHERS)]
                for publisher in publishers:
                    publisher.start()
                time.sleep(chance.uniform(0.05, 0.3))
            finally:
                server.stop(signal.SIGKILL)
                server.home.cleanup()
            for publisher in publishers:
                publisher.join(5)
                acked |= publisher.acked
                count = max(count, publisher.count)
                total += len(publisher.acked)
            check(directory, acked)
            # max_msgs removes old ones; remember only what must still be there.
            acked = dict(sorted(acked.items())[-5_000:])
    return total


@pytest.mark.timeout(300)
def test_a_few_kills() -> None:
    assert run_kills(3, seed=1) > 20


@pytest.mark.long
@pytest.mark.timeout(20_000)
def test_two_thousand_kills() -> None:
    total = sum(run_kills(100, seed=seed) for seed in range(20))
    print(f"\n2000 kills, {total} acknowledged messages, none lost")  # noqa: T201
