"""Builders for store tests: a small log on a faulty disk, a batch of messages."""

from random import Random

from jetstream.store.log import FileStore
from jetstream.store.segment import Identity
from jetstream.testing.disk import FaultyDisk
from jetstream.wire._parser import Batch

IDENTITY = Identity(b"0123456789abcdef", "$G", "ORDERS", 1_000)
DIRECTORY = "/data/log"


def a_log(
    disk: FaultyDisk,
    *,
    segment_bytes: int = 0,
    max_msgs_per_subject: int | None = None,
    first_seq: int = 0,
) -> FileStore:
    log = FileStore(
        DIRECTORY,
        disk,
        IDENTITY,
        b'{"name":"ORDERS"}',
        1,
        max_msgs_per_subject=max_msgs_per_subject,
        first_seq=first_seq,
    )
    if segment_bytes:
        log.segment_bytes_min = log.segment_bytes_max = segment_bytes
    return log


def a_batch(*messages: tuple[bytes, bytes] | tuple[bytes, bytes, bytes]) -> Batch:
    """(subject, payload) or (subject, headers, payload)."""
    return Batch.of(
        [(each[0], b"", each[1] if len(each) == 3 else b"", each[-1]) for each in messages]
    )


def flushed(log: FileStore) -> None:
    """What the engine does at the end of a turn."""
    log.write()
    log.sync()
    log.mark_synced(log.last_seq)


def settled(log: FileStore) -> None:
    """Everything on disk and all upkeep done."""
    flushed(log)
    while log.work(1_000_000_000):
        pass
    flushed(log)


def crashed(disk: FaultyDisk, variant: str = "all", seed: int = 0) -> FaultyDisk:
    return disk.power_cut(variant, Random(seed))
