"""What the system account announces: who came, who left, how the server is doing."""

from typing import TYPE_CHECKING, Any

from jetstream.schema.times import rfc3339
from jetstream.server import facts, monitor
from jetstream.server.options import VERSION

if TYPE_CHECKING:
    from jetstream.broker._broker import Account
    from jetstream.server.connection import Connection
    from jetstream.server.server import Server

_ADVISORY = "io.nats.server.advisory.v1."
_FLAG_JETSTREAM = 1
_FLAG_BINARY_SNAPSHOT = 2
_FLAG_ACCOUNT_NRG = 4


def server_info(server: "Server", sequence: int) -> dict[str, Any]:
    """The `server` part of every answer and event."""
    options = server.options
    found: dict[str, Any] = {"name": server.name, "host": server.host, "id": server.id}
    if options.jetstream.domain:
        found["domain"] = options.jetstream.domain
    found["ver"] = VERSION
    if options.server_tags:
        found["tags"] = options.server_tags
    if options.server_metadata:
        found["metadata"] = options.server_metadata
    found["feature_flags"] = options.feature_flags
    on = server.engine is not None
    flags = _FLAG_BINARY_SNAPSHOT | _FLAG_ACCOUNT_NRG | (_FLAG_JETSTREAM if on else 0)
    found |= {
        "jetstream": on,
        "flags": flags,
        "seq": sequence,
        "time": rfc3339(server.clock.now()),
    }
    return found


def advisory_head(server: "Server", kind: str, sequence: int) -> dict[str, Any]:
    return {
        "type": _ADVISORY + kind,
        "id": server.random.nuid(),
        "timestamp": rfc3339(server.clock.now()),
        "server": server_info(server, sequence),
    }


def client_info(connection: "Connection", *, stopped_ns: int = 0) -> dict[str, Any]:
    identity, connect = connection.identity, connection.connect
    found: dict[str, Any] = {
        "start": rfc3339(connection.started_ns),
        "host": connection.host,
        "id": connection.cid,
        "acc": connection.account.name,
    }
    user = identity.user if identity is not None else connect.user or connect.nkey
    for name, value in (
        ("user", user),
        ("name", connect.name),
        ("lang", connect.lang),
        ("ver", connect.version),
    ):
        if value:
            found[name] = value
    if stopped_ns:
        if connection.rtt_ns:
            found["rtt"] = connection.rtt_ns
        found["stop"] = rfc3339(stopped_ns)
    if identity is not None and identity.jwt:
        found |= {"jwt": identity.jwt, "issuer_key": identity.issuer_key}
    found["name_tag"] = connection.account.spec.name_tag or connection.account.name
    if identity is not None and identity.tags:
        found["tags"] = list(identity.tags)
    found["kind"] = "Client"
    found["client_type"] = "websocket" if connection.kind == "WEBSOCKET" else "nats"
    return found


def connected(server: "Server", connection: "Connection", sequence: int) -> dict[str, Any]:
    return advisory_head(server, "client_connect", sequence) | {"client": client_info(connection)}


def disconnected(server: "Server", connection: "Connection", sequence: int) -> dict[str, Any]:
    return advisory_head(server, "client_disconnect", sequence) | {
        "client": client_info(connection, stopped_ns=server.clock.now()),
        "sent": {"msgs": connection.in_msgs, "bytes": connection.in_bytes},
        "received": {"msgs": connection.out_msgs, "bytes": connection.out_bytes},
        "reason": connection.close_reason,
    }


def account_connections(server: "Server", account: "Account", sequence: int) -> dict[str, Any]:
    head = advisory_head(server, "account_connections", sequence)
    return head | monitor.account_stats(server, account)


def statsz(server: "Server") -> dict[str, Any]:
    """How the server is doing; natscli's server list starts here."""
    broker = server.broker
    sent = {"msgs": broker.out_msgs, "bytes": broker.out_bytes}
    received = {"msgs": broker.in_msgs, "bytes": broker.in_bytes}
    active = {c.account.name for c in server.connections.values() if c.connected}
    found: dict[str, Any] = {
        "start": rfc3339(server.started_ns),
        "mem": facts.memory_bytes(),
        "cores": facts.core_count(),
        "cpu": facts.number(facts.cpu_percent()),
        "connections": len(server.connections),
        "total_connections": server.total_connections,
        "active_accounts": len(active),
        "subscriptions": facts.subscription_count(server),
        "sent": sent,
        "sent_to_clients": sent,
        "received": received,
        "received_from_clients": received,
        "slow_consumers": server.slow_consumers,
    }
    if server.stale_connections:
        found["stale_connections"] = server.stale_connections
    if server.stalled_clients:
        found["stalled_clients"] = server.stalled_clients
    found["active_servers"] = 1
    jetstream = monitor.jetstream_varz(server)
    if jetstream:
        config = dict(jetstream["config"])
        config.pop("store_dir", None)  # where data lies is nobody's business on the wire
        found["jetstream"] = jetstream | {"config": config}
    found["gomaxprocs"] = facts.core_count()
    return found


def request_info(server: "Server", connection: "Connection", share: bool) -> dict[str, Any]:
    """`Nats-Request-Info`: who asks, when a request crosses accounts; little unless shared."""
    rtt_ns = connection.rtt_ns or connection.connect_ns
    if not share:
        return {"acc": connection.account.name, "rtt": rtt_ns}
    found = client_info(connection)
    del found["name_tag"]
    last = {name: found.pop(name) for name in ("kind", "client_type")}
    return found | {"rtt": rtt_ns, "server": server.name} | last
