from collections.abc import Callable

from jetstream.store._log import LogBase
from jetstream.store._segment import Segment

MORE: int
ZERO: int
BAD: int
DONE: int

def scan(
    log: LogBase,
    segment: Segment,
    data: bytes,
    base: int,
    stop_seq: int,
    control: Callable[[int, int, int, bytes], None],
    gap: Callable[[int, int], None],
) -> tuple[int, int]: ...
def find_good(segment: Segment, data: bytes, start: int, above_seq: int) -> int: ...
def load(
    log: LogBase,
    segment: Segment,
    lengths: memoryview,
    length_width: int,
    subjects: memoryview,
    subject_width: int,
    seqs: memoryview | None,
    name_lengths: memoryview,
    name_bytes: bytes,
    control: Callable[[int], None],
    expiry: Callable[[int, int], None],
) -> int: ...
def columns(
    log: LogBase, segment: Segment, placed: bool = True
) -> tuple[tuple[bytes, int], tuple[bytes, int], bytes, list[tuple[bytes, int, int]], int, int]: ...
def check(
    log: LogBase, segment: Segment, data: bytes, base: int, start_seq: int
) -> tuple[int, list[int]]: ...
def place_of(log: LogBase, seq: int) -> int: ...
def copy_live(
    log: LogBase,
    source: Segment,
    target: Segment,
    data: bytes,
    base: int,
    control: Callable[[int, bytes], bytes | None],
) -> int: ...
def append_control(target: Segment, kind: int, seq: int, time_ns: int, body: bytes) -> None: ...
def relocate(log: LogBase, target: Segment) -> None: ...
def listed(
    first_seq: int,
    last_seq: int,
    subjects: memoryview,
    subject_width: int,
    seqs: memoryview | None,
    wanted: list[int],
) -> list[int]: ...
def squeeze(log: LogBase, segment: Segment) -> None: ...
