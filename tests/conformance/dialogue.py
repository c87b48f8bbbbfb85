"""A short conversation with a server over raw sockets, and what the client saw of it.

Steps are (connection, bytes): connections are opened when first named and their INFO is read; after
each step everything that arrives is collected until it is quiet. What is compared between two
servers is, per connection, every byte received (INFO reduced to its keys) and whether it was
closed.
"""

import json
import re
import selectors
import socket
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

HALF_CLOSE = b"\x00half-close"
CLOSE = b"\x00close"
SILENCE = b"\x00wait"  # send nothing, only listen

REPLY = b"<reply>"  # stands for the reply subject of the last request that crossed accounts

_CROSSED = re.compile(rb"_R_\.\w+\.\w+")
_REQUEST_INFO = re.compile(rb"Nats-Request-Info: (\{.*?\})\r\n")
_INFO = re.compile(rb"INFO (\{[^\r\n]*\}) ?\r\n", re.DOTALL)

Step = tuple[str, bytes]


class Seen(Struct, frozen=True):
    """What one connection observed."""

    received: bytes
    closed: bool


class _Peer:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self.closed = False
        self.gone = False

    def read(self) -> bool:
        """True if something happened."""
        if self.closed or self.gone:
            return False
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self.received += data
        else:
            self.closed = True
        return True


def hold(port: int, steps: Sequence[Step], pause_s: float, slice_bytes: int = 0) -> dict[str, Seen]:
    """Have the conversation; `slice_bytes` cuts what is sent into pieces of that size."""
    peers: dict[str, _Peer] = {}
    with selectors.DefaultSelector() as selector:
        try:
            for name, data in steps:
                if name not in peers:
                    peer = peers[name] = _Peer(port)
                    while b"\r\n" not in peer.received:
                        peer.read()
                    peer.socket.setblocking(False)
                    selector.register(peer.socket, selectors.EVENT_READ, peer)
                replies = _CROSSED.findall(bytes(peers[name].received))
                data = data.replace(REPLY, replies[-1] if replies else b"none")
                _act(selector, peers[name], data, slice_bytes)
                _listen(selector, pause_s)
            return {
                name: Seen(_reduced(bytes(peer.received)), peer.closed)
                for name, peer in peers.items()
            }
        finally:
            for peer in peers.values():
                peer.socket.close()


def _act(selector: selectors.BaseSelector, peer: _Peer, data: bytes, slice_bytes: int) -> None:
    if data == HALF_CLOSE:
        peer.socket.shutdown(socket.SHUT_WR)
    elif data == CLOSE:
        selector.unregister(peer.socket)
        peer.gone = True
        peer.socket.close()
    elif data != SILENCE:
        size = slice_bytes or len(data)
        peer.socket.setblocking(True)
        peer.socket.settimeout(5)
        try:
            for at in range(0, len(data), size):
                peer.socket.sendall(data[at : at + size])
                if slice_bytes:
                    time.sleep(0.0005)
        except OSError:
            pass  # the server has closed already: that is what will be seen
        peer.socket.setblocking(False)


def _listen(selector: selectors.BaseSelector, pause_s: float) -> None:
    quiet_since = time.monotonic()
    while True:
        left = quiet_since + pause_s - time.monotonic()
        if left <= 0:
            return
        for key, _ in selector.select(left):
            if key.data.read():
                quiet_since = time.monotonic()
            if key.data.closed:
                selector.unregister(key.fileobj)


def frames(received: bytes) -> Iterator[bytes]:
    """Control lines, messages together with what they carry."""
    while received:
        line, _, _ = received.partition(b"\r\n")
        size = len(line) + 2
        if line.startswith((b"MSG ", b"HMSG ")):
            size += int(line.split()[-1]) + 2
        yield received[:size]
        received = received[size:]


def _reduced(received: bytes) -> bytes:
    """What may differ between two servers is taken out: ids, times, opaque replies."""
    return b"".join(_reduced_frame(frame) for frame in frames(received))


def _reduced_frame(frame: bytes) -> bytes:
    if info := _INFO.fullmatch(frame):
        found = set(json.loads(info[1])) - {"git_commit"}  # tells of a build, not of behaviour
        return b"INFO " + " ".join(sorted(found)).encode() + b"\r\n"
    frame = _CROSSED.sub(b"_R_.x.y", frame)
    who = _REQUEST_INFO.search(frame)
    if who is None:
        return frame
    names = " ".join(json.loads(who[1])).encode()
    changed = _REQUEST_INFO.sub(b"Nats-Request-Info: " + names + b"\r\n", frame)
    line, _, rest = changed.partition(b"\r\n")
    *arguments, headers, total = line.split(b" ")
    shorter = len(frame) - len(changed)
    sizes = [b"%d" % (int(headers) - shorter), b"%d" % (int(total) - shorter)]
    return b" ".join([*arguments, *sizes]) + b"\r\n" + rest
