"""`$JS.API`: from the subject of a request to the endpoint that answers it.

The table is the whole interface; everything an endpoint has in common with the others (API level,
empty bodies, accounts without JetStream, counting, audits) is done here once.
"""

from typing import Any, Final

from jetstream.api import account as account_api
from jetstream.api import bulk, cluster, consumers, extensions, legacy, messages, snapshot, streams
from jetstream.api.audit import audit
from jetstream.api.route import ApiRequest, Route
from jetstream.errors import ApiError
from jetstream.schema.api_errors import (
    BAD_REQUEST,
    NOT_EMPTY_REQUEST,
    NOT_ENABLED_FOR_ACCOUNT,
    REQUIRED_API_LEVEL,
)
from jetstream.schema.requests import API_LEVEL
from jetstream.schema.requests import answer as answer_json
from jetstream.wire.headers import get_header

__all__ = ["ApiRequest", "answer"]

API: Final = "$JS.API."
LEVEL_HEADER: Final = b"Nats-Required-Api-Level"

ROUTES: Final[dict[str, Route]] = {
    **account_api.ROUTES,
    **streams.ROUTES,
    **messages.ROUTES,
    **snapshot.ROUTES,
    **consumers.ROUTES,
    **cluster.ROUTES,
}


def find(subject: str) -> tuple[Route, list[str]] | None:
    """The endpoint of a subject below `$JS.API.` and the names it carries."""
    tokens = subject[len(API) :].split(".")
    for width in (3, 2, 1):
        route = ROUTES.get(".".join(tokens[:width])) if len(tokens) >= width else None
        if route is None:
            continue
        names = tokens[width:]
        if route.rest and len(names) > route.names:
            names = [*names[: route.names], ".".join(names[route.names :])]
        elif len(names) != route.names:
            continue
        return route, names
    return None


def answer(engine: Any, account: Any, js: Any, request: ApiRequest) -> object:
    """Answer one request; False says that nobody is there to answer it."""
    subject = request.subject
    if not subject.startswith(API):
        if subject.startswith("$JS.SNAPSHOT."):
            return snapshot.on_chunk(engine, account, js, request)
        if subject.startswith(extensions.PREFIX):
            answered = bulk.reply(engine, account, js, request)
            if answered is not None:
                return answered
            return extensions.reply(engine, account, js, request)
        return legacy.answer(engine, account, js, request)
    found = find(subject)
    if js is None:
        return _without_jetstream(engine, account, found[0] if found else None, request)
    if found is None:
        return True
    route, names = found
    failed = False
    try:
        response = _handle(js, route, names, request)
    except ApiError as error:
        failed = True
        response = route.refused(error)
    js.api_total += 1
    js.api_errors += failed
    if response is None:
        return True
    if request.reply:
        desk = engine.desks.get(id(request.after_sync)) if request.after_sync else None
        if desk is not None:
            desk.confirm(request.reply, response, True)
        else:
            engine.send(account, request.reply, response)
    if route.audited or failed:
        audit(engine, js, request, response)
    return True


def _handle(js: Any, route: Route, names: list[str], request: ApiRequest) -> bytes | None:
    check_level(request.headers)
    if route.body == "E" and request.has_body:
        raise ApiError(NOT_EMPTY_REQUEST)
    if route.body == "B" and not request.has_body:
        raise ApiError(BAD_REQUEST)
    made = route.handler(js, request, names)
    if made is None or isinstance(made, bytes):
        return made
    return answer_json(route.kind, *made)


def check_level(headers: bytes) -> None:
    """Refuse a request that needs a newer server than this."""
    if not headers:
        return
    wanted = get_header(headers, LEVEL_HEADER)
    if wanted and (not wanted.isdigit() or int(wanted) > API_LEVEL):
        raise ApiError(REQUIRED_API_LEVEL)


def _without_jetstream(engine: Any, account: Any, route: Route | None, request: ApiRequest) -> bool:
    error = ApiError(NOT_ENABLED_FOR_ACCOUNT)
    made: bytes | None = None
    if engine.server.accounts.system is account:
        made = cluster.in_system_account(engine, request, route, error)
    elif route is not None:
        made = route.refused(error)
    if made is not None and request.reply:
        engine.send(account, request.reply, made)
    return True
