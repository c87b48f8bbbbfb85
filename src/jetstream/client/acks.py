"""What comes back when something was published: acks, futures of acks, the report of a bulk run."""

import asyncio
from array import array
from collections.abc import Generator
from typing import Any

import msgspec
from msgspec import Struct

from jetstream.client.errors import NoRespondersError, api_error

NO_STREAM = "no stream captures this subject"


class ErrorDetail(Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""


class PubAck(Struct, frozen=True):
    """The stream has it: under this sequence."""

    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    domain: str = ""
    val: str = ""
    batch: str = ""
    count: int = 0
    error: ErrorDetail | None = None

    @property
    def value(self) -> int | None:
        """The counter's value after this message, in a counter stream."""
        return int(self.val) if self.val else None


_decode_ack = msgspec.json.Decoder(PubAck).decode


def read_ack(subject: str, headers: bytes, payload: bytes) -> PubAck:
    """An answer as an ack, or raised as what the stream refused."""
    if headers[9:12] == b"503":
        raise NoRespondersError(subject, NO_STREAM)
    ack = _decode_ack(payload)
    if ack.error is not None:
        raise api_error(ack.error.code, ack.error.err_code, ack.error.description)
    return ack


class PubAckFuture:
    """An acknowledgement on its way. `await` it, or ask `done()` and `result()`."""

    __slots__ = ("_answer", "_error", "_loop", "_waiter", "message", "subject", "tries")

    def __init__(self, loop: asyncio.AbstractEventLoop, subject: str, message: Any) -> None:
        self.subject = subject
        self.message = message
        self.tries = 0
        self._loop = loop
        self._answer: tuple[bytes, bytes] | PubAck | None = None
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def done(self) -> bool:
        return self._answer is not None or self._error is not None

    def result(self) -> PubAck:
        """The ack, or the refusal raised; only when done."""
        if self._error is not None:
            raise self._error
        answer = self._answer
        if answer is None:
            raise asyncio.InvalidStateError("the ack is not there yet")
        if type(answer) is not PubAck:
            headers, payload = answer  # type: ignore[misc]
            try:
                answer = read_ack(self.subject, headers, payload)
            except Exception as error:
                self._error = error
                raise
            self._answer = answer
        return answer

    def exception(self) -> Exception | None:
        try:
            self.result()
        except asyncio.InvalidStateError:
            raise
        except Exception as error:
            return error
        return None

    def __await__(self) -> Generator[Any, None, PubAck]:
        if not self.done():
            if self._waiter is None:
                self._waiter = self._loop.create_future()
            yield from asyncio.shield(self._waiter).__await__()
        return self.result()

    def settle(self, headers: bytes, payload: bytes) -> None:
        self._answer = (headers, payload)
        self._tell()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._tell()

    def _tell(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class PublishReport(Struct):
    """What became of a bulk publish.

    `sequences` has one entry per message, in order: its stream sequence, or 0 where it failed.
    """

    count: int = 0
    sequences: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))
    duplicates: int = 0
    failed: list[tuple[int, Exception]] = msgspec.field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.failed

    @property
    def first_seq(self) -> int:
        return next((seq for seq in self.sequences if seq), 0)

    @property
    def last_seq(self) -> int:
        return next((seq for seq in reversed(self.sequences) if seq), 0)

    def raise_first(self) -> None:
        """Raise the first failure, if there was one."""
        if self.failed:
            raise self.failed[0][1]

    def __repr__(self) -> str:
        return (
            f"PublishReport(count={self.count}, first_seq={self.first_seq}, "
            f"last_seq={self.last_seq}, duplicates={self.duplicates}, failed={len(self.failed)})"
        )
