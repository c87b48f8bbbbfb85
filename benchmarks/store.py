"""How fast is the log on its own: append, read, filters, restart, memory and bytes on disk.

    python benchmarks/store.py [messages]

Every figure is CPU time of this process per message unless it says otherwise; the disk's own
waiting is left out by not syncing. Run it twice on a quiet machine; ratios tell more than numbers.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from jetstream.store.files import Files
from jetstream.store.log import FileStore
from jetstream.store.memory import MemoryStore
from jetstream.store.segment import Identity
from jetstream.store.segments import read_frames
from jetstream.wire._parser import Batch

IDENTITY = Identity(b"0123456789abcdef", "$G", "BENCH", 1)
RUN = 1_000


def batches(subjects: int, size: int, count: int = 100) -> list[Batch]:
    payload = b"p" * size
    return [
        Batch.of(
            [
                (b"orders.%d" % ((k * RUN + i) * 7919 % subjects), b"", b"", payload)
                for i in range(RUN)
            ]
        )
        for k in range(count if subjects > RUN else 1)
    ]


def fill(store: FileStore | MemoryStore, runs: list[Batch], messages: int) -> float:
    started = time.process_time()
    for n in range(messages // RUN):
        store.append_run(runs[n % len(runs)], 0, RUN, 1_000_000 + n)
        store.write()
        store.take_evicted()
        if isinstance(store, FileStore):
            for segment in store.segments[-2:]:
                segment.synced = segment.written  # as if the disk had answered
    return (time.process_time() - started) / messages * 1e9


def timed(what: Callable[[], object]) -> float:
    started = time.process_time()
    what()
    return time.process_time() - started


def show(name: str, value: float, unit: str) -> None:
    print(f"{name:<58} {value:>12,.1f} {unit}")


def appending(root: Path, messages: int) -> None:
    for name, subjects, size, limit in (
        ("128 B, 1 subject", 1, 128, -1),
        ("128 B, 10 subjects", 10, 128, -1),
        ("1 KiB, 10 subjects", 10, 1024, -1),
        ("128 B, 100,000 subjects, max_msgs_per_subject 1", 100_000, 128, 1),
    ):
        runs = batches(subjects, size)
        memory = MemoryStore(max_msgs_per_subject=limit)
        show(f"append, memory, {name}", fill(memory, runs, messages), "ns")
        where = str(root / f"{subjects}-{size}")
        log = FileStore(where, Files(), IDENTITY, b"{}", 1, max_msgs_per_subject=limit)
        show(f"append and write, file, {name}", fill(log, runs, messages), "ns")
        log.abandon()


def reading(root: Path, messages: int) -> None:
    log = FileStore(str(root / "read"), Files(), IDENTITY, b"{}", 1)
    fill(log, batches(100_000, 128), messages)
    log.sync()
    while log.work(1_000_000_000):
        pass
    show(
        "bytes on disk per message (128 B, 100,000 subjects)",
        on_disk(root / "read") / messages,
        "B",
    )
    show("index memory per message, subjects included", log.memory_bytes / messages, "B")
    show("memory per subject", log.index.table.memory_bytes / log.num_subjects, "B")
    step = max(messages // 20_000, 1)
    some = list(range(1, messages, step))
    show(
        "get by sequence, scattered",
        timed(lambda: [log.get(s) for s in some]) / len(some) * 1e9,
        "ns",
    )
    names = [b"orders.%d" % (i * 31 % 100_000) for i in range(20_000)]
    show("last by subject", timed(lambda: [log.last_for(n) for n in names]) / 20_000 * 1e9, "ns")
    wide = log.filter([b"orders.1*", b"orders.*"])
    show("first count of a wildcard filter", timed(lambda: log.count_from(2, wide)) * 1e6, "us")
    show("next count of it", timed(lambda: log.count_from(messages // 2, wide)) * 1e6, "us")
    show("bulk read as columns", timed(lambda: bulk(log)) / messages * 1e9, "ns")
    log.close()
    restarting(root, messages)


def bulk(log: FileStore) -> None:
    at = 1
    while at:
        at = int.from_bytes(read_frames(log, at, log.last_seq)[16:24], "little")


def restarting(root: Path, messages: int) -> None:
    def reopen() -> None:
        log = FileStore(str(root / "read"), Files(), IDENTITY, b"{}", 1)
        assert log.msgs == messages // RUN * RUN
        log.abandon()

    show("restart with footers", timed(reopen) * 1e3, "ms")
    for path in sorted((root / "read").glob("*.seg"))[:-1]:
        with path.open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"?")
    show("restart, every footer damaged", timed(reopen) * 1e3, "ms")


def on_disk(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir="build") as root:
        appending(Path(root), messages)
        reading(Path(root), messages)


if __name__ == "__main__":
    main()
