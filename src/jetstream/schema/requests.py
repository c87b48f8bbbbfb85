"""The envelopes of `$JS.API`: request bodies and the few answers that are not an info.

An answer is `{"type": …, "error": …, …}`. Servers print it with `answer()` from parts in order;
clients decode `Envelope` first (is there an error?) and then the same bytes as what they asked for:
unknown fields are ignored, so `StreamInfo` decodes straight from a create, update or info answer.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from jetstream.errors import ApiError
from jetstream.schema.encoding import always, escape
from jetstream.schema.stream import (
    ApiErrorDetail,
    StoredMessage,
    StreamConfig,
    StreamInfo,
    StreamState,
    UInt64,
)

API_LEVEL: Final = 5
RESPONSE_TYPE: Final = "io.nats.jetstream.api.v1."

NAMES_PAGE: Final = 1024
LIST_PAGE: Final = 256
SUBJECTS_PAGE: Final = 100_000

Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


# -- requests ---------------------------------------------------------------------------------


class StreamConfigRequest(StreamConfig, omit_defaults=True):
    """Create and update: a whole StreamConfig, plus whether to be told of every adjustment."""

    pedantic: bool = False


class StreamNamesRequest(Struct, omit_defaults=True):
    offset: Int = always(0)
    subject: str = ""


class StreamListRequest(StreamNamesRequest, omit_defaults=True):
    pass


class StreamInfoRequest(Struct, omit_defaults=True):
    offset: Int = always(0)
    deleted_details: bool = False
    subjects_filter: str = ""


class StreamPurgeRequest(Struct, omit_defaults=True):
    seq: UInt64 = 0
    keep: UInt64 = 0
    filter: str = ""


class MsgGetRequest(Struct, omit_defaults=True):
    """STREAM.MSG.GET and DIRECT.GET; the second group only means something to the latter."""

    seq: UInt64 = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: Int = 0
    max_bytes: Int = 0
    start_time: str | None = None
    multi_last: list[str] = field(default_factory=list)
    up_to_seq: UInt64 = 0
    up_to_time: str | None = None
    no_hdr: bool = False


class MsgDeleteRequest(Struct, omit_defaults=True):
    seq: UInt64 = always(0)
    no_erase: bool = False


class StreamSnapshotRequest(Struct, omit_defaults=True):
    deliver_subject: str = always("")
    no_consumers: bool = False
    chunk_size: Int = 0
    window_size: Int = 0
    jsck: bool = False


class StreamRestoreRequest(Struct, omit_defaults=True):
    config: StreamConfig = field(default_factory=lambda: StreamConfig())
    state: StreamState = field(default_factory=lambda: StreamState())


class PeerRemoveRequest(Struct, omit_defaults=True):
    peer: str = always("")


# -- answers ----------------------------------------------------------------------------------


class Envelope(Struct, omit_defaults=True):
    """What every answer starts with."""

    type: str = always("")
    error: ApiErrorDetail | None = None


class Paged(Struct):
    total: int = always(0)
    offset: int = always(0)
    limit: int = always(0)


class StreamNamesPage(Paged):
    streams: list[str] | None = None


class StreamListPage(Paged):
    streams: list[StreamInfo] | None = None


class StreamInfoPage(StreamInfo, omit_defaults=True):
    """How clients read a stream info that may be one page of many subjects."""

    total: int = always(0)
    offset: int = always(0)
    limit: int = always(0)


class Success(Struct, omit_defaults=True):
    success: bool = False


class Purged(Struct, omit_defaults=True):
    success: bool = False
    purged: int = always(0)


class DidCreate(Struct, omit_defaults=True):
    did_create: bool = False


class MessageAnswer(Struct, omit_defaults=True):
    message: StoredMessage | None = None


class SnapshotAnswer(Struct, omit_defaults=True):
    config: StreamConfig | None = None
    state: StreamState | None = None


class RestoreAnswer(Struct, omit_defaults=True):
    deliver_subject: str = always("")


_encoder = msgspec.json.Encoder()


def answer(kind: str, *parts: Struct | None, error: ApiError | None = None) -> bytes:
    """The JSON of one API answer: type, error, then the fields of every part in order."""
    out = [b'{"type":"' + RESPONSE_TYPE.encode() + kind.encode() + b'"']
    if error is not None:
        out.append(b'"error":' + _encoder.encode(error_detail(error)))
    for part in parts:
        if part is not None:
            body = _encoder.encode(part)[1:-1]
            if body:
                out.append(body)
    return escape(b",".join(out) + b"}")


def error_detail(error: ApiError) -> ApiErrorDetail:
    return ApiErrorDetail(error.code, error.err_code, error.description)
