"""What servers say about themselves: over `$SYS.REQ…` as the system account, or over HTTP.

Every answer is one server's `{"server": …, "data": …}`.
"""

import asyncio
from typing import Any

import msgspec

from jetstream.cli.problems import Failure
from jetstream.cli.session import Json, Session

WAIT_SECONDS = 2.0
STALL_SECONDS = 0.3
SYSTEM_HINT = (
    "server commands need a user of the system account: give --user or --creds of one, or "
    "--http http://127.0.0.1:8222 of a server that was started with -m 8222"
)
_PATHS = {
    "VARZ": "varz",
    "CONNZ": "connz",
    "SUBSZ": "subsz",
    "JSZ": "jsz",
    "ACCOUNTZ": "accountz",
    "ROUTEZ": "routez",
    "GATEWAYZ": "gatewayz",
    "LEAFZ": "leafz",
    "HEALTHZ": "healthz",
    "ACCSTATZ": "accstatz",
}


async def ask_all(
    session: Session, kind: str, body: Json | None = None, *, expect: int = 0
) -> list[Json]:
    """One answer per server to `$SYS.REQ.SERVER.PING.<kind>` (empty kind: the ping itself)."""
    subject = "$SYS.REQ.SERVER.PING" + (f".{kind}" if kind else "")
    return await gather(session, subject, body, expect)


async def gather(
    session: Session, subject: str, body: Json | None = None, expect: int = 0
) -> list[Json]:
    """Answers until nobody answers any more; each notes how long it took."""
    from jetstream.client.errors import NoRespondersError

    loop = asyncio.get_running_loop()
    payload = msgspec.json.encode(body) if body else b""
    start = loop.time()
    found: list[Json] = []
    try:
        async for message in session.nc.request_many(
            subject,
            payload,
            timeout=min(session.timeout, WAIT_SECONDS) if not expect else session.timeout,
            stall=STALL_SECONDS if not expect else None,
            max_messages=expect or None,
        ):
            answer = msgspec.json.decode(message.data)
            answer["rtt_ns"] = int((loop.time() - start) * 1e9)
            found.append(answer)
    except NoRespondersError:
        raise Failure("no server answers as system account", SYSTEM_HINT) from None
    if not found:
        raise Failure("no server answered", SYSTEM_HINT)
    for answer in found:
        if answer.get("error"):
            error = answer["error"]
            raise Failure(f"the server answered {error.get('code')}: {error.get('description')}")
    return found


async def ask_http(url: str, kind: str, query: Json | None = None) -> Json:
    """One server over its HTTP monitor."""
    import urllib.error
    import urllib.parse
    import urllib.request

    text = urllib.parse.urlencode({k: v for k, v in (query or {}).items() if v})
    address = f"{url.rstrip('/')}/{_PATHS[kind]}" + (f"?{text}" if text else "")

    def fetch() -> bytes:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bytes(answer.read())

    try:
        data = msgspec.json.decode(await asyncio.to_thread(fetch))
    except (urllib.error.URLError, OSError) as error:
        raise Failure(
            f"{address} does not answer: {error}", "was the server started with -m?"
        ) from error
    server = {
        "name": data.get("server_name", ""),
        "id": data.get("server_id", ""),
        "host": data.get("host", ""),
        "ver": data.get("version", ""),
    }
    return {"server": server, "data": data, "rtt_ns": 0}


async def facts(
    session: Session | None, kind: str, body: Json | None = None, http: str | None = None
) -> list[Json]:
    """Answers of all servers, or of the one behind an HTTP address."""
    if http:
        return [await ask_http(http, kind, body)]
    assert session is not None
    return await ask_all(session, kind, body)


def total(rows: list[Json], *path: str) -> int:
    """The sum of a number over rows."""
    result = 0
    for row in rows:
        value: Any = row
        for key in path:
            value = value.get(key, 0) if isinstance(value, dict) else 0
        result += int(value or 0)
    return result
