"""Endpoints that move replicas about: this server has none to move, and says so."""

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from msgspec import Struct

from jetstream.api.route import ApiRequest, Route
from jetstream.errors import ApiError
from jetstream.schema.api_errors import CLUSTER_REQUIRED
from jetstream.schema.requests import Success, answer


def required(js: Any, request: ApiRequest, names: Sequence[str]) -> NoReturn:
    raise ApiError(CLUSTER_REQUIRED)


class Initiated(Struct, omit_defaults=True):
    initiated: bool = False


def in_system_account(request: ApiRequest, error: ApiError) -> bytes | None:
    """What the system account hears on endpoints other than INFO."""
    tokens = request.subject.split(".")
    if tokens[2:4] == ["ACCOUNT", "PURGE"] and len(tokens) == 5:
        return answer("account_purge_response", Initiated(True))
    return answer("system_response", error=error)


def _route(kind: str, names: int = 1) -> Route:
    return Route(kind, "O", required, names=names, zero=Success)


ROUTES: Final = {
    "STREAM.LEADER.STEPDOWN": _route("stream_leader_stepdown_response"),
    "STREAM.PEER.REMOVE": _route("stream_remove_peer_response"),
    "STREAM.PEER.EVACUATE": _route("stream_evacuate_peer_response"),
    "STREAM.CANCEL_MOVE": _route("stream_cancel_move_response"),
    "CONSUMER.LEADER.STEPDOWN": _route("consumer_leader_stepdown_response", 2),
    "CONSUMER.PEER.REMOVE": _route("consumer_remove_peer_response", 2),
    "CONSUMER.PEER.EVACUATE": _route("consumer_evacuate_peer_response", 2),
}
