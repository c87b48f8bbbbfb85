"""The console's web application: routes, log-in, live events, the static page.

Everything goes through the NATS connection of whoever logged in, so the server's permissions
decide. The page is plain files under `static/`; a strict content security policy allows nothing
else to run, and what messages contain is only ever shown as text.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from jetstream.client import errors as client_errors
from jetstream.clock import Clock, SystemClock
from jetstream.console import buckets_api as buckets
from jetstream.console import messages
from jetstream.console import streams_api as streams
from jetstream.console.answers import body_of, guarded, json_response, problem_response
from jetstream.console.feed import Feed
from jetstream.console.looking import look
from jetstream.console.sessions import COOKIE, Session, Sessions, TooManyAttempts

STATIC = Path(__file__).parent / "static"
LOOK_EVERY_S = 1.0
ADVISORIES = "$JS.EVENT.ADVISORY.>"

SECURITY_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


class SecurityHeaders:
    """Puts the same headers on every answer."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *SECURITY_HEADERS]
            await send(message)

        await self.app(scope, receive, with_headers)


def event(kind: str, value: Any) -> bytes:
    """One server-sent event."""
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


def stream_events(source: AsyncIterator[bytes]) -> StreamingResponse:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(source, media_type="text/event-stream", headers=headers)


# --- log-in -----------------------------------------------------------------------------------


def describe(session: Session) -> dict[str, Any]:
    info = session.connection.info
    return {
        "user": session.user,
        "csrf": session.csrf,
        "server": {"name": info.server_name, "version": info.version, "id": info.server_id},
        "url": session.connection.connected_url,
    }


def signed_in(session: Session) -> Response:
    response = json_response(describe(session))
    response.set_cookie(COOKIE, session.id, httponly=True, samesite="strict", path="/")
    return response


async def who_am_i(request: Request) -> Response:
    """The session; a server that asks nobody for a password lets everybody in at once."""
    sessions: Sessions = request.app.state.sessions
    session = sessions.find(request.cookies.get(COOKIE))
    if session is not None:
        return json_response(describe(session))
    if not request.app.state.open:
        return json_response({"error": "please log in"}, 401)
    try:
        return signed_in(await sessions.log_in({}, _address(request)))
    except (client_errors.AuthorizationError, TooManyAttempts):
        return json_response({"error": "please log in"}, 401)
    except Exception as problem:
        return problem_response(problem)


async def log_in(request: Request) -> Response:
    sessions: Sessions = request.app.state.sessions
    try:
        wish = await body_of(request)
        credentials = {k: str(wish[k]) for k in ("user", "password", "token") if wish.get(k)}
        return signed_in(await sessions.log_in(credentials, _address(request)))
    except TooManyAttempts:
        return json_response({"error": "too many attempts; wait a minute"}, 429)
    except client_errors.AuthorizationError:
        return json_response({"error": "the server does not know this user and password"}, 401)
    except Exception as problem:
        return problem_response(problem)


async def log_out(request: Request, session: Session) -> Any:
    await request.app.state.sessions.log_out(session)
    response = json_response({"success": True})
    response.delete_cookie(COOKIE, path="/")
    return response


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


# --- live -------------------------------------------------------------------------------------


async def events(request: Request, session: Session) -> Any:
    """The overview model, once a second, and advisories as they happen."""
    clock: Clock = request.app.state.clock

    async def source() -> AsyncIterator[bytes]:
        feed = Feed()
        listening = asyncio.create_task(_listen(session, feed, clock))
        try:
            while not await request.is_disconnected():
                try:
                    seen = await look(session.connection, session.js)
                    yield event("model", feed.update(seen, clock.now()))
                except Exception as problem:
                    told = problem_response(problem)
                    yield event("problem", msgspec.json.decode(bytes(told.body)))
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            listening.cancel()

    return stream_events(source())


async def _listen(session: Session, feed: Feed, clock: Clock) -> None:
    with contextlib.suppress(client_errors.ClientError):
        subscription = await session.connection.subscribe(ADVISORIES)
        async for message in subscription:
            if message.subject == "$JS.EVENT.ADVISORY.API":
                continue
            with contextlib.suppress(msgspec.MsgspecError):
                feed.advise(message.subject, msgspec.json.decode(message.data), clock.now())


async def tail(request: Request, session: Session) -> Any:
    """New messages of one stream."""

    async def source() -> AsyncIterator[bytes]:
        wanted = request.query_params.get("filter", "")
        async for message in messages.live(session.js, request.path_params["stream"], wanted):
            yield event("message", message)

    return stream_events(source())


