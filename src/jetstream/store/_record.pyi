def pack(
    seed: int,
    kind: int,
    seq: int,
    time_ns: int,
    subject: bytes,
    headers: bytes,
    payload: bytes,
    expires_at: int = 0,
) -> bytes: ...
def unpack(
    data: bytes, seed: int, first_seq: int
) -> tuple[int, int, int, bytes, bytes, bytes, int, int] | None: ...
