"""`$JS.API.CONSUMER.…`: requests about consumers, and what they are answered.

CREATE.<stream>                      an ephemeral consumer, named by the server
CREATE.<stream>.<consumer>[.<filter…>]    the name, and one filter, are in the subject
DURABLE.CREATE.<stream>.<consumer>   the older form for durable ones
NAMES LIST INFO DELETE PAUSE RESET UNPIN
"""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from jetstream.engine import consumers
from jetstream.engine.account import JetStreamAccount, StreamAsset
from jetstream.errors import ApiError
from jetstream.schema import api_errors as refusals
from jetstream.schema.consumer import (
    ACTIONS,
    PRIORITY_POLICIES,
    ConsumerConfig,
    ConsumerCreateRequest,
    ConsumerInfo,
    ConsumerList,
    ConsumerNames,
    ConsumerPageRequest,
    ConsumerPauseRequest,
    ConsumerPauseResponse,
    ConsumerResetRequest,
    ConsumerUnpinRequest,
)
from jetstream.schema.decoding import decode
from jetstream.schema.encoding import always
from jetstream.schema.requests import API_LEVEL, LIST_PAGE, NAMES_PAGE, Success, answer
from jetstream.schema.times import ZERO_TIME, parse_rfc3339
from jetstream.stream.config import LEVEL_KEY, SERVER_VERSION, VERSION_KEY

PREFIX: Final = "$JS.API.CONSUMER."


class Request(Protocol):
    """The part of an API request this module looks at."""

    subject: str
    payload: bytes
    now: int


class _ResetSeq(Struct):
    reset_seq: int = always(0)


def handle(js: JetStreamAccount, request: Request) -> bytes | None:
    """Answer a request below `$JS.API.CONSUMER.`; None: nobody answers."""
    tokens = request.subject.removeprefix(PREFIX).split(".")
    verb, names = tokens[0], tokens[1:]
    if verb == "DURABLE" and names[:1] == ["CREATE"]:
        return _create(js, request, names[1:], durable=True)
    if verb == "CREATE" and names:
        return _create(js, request, names, durable=False)
    handler = _HANDLERS.get((verb, len(names)))
    return handler(js, request, *names) if handler is not None else None


# --- create -----------------------------------------------------------------------------------


def _create(
    js: JetStreamAccount, request: Request, names: list[str], durable: bool
) -> bytes | None:
    kind = "consumer_create_response"
    try:
        if durable and len(names) != 2:
            raise ApiError(refusals.CONSUMER_DURABLE_NAME_NOT_IN_SUBJECT)
        asked = decode(request.payload, ConsumerCreateRequest)
        _check_words(asked)
        config = _named(asked, names, durable)
        if config.num_replicas > 1:
            raise ApiError(refusals.STREAM_REPLICAS_NOT_SUPPORTED)
        asset = js.stream(names[0])
        found = consumers.create(js, asset, config, action=asked.action, pedantic=asked.pedantic)
    except ApiError as error:
        return answer(kind, error=error)
    return answer(kind, shown(found.consumer.info(request.now)))


def _check_words(asked: ConsumerCreateRequest) -> None:
    if asked.action not in ACTIONS:
        raise ApiError(refusals.INVALID_JSON, err=f'unknown consumer action: "{asked.action}"')
    policy = asked.config.priority_policy
    if policy and policy not in PRIORITY_POLICIES:
        raise ApiError(refusals.INVALID_JSON, err=f'unknown priority policy: "{policy}"')
    for time in (asked.config.opt_start_time, asked.config.pause_until):
        if time:
            _time(time)


def _time(text: str) -> int:
    try:
        return parse_rfc3339(text)
    except ValueError:
        layout = "2006-01-02T15:04:05Z07:00"
        problem = f'parsing time "\\"{text}\\"" as "\\"{layout}\\"": cannot parse'
        raise ApiError(refusals.INVALID_JSON, err=problem) from None


def _named(asked: ConsumerCreateRequest, names: list[str], durable: bool) -> ConsumerConfig:
    """The configuration with the name its subject asks for; the four forms differ in the rules."""
    config = asked.config
    stream, name, filter_subject = names[0], "".join(names[1:2]), ".".join(names[2:])
    if stream != asked.stream_name:
        raise ApiError(refusals.STREAM_MISMATCH)
    if "\\" in name or "/" in name:
        raise ApiError(refusals.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS)
    if durable and not config.durable_name:
        raise ApiError(refusals.CONSUMER_DURABLE_NAME_NOT_SET)
    if name and config.durable_name and config.durable_name != name:
        raise ApiError(refusals.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT)
    if not name and config.durable_name:
        raise ApiError(refusals.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME)
    if filter_subject and config.filter_subjects:
        raise ApiError(refusals.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED)
    if filter_subject and config.filter_subject != filter_subject:
        raise ApiError(refusals.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH)
    if name and not durable:
        config.name = name
    return config


# --- asking -----------------------------------------------------------------------------------


