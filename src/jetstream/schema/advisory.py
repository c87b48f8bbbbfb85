"""What a server tells about streams, API requests and its storage on `$JS.EVENT.…`.

An advisory is made as (subject, fields) first and stamped with id and time when it is sent, so
nothing is encoded while nobody listens. Consumer advisories live in `advisory_consumer.py`.
"""

from msgspec import Struct, field

from jetstream.schema.addresses import advisory
from jetstream.schema.encoding import always, to_json
from jetstream.schema.stream import StreamState
from jetstream.schema.times import ZERO_TIME

TYPE = "io.nats.jetstream.advisory.v1."
OWN_TYPE = "io.jetstream.advisory.v1."


class ClientInfo(Struct, omit_defaults=True):
    """Who asked, as audits show it."""

    start: str = always(ZERO_TIME)
    host: str = ""
    id: int = always(0)
    acc: str = always("")
    user: str = ""
    name: str = ""
    lang: str = ""
    ver: str = ""
    rtt: int = 0
    server: str = ""
    kind: str = always("Client")
    client_type: str = always("nats")
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str = ""
    tags: list[str] = field(default_factory=list)


class StreamAction(Struct):
    stream: str
    action: str


class BatchAbandoned(Struct):
    stream: str
    batch: str
    reason: str


class SnapshotCreate(Struct):
    stream: str
    state: StreamState
    client: ClientInfo


class SnapshotComplete(Struct):
    stream: str
    start: str
    end: str
    client: ClientInfo


class RestoreCreate(Struct):
    stream: str
    client: ClientInfo


class RestoreComplete(Struct):
    stream: str
    start: str
    end: str
    bytes: int
    client: ClientInfo


class ApiAudit(Struct, omit_defaults=True):
    server: str
    client: ClientInfo
    subject: str
    request: str = ""
    response: str = ""


class OutOfStorage(Struct, omit_defaults=True):
    """The disk or the memory set aside is used up, or the disk fails."""

    server: str
    server_id: str
    stream: str = ""
    cluster: str = ""


class DataLost(Struct):
    """Sequences whose stored bytes turned out damaged; ours, the reference has no such advisory."""

    stream: str
    ranges: list[tuple[int, int]]
    bytes: int


def stamped(kind: str, body: bytes, id: str, timestamp: str, domain: str = "") -> bytes:
    """The published JSON: type, id, time, then the fields."""
    tail = b',"domain":' + to_json(domain) + b"}" if domain else b"}"
    return (
        b'{"type":"%s","id":"%s","timestamp":"%s",'
        % (kind.encode(), id.encode(), timestamp.encode())
        + body[1:-1]
        + tail
    )


def stream_action(stream: str, action: str) -> tuple[str, bytes]:
    """create, delete or modify."""
    what = {"create": "CREATED", "delete": "DELETED", "modify": "UPDATED"}[action]
    return advisory("STREAM", what, stream), to_json(StreamAction(stream, action))


def batch_abandoned(stream: str, batch: str, reason: str) -> tuple[str, bytes]:
    """timeout, large, incomplete or unsupported."""
    body = to_json(BatchAbandoned(stream, batch, reason))
    return advisory("STREAM", "BATCH_ABANDONED", stream), body


# The type of an advisory follows from where it is published.
KINDS: dict[str, str] = {
    "CREATED": "stream_action",
    "DELETED": "stream_action",
    "UPDATED": "stream_action",
    "BATCH_ABANDONED": "stream_batch_abandoned",
    "SNAPSHOT_CREATE": "snapshot_create",
    "SNAPSHOT_COMPLETE": "snapshot_complete",
    "RESTORE_CREATE": "restore_create",
    "RESTORE_COMPLETE": "restore_complete",
}


def kind_of(subject: str) -> str:
    """The `type` of a stream advisory, from its subject."""
    return TYPE + KINDS[subject.split(".")[4]]
