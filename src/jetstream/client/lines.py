"""Small things that go onto the wire, checked before they do."""

from jetstream.client.errors import BadSubjectError
from jetstream.client.message import HeadersLike
from jetstream.wire.headers import Headers, encode_headers


def header_block(headers: HeadersLike | None) -> bytes | None:
    """Headers as the wire wants them; line ends inside a name or value are refused."""
    if not headers:
        return None
    if isinstance(headers, Headers):
        return headers.encode()
    for name, value in headers.items():
        for part in (name, value) if isinstance(value, str) else (name, *value):
            if "\r" in part or "\n" in part:
                raise ValueError(f"header {name!r} contains a line end")
    return encode_headers(headers)


def sub_line(subject: str, queue: str, sid: int) -> bytes:
    middle = f"{subject} {queue}" if queue else subject
    return f"SUB {middle} {sid}\r\n".encode()


def check_subject(subject: str) -> None:
    tokens = subject.split(".")
    if not all(tokens) or ">" in tokens[:-1] or any(c <= " " for c in subject):
        raise BadSubjectError(f"invalid subject {subject!r}")


def check_queue(queue: str) -> None:
    if any(c <= " " for c in queue):
        raise BadSubjectError(f"invalid queue group {queue!r}")
