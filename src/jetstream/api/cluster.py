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


def in_system_account(
    engine: Any, request: ApiRequest, route: Route | None, error: ApiError
) -> bytes | None:
    """What the system account hears; it has no streams of its own but may purge an account's."""
    tokens = request.subject.split(".")
    if tokens[2:4] == ["ACCOUNT", "PURGE"] and len(tokens) == 5:
        purged = engine.accounts.get(tokens[4])
        for name in list(purged.streams) if purged is not None else ():
            purged.delete_stream(name)
        return answer("account_purge_response", Initiated(True))
    if route is None:
        return None
    if route.kind == "account_info_response":
        return route.refused(error)
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
