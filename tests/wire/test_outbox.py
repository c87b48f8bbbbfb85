"""What goes into an outbox comes out in order, however it is taken."""

import socket

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jetstream.wire._outbox import Outbox

sizes = st.one_of(
    st.integers(0, 2000), st.sampled_from([65_535, 65_536, 65_537, 262_144, 262_145, 700_000])
)


class Queue(RuleBasedStateMachine):
    """Against plain bytes."""

    @initialize()
    def start(self) -> None:
        self.outbox = Outbox()
        self.expected = b""
        self.step = 0

    @rule(size=sizes)
    def append(self, size: int) -> None:
        self.step += 1
        data = bytes([self.step % 256]) * size
        self.outbox.append(data)
        self.expected += data

    @rule()
    def take(self) -> None:
        assert self.outbox.take() == self.expected
        self.expected = b""

    @rule(size=sizes)
    def take_front(self, size: int) -> None:
        taken = self.outbox.take_front(size)
        assert len(taken) <= size
        assert self.expected.startswith(taken)
        assert taken or not size or not self.expected
        self.expected = self.expected[len(taken) :]

    @rule()
    def clear(self) -> None:
        self.outbox.clear()
        self.expected = b""

    @invariant()
    def counts(self) -> None:
        assert len(self.outbox) == len(self.expected)


TestQueue = Queue.TestCase


@settings(deadline=None)
@given(parts=st.lists(sizes, max_size=30), reads=st.lists(st.integers(5_000, 400_000), min_size=1))
def test_a_socket_gets_everything_in_order(parts: list[int], reads: list[int]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        outbox = Outbox()
        expected = b"".join(bytes([i % 256]) * size for i, size in enumerate(parts))
        for i, size in enumerate(parts):
            outbox.append(bytes([i % 256]) * size)
        received = b""
        turn = 0
        while len(received) < len(expected):
            left = outbox.send(ours.fileno())
            assert left == len(outbox)
            try:
                received += theirs.recv(reads[turn % len(reads)])
            except BlockingIOError:
                assert not left
            turn += 1
        assert received == expected
        assert len(outbox) == 0


def test_a_broken_socket_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    outbox = Outbox()
    outbox.append(b"x")
    assert outbox.send(ours.fileno()) == -1
    ours.close()
