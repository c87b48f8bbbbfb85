"""Endpoints for streams and consumers."""

import contextlib
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse

from jetstream.console import messages
from jetstream.console.answers import Refused, body_of
from jetstream.console.sessions import Session
from jetstream.errors import JetStreamError

SUBJECTS_MAX = 1000


async def list_streams(request: Request, session: Session) -> Any:
    return [info.raw async for info in session.js.list_streams()]


async def create_stream(request: Request, session: Session) -> Any:
    config = await body_of(request)
    created = await session.js.create_stream(config)
    return created.cached_info.raw


async def stream_info(request: Request, session: Session) -> Any:
    """The stream and its consumers."""
    name = request.path_params["stream"]
    stream = await session.js.stream(name)
    consumers = [info.raw async for info in stream.list_consumers()]
    return {"info": stream.cached_info.raw, "consumers": consumers}


async def update_stream(request: Request, session: Session) -> Any:
    name = request.path_params["stream"]
    config = await body_of(request)
    if config.get("name") != name:
        raise Refused(400, "a stream cannot be renamed")
    return await session.js.api.request(f"STREAM.UPDATE.{name}", config)


async def delete_stream(request: Request, session: Session) -> Any:
    await session.js.delete_stream(request.path_params["stream"])
    return {"success": True}


async def subjects(request: Request, session: Session) -> Any:
    """How many messages each subject has (the busiest first)."""
    pattern = request.query_params.get("filter") or ">"
    name = request.path_params["stream"]
    answer = await session.js.api.request(f"STREAM.INFO.{name}", {"subjects_filter": pattern})
    counts = answer["state"].get("subjects") or {}
    busiest = sorted(counts.items(), key=lambda item: -item[1])[:SUBJECTS_MAX]
    return {"total": answer.get("total", len(counts)), "subjects": dict(busiest)}


async def browse(request: Request, session: Session) -> Any:
    params = request.query_params
    stream = await session.js.stream(request.path_params["stream"])
    limit = int(params.get("limit") or 50)
    return await messages.page(stream, params.get("start", ""), params.get("filter", ""), limit)


async def delete_message(request: Request, session: Session) -> Any:
    stream = await session.js.stream(request.path_params["stream"])
    await stream.secure_delete_msg(int(request.path_params["seq"]))
    return {"success": True}


async def purge(request: Request, session: Session) -> Any:
    """Purge, or with `preview` say how many messages would go."""
    name = request.path_params["stream"]
    wish = await body_of(request)
    filters = {k: wish[k] for k in ("filter", "seq", "keep") if wish.get(k)}
    if not wish.get("preview"):
        return await session.js.api.request(f"STREAM.PURGE.{name}", filters)
    return {"would_purge": await _would_purge(session, name, filters)}


async def _would_purge(session: Session, name: str, filters: dict[str, Any]) -> int:
    stream = await session.js.stream(name)
    state = stream.cached_info.raw["state"]
    matching = int(state["messages"])
    if filters.get("filter"):
        wanted = {"subjects_filter": filters["filter"]}
        answer = await session.js.api.request(f"STREAM.INFO.{name}", wanted)
        matching = sum((answer["state"].get("subjects") or {}).values())
    if filters.get("keep"):
        return max(0, matching - int(filters["keep"]))
    if not filters.get("seq"):
        return matching
    # What stays is what a consumer that starts there would still have to read.
    config: dict[str, Any] = {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": int(filters["seq"]),
        "ack_policy": "none",
        "mem_storage": True,
        "inactive_threshold": 1_000_000_000,
    }
    if filters.get("filter"):
        config["filter_subject"] = filters["filter"]
    request = {"stream_name": name, "config": config}
    probe = await session.js.api.request(f"CONSUMER.CREATE.{name}", request)
    with contextlib.suppress(JetStreamError):
        await session.js.delete_consumer(name, probe["name"])
    return max(0, matching - int(probe["num_pending"]))


async def backup(request: Request, session: Session) -> Any:
    """The stream as a file that `jetstream stream restore` reads."""
    name = request.path_params["stream"]
    stream = await session.js.stream(name)
    with tempfile.NamedTemporaryFile(prefix="jetstream-backup-", delete=False) as handle:
        path = Path(handle.name)
    try:
        await stream.snapshot(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    remove = BackgroundTask(path.unlink, missing_ok=True)
    return FileResponse(path, filename=f"{name}-{stamp}.backup", background=remove)


# --- consumers --------------------------------------------------------------------------------


def _names(request: Request) -> tuple[str, str]:
    return request.path_params["stream"], request.path_params["consumer"]


async def consumer_info(request: Request, session: Session) -> Any:
    stream, name = _names(request)
    info = await session.js.consumer_info(stream, name)
    return {"info": info.raw, "explain": await _explain(session, stream, name)}


async def _explain(session: Session, stream: str, name: str) -> Any:
    """Our server says why a consumer delivers nothing; others do not know this question."""
    with contextlib.suppress(JetStreamError, TimeoutError, msgspec.MsgspecError):
        subject = f"$JSX.API.CONSUMER.EXPLAIN.{stream}.{name}"
        answer = await session.connection.request(subject, b"", timeout=1.0)
        return msgspec.json.decode(answer.data)
    return None


async def pause(request: Request, session: Session) -> Any:
    stream, name = _names(request)
    wish = await body_of(request)
    return await session.js.api.request(
        f"CONSUMER.PAUSE.{stream}.{name}", {"pause_until": wish["pause_until"]}
    )


async def resume(request: Request, session: Session) -> Any:
    stream, name = _names(request)
    return await session.js.api.request(f"CONSUMER.PAUSE.{stream}.{name}", {})


async def reset(request: Request, session: Session) -> Any:
    stream, name = _names(request)
    wish = await body_of(request)
    body = {"seq": int(wish["seq"])} if wish.get("seq") else {}
    return await session.js.api.request(f"CONSUMER.RESET.{stream}.{name}", body)


async def delete_consumer(request: Request, session: Session) -> Any:
    stream, name = _names(request)
    await session.js.delete_consumer(stream, name)
    return {"success": True}


async def dead_letters(request: Request, session: Session) -> Any:
    """GET lists them, POST redrives or drops what is asked for."""
    stream, name = _names(request)
    if request.method == "GET":
        verb, body = "LIST", dict(request.query_params)
    else:
        wish = await body_of(request)
        verb = "DROP" if wish.pop("drop", False) else "REDRIVE"
        body = wish
    subject = f"$JSX.API.DLQ.{verb}.{stream}.{name}"
    answer = await session.connection.request(subject, msgspec.json.encode(body), timeout=5.0)
    return msgspec.json.decode(answer.data)
