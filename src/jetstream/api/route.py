"""What an endpoint of `$JS.API` is: its response type, what body it takes, and who answers."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from jetstream.schema.requests import answer

# "E": only an empty request; "B": a body is required; "O": a body is read if it is JSON.
Body = Literal["E", "B", "O"]


class ApiRequest(Struct):
    """One request as it came from the wire."""

    subject: str
    reply: bytes
    headers: bytes
    payload: bytes
    client: Any
    now: int
    # Handlers name the stream whose disk the answer must wait for.
    after_sync: Any = None

    @property
    def has_body(self) -> bool:
        return self.payload.strip() not in (b"", b"{}")

    @property
    def json(self) -> bytes:
        """The body of an endpoint where it is optional: anything but JSON counts as none."""
        body = self.payload.lstrip()
        return body if body[:1] in (b"{", b"[") else b"{}"


# (account, request, names from the subject) → the parts of the answer in order, or a whole answer
Handler = Callable[[Any, ApiRequest, Sequence[str]], "Sequence[Struct | None] | bytes | None"]


class Route(Struct, frozen=True):
    """One endpoint."""

    kind: str
    body: Body
    handler: Handler
    # How many names follow in the subject; with `rest` the last one takes all that is left.
    names: int = 1
    rest: bool = False
    # What an error answer still shows besides the error.
    zero: Callable[[], Struct] | None = None
    audited: bool = True

    def refused(self, error: Any) -> bytes:
        return answer(self.kind, self.zero() if self.zero else None, error=error)
