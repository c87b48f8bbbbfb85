"""Damaged bytes: no altered message is ever given out, and a damaged record costs that record."""

from collections.abc import Iterable
from random import Random

import pytest

from jetstream.store.log import FileStore
from jetstream.testing.disk import FaultyDisk
from tests.store.builders import DIRECTORY, a_batch, a_log, flushed, settled

Content = dict[int, tuple[bytes, bytes, bytes]]


def a_small_store(
    messages: int = 40, *, size: int = 90, segment_bytes: int = 1_500, tidy: bool = True
) -> tuple[FaultyDisk, Content, set[int]]:
    """A log with sealed segments, removals and evictions; its content, and what was removed."""
    disk, random = FaultyDisk(), Random(7)
    log = a_log(disk, segment_bytes=segment_bytes, max_msgs_per_subject=12)
    for i in range(messages // 4):
        batch = a_batch(
            *[
                (
                    b"s.%d" % random.randrange(4),
                    b"NATS/1.0\r\nN: %d\r\n\r\n" % i if random.random() < 0.3 else b"",
                    random.randbytes(random.randrange(size)),
                )
                for _ in range(4)
            ]
        )
        log.append_run(batch, 0, 4, 1_000 + i)
        if i % 5 == 2:
            log.remove(log.last_seq - 1)
        flushed(log)
    if tidy:
        settled(log)
    everything = set(range(1, log.last_seq + 1))
    content = {}
    for seq in log.next_seqs(1, 1 << 20):
        message = log.get(seq)
        assert message is not None
        content[seq] = (message.subject, message.headers, message.payload)
    log.close()
    return disk.copy(), content, everything - set(content)


def examine(
    log: FileStore,
    content: Content,
    removed: set[int],
    *,
    at_most: int,
    tombstones_gone: bool = False,
) -> None:
    """Everything that is there is right, everything that is missing is reported, no more."""
    found = {}
    for seq in log.next_seqs(1, 1 << 20):
        message = log.get(seq)
        if message is not None:
            found[seq] = (message.subject, message.headers, message.payload)
    for seq, seen in found.items():
        if seq in removed and tombstones_gone:
            continue
        assert content.get(seq) == seen, f"sequence {seq} is not what was stored"
    missing = set(content) - set(found)
    lost = log.lost()
    reported = set(lost.seqs()) if lost else set()
    assert missing <= reported, f"missing and not reported: {missing - reported}"
    assert len(missing) <= at_most, f"one damaged place cost {len(missing)} messages"
    assert tombstones_gone or not set(found) & removed
    assert log.msgs == len(found)
    assert log.last_seq >= max(content)


def flip(disk: FaultyDisk, path: str, bit: int) -> FaultyDisk:
    damaged = disk.copy()
    damaged.files[path].content[bit // 8] ^= 1 << bit % 8
    return damaged


def bits_of(disk: FaultyDisk) -> list[tuple[str, int]]:
    return [
        (path, bit)
        for path, inode in sorted(disk.files.items())
        for bit in range(len(inode.content.rstrip(b"\0")) * 8)
    ]


def try_flips(
    disk: FaultyDisk, content: Content, removed: set[int], bits: Iterable[tuple[str, int]]
) -> int:
    tried = 0
    for path, bit in bits:
        log = a_log(flip(disk, path, bit), segment_bytes=1_500, max_msgs_per_subject=12)
        try:
            examine(log, content, removed, at_most=1)
        except AssertionError as error:
            raise AssertionError(f"{path} bit {bit}: {error}") from error
        tried += 1
    return tried


@pytest.mark.parametrize("tidy", [True, False], ids=["sealed", "unsealed"])
def test_a_flipped_bit_costs_at_most_one_message_and_is_reported(tidy: bool) -> None:
    disk, content, removed = a_small_store(tidy=tidy)
    bits = Random(1).sample(bits_of(disk), 1_500)
    assert try_flips(disk, content, removed, bits) == 1_500


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_bit_of_a_store_of_32_kilobytes() -> None:
    tried = 0
    for tidy, messages in ((True, 104), (False, 104)):
        disk, content, removed = a_small_store(messages, tidy=tidy, size=300)
        tried += try_flips(disk, content, removed, bits_of(disk))
    large, content, removed = a_small_store(1_200, size=300, segment_bytes=30_000)
    random = Random(2)
    some = random.choices(bits_of(large), k=20_000)
    more = try_flips(large, content, removed, some)
    print(f"\n{tried} + {more} bit flips")  # noqa: T201
    assert tried >= 262_144


def cut(disk: FaultyDisk, path: str, length: int) -> FaultyDisk:
    shorter = disk.copy()
    del shorter.files[path].content[length:]
    return shorter


@pytest.mark.parametrize("tidy", [True, False], ids=["sealed", "unsealed"])
def test_a_file_cut_short_anywhere_loses_only_what_was_cut(tidy: bool) -> None:
    disk, content, removed = a_small_store(24, tidy=tidy)
    for path in [each for each in disk.files if each.endswith(".seg")]:
        size = len(disk.files[path].content)
        for length in range(0, size, 7):
            log = a_log(cut(disk, path, length), segment_bytes=1_500, max_msgs_per_subject=12)
            try:
                examine(log, content, removed, at_most=len(content), tombstones_gone=True)
            except AssertionError as error:
                raise AssertionError(f"{path} cut to {length}: {error}") from error


def test_a_missing_segment_is_reported() -> None:
    disk, content, removed = a_small_store(tidy=False)
    paths = sorted(path for path in disk.files if path.endswith(".seg"))
    disk.remove(paths[-2])
    log = a_log(disk, max_msgs_per_subject=12)
    examine(log, content, removed, at_most=len(content))
    assert log.lost() is not None


def test_a_file_of_somebody_else_is_set_aside() -> None:
    disk, content, removed = a_small_store()
    for name in ("notes.txt", "00000000000000009999.seg"):
        file = disk.open(f"{DIRECTORY}/{name}", create=True)
        file.write(0, b"not ours")
        file.sync()
    log = a_log(disk, max_msgs_per_subject=12)
    examine(log, content, removed, at_most=0)
    assert disk.list(f"{DIRECTORY}/quarantine") == ["00000000000000009999.seg", "notes.txt"]
    assert any("notes.txt" in line for line in log.report)


def test_what_one_start_reports_as_lost_the_next_one_does_too() -> None:
    disk, content, removed = a_small_store(tidy=False)
    path = max(path for path in disk.files if path.endswith(".seg"))
    end = len(disk.files[path].content.rstrip(b"\0"))
    log = a_log(flip(disk, path, end * 8 - 4), max_msgs_per_subject=12)
    lost = log.lost()
    log.close()
    again = a_log(log.disk, max_msgs_per_subject=12)  # type: ignore[arg-type]
    assert again.lost() == lost or lost is None
    examine(again, content, removed, at_most=1)


def test_damage_found_while_reading_is_reported() -> None:
    disk, content, _ = a_small_store(8_000, size=300, segment_bytes=100_000)
    log = a_log(disk, max_msgs_per_subject=12)
    seq = min(content)
    inode = disk.files[log._segment_of(seq).path]
    at = inode.content.find(content[seq][2])
    inode.content[at] ^= 1
    log._drop_windows()
    assert log.get(seq) is None
    lost = log.lost()
    assert lost is not None
    assert lost.ranges == [(seq, seq)]
    assert log.msgs == len(content) - 1