def shown(info: ConsumerInfo) -> ConsumerInfo:
    """An info with what this server adds to the metadata of every asset it tells about."""
    metadata = {
        **info.config.metadata,
        VERSION_KEY: SERVER_VERSION,
        LEVEL_KEY: str(API_LEVEL),
    }
    info.config = msgspec.structs.replace(info.config, metadata=dict(sorted(metadata.items())))
    return info


def _page(payload: bytes) -> int:
    if payload[:1] not in (b"{", b"["):
        return 0
    return max(decode(payload, ConsumerPageRequest).offset, 0)


def _visible(asset: StreamAsset) -> list[str]:
    return sorted(name for name, c in asset.consumers.items() if not c.config.direct)


def _names(js: JetStreamAccount, request: Request, stream: str) -> bytes:
    kind = "consumer_names_response"
    try:
        offset = _page(request.payload)
        names = _visible(js.stream(stream))
    except ApiError as error:
        return answer(kind, ConsumerNames(), error=error)
    offset = min(offset, len(names))
    page = names[offset : offset + NAMES_PAGE]
    return answer(
        kind, ConsumerNames(total=len(names), offset=offset, limit=NAMES_PAGE, consumers=page)
    )


def _list(js: JetStreamAccount, request: Request, stream: str) -> bytes:
    kind = "consumer_list_response"
    try:
        offset = _page(request.payload)
        asset = js.stream(stream)
    except ApiError as error:
        return answer(kind, ConsumerList(), error=error)
    names = _visible(asset)
    offset = min(offset, len(names))
    infos = [
        asset.consumers[name].consumer.info(request.now)
        for name in names[offset : offset + LIST_PAGE]
    ]
    return answer(
        kind, ConsumerList(total=len(names), offset=offset, limit=LIST_PAGE, consumers=infos)
    )


def _expect_empty(payload: bytes) -> None:
    if payload.strip() in (b"", b"{}"):
        return
    try:
        if msgspec.json.decode(payload) == {}:
            return
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    raise ApiError(refusals.NOT_EMPTY_REQUEST)


def _info(js: JetStreamAccount, request: Request, stream: str, name: str) -> bytes:
    kind = "consumer_info_response"
    try:
        _expect_empty(request.payload)
        found = consumers.find(js.stream(stream), name)
    except ApiError as error:
        return answer(kind, error=error)
    return answer(kind, shown(found.consumer.info(request.now)))


# --- ordering ---------------------------------------------------------------------------------


def _delete(js: JetStreamAccount, request: Request, stream: str, name: str) -> bytes:
    kind = "consumer_delete_response"
    try:
        _expect_empty(request.payload)
        consumers.delete(js, js.stream(stream), name)
    except ApiError as error:
        return answer(kind, error=error)
    return answer(kind, Success(True))


def _pause(js: JetStreamAccount, request: Request, stream: str, name: str) -> bytes:
    kind = "consumer_pause_response"
    try:
        until = 0
        if request.payload[:1] in (b"{", b"["):
            text = decode(request.payload, ConsumerPauseRequest).pause_until
            until = _time(text) if text else 0
        consumers.pause(js, js.stream(stream), name, until)
    except ApiError as error:
        return answer(kind, ConsumerPauseResponse(), error=error)
    if until <= request.now:
        shown_until = ZERO_TIME if not until else text
        return answer(kind, ConsumerPauseResponse(paused=False, pause_until=shown_until))
    return answer(
        kind,
        ConsumerPauseResponse(paused=True, pause_until=text, pause_remaining=until - request.now),
    )


def _reset(js: JetStreamAccount, request: Request, stream: str, name: str) -> bytes | None:
    kind = "consumer_reset_response"
    asset = js.streams.get(stream)
    if asset is None or name not in asset.consumers:
        return None
    try:
        seq = 0
        if request.payload[:1] in (b"{", b"["):
            seq = decode(request.payload, ConsumerResetRequest).seq
        found, at = consumers.reset(js, asset, name, seq)
    except ApiError as error:
        return answer(kind, _ResetSeq(), error=error)
    return answer(kind, shown(found.consumer.info(request.now)), _ResetSeq(at))


def _unpin(js: JetStreamAccount, request: Request, stream: str, name: str) -> bytes:
    kind = "consumer_unpin_response"
    try:
        if not request.payload:
            raise ApiError(refusals.INVALID_JSON, err="unexpected end of JSON input")
        group = decode(request.payload, ConsumerUnpinRequest).group
        if not group:
            raise ApiError(refusals.INVALID_JSON, err="consumer group not specified")
        consumers.unpin(js, js.stream(stream), name, group)
    except ApiError as error:
        return answer(kind, error=error)
    return answer(kind)


_Handler = Callable[..., bytes | None]
_HANDLERS: Final[dict[tuple[str, int], _Handler]] = {
    ("NAMES", 1): _names,
    ("LIST", 1): _list,
    ("INFO", 2): _info,
    ("DELETE", 2): _delete,
    ("PAUSE", 2): _pause,
    ("RESET", 2): _reset,
    ("UNPIN", 2): _unpin,
}