async def watch_bucket(request: Request, session: Session) -> Any:
    """Changes of one bucket."""
    bucket = await session.js.key_value(request.path_params["bucket"])

    async def source() -> AsyncIterator[bytes]:
        watcher = await bucket.watch_all(updates_only=True)
        async for entry in watcher:
            if entry is not None:
                yield event("entry", buckets.entry_of(entry))

    return stream_events(source())


async def publish(request: Request, session: Session) -> Any:
    """Publish a message and show the ack."""
    wish = await body_of(request)
    subject, data = str(wish["subject"]), str(wish.get("data", "")).encode()
    headers = {str(k): str(v) for k, v in (wish.get("headers") or {}).items()}
    if not wish.get("jetstream", True):
        await session.connection.publish(subject, data, headers=headers or None)
        await session.connection.flush()
        return {"published": True}
    ack = await session.js.publish(subject, data, headers=headers or None)
    return {"stream": ack.stream, "seq": ack.seq, "duplicate": ack.duplicate}


async def connections(request: Request, session: Session) -> Any:
    """The connections of this account, as the server tells them."""
    answer = await session.connection.request("$SYS.REQ.SERVER.PING.CONNZ", b"{}", timeout=2.0)
    body = msgspec.json.decode(answer.data)
    return body.get("data") or body


def _routes() -> list[BaseRoute]:
    def get(path: str, endpoint: Any) -> Route:
        return Route("/api" + path, guarded(endpoint), methods=["GET"])

    def change(path: str, endpoint: Any, *methods: str) -> Route:
        return Route("/api" + path, guarded(endpoint, changes=True), methods=list(methods))

    stream, consumer = "/streams/{stream}", "/streams/{stream}/consumers/{consumer}"
    return [
        Route("/api/session", who_am_i, methods=["GET"]),
        Route("/api/login", log_in, methods=["POST"]),
        change("/logout", log_out, "POST"),
        get("/events", events),
        get("/connections", connections),
        change("/publish", publish, "POST"),
        get("/streams", streams.list_streams),
        change("/streams", streams.create_stream, "POST"),
        get(stream, streams.stream_info),
        change(stream, streams.update_stream, "PUT"),
        change(stream, streams.delete_stream, "DELETE"),
        get(stream + "/subjects", streams.subjects),
        get(stream + "/messages", streams.browse),
        get(stream + "/live", tail),
        get(stream + "/backup", streams.backup),
        change(stream + "/messages/{seq:int}", streams.delete_message, "DELETE"),
        change(stream + "/purge", streams.purge, "POST"),
        get(consumer, streams.consumer_info),
        change(consumer, streams.delete_consumer, "DELETE"),
        change(consumer + "/pause", streams.pause, "POST"),
        change(consumer + "/resume", streams.resume, "POST"),
        change(consumer + "/reset", streams.reset, "POST"),
        get(consumer + "/dead-letters", streams.dead_letters),
        change(consumer + "/dead-letters", streams.dead_letters, "POST"),
        get("/kv", buckets.buckets),
        change("/kv", buckets.create_bucket, "POST"),
        get("/kv/{bucket}", buckets.keys),
        get("/kv/{bucket}/watch", watch_bucket),
        get("/kv/{bucket}/keys/{key:path}", buckets.get_key),
        change("/kv/{bucket}/keys/{key:path}", buckets.put_key, "PUT"),
        change("/kv/{bucket}/keys/{key:path}", buckets.delete_key, "DELETE"),
        get("/objects", buckets.stores),
        get("/objects/{bucket}", buckets.objects),
        get("/objects/{bucket}/{name:path}", buckets.download),
        change("/objects/{bucket}/{name:path}", buckets.upload, "PUT"),
        change("/objects/{bucket}/{name:path}", buckets.delete_object, "DELETE"),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/", lambda request: FileResponse(STATIC / "index.html")),
    ]


def make_app(sessions: Sessions, *, open_door: bool = True, clock: Clock | None = None) -> Any:
    """The application on these sessions.

    `open_door` tries to come in without credentials first, for servers that ask for none.
    """
    app = Starlette(routes=_routes())
    app.state.sessions = sessions
    app.state.open = open_door
    app.state.clock = clock if clock is not None else SystemClock()
    return SecurityHeaders(app)
