"""`/connz`: open and closed connections, filtered, sorted and paged."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jetstream.schema.times import go_duration, rfc3339
from jetstream.server import facts
from jetstream.server.monitor import PAGE, Bad, head, subscription_detail
from jetstream.subjects.match import matches
from jetstream.subjects.tokens import has_wildcard

if TYPE_CHECKING:
    from jetstream.server.closed import ClosedConnection
    from jetstream.server.connection import Connection
    from jetstream.server.server import Server

OPEN, CLOSED, ALL = 0, 1, 2
STATES = {"open": OPEN, "closed": CLOSED, "any": ALL, "all": ALL}


class ConnzOptions(Struct):
    """The question, with the names the system account uses."""

    sort: str = ""
    auth: bool = False
    subscriptions: bool = False
    subscriptions_detail: bool = False
    offset: int = 0
    limit: int = PAGE
    cid: int = 0
    mqtt_client: str = ""
    state: int = OPEN
    user: str = ""
    acc: str = ""
    filter_subject: str = ""


# What rows are sorted by; everything but the connection id has the largest first.
_SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "cid": lambda row: row["cid"],
    "start": lambda row: row["start"],
    "subs": lambda row: row["subscriptions"],
    "pending": lambda row: row["pending_bytes"],
    "msgs_to": lambda row: row["out_msgs"],
    "msgs_from": lambda row: row["in_msgs"],
    "bytes_to": lambda row: row["out_bytes"],
    "bytes_from": lambda row: row["in_bytes"],
    "last": lambda row: row["last_activity"],
    "idle": lambda row: row["_idle"],
    "uptime": lambda row: row["_uptime"],
    "stop": lambda row: row.get("stop", ""),
    "reason": lambda row: row.get("reason", ""),
    "rtt": lambda row: row["_rtt"],
}
_ASCENDING = ("cid", "start")


def connz(server: "Server", asked: ConnzOptions) -> dict[str, Any]:
    """The answer; Bad for a question that makes no sense."""
    sort = asked.sort or "cid"
    if sort not in _SORTS:
        raise Bad(f"invalid sorting option: {sort}")
    if sort in ("stop", "reason") and asked.state != CLOSED:
        raise Bad(f"sort by {sort} only valid on closed connections")
    offset = max(0, asked.offset)
    limit = asked.limit if asked.limit > 0 else PAGE
    if asked.cid > 0:
        limit = 1
    rows: list[dict[str, Any]] = []
    total = 0
    if asked.state in (OPEN, ALL):
        found = [c for c in server.connections.values() if _is_open_match(c, asked)]
        total += _total(server, asked)
        rows += [_open_row(server, connection, asked) for connection in found]
    if asked.state in (CLOSED, ALL):
        gone = [c for c in server.closed if _is_closed_match(c, asked)]
        total += len(gone)
        rows += [_closed_row(connection, asked) for connection in gone]
    rows.sort(key=_SORTS[sort], reverse=sort not in _ASCENDING)
    page = rows[offset : offset + limit] if not asked.cid else rows[:1]
    for row in page:
        for private in ("_idle", "_uptime", "_rtt"):
            del row[private]
    return head(server) | {
        "num_connections": len(page),
        "total": total,
        "offset": offset,
        "limit": limit,
        "connections": page,
    }


def _total(server: "Server", asked: ConnzOptions) -> int:
    if asked.acc:
        return sum(1 for c in server.connections.values() if c.account.name == asked.acc)
    return len(server.connections)


def _is_open_match(connection: "Connection", asked: ConnzOptions) -> bool:
    if asked.cid and connection.cid != asked.cid:
        return False
    if asked.acc and connection.account.name != asked.acc:
        return False
    identity = connection.identity
    if asked.user and (identity is None or identity.user != asked.user):
        return False
    if asked.acc and asked.filter_subject:
        wanted = asked.filter_subject.encode()
        if has_wildcard(wanted):
            return any(sub.subject == wanted for sub in connection.subscriptions.values())
        return any(matches(sub.subject, wanted) for sub in connection.subscriptions.values())
    return not asked.mqtt_client


def _is_closed_match(connection: "ClosedConnection", asked: ConnzOptions) -> bool:
    if asked.cid and connection.cid != asked.cid:
        return False
    if asked.acc and connection.account != asked.acc:
        return False
    if asked.user and connection.user != asked.user:
        return False
    return not asked.mqtt_client


def rtt_text(rtt_ns: int) -> str:
    """Below a millisecond the nanoseconds are noise."""
    return go_duration(rtt_ns - rtt_ns % 1000 if rtt_ns < 1_000_000 else rtt_ns)


def _common(
    connection: "Connection | ClosedConnection", until_ns: int, kind: str
) -> dict[str, Any]:
    idle_s = (until_ns - connection.last_activity_ns) / 1e9
    uptime_s = (until_ns - connection.started_ns) / 1e9
    row: dict[str, Any] = {
        "cid": connection.cid,
        "kind": "Client",
        "type": "websocket" if kind == "WEBSOCKET" else "nats",
        "ip": connection.host,
        "port": connection.port,
        "start": rfc3339(connection.started_ns),
        "last_activity": rfc3339(connection.last_activity_ns),
    }
    row |= {"_idle": idle_s, "_uptime": uptime_s, "_rtt": connection.rtt_ns}
    return row


def _open_row(server: "Server", connection: "Connection", asked: ConnzOptions) -> dict[str, Any]:
    row = _common(connection, server.clock.now(), connection.kind)
    if connection.rtt_ns:
        row["rtt"] = rtt_text(connection.rtt_ns)
    row |= {
        "uptime": facts.uptime(row["_uptime"]),
        "idle": facts.uptime(row["_idle"]),
        "pending_bytes": len(connection.outbox) + connection.in_transport,
        "in_msgs": connection.in_msgs,
        "out_msgs": connection.out_msgs,
        "in_bytes": connection.in_bytes,
        "out_bytes": connection.out_bytes,
    }
    if connection.stalls:
        row["stalls"] = connection.stalls
    row["subscriptions"] = len(connection.subscriptions)
    connect = connection.connect
    for name, value in (
        ("name", connect.name),
        ("lang", connect.lang),
        ("version", connect.version),
    ):
        if value:
            row[name] = value
    peer = connection.tls_peer
    if peer is not None:
        row |= {"tls_version": peer.version, "tls_cipher_suite": peer.cipher_suite}
        if peer.subject:
            row["tls_peer_certs"] = [
                {
                    "subject": peer.subject,
                    "spki_sha256": peer.subject_pk_sha256,
                    "cert_sha256": peer.cert_sha256,
                }
            ]
        if connection.tls_first:
            row["tls_first"] = True
    if asked.auth:
        row |= _who(connection)
    if asked.subscriptions_detail:
        subs = connection.subscriptions.values()
        row["subscriptions_list_detail"] = [
            subscription_detail(sub, connection.cid) for sub in subs
        ]
    elif asked.subscriptions:
        row["subscriptions_list"] = [
            sub.subject.decode("utf-8", "replace") for sub in connection.subscriptions.values()
        ]
    if asked.auth:
        row["name_tag"] = connection.account.spec.name_tag or connection.account.name
    return row


def _who(connection: "Connection") -> dict[str, Any]:
    identity = connection.identity
    found: dict[str, Any] = {}
    if identity is not None and identity.user:
        found["authorized_user"] = identity.user
    found["account"] = connection.account.name
    if identity is not None and identity.jwt:
        found |= {"jwt": identity.jwt, "issuer_key": identity.issuer_key}
        if identity.tags:
            found["tags"] = list(identity.tags)
    return found


def _closed_row(connection: "ClosedConnection", asked: ConnzOptions) -> dict[str, Any]:
    row = _common(connection, connection.stopped_ns, connection.kind)
    row |= {"stop": rfc3339(connection.stopped_ns), "reason": connection.reason}
    if connection.rtt_ns:
        row["rtt"] = rtt_text(connection.rtt_ns)
    row |= {
        "uptime": facts.uptime(row["_uptime"]),
        "idle": facts.uptime(row["_idle"]),
        "pending_bytes": 0,
        "in_msgs": connection.in_msgs,
        "out_msgs": connection.out_msgs,
        "in_bytes": connection.in_bytes,
        "out_bytes": connection.out_bytes,
    }
    if connection.stalls:
        row["stalls"] = connection.stalls
    row["subscriptions"] = len(connection.subscriptions)
    for name in ("name", "lang", "version"):
        value = getattr(connection, name)
        if value:
            row[name] = value
    if asked.auth:
        if connection.user:
            row["authorized_user"] = connection.user
        row["account"] = connection.account
    if asked.subscriptions or asked.subscriptions_detail:
        subjects = [
            subject.decode("utf-8", "replace") for subject, _, _ in connection.subscriptions
        ]
        if subjects:
            row["subscriptions_list"] = subjects
    if asked.auth:
        row["name_tag"] = connection.account
    return row
