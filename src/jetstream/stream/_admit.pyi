from collections.abc import Callable

from jetstream.stream._dedupe import Window
from jetstream.wire._parser import Batch

END: int
POLICY: int
DUPLICATE: int
WRONG_SEQUENCE: int

def all_plain(batch: Batch, start: int, stop: int, max_msg_size: int) -> bool: ...
def total_size(batch: Batch, start: int, stop: int) -> int: ...
def fast_ingest_at(batch: Batch, start: int, stop: int) -> int: ...
def fast_run(batch: Batch, start: int, stop: int, seq: int, max_msg_size: int) -> int: ...

class Admitter:
    window: Window | None
    stop: int
    reason: int
    seq: int
    last_id: bytes
    def __init__(self, window: Window | None) -> None: ...
    def admit(
        self,
        batch: Batch,
        start: int,
        stop: int,
        next_seq: int,
        now: int,
        max_msg_size: int,
        last_for: Callable[[bytes], int],
        longest: int,
    ) -> None: ...
