from jetstream.store._log import LogBase
from jetstream.store._subjects import Filter

def read_frame(
    log: LogBase,
    lo: int,
    hi: int,
    filter: Filter | None,
    max_bytes: int,
    headers: bool = True,
    payloads: bool = True,
) -> bytearray: ...
def frame_of_records(
    data: memoryview | bytes,
    start: int,
    end: int,
    seed: int,
    first_seq: int,
    subjects: memoryview,
    subject_width: int,
    lengths: memoryview,
    length_width: int,
    lo: int,
    hi: int,
    names: bytes | None,
    headers: bool = True,
    payloads: bool = True,
) -> tuple[bytearray, int]: ...
