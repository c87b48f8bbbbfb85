"""The few families of errors, all under one root.

Rules raise `ApiError`, the `api` room answers with it and the client raises it again. A peer that
breaks the protocol meets `ProtocolError` and loses its connection, nothing more. What the disk did
wrong is a `StoreError`.
"""

from typing import NamedTuple


class JetStreamError(Exception):
    """The root of every error this package raises on purpose."""

    hint: str | None = None


class Refusal(NamedTuple):
    """One line of the error table: HTTP-like code, number, text with {placeholders}."""

    code: int
    err_code: int
    text: str
    name: str = ""


class ApiError(JetStreamError):
    """A request was understood and refused; carries the number every NATS client knows."""

    def __init__(self, refusal: Refusal, **details: object) -> None:
        self.refusal = refusal
        self.code = refusal.code
        self.err_code = refusal.err_code
        self.description = refusal.text.format_map(_Blank(details)) if details else refusal.text
        super().__init__(self.description, refusal.code, refusal.err_code)

    def __str__(self) -> str:
        return f"{self.description} (err_code {self.err_code})"


class ProtocolError(JetStreamError):
    """The other side broke the wire protocol."""


class StoreError(JetStreamError):
    """The disk, or what is on it, is not as it should be."""


class CorruptRecord(StoreError):
    """A record whose checksum does not fit."""

    def __init__(self, path: str, offset: int, why: str = "checksum mismatch") -> None:
        super().__init__(f"{path}@{offset}: {why}")
        self.path = path
        self.offset = offset


class _Blank(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"
