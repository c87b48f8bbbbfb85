"""A consumer over a real memory store, with a clock that is only a number."""

from array import array
from typing import Any

from jetstream.clock import SECOND
from jetstream.consumer.acks import ACK, AckRun, parse_kind
from jetstream.consumer.config import check_create
from jetstream.consumer.consumer import Consumer
from jetstream.consumer.values import Delivery, Effects, PullRequest
from jetstream.schema.consumer import ConsumerConfig, ConsumerInfo
from jetstream.schema.stream import StreamConfig
from jetstream.store.memory import MemoryStore

START = 1_000 * SECOND


class Rig:
    """One stream, one consumer, one clock."""

    def __init__(self, stream: dict[str, Any] | None = None, **config: Any) -> None:
        self.now = START
        self.stream = StreamConfig(**{"name": "S", "subjects": ["s.>"], **(stream or {})})
        self.store = MemoryStore()
        self.config = config
        self.listeners: set[bytes] | None = None
        self.effects = Effects()
        self.journal: list[bytes] = []
        self._consumer: Consumer | None = None

    @property
    def consumer(self) -> Consumer:
        """Made at first use, so that a test can publish before."""
        if self._consumer is None:
            given = {"ack_policy": "explicit", "name": "c", "durable_name": "c", **self.config}
            config = check_create(ConsumerConfig(**given), self.stream)
            self._consumer = Consumer(
                "c",
                config,
                self.stream,
                self.store,
                self.now,
                now=self.now,
                new_id=lambda: "p" * 22,
            )
            self.snapshot = self._consumer.snapshot()
        return self._consumer

    def publish(self, *subjects: str, body: bytes = b"x", headers: bytes = b"") -> None:
        for subject in subjects:
            self.store.append(subject.encode(), headers, body, self.now)

    def restart(self) -> Consumer:
        """Forget everything but the journal."""
        old = self.consumer
        self._consumer = Consumer(
            "c",
            old.config,
            self.stream,
            self.store,
            old.created_ns,
            now=self.now,
            new_id=lambda: "q" * 22,
            fresh=False,
        )
        self._consumer.restore(self.snapshot, self.journal)
        return self._consumer

    # --- a client -----------------------------------------------------------------------------

    def pull(self, batch: int = 1, reply: str = "inbox", **asked: Any) -> list[Delivery]:
        import msgspec

        body = msgspec.json.encode({"batch": batch, **asked})
        return self.raw_pull(body, reply)

    def raw_pull(self, body: bytes, reply: str = "inbox") -> list[Delivery]:
        self.consumer.on_pull(PullRequest(reply=reply.encode(), payload=body), self.now)
        return self.turn()

    def turn(self) -> list[Delivery]:
        out = self.consumer.deliver(self.now, self._listens)
        self.take()
        return out

    def _listens(self, subject: bytes) -> bool:
        return self.listeners is None or subject in self.listeners

    def take(self) -> Effects:
        self.effects = self.consumer.take_effects()
        if self.effects.state_delta:
            self.journal.append(self.effects.state_delta)
        return self.effects

    def ack(self, *seqs: int, body: bytes = b"", reply: bytes = b"") -> list[Delivery]:
        run = AckRun()
        kind, argument = parse_kind(body)
        for row, seq in enumerate(seqs):
            found = self.consumer.pending.table.get(seq)
            run.kinds.append(kind)
            run.stream_seqs.append(seq)
            run.consumer_seqs.append(found[0] if found else 0)
            run.deliveries.append(found[2] if found else 1)
            if argument:
                run.bodies[row] = argument
            if reply:
                run.replies[row] = reply
        assert kind != ACK or not argument
        self.consumer.on_acks(run, self.now)
        return self.turn()

    def wait(self, seconds: float) -> list[Delivery]:
        """Time passes, deadline by deadline, as the engine would have it."""
        end = self.now + round(seconds * SECOND)
        out: list[Delivery] = []
        kept = Effects()
        while True:
            deadline = self.consumer.next_deadline()
            if not deadline or deadline > end:
                break
            self.now = max(deadline, self.now)
            self.consumer.expire(self.now)
            out += self.turn()
            kept.statuses += self.effects.statuses
            kept.advisories += self.effects.advisories
            kept.settled.extend(self.effects.settled)
            kept.dead_letters += self.effects.dead_letters
            kept.deleted = kept.deleted or self.effects.deleted
            if kept.deleted:
                break
        self.now = end
        self.effects = kept
        return out

    def info(self) -> ConsumerInfo:
        return self.consumer.info(self.now)

    @property
    def said(self) -> list[tuple[str, str]]:
        """The statuses of the last turn: (to, first line without the protocol)."""
        return [
            (status.to.decode(), status.headers.split(b"\r\n")[0].decode()[9:])
            for status in self.effects.statuses
        ]


def seqs_of(deliveries: list[Delivery]) -> list[int]:
    """All sequences in the order of their consumer sequences."""
    pairs = [
        (delivery.first_consumer_seq + at * delivery.step, seq)
        for delivery in deliveries
        for at, seq in enumerate(delivery.seqs)
    ]
    return [seq for _, seq in sorted(pairs)]


def counts_of(deliveries: list[Delivery]) -> list[int]:
    return [
        count
        for delivery in deliveries
        for count in (delivery.deliveries or array("Q", [1] * len(delivery.seqs)))
    ]
