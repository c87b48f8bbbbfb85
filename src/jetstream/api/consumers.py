"""`$JS.API.CONSUMER.…`: requests about consumers, and what they are answered.

CREATE.<stream>                      an ephemeral consumer, named by the server
CREATE.<stream>.<consumer>[.<filter…>]    the name, and one filter, are in the subject
DURABLE.CREATE.<stream>.<consumer>   the older form for durable ones
NAMES LIST INFO DELETE PAUSE RESET UNPIN
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from jetstream.api.route import ApiRequest, Route
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
from jetstream.schema.requests import API_LEVEL, LIST_PAGE, NAMES_PAGE, Success
from jetstream.schema.times import ZERO_TIME, parse_rfc3339
from jetstream.stream.config import LEVEL_KEY, SERVER_VERSION, VERSION_KEY

Parts = Sequence[Struct | None]


class _ResetSeq(Struct):
    reset_seq: int = always(0)


# --- create -----------------------------------------------------------------------------------


def _create(js: JetStreamAccount, request: ApiRequest, names: Sequence[str]) -> Parts:
    """`names`: the stream, then `<consumer>[.<filter…>]` if the subject goes on."""
    consumer, _, filter_subject = "".join(names[1:]).partition(".")
    return _made(js, request, names[0], consumer, filter_subject, durable=False)


def _create_durable(js: JetStreamAccount, request: ApiRequest, names: Sequence[str]) -> Parts:
    return _made(js, request, names[0], names[1], "", durable=True)


def _made(
    js: JetStreamAccount,
    request: ApiRequest,
    stream: str,
    name: str,
    filter_subject: str,
    durable: bool,
) -> Parts:
    asked = decode(request.payload or b"{}", ConsumerCreateRequest)
    _check_words(asked)
    config = _named(asked, stream, name, filter_subject, durable)
    if config.num_replicas > 1:
        raise ApiError(refusals.STREAM_REPLICAS_NOT_SUPPORTED)
    asset = js.stream(stream)
    found = consumers.create(js, asset, config, action=asked.action, pedantic=asked.pedantic)
    is_kept = bool(found.config.durable_name) and not found.config.mem_storage
    if is_kept and found.config.is_pull:
        # A push consumer delivers at once; its answer must not come behind its messages.
        request.after_sync = asset
    return [shown(found.consumer.info(request.now))]


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
        problem = f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"'
        raise ApiError(refusals.INVALID_JSON, err=problem) from None


def _named(
    asked: ConsumerCreateRequest, stream: str, name: str, filter_subject: str, durable: bool
) -> ConsumerConfig:
    """The configuration with the name its subject asks for; the four forms differ in the rules."""
    config = asked.config
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
    if name:
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


def _visible(asset: StreamAsset) -> list[str]:
    return sorted(name for name, c in asset.consumers.items() if not c.config.direct)


def _names(js: JetStreamAccount, request: ApiRequest, names: Sequence[str]) -> Parts:
    offset = decode(request.json, ConsumerPageRequest).offset
    visible = _visible(js.stream(names[0]))
    offset = min(max(offset, 0), len(visible))
    page = visible[offset : offset + NAMES_PAGE]
    return [ConsumerNames(total=len(visible), offset=offset, limit=NAMES_PAGE, consumers=page)]


def _list(js: JetStreamAccount, request: ApiRequest, names: Sequence[str]) -> Parts:
    offset = decode(request.json, ConsumerPageRequest).offset
    asset = js.stream(names[0])
    visible = _visible(asset)
    offset = min(max(offset, 0), len(visible))
    infos = [
        asset.consumers[name].consumer.info(request.now)
        for name in visible[offset : offset + LIST_PAGE]
    ]
    return [ConsumerList(total=len(visible), offset=offset, limit=LIST_PAGE, consumers=infos)]


def _info(js: JetStreamAccount, request: ApiRequest, names: Sequence[str]) -> Parts:
    found = consumers.find(js.stream(names[0]), names[1])
    return [shown(found.consumer.info(request.now))]


# --- ordering ---------------------------------------------------------------------------------


def _delete(js: JetStreamAccount, request: ApiRequest, names: Sequence[str]) -> Parts:
    consumers.delete(js, js.stream(names[0]), names[1])
    return [Success(True)]


def _pause(js: JetStreamAccount, request: ApiRequest, names: Sequence[str]) -> Parts:
    text = decode(request.json, ConsumerPauseRequest).pause_until
    until = _time(text) if text else 0
    consumers.pause(js, js.stream(names[0]), names[1], until)
    if until <= request.now:
        return [ConsumerPauseResponse(pause_until=text or ZERO_TIME)]
    return [
        ConsumerPauseResponse(paused=True, pause_until=text, pause_remaining=until - request.now)
    ]


def _reset(js: JetStreamAccount, request: ApiRequest, names: Sequence[str]) -> Parts | None:
    asset = js.streams.get(names[0])
    if asset is None or names[1] not in asset.consumers:
        return None
    seq = decode(request.json, ConsumerResetRequest).seq
    found, at = consumers.reset(js, asset, names[1], seq)
    return [shown(found.consumer.info(request.now)), _ResetSeq(at)]


def _unpin(js: JetStreamAccount, request: ApiRequest, names: Sequence[str]) -> Parts:
    if not request.payload:
        raise ApiError(refusals.INVALID_JSON, err="unexpected end of JSON input")
    group = decode(request.payload, ConsumerUnpinRequest).group
    if not group:
        raise ApiError(refusals.INVALID_JSON, err="consumer group not specified")
    consumers.unpin(js, js.stream(names[0]), names[1], group)
    return []


ROUTES: Final[dict[str, Route]] = {
    "CONSUMER.CREATE": Route("consumer_create_response", "O", _create, names=1, rest=True),
    "CONSUMER.DURABLE.CREATE": Route("consumer_create_response", "O", _create_durable, names=2),
    "CONSUMER.NAMES": Route("consumer_names_response", "O", _names, zero=ConsumerNames),
    "CONSUMER.LIST": Route("consumer_list_response", "O", _list, zero=ConsumerList),
    "CONSUMER.INFO": Route("consumer_info_response", "E", _info, names=2),
    "CONSUMER.DELETE": Route("consumer_delete_response", "E", _delete, names=2),
    "CONSUMER.PAUSE": Route(
        "consumer_pause_response", "O", _pause, names=2, zero=ConsumerPauseResponse
    ),
    "CONSUMER.RESET": Route("consumer_reset_response", "O", _reset, names=2, zero=_ResetSeq),
    "CONSUMER.UNPIN": Route("consumer_unpin_response", "O", _unpin, names=2),
}
