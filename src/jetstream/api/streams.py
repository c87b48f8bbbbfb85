"""Endpoints about streams: create, update, info, names, list, delete, purge."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import Struct

from jetstream.api.route import ApiRequest, Route
from jetstream.errors import ApiError
from jetstream.schema.api_errors import (
    STREAM_MISMATCH,
    STREAM_NAME_CONTAINS_PATH_SEPARATORS,
)
from jetstream.schema.decoding import decode
from jetstream.schema.requests import (
    LIST_PAGE,
    NAMES_PAGE,
    SUBJECTS_PAGE,
    DidCreate,
    Paged,
    Purged,
    StreamConfigRequest,
    StreamInfoRequest,
    StreamListPage,
    StreamListRequest,
    StreamNamesPage,
    StreamNamesRequest,
    StreamPurgeRequest,
    Success,
)
from jetstream.schema.stream import ClusterInfo, StreamInfo
from jetstream.schema.times import go_duration, rfc3339
from jetstream.stream.config import check_name, with_dynamic_metadata, with_static_metadata

Parts = Sequence[Struct | None]


def is_strict(js: Any) -> bool:
    options = getattr(js.host, "options", None)
    return options is None or bool(options.strict)


def stream_info(js: Any, asset: Any, *, listed: bool = False) -> StreamInfo:
    """The body that create, update, info and list share."""
    state = asset.stream.state()
    state.consumer_count = asset.visible_consumers
    mirror, sources = js.feeds.infos(asset)
    if listed:
        config = with_static_metadata(asset.config)
    else:
        config = with_dynamic_metadata(asset.config, _relaxed_sync(js, asset))
    return StreamInfo(
        config=config,
        created=rfc3339(asset.created_ns),
        state=state,
        domain=js.domain,
        mirror=mirror,
        sources=sources,
        ts=rfc3339(js.host.now()),
    )


def _relaxed_sync(js: Any, asset: Any) -> str:
    """The interval, if acknowledgements of this stream do not wait for the disk."""
    promises = getattr(js.host, "syncs_before_ack", None)
    if asset.config.storage != "file" or promises is None or promises(asset):
        return ""
    if asset.config.persist_mode == "async":
        return ""  # The configuration says so itself.
    return go_duration(js.host.options.sync_interval_ns)


def create(js: Any, request: ApiRequest, names: Sequence[str]) -> Parts:
    config = _config(js, request, names[0])
    asset, _ = js.create_stream(config, config.pedantic)
    info = stream_info(js, asset)
    info.domain = ""
    return [info, DidCreate(True)]


def update(js: Any, request: ApiRequest, names: Sequence[str]) -> Parts:
    check_name(_decoded(js, request).name)
    config = _config(js, request, names[0])
    asset = js.update_stream(config, config.pedantic)
    return [stream_info(js, asset)]


def _decoded(js: Any, request: ApiRequest) -> StreamConfigRequest:
    return decode(request.payload.strip() or b"{}", StreamConfigRequest, is_strict(js))


def _config(js: Any, request: ApiRequest, name: str) -> StreamConfigRequest:
    config = _decoded(js, request)
    if config.name != name:
        raise ApiError(STREAM_MISMATCH)
    if "/" in name or "\\" in name:
        raise ApiError(STREAM_NAME_CONTAINS_PATH_SEPARATORS)
    return config


def info(js: Any, request: ApiRequest, names: Sequence[str]) -> Parts:
    asked = decode(request.json, StreamInfoRequest, is_strict(js))
    asset = js.stream(names[0])
    body = stream_info(js, asset)
    body.cluster = ClusterInfo(leader=js.host.server_name)
    page = Paged()
    if asked.deleted_details:
        body.state.deleted = asset.store.deleted() or None
    if asked.subjects_filter:
        chosen = asset.store.filter([asked.subjects_filter.encode()])
        total = asset.store.count_subjects(chosen)
        if total:
            offset = max(asked.offset, 0)
            shown = islice(asset.store.subjects(chosen), offset, offset + SUBJECTS_PAGE)
            page = Paged(total, offset, SUBJECTS_PAGE)
            body.state.subjects = {s.decode("utf-8", "replace"): n for s, n in shown} or None
    return [page, body]


def names_page(js: Any, request: ApiRequest, names: Sequence[str]) -> Parts:
    asked = decode(request.json, StreamNamesRequest, is_strict(js))
    found = [asset.name for asset in js.sorted_streams(asked.subject)]
    offset = min(max(asked.offset, 0), len(found))
    shown = found[offset : offset + NAMES_PAGE]
    return [StreamNamesPage(len(found), offset, NAMES_PAGE, shown or None)]


def list_page(js: Any, request: ApiRequest, names: Sequence[str]) -> Parts:
    asked = decode(request.json, StreamListRequest, is_strict(js))
    found = js.sorted_streams(asked.subject)
    offset = min(max(asked.offset, 0), len(found))
    shown = found[offset : offset + LIST_PAGE]
    infos = [stream_info(js, asset, listed=True) for asset in shown]
    return [StreamListPage(len(found), offset, LIST_PAGE, infos)]


def delete(js: Any, request: ApiRequest, names: Sequence[str]) -> Parts:
    js.delete_stream(names[0])
    return [Success(True)]


def purge(js: Any, request: ApiRequest, names: Sequence[str]) -> Parts:
    asked = decode(request.json, StreamPurgeRequest, is_strict(js))
    asset = js.stream(names[0])
    removed = asset.stream.purge(asked)
    js.host.wake(asset)
    request.after_sync = asset
    return [Purged(True, removed)]


class _NoNames(Paged):
    streams: None = msgspec.field(default_factory=lambda: None)


class _NoInfos(Paged):
    streams: list[StreamInfo] = msgspec.field(default_factory=list)


ROUTES: Final = {
    "STREAM.CREATE": Route("stream_create_response", "O", create),
    "STREAM.UPDATE": Route("stream_update_response", "O", update),
    "STREAM.NAMES": Route("stream_names_response", "O", names_page, names=0, zero=_NoNames),
    "STREAM.LIST": Route("stream_list_response", "O", list_page, names=0, zero=_NoInfos),
    "STREAM.INFO": Route("stream_info_response", "O", info, zero=Paged),
    "STREAM.DELETE": Route("stream_delete_response", "E", delete, zero=Success),
    "STREAM.PURGE": Route("stream_purge_response", "O", purge, zero=Purged),
}
