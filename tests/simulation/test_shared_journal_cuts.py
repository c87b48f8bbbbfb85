"""Many streams behind one shared journal, and the power goes at every disk operation."""

from array import array
from random import Random

import pytest

from jetstream.clock import Random as Chance
from jetstream.store.consumer_state import StateJournal
from jetstream.store.log import FileStore
from jetstream.store.vault import Vault
from jetstream.testing.disk import VARIANTS, FaultyDisk, PowerCut
from tests.simulation.test_power_cuts import Witness
from tests.store.builders import a_batch

STREAMS = ("A", "B", "C")


class House:
    """Three streams and their consumers' memory, as the engine would run them."""

    def __init__(self, disk: FaultyDisk, seed: int) -> None:
        self.vault = Vault("/data", disk, Chance(seed))
        self.logs: dict[str, FileStore] = {}
        self.journals: dict[str, StateJournal] = {}
        for home in self.vault.streams("$G"):
            self.take(home.name, home.open(), home.journal())

    def take(self, name: str, log: FileStore, journal: StateJournal) -> None:
        log.segment_bytes_min = log.segment_bytes_max = 700
        self.logs[name], self.journals[name] = log, journal

    def create(self, name: str) -> None:
        home = self.vault.create("$G", name, b"{}", 1)
        self.take(name, home.open(), home.journal())

    def flush(self, shared: bool) -> None:
        for name, log in self.logs.items():
            log.write()
            self.journals[name].write()
        if not shared:
            for name, log in self.logs.items():
                log.sync()
                self.journals[name].sync()
        else:
            changes = []
            for name, log in self.logs.items():
                changes += log.take_unsynced() + self.journals[name].take_unsynced()
            self.vault.journal.append(changes)
            self.vault.journal.sync()
        for log in self.logs.values():
            log.mark_synced(log.last_seq)


def workload(house: House, witnesses: dict[str, Witness], seed: int) -> None:
    random = Random(seed)
    for name in STREAMS:
        house.create(name)
    for turn in range(10):
        for name, log in house.logs.items():
            if random.random() < 0.3:
                continue
            witness = witnesses[name]
            messages = [
                (b"s.%d" % random.randrange(3), random.randbytes(random.randrange(150)))
                for _ in range(random.randrange(1, 4))
            ]
            first = log.append_run(a_batch(*messages), 0, len(messages), turn + 1)
            for i, (subject, payload) in enumerate(messages):
                witness.stored[first + i] = subject + b"|" + payload
            if random.random() < 0.3 and log.msgs > 3:
                gone = random.sample(list(log.next_seqs(1, 999)), 1)
                witness.removing.update(gone)
                if random.random() < 0.5:
                    log.remove(gone[0], erase=True)
                else:
                    log.remove_many(array("Q", gone))
            house.journals[name].note("c", b"%d" % turn)
        going = {name: set(each.removing) for name, each in witnesses.items()}
        house.flush(shared=random.random() < 0.7)
        for name, log in house.logs.items():
            witnesses[name].acked = log.last_seq
            witnesses[name].removed |= going[name]
        if random.random() < 0.3:
            house.vault.journal.checkpoint(house.vault.journal.switch())
        if random.random() < 0.4:
            for log in house.logs.values():
                while log.work(0):
                    pass


def check(disk: FaultyDisk, witnesses: dict[str, Witness], seed: int) -> None:
    house = House(disk, seed + 1)
    for name, witness in witnesses.items():
        if not witness.acked:
            continue
        log = house.logs[name]
        found = {}
        for seq in log.next_seqs(1, 9_999):
            message = log.get(seq)
            assert message is not None
            found[seq] = message.subject + b"|" + message.payload
        for seq, content in found.items():
            assert witness.stored.get(seq) == content
        missing = {seq for seq in witness.stored if seq <= witness.acked} - set(found)
        assert missing <= witness.removing, f"{name}: gone {missing - witness.removing}"
        assert not set(found) & witness.removed, f"{name}: back {set(found) & witness.removed}"
        lost = log.lost()
        assert lost is None or all(first > witness.acked for first, _ in lost.ranges), lost
        assert log.append(b"after", b"", b"x", 99) > witness.acked
    house.flush(shared=True)


def run_until(seed: int, cut: int | None) -> tuple[FaultyDisk, dict[str, Witness]]:
    disk = FaultyDisk()
    disk.cut_after = cut
    witnesses = {name: Witness() for name in STREAMS}
    try:
        workload(House(disk, seed), witnesses, seed)
    except PowerCut:
        pass
    disk.cut_after = None
    return disk, witnesses


def enumerate_cuts(seed: int, step: int = 1) -> int:
    disk, _ = run_until(seed, None)
    points = 0
    for cut in range(1, disk.operations + 1, step):
        stopped, witnesses = run_until(seed, cut)
        for variant in VARIANTS:
            try:
                check(stopped.power_cut(variant, Random(cut)), witnesses, seed)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, cut {cut}, {variant}: {error}") from error
            points += 1
    return points


@pytest.mark.parametrize("seed", [1, 2])
def test_many_streams_behind_one_journal_keep_what_they_acknowledged(seed: int) -> None:
    assert enumerate_cuts(seed, step=11) > 50


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_workloads_behind_one_journal() -> None:
    points = sum(enumerate_cuts(seed) for seed in range(10, 20))
    print(f"\n{points} power-cut points behind the shared journal")  # noqa: T201
