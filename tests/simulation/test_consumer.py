"""Random lives of one consumer against a plain model: nothing lost, nothing too often, all exact.

A run is a seed: publishes, pulls, all kinds of acks, deletions, purges, time that passes or leaps,
crashes that lose whatever was not yet in the journal. After every step the numbers the consumer
tells are compared with numbers counted from scratch.
"""

import random
from array import array
from typing import Any

import pytest

from tests.consumer.builders import Rig

SECOND = 1_000_000_000


class Model:
    """What must be true, counted the slow way."""

    def __init__(self, rig: Rig, filters: list[str]) -> None:
        self.rig = rig
        self.filters = filters
        self.deliveries: dict[int, int] = {}
        self.consumer_seq = 0
        self.stream_seq = 0
        self.out: dict[int, int] = {}
        self.acked: set[int] = set()
        self.ended: set[int] = set()

    def matches(self, subject: bytes) -> bool:
        return not self.filters or subject.decode() in self.filters

    def undelivered(self) -> list[int]:
        store = self.rig.store
        return [
            seq
            for seq in store.next_seqs(1, 10**6)
            if seq > self.stream_seq and self.matches(self.rig.consumer._subject_of(seq))
        ]


class Life:
    """One seeded run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        choose = self.chance.choice
        filters = choose([[], [], ["s.a"], ["s.a", "s.c"]])
        config: dict[str, Any] = {
            "ack_wait": 3 * SECOND,
            "max_deliver": choose([-1, -1, 1, 2, 4]),
            "max_ack_pending": choose([-1, 1, 3, 10]),
            "filter_subjects": filters,
        }
        if self.chance.random() < 0.3 and config["max_deliver"] != 1:
            config["backoff"] = [SECOND, 4 * SECOND]
        self.most = config["max_deliver"]
        self.pending_max = config["max_ack_pending"]
        self.rig = Rig(**config)
        self.rig.publish("s.a") if self.chance.random() < 0.5 else None
        self.model = Model(self.rig, filters)
        assert self.rig.consumer
        self.seen: dict[int, int] = {}

    def step(self) -> None:
        what = self.chance.choices(
            [
                "publish",
                "pull",
                "ack",
                "nak",
                "term",
                "wpi",
                "wait",
                "leap",
                "remove",
                "purge",
                "crash",
            ],
            [20, 20, 25, 6, 3, 3, 10, 2, 3, 1, 3],
        )[0]
        getattr(self, what)()
        self.check()

    # --- what happens -------------------------------------------------------------------------

    def publish(self) -> None:
        subjects = [
            self.chance.choice(["s.a", "s.b", "s.c"]) for _ in range(self.chance.randint(1, 5))
        ]
        self.rig.publish(*subjects)
        self.note(self.rig.turn())

    def pull(self) -> None:
        batch = self.chance.choice([1, 1, 2, 5, 20])
        asked: dict[str, Any] = {"expires": self.chance.choice([SECOND, 5 * SECOND])}
        if self.chance.random() < 0.3:
            asked["no_wait"] = True
        if self.chance.random() < 0.15:
            asked["max_bytes"] = self.chance.choice([60, 200, 1000])
        reply = self.chance.choice(["one", "two", "three"])
        self.note(self.rig.pull(batch, reply, **asked))

    def some(self) -> list[int]:
        out = sorted(self.model.out)
        return self.chance.sample(out, min(len(out), self.chance.randint(1, 4)))

    def ack(self) -> None:
        seqs = self.some()
        for seq in seqs:
            self.model.out.pop(seq)
            self.model.acked.add(seq)
        self.note(self.rig.ack(*seqs))

    def nak(self) -> None:
        for seq in self.some()[:1]:
            if 0 < self.most <= self.model.deliveries[seq]:
                self.model.out.pop(seq)
                self.model.ended.add(seq)
            self.note(self.rig.ack(seq, body=self.chance.choice([b"-NAK", b"-NAK 2s"])))

    def term(self) -> None:
        for seq in self.some()[:1]:
            self.model.out.pop(seq)
            self.model.acked.add(seq)
            self.note(self.rig.ack(seq, body=b"+TERM"))

    def wpi(self) -> None:
        for seq in self.some()[:1]:
            self.note(self.rig.ack(seq, body=b"+WPI"))

    def wait(self, seconds: float = 0) -> None:
        before = set(self.model.out)
        self.note(self.rig.wait(seconds or self.chance.random() * 3))
        for event in self.rig.effects.advisories:
            if type(event).__name__ == "MaxDeliver":
                seq = event.stream_seq  # type: ignore[attr-defined]
                assert seq in before or seq in self.model.out
                assert seq not in self.model.ended
                self.model.ended.add(seq)
                self.model.out.pop(seq, None)

    def leap(self) -> None:
        self.wait(100)

    def remove(self) -> None:
        stored = list(self.rig.store.next_seqs(1, 10**6))
        if not stored:
            return
        seq = self.chance.choice(stored)
        self.rig.store.remove(seq)
        self.rig.consumer.on_removed(array("Q", [seq]), self.rig.now)
        self.model.out.pop(seq, None)
        self.model.ended.discard(seq)
        self.note(self.rig.turn())

    def purge(self) -> None:
        self.rig.store.purge()
        self.rig.consumer.on_purged(self.rig.now)
        self.model.out.clear()
        self.model.ended.clear()
        self.model.stream_seq = max(self.model.stream_seq, self.rig.store.last_seq)
        self.note(self.rig.turn())

    def crash(self) -> None:
        self.rig.restart()

    # --- what must hold -----------------------------------------------------------------------

    def note(self, deliveries: list[Any]) -> None:
        model = self.model
        for delivery in deliveries:
            counts = delivery.deliveries or [1] * len(delivery.seqs)
            for at, (seq, count) in enumerate(zip(delivery.seqs, counts, strict=True)):
                assert seq not in model.acked, "acknowledged messages do not come again"
                assert seq not in model.ended, "nor do those that were given up"
                model.deliveries[seq] = model.deliveries.get(seq, 0) + 1
                assert model.deliveries[seq] == count
                assert self.most < 0 or count <= self.most
                if count == 1:
                    assert model.matches(self.rig.consumer._subject_of(seq))
                    model.stream_seq = max(model.stream_seq, seq)
                model.out[seq] = count
                model.consumer_seq = max(
                    model.consumer_seq, delivery.first_consumer_seq + at * delivery.step
                )

    def check(self) -> None:
        model, info = self.model, self.rig.info()
        assert info.num_pending == len(model.undelivered())
        assert info.num_ack_pending == len(model.out)
        assert info.delivered.consumer_seq == model.consumer_seq == sum(model.deliveries.values())
        assert info.delivered.stream_seq == model.stream_seq
        again = sum(1 for count in model.out.values() if count > 1)
        ended = sum(1 for seq in model.ended if model.deliveries[seq] > 1)
        assert info.num_redelivered == again + ended
        assert info.ack_floor.stream_seq <= info.delivered.stream_seq
        assert not model.out or info.ack_floor.stream_seq < min(model.out)
        if not model.out and not model.ended:
            floor = info.ack_floor
            assert (floor.consumer_seq, floor.stream_seq) == (model.consumer_seq, model.stream_seq)
        assert self.pending_max < 0 or info.num_ack_pending <= self.pending_max


@pytest.mark.parametrize("seed", range(150))
def test_whatever_happens_the_numbers_are_exact(seed: int) -> None:
    life = Life(seed)
    for _ in range(120):
        life.step()


@pytest.mark.parametrize("seed", range(40))
def test_everything_is_delivered_in_the_end(seed: int) -> None:
    life = Life(seed)
    life.pending_max = -1
    for _ in range(60):
        life.step()
    for _ in range(400):
        life.note(life.rig.pull(50, expires=SECOND))
        while life.model.out:
            life.ack()
        life.wait(6)
        if not life.model.undelivered() and not life.rig.info().num_ack_pending:
            break
    assert life.model.undelivered() == []
    assert life.rig.info().num_ack_pending == 0


@pytest.mark.parametrize("seed", range(60))
def test_a_power_cut_brings_nothing_back_that_was_confirmed_and_forgets_nothing(seed: int) -> None:
    """Whatever was noted after the last sync is lost; confirmations wait for the sync."""
    chance = random.Random(seed)
    rig = Rig(ack_wait=SECOND, max_ack_pending=-1)
    rig.publish(*["s.a"] * 30)
    assert rig.consumer
    confirmed: set[int] = set()
    unconfirmed: set[int] = set()
    out: set[int] = set()
    synced = 0
    for _ in range(80):
        step = chance.random()
        if step < 0.4:
            for delivery in rig.pull(chance.randint(1, 4), no_wait=True):
                assert not confirmed & set(delivery.seqs)
                out.update(delivery.seqs)
        elif step < 0.7 and out:
            seqs = chance.sample(sorted(out), min(len(out), 3))
            rig.ack(*seqs, reply=b"me")
            assert all(confirm.after_sync for confirm in rig.effects.replies)
            unconfirmed.update(seqs)
            out.difference_update(seqs)
        elif step < 0.85:
            synced = len(rig.journal)
            confirmed |= unconfirmed
            unconfirmed.clear()
        elif step < 0.95:
            rig.wait(2)
        else:
            del rig.journal[synced:]
            rig.restart()
            out.clear()
            unconfirmed.clear()
    left = set(range(1, 31)) - confirmed - unconfirmed
    for _ in range(50):
        rig.wait(2)
        for delivery in rig.pull(30, no_wait=True):
            assert not confirmed & set(delivery.seqs)
            left.difference_update(delivery.seqs)
            rig.ack(*delivery.seqs)
    assert not left
    assert rig.info().num_ack_pending == rig.info().num_pending == 0
