"""The power goes at every single disk operation of a scripted workload, in four variants.

What was acknowledged has to be there afterwards, byte for byte; what was removed and acknowledged
has to stay removed; nothing that was never stored may appear; and the log has to go on working.
"""

from array import array
from dataclasses import dataclass, field
from random import Random

import pytest

from jetstream.errors import StoreError
from jetstream.store.log import FileStore
from jetstream.testing.disk import VARIANTS, FaultyDisk, PowerCut
from tests.store.builders import a_batch, a_log


@dataclass
class Witness:
    """What was asked for, and what was promised."""

    stored: dict[int, bytes] = field(default_factory=dict)
    acked: int = 0
    removing: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)

    def acknowledge(self, log: FileStore) -> None:
        log.write()
        last, going = log.last_seq, set(self.removing)
        log.sync()
        log.mark_synced(last)
        self.acked = last
        self.removed |= going


def workload(log: FileStore, witness: Witness, seed: int, turns: int = 12) -> None:
    """Publishes, removals, limits and upkeep as an engine would mix them."""
    random = Random(seed)
    log.set_limits(max_msgs_per_subject=6)
    for turn in range(turns):
        size = random.randrange(1, 7)
        messages = [
            (b"s.%d" % random.randrange(4), random.randbytes(random.randrange(200)))
            for _ in range(size)
        ]
        first = log.append_run(a_batch(*messages), 0, size, 1_000 + turn)
        for i, (subject, payload) in enumerate(messages):
            witness.stored[first + i] = subject + b"|" + payload
        witness.removing.update(log.take_evicted())
        choice = random.randrange(6)
        if choice == 0 and log.msgs > 3:
            some = random.sample(list(log.next_seqs(1, 1000)), 2)
            witness.removing.update(some)
            log.remove_many(array("Q", some))
        elif choice == 1 and log.msgs > 6:
            floor = log.next_seqs(1, 5)[-1]
            witness.removing.update(log.next_seqs(1, 4))
            log.truncate_front(floor)
        elif choice == 2 and log.msgs:
            seq = random.choice(list(log.next_seqs(1, 1000)))
            witness.removing.add(seq)
            log.remove(seq, erase=True)
        elif choice == 3:
            log.update_config(b'{"name":"ORDERS","turn":%d}' % turn)
        witness.acknowledge(log)
        if random.random() < 0.5:
            while log.work(0):
                pass
        if random.random() < 0.1:
            log.close()
            log = a_log(log.disk, segment_bytes=700)  # type: ignore[arg-type]


def check(disk: FaultyDisk, witness: Witness) -> None:
    """The promises, after the power came back."""
    log = a_log(disk, segment_bytes=700)
    assert log.last_seq >= witness.acked
    found = {}
    for seq in log.next_seqs(1, 100_000):
        message = log.get(seq)
        assert message is not None
        found[seq] = message.subject + b"|" + message.payload
    for seq, content in found.items():
        assert witness.stored.get(seq) == content, f"sequence {seq} was never stored like this"
    missing = {seq for seq in witness.stored if seq <= witness.acked} - set(found)
    assert missing <= witness.removing, f"acknowledged and gone: {missing - witness.removing}"
    assert not set(found) & witness.removed, f"came back: {set(found) & witness.removed}"
    lost = log.lost()
    if lost is not None:
        assert all(first > witness.acked for first, _ in lost.ranges), lost
    assert log.msgs == len(found)
    seq = log.append(b"after", b"", b"the cut", 9_999)
    assert seq > witness.acked
    log.write()
    log.sync()
    log.abandon()
    disk.crash("nothing")
    again = a_log(disk, segment_bytes=700)
    message = again.get(seq)
    assert message is not None
    assert message.payload == b"the cut"
    assert set(again.next_seqs(1, 100_000)) == set(found) | {seq}


def run_until(seed: int, cut: int | None) -> tuple[FaultyDisk, Witness]:
    disk, witness = FaultyDisk(), Witness()
    disk.cut_after = cut
    try:
        workload(a_log(disk, segment_bytes=700), witness, seed)
    except PowerCut:
        pass
    disk.cut_after = None
    return disk, witness


def enumerate_cuts(seed: int, step: int = 1, most: int = 1 << 60) -> int:
    """Every operation of one workload, every variant; returns how many points were checked."""
    disk, _ = run_until(seed, None)
    points = 0
    for cut in range(1, disk.operations + 1, step):
        for variant in VARIANTS:
            stopped, witness = run_until(seed, cut)
            try:
                check(stopped.power_cut(variant, Random(cut)), witness)
            except (AssertionError, StoreError) as error:
                raise AssertionError(f"seed {seed}, cut {cut}, {variant}: {error}") from error
            points += 1
        if points >= most:
            break
    return points


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_acknowledged_is_lost_wherever_the_power_goes(seed: int) -> None:
    assert enumerate_cuts(seed, step=2) > 100


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_fifty_thousand_power_cuts() -> None:
    points, seed = 0, 100
    while points < 50_000:
        points += enumerate_cuts(seed, most=50_000 - points)
        seed += 1
    print(f"\n{points} power-cut points, seeds 100 to {seed - 1}")  # noqa: T201
