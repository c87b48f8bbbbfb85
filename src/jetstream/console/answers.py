"""JSON in, JSON out, and errors that say what to try: what all endpoints of the console share."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from jetstream.client import errors as client_errors
from jetstream.console.sessions import COOKIE, CSRF_HEADER, Session
from jetstream.errors import ApiError, JetStreamError

BODY_MAX = 8 * 1024 * 1024

Endpoint = Callable[[Request, Session], Awaitable[Any]]


class Refused(Exception):
    """The console itself says no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def json_response(value: Any, status: int = 200) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def guarded(
    endpoint: Endpoint, *, changes: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint for people who logged in; one that changes something needs the page's token."""

    async def handler(request: Request) -> Response:
        session = request.app.state.sessions.find(request.cookies.get(COOKIE))
        if session is None:
            return json_response({"error": "please log in"}, 401)
        if changes and not session.may_change(request.headers.get(CSRF_HEADER)):
            return json_response(
                {"error": "this request does not come from the console's page"}, 403
            )
        try:
            answer = await endpoint(request, session)
        except Exception as problem:
            return problem_response(problem)
        return answer if isinstance(answer, Response) else json_response(answer)

    return handler


def problem_response(problem: Exception) -> Response:
    """What went wrong, in the server's words, with its number and a hint."""
    if isinstance(problem, ApiError):
        body = {"error": problem.description, "err_code": problem.err_code, "hint": problem.hint}
        return json_response(body, problem.code if 400 <= problem.code < 600 else 500)
    if isinstance(problem, Refused):
        return json_response({"error": str(problem)}, problem.status)
    if isinstance(problem, client_errors.PermissionsError):
        return json_response({"error": f"your user may not do this: {problem}"}, 403)
    if isinstance(problem, client_errors.NoRespondersError):
        return json_response({"error": "JetStream is not enabled for this account"}, 503)
    if isinstance(problem, TimeoutError):
        return json_response({"error": "the server did not answer in time"}, 504)
    if isinstance(problem, JetStreamError | ValueError | KeyError | msgspec.MsgspecError):
        return json_response({"error": str(problem), "hint": getattr(problem, "hint", None)}, 400)
    raise problem


async def body_of(request: Request) -> dict[str, Any]:
    """The request's JSON object."""
    length = int(request.headers.get("content-length") or 0)
    if length > BODY_MAX:
        raise Refused(413, "too large")
    data = await request.body()
    if len(data) > BODY_MAX:
        raise Refused(413, "too large")
    value = msgspec.json.decode(data or b"{}")
    if not isinstance(value, dict):
        raise Refused(400, "a JSON object is expected")
    return value
