from typing import Any

class Segment:
    first_seq: int
    last_seq: int
    start: int
    end: int
    limit: int
    written: int
    synced: int
    allocated: int
    live: int
    live_bytes: int
    listed: int
    min_time: int
    max_time: int
    seed: int
    sealed: bool
    whole: bool
    checked: bool
    file: Any
    path: str
    extra: object
    def __init__(self, first_seq: int, start: int, limit: int, seed: int = 0) -> None: ...
    def release(self) -> None: ...
    def resume(self, end: int) -> None: ...
    def cut_back(self, end: int) -> None: ...
    def note_damage(self, size: int) -> None: ...
    def forget_records(self) -> None: ...
    def bytes_from(self, offset: int) -> memoryview: ...
    @property
    def kept_from(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
