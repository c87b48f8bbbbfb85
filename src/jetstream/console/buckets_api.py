"""Endpoints for key-value buckets and object stores."""

import base64
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import StreamingResponse

from jetstream.client.kv import Entry
from jetstream.client.objects import ObjectInfo
from jetstream.console.answers import Refused, body_of
from jetstream.console.sessions import Session

KEYS_MAX = 5000
UPLOAD_MAX = 1024**3


def entry_of(entry: Entry) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "key": entry.key,
        "revision": entry.revision,
        "time_ms": int(entry.created.timestamp() * 1000),
        "operation": str(entry.operation),
        "size": len(entry.value),
    }
    try:
        shown["text"] = entry.value.decode()
    except UnicodeDecodeError:
        shown["base64"] = base64.b64encode(entry.value).decode()
    return shown


async def buckets(request: Request, session: Session) -> Any:
    return [name async for name in session.js.key_value_names()]


async def create_bucket(request: Request, session: Session) -> Any:
    wish = await body_of(request)
    history = int(wish.get("history") or 1)
    await session.js.create_key_value(str(wish["bucket"]), history=history)
    return {"success": True}


async def keys(request: Request, session: Session) -> Any:
    bucket = await session.js.key_value(request.path_params["bucket"])
    pattern = request.query_params.get("filter")
    found: list[str] = []
    async for key in bucket.list_keys(*([pattern] if pattern else [])):
        found.append(key)
        if len(found) >= KEYS_MAX:
            break
    return sorted(found)


async def get_key(request: Request, session: Session) -> Any:
    """The value and its history."""
    bucket = await session.js.key_value(request.path_params["bucket"])
    history = await bucket.history(request.path_params["key"])
    return [entry_of(entry) for entry in reversed(history)]


async def put_key(request: Request, session: Session) -> Any:
    """Compare and set: `revision` is what the editor saw (0 for a new key)."""
    bucket = await session.js.key_value(request.path_params["bucket"])
    key = request.path_params["key"]
    wish = await body_of(request)
    value = base64.b64decode(wish["base64"]) if "base64" in wish else str(wish["text"]).encode()
    if wish.get("revision") is None:
        return {"revision": await bucket.put(key, value)}
    revision = int(wish["revision"])
    if revision == 0:
        return {"revision": await bucket.create(key, value)}
    return {"revision": await bucket.update(key, value, revision)}


async def delete_key(request: Request, session: Session) -> Any:
    bucket = await session.js.key_value(request.path_params["bucket"])
    purge = request.query_params.get("purge") == "1"
    key = request.path_params["key"]
    return {"revision": await (bucket.purge(key) if purge else bucket.delete(key))}


# --- objects ----------------------------------------------------------------------------------


def object_of(info: ObjectInfo) -> dict[str, Any]:
    modified = info.modified
    return {
        "name": info.name,
        "size": info.size,
        "chunks": info.chunks,
        "digest": info.digest,
        "description": info.description,
        "time_ms": int(modified.timestamp() * 1000) if modified is not None else None,
    }


async def stores(request: Request, session: Session) -> Any:
    return [name async for name in session.js.object_store_names()]


async def objects(request: Request, session: Session) -> Any:
    store = await session.js.object_store(request.path_params["bucket"])
    return [object_of(info) for info in await store.list()]


async def upload(request: Request, session: Session) -> Any:
    """The body is the object; it is passed on as it comes."""
    if int(request.headers.get("content-length") or 0) > UPLOAD_MAX:
        raise Refused(413, "objects of up to 1 GiB can be uploaded here")
    store = await session.js.object_store(request.path_params["bucket"])
    return object_of(await store.put(request.path_params["name"], request.stream()))


async def download(request: Request, session: Session) -> Any:
    store = await session.js.object_store(request.path_params["bucket"])
    name = request.path_params["name"]
    reader = await store.get(name)
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name.rsplit('/', 1)[-1])}",
        "content-length": str(reader.info.size),
    }
    return StreamingResponse(reader, media_type="application/octet-stream", headers=headers)


async def delete_object(request: Request, session: Session) -> Any:
    store = await session.js.object_store(request.path_params["bucket"])
    await store.delete(request.path_params["name"])
    return {"success": True}
