"""Endpoints about single messages: MSG.GET and MSG.DELETE."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from jetstream.api.route import ApiRequest, Route
from jetstream.api.streams import is_strict
from jetstream.errors import ApiError
from jetstream.schema.api_errors import BAD_REQUEST, INVALID_JSON, NO_MESSAGE_FOUND
from jetstream.schema.decoding import decode
from jetstream.schema.requests import MessageAnswer, MsgDeleteRequest, MsgGetRequest, Success
from jetstream.schema.stream import StoredMessage
from jetstream.schema.times import parse_rfc3339, rfc3339


def get(js: Any, request: ApiRequest, names: Sequence[str]) -> Sequence[Struct]:
    asked = decode(request.payload, MsgGetRequest, is_strict(js))
    start = start_time(asked)
    if not _is_single(asked):
        raise ApiError(BAD_REQUEST)
    asset = js.stream(names[0])
    seq = find_seq(asset.store, asked, start)
    found = asset.store.get(seq) if seq else None
    if found is None:
        raise ApiError(NO_MESSAGE_FOUND)
    message = StoredMessage(
        subject=found.subject.decode("utf-8", "replace"),
        seq=found.seq,
        hdrs=b"" if asked.no_hdr else found.headers,
        data=found.payload,
        time=rfc3339(found.time_ns),
    )
    return [MessageAnswer(message)]


def start_time(asked: MsgGetRequest) -> int:
    if asked.start_time is None:
        return 0
    try:
        # The first instant there is still has to count as given.
        return max(parse_rfc3339(asked.start_time), 1)
    except ValueError as error:
        raise ApiError(INVALID_JSON, err=str(error)) from None


def _is_single(asked: MsgGetRequest) -> bool:
    """Exactly one way to choose a message, and nothing that only direct gets understand."""
    if asked.batch or asked.max_bytes or asked.multi_last or asked.up_to_seq or asked.up_to_time:
        return False
    if asked.last_by_subj:
        return not (asked.seq or asked.next_by_subj or asked.start_time)
    if asked.start_time is not None:
        return not asked.seq
    return bool(asked.seq or asked.next_by_subj)


def find_seq(store: Any, asked: MsgGetRequest, start: int) -> int:
    """The sequence a request for one message means, 0 when there is none."""
    if asked.last_by_subj:
        subject = asked.last_by_subj.encode()
        if "*" not in asked.last_by_subj and ">" not in asked.last_by_subj:
            return int(store.last_for(subject))
        return int(store.last_match(store.filter([subject])))
    first = store.seq_at_time(start) if start else max(asked.seq, 1)
    if asked.next_by_subj:
        found = store.next_seqs(first, 1, store.filter([asked.next_by_subj.encode()]))
        return int(found[0]) if found else 0
    if start:
        found = store.next_seqs(first, 1)
        return int(found[0]) if found else 0
    return int(asked.seq)


def delete(js: Any, request: ApiRequest, names: Sequence[str]) -> Sequence[Struct]:
    asked = decode(request.payload, MsgDeleteRequest, is_strict(js))
    asset = js.stream(names[0])
    asset.stream.delete_msg(asked.seq, erase=not asked.no_erase)
    js.host.wake(asset)
    request.after_sync = asset
    return [Success(True)]


ROUTES: Final = {
    "STREAM.MSG.GET": Route("stream_msg_get_response", "B", get, audited=False),
    "STREAM.MSG.DELETE": Route("stream_msg_delete_response", "B", delete, zero=Success),
}
