"""Per-key lanes: at most N messages of one key are out, other keys go on meanwhile.

A key is the subject or one of its tokens. A message whose lane is full is held and goes out when
the lane has room; lanes with held messages take turns, so that a busy key does not starve others.
"""

from array import array
from collections import deque
from collections.abc import Callable
from typing import Final

HELD_MAX: Final = 10_000
"""How far we read ahead past full lanes before we wait."""


class Lanes:
    """Who is out and who is held, by key."""

    __slots__ = (
        "_key_of_out",
        "_max",
        "_out",
        "_ready",
        "_subject_of",
        "_token",
        "_waiting",
        "held",
    )

    def __init__(self, token: int, most: int, subject_of: Callable[[int], bytes]) -> None:
        self._token = token
        self._max = most
        self._subject_of = subject_of
        self._out: dict[bytes, int] = {}
        self._key_of_out: dict[int, bytes] = {}
        self._waiting: dict[bytes, deque[int]] = {}
        self._ready: deque[bytes] = deque()
        self.held: dict[int, bytes] = {}

    def key(self, seq: int) -> bytes:
        subject = self._subject_of(seq)
        if not self._token:
            return subject
        tokens = subject.split(b".")
        return tokens[self._token - 1] if len(tokens) >= self._token else b""

    @property
    def full(self) -> bool:
        return len(self.held) >= HELD_MAX

    def first_held(self) -> int:
        return min(self.held, default=0)

    def admit(self, seqs: "array[int]") -> "array[int]":
        """Of these new ones, those that may go out; the others are held."""
        out = array("Q")
        for seq in seqs:
            key = self.key(seq)
            if key not in self._waiting and self._out.get(key, 0) < self._max:
                self.went_out(seq, key)
                out.append(seq)
            else:
                self.hold(seq, key)
        return out

    def hold(self, seq: int, key: bytes | None = None) -> None:
        key = self.key(seq) if key is None else key
        self.held[seq] = key
        self._waiting.setdefault(key, deque()).append(seq)
        if self._out.get(key, 0) < self._max and key not in self._ready:
            self._ready.append(key)

    def take(self, limit: int) -> "array[int]":
        """Held ones whose lane has room, a message per lane in turn."""
        out = array("Q")
        while self._ready and len(out) < limit:
            key = self._ready.popleft()
            waiting = self._waiting.get(key)
            if not waiting or self._out.get(key, 0) >= self._max:
                continue
            seq = waiting.popleft()
            if not waiting:
                del self._waiting[key]
            if seq not in self.held:
                # Deleted from the stream while it was held.
                if waiting:
                    self._ready.append(key)
                continue
            del self.held[seq]
            self.went_out(seq, key)
            out.append(seq)
            if waiting and self._out[key] < self._max:
                self._ready.append(key)
        return out

    def went_out(self, seq: int, key: bytes | None = None) -> None:
        key = self.key(seq) if key is None else key
        self._out[key] = self._out.get(key, 0) + 1
        self._key_of_out[seq] = key

    def came_back(self, seqs: "array[int]") -> None:
        """Settled, given up or gone: their lanes have room again."""
        for seq in seqs:
            key = self._key_of_out.pop(seq, None)
            if key is None:
                continue
            left = self._out[key] - 1
            if left:
                self._out[key] = left
            else:
                del self._out[key]
            if key in self._waiting and key not in self._ready:
                self._ready.append(key)

    def drop(self, seqs: "array[int]") -> None:
        """These left the stream."""
        for seq in seqs:
            self.held.pop(seq, None)
        self.came_back(seqs)

    def busy(self) -> int:
        """How many lanes have something out."""
        return len(self._out)
