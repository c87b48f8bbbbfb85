"""Takes a look at the server through a client connection: the facts behind the overview."""

import contextlib
from typing import Any

import msgspec

from jetstream.client.connection import Connection
from jetstream.client.jetstream import JetStream
from jetstream.console.feed import Look
from jetstream.errors import JetStreamError

CONSUMERS_MAX = 500
PIPELINES_BUCKET = "spark_progress"


async def look(connection: Connection, js: JetStream) -> Look:
    """One look; what is not permitted or not there stays empty."""
    seen = Look()
    seen.account = await js.api.request("INFO")
    seen.streams = [info.raw async for info in js.list_streams()]
    for stream in seen.streams:
        if len(seen.consumers) >= CONSUMERS_MAX:
            break
        if stream["state"].get("consumer_count", 0):
            found = js.list_consumers(stream["config"]["name"])
            seen.consumers += [info.raw async for info in found]
    seen.connections = await _connections(connection)
    if any(s["config"]["name"] == f"KV_{PIPELINES_BUCKET}" for s in seen.streams):
        seen.pipelines = await pipelines(js)
    return seen


async def _connections(connection: Connection) -> int | None:
    """How many clients this account has, if the server tells."""
    with contextlib.suppress(JetStreamError, TimeoutError, msgspec.MsgspecError):
        answer = await connection.request("$SYS.REQ.SERVER.PING.CONNZ", b"{}", timeout=0.5)
        body = msgspec.json.decode(answer.data)
        return int((body.get("data") or {}).get("num_connections", 0))
    return None


async def pipelines(js: JetStream) -> list[dict[str, Any]]:
    """The progress records that running pipelines keep."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(JetStreamError, TimeoutError):
        bucket = await js.key_value(PIPELINES_BUCKET)
        for key in await bucket.keys("pipeline.>"):
            entry = await bucket.get(key)
            with contextlib.suppress(msgspec.MsgspecError):
                record = msgspec.json.decode(entry.value)
                if isinstance(record, dict):
                    found.append({"key": key, **record})
    return found
