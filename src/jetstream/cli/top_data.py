"""What `jetstream top` shows: rows for its tabs, and rates from two looks at the same numbers."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from jetstream.cli import human
from jetstream.cli.session import Json, Session, is_internal

STREAM_COLUMNS = (
    "Stream",
    "Messages",
    "Msgs/s",
    "Bytes",
    "Bytes/s",
    "Consumers",
    "Subjects",
    "Last",
)
CONSUMER_COLUMNS = (
    "Consumer",
    "Mode",
    "Unprocessed",
    "Ack Pending",
    "Redelivered",
    "Waiting",
    "Delivered/s",
    "Last",
)
CONNECTION_COLUMNS = (
    "CID",
    "Name",
    "Host",
    "Account",
    "Subs",
    "Pending",
    "Msgs To",
    "Msgs From",
    "Bytes To",
    "Bytes From",
    "Lang",
    "Version",
    "Uptime",
    "Last Activity",
)


PIPELINE_COLUMNS = ("Pipeline", "State", "Queries", "Rows", "Lag", "Rows/s", "Host", "Updated")
PIPELINE_BUCKET = "KV_spark_progress"


class Rows(NamedTuple):
    """A table: columns and cells; the first cell identifies the row."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


class Rates:
    """Remembers numbers and says how fast they grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, float]] = {}

    def of(self, key: str, value: float) -> float:
        now = self._clock()
        before = self._seen.get(key)
        self._seen[key] = (now, value)
        if before is None or now <= before[0]:
            return 0.0
        return max(value - before[1], 0.0) / (now - before[0])


def stream_rows(infos: list[Json], rates: Rates, everything: bool = False) -> Rows:
    rows = []
    for info in sorted(infos, key=lambda i: -i["state"]["bytes"]):
        config, state = info["config"], info["state"]
        name = config["name"]
        if is_internal(name) and not everything:
            continue
        rows.append(
            (
                name,
                human.number(state["messages"]),
                f"{rates.of(f's:{name}', state['last_seq']):,.0f}",
                human.size(state["bytes"]),
                human.size(int(rates.of(f"b:{name}", state["bytes"]))),
                human.number(state.get("consumer_count", 0)),
                human.number(state.get("num_subjects", 0)),
                human.age(state.get("last_ts")),
            )
        )
    return Rows(STREAM_COLUMNS, rows)


def consumer_rows(infos: list[Json], rates: Rates) -> Rows:
    rows = []
    for info in sorted(infos, key=lambda i: -i.get("num_pending", 0)):
        key = f"{info['stream_name']} > {info['name']}"
        delivered = info.get("delivered") or {}
        rows.append(
            (
                key,
                "push" if info["config"].get("deliver_subject") else "pull",
                human.number(info.get("num_pending", 0)),
                human.number(info.get("num_ack_pending", 0)),
                human.number(info.get("num_redelivered", 0)),
                human.number(info.get("num_waiting", 0)),
                f"{rates.of(f'c:{key}', delivered.get('consumer_seq', 0)):,.0f}",
                human.age(delivered.get("last_active")),
            )
        )
    return Rows(CONSUMER_COLUMNS, rows)


def connection_rows(connections: list[Json], sort: str, limit: int) -> Rows:
    keys = {
        "cid": "cid",
        "start": "start",
        "subs": "subscriptions",
        "pending": "pending_bytes",
        "msgs_to": "out_msgs",
        "msgs_from": "in_msgs",
        "bytes_to": "out_bytes",
        "bytes_from": "in_bytes",
        "last": "last_activity",
        "idle": "idle",
        "uptime": "start",
        "rtt": "rtt",
    }
    field = keys.get(sort, "cid")
    ordered = sorted(
        connections, key=lambda c: (c.get(field) is not None, c.get(field)), reverse=True
    )
    rows = [
        (
            str(c.get("cid")),
            str(c.get("name", "")),
            f"{c.get('ip')}:{c.get('port')}",
            str(c.get("account", "")),
            human.number(c.get("subscriptions", 0)),
            human.size(c.get("pending_bytes", 0)),
            human.number(c.get("out_msgs", 0)),
            human.number(c.get("in_msgs", 0)),
            human.size(c.get("out_bytes", 0)),
            human.size(c.get("in_bytes", 0)),
            str(c.get("lang", "")),
            str(c.get("version", "")),
            str(c.get("uptime", "")),
            human.age(c.get("last_activity")),
        )
        for c in ordered[:limit]
    ]
    return Rows(CONNECTION_COLUMNS, rows)


async def look(
    session: Session, tab: str, rates: Rates, sort: str = "cid", limit: int = 1024
) -> Rows:
    """One look at a tab; what cannot be asked is said in a note instead."""
    ask: dict[str, Callable[[], Awaitable[Rows]]] = {
        "streams": lambda: _streams(session, rates),
        "consumers": lambda: _consumers(session, rates),
        "connections": lambda: _connections(session, sort, limit),
        "pipelines": lambda: _pipelines(session),
    }
    try:
        return await ask[tab]()
    except Exception as error:
        from jetstream.cli.problems import explain

        text, hint, _ = explain(error, session.settings)
        return Rows((), [], f"{text}. {hint or ''}")


async def _streams(session: Session, rates: Rates) -> Rows:
    return stream_rows(await session.streams(), rates)


async def _consumers(session: Session, rates: Rates) -> Rows:
    names = await session.stream_names()
    infos = [info for name in names for info in await session.consumers(name)]
    return consumer_rows(infos, rates)


def pipeline_rows(records: list[Json]) -> Rows:
    """What running Spark pipelines report about themselves."""
    rows = []
    for record in sorted(records, key=lambda r: str(r.get("name"))):
        queries = list((record.get("queries") or {}).values())
        rows.append(
            (
                str(record.get("name", "")),
                str(record.get("state", "")),
                str(len(queries)),
                human.number(sum(q.get("total", 0) for q in queries)),
                human.number(sum(q.get("lag", 0) for q in queries)),
                f"{sum(q.get('rows_per_s', 0) for q in queries):,.0f}",
                str(record.get("host", "")),
                human.age(record.get("updated")),
            )
        )
    return Rows(PIPELINE_COLUMNS, rows, "" if rows else "no pipeline has reported to this server")


async def _pipelines(session: Session) -> Rows:
    import msgspec

    from jetstream.cli.stream_messages import body_of

    if PIPELINE_BUCKET not in await session.stream_names():
        return pipeline_rows([])
    info = await session.stream_info(PIPELINE_BUCKET, subjects="$KV.spark_progress.pipeline.>")
    records = []
    for subject in info["state"].get("subjects") or {}:
        body = body_of(await session.get_message(PIPELINE_BUCKET, last_for=subject))
        if body:
            records.append(msgspec.json.decode(body))
    return pipeline_rows(records)


async def _connections(session: Session, sort: str, limit: int) -> Rows:
    from jetstream.cli.server_data import gather

    try:
        answers = await gather(
            session, "$SYS.REQ.SERVER.PING.CONNZ", {"limit": limit, "auth": True}
        )
    except Exception:
        answers = await gather(
            session, "$SYS.REQ.ACCOUNT.PING.CONNZ", {"limit": limit, "auth": True}
        )
    found: list[Any] = []
    for answer in answers:
        found += (answer.get("data") or {}).get("connections") or []
    return connection_rows(found, sort, limit)
