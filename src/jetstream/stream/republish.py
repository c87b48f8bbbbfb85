"""What was stored, published again on another subject with a note of where it came from."""

from jetstream.schema.stream import RePublish
from jetstream.schema.times import rfc3339
from jetstream.subjects.transform import SubjectTransform
from jetstream.wire.headers import VERSION


class Republisher:
    """Makes the message to publish; None when the subject is not among those republished."""

    __slots__ = ("_headers_only", "_stream", "_transform")

    def __init__(self, stream: str, config: RePublish) -> None:
        self._stream = stream.encode()
        self._transform = SubjectTransform(config.src, config.dest)
        self._headers_only = config.headers_only

    def make(
        self, subject: bytes, block: bytes, payload: bytes, seq: int, time_ns: int, previous: int
    ) -> tuple[bytes, bytes, bytes] | None:
        dest = self._transform.transform(subject.decode("utf-8", "surrogateescape"))
        if dest is None:
            return None
        head = block[:-2] if block else VERSION + b"\r\n"
        note = (
            b"Nats-Stream: %s\r\nNats-Subject: %s\r\nNats-Sequence: %d\r\n"
            b"Nats-Time-Stamp: %s\r\nNats-Last-Sequence: %d\r\n"
            % (self._stream, subject, seq, rfc3339(time_ns).encode(), previous)
        )
        if self._headers_only:
            note += b"Nats-Msg-Size: %d\r\n" % len(payload)
            payload = b""
        return dest.encode("utf-8", "surrogateescape"), head + note + b"\r\n", payload
