from collections.abc import Sequence

from typing_extensions import Buffer

from jetstream.client._inbound import Frame

class OutBuffer:
    size: int
    messages: int
    payload_bytes: int
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def raw(self, data: bytes) -> None: ...
    def pub(
        self,
        subject: str | bytes,
        reply: str | bytes | None,
        headers: bytes | None,
        payload: Buffer | str,
    ) -> None: ...
    def numbered(
        self,
        subject: str | bytes,
        prefix: bytes,
        number: int,
        headers: bytes | None,
        payload: Buffer | str,
    ) -> None: ...
    def many(
        self,
        messages: list[tuple[str, bytes | None, Buffer | str]],
        prefix: bytes,
        number: int,
    ) -> None: ...
    def acks(self, received: Sequence[Frame], body: bytes) -> int: ...
    def take(self) -> bytes: ...
