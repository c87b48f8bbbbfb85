"""What the server tells about itself: `/varz` and the smaller views, as plain dictionaries.

HTTP (`monitor_http.py`) and the system account (`system.py`) show the same values; field names,
order and omissions are those of the reference. `Bad` is a question that cannot be answered.
"""

from typing import TYPE_CHECKING, Any

from jetstream.broker.accounts_spec import ImportSpec
from jetstream.schema.times import rfc3339
from jetstream.server import facts
from jetstream.server.options import VERSION
from jetstream.subjects.match import matches
from jetstream.subjects.tokens import is_valid_literal

if TYPE_CHECKING:
    from jetstream.broker._broker import Account
    from jetstream.server.server import Server

GO_VERSION = "python"
PAGE = 1024


class Bad(Exception):
    """The question is wrong (400) or about something unknown (404)."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


def head(server: "Server") -> dict[str, Any]:
    return {"server_id": server.id, "now": rfc3339(server.clock.now())}


def varz(server: "Server", requests: dict[str, int]) -> dict[str, Any]:
    """Everything about the server as a whole."""
    options = server.options
    now = server.clock.now()
    found: dict[str, Any] = {
        "server_id": server.id,
        "server_name": server.name,
        "version": VERSION,
        "proto": 1,
        "go": GO_VERSION,
        "host": server.host,
        "port": server.port,
    }
    if options.needs_auth:
        found["auth_required"] = True
    if options.tls is not None:
        found["tls_required"] = True
        if options.tls.verify:
            found["tls_verify"] = True
    found["max_connections"] = options.max_connections
    if options.max_subscriptions:
        found["max_subscriptions"] = options.max_subscriptions
    found |= {
        "ping_interval": options.ping_interval_ns,
        "ping_max": options.ping_max,
        "http_host": options.http_host or options.host,
        "http_port": _port(server, "http", options.http_port),
        "http_base_path": options.http_base_path,
        "https_port": _port(server, "https", options.https_port),
        "auth_timeout": facts.number(options.auth_timeout / 1e9),
        "max_control_line": options.max_control_line,
        "max_payload": options.max_payload,
        "max_pending": options.max_pending,
        "cluster": {},
        "gateway": {},
        "leaf": {},
        "mqtt": {},
        "websocket": _websocket(server),
        "jetstream": jetstream_varz(server),
        "tls_timeout": facts.number((options.tls.timeout_ns if options.tls else 2e9) / 1e9),
        "write_deadline": options.write_deadline_ns,
        "start": rfc3339(server.started_ns),
        "now": rfc3339(now),
        "uptime": facts.uptime((now - server.started_ns) / 1e9),
        "mem": facts.memory_bytes(),
        "cores": facts.core_count(),
        "gomaxprocs": facts.core_count(),
        "cpu": facts.number(facts.cpu_percent()),
        "connections": len(server.connections),
        "total_connections": server.total_connections,
        "routes": 0,
        "remotes": 0,
        "leafnodes": 0,
        **_traffic(server),
        "slow_consumers": server.slow_consumers,
        "stale_connections": server.stale_connections,
        "stalled_clients": server.stalled_clients,
        "subscriptions": facts.subscription_count(server),
        "http_req_stats": dict(requests),
        "config_load_time": rfc3339(server.config_loaded_ns),
        "config_digest": options.config_digest,
    }
    if options.server_tags:
        found["tags"] = options.server_tags
    if options.server_metadata:
        found["metadata"] = options.server_metadata
    if options.feature_flags:
        found["feature_flags"] = options.feature_flags
    if options.operators:
        found["trusted_operators_jwt"] = options.operators
    found["system_account"] = server.accounts.system.name
    found |= {
        "slow_consumer_stats": _by_kind(server.slow_consumers),
        "stale_connection_stats": _by_kind(server.stale_connections),
        "disk_io_wait_stats": {"waiters": 0, "waits": 0, "wait_time": 0, "max_wait_time": 0},
    }
    return found


def _port(server: "Server", scheme: str, configured: int) -> int:
    """The port that was really taken, where a random one was asked for."""
    taken = server.open_ports.get("monitoring")
    return taken[2] if configured and taken is not None and taken[0] == scheme else configured


def _traffic(server: "Server") -> dict[str, int]:
    broker = server.broker
    return {
        "in_msgs": broker.in_msgs,
        "in_bytes": broker.in_bytes,
        "in_client_msgs": broker.in_msgs,
        "in_client_bytes": broker.in_bytes,
        "out_msgs": broker.out_msgs,
        "out_bytes": broker.out_bytes,
        "out_client_msgs": broker.out_msgs,
        "out_client_bytes": broker.out_bytes,
    }


def _by_kind(clients: int) -> dict[str, int]:
    return {"clients": clients, "routes": 0, "gateways": 0, "leafs": 0}


def _websocket(server: "Server") -> dict[str, Any]:
    options = server.options.websocket
    if not options.port:
        return {}
    taken = server.open_ports.get("websocket")
    found: dict[str, Any] = {"host": options.host, "port": taken[2] if taken else options.port}
    for name, value in (
        ("advertise", options.advertise),
        ("no_auth_user", options.no_auth_user),
        ("jwt_cookie", options.jwt_cookie),
        ("handshake_timeout", options.handshake_timeout_ns),
        ("auth_timeout", facts.number(options.auth_timeout_ns / 1e9)),
        ("no_tls", options.no_tls),
        ("same_origin", options.same_origin),
        ("allowed_origins", options.allowed_origins),
        ("compression", options.compression),
    ):
        if value:
            found[name] = value
    return found


def jetstream_varz(server: "Server") -> dict[str, Any]:
    if server.engine is None:
        return {}
    from jetstream.server import monitor_js

    return {
        "config": monitor_js.config(server),
        "stats": monitor_js.stats(server),
        "limits": monitor_js.limits(server),
    }


# --- subscriptions ---


def subscription_detail(sub: Any, cid: int, account: "Account | None" = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if account is not None:
        found["account"] = account.name
        found["account_tag"] = account.spec.name_tag or account.name
    found["subject"] = sub.subject.decode("utf-8", "replace")
    if sub.queue:
        found["qgroup"] = sub.queue.decode("utf-8", "replace")
    found["sid"] = sub.sid.decode("utf-8", "replace")
    found["msgs"] = sub.delivered
    if sub.limit > 0:
        found["max"] = sub.limit
    found["cid"] = cid
    return found


def subsz(
    server: "Server",
    *,
    subs: bool = False,
    offset: int = 0,
    limit: int = PAGE,
    account: str = "",
    test: str = "",
) -> dict[str, Any]:
    """The subscription trees, and on request what clients subscribed to."""
    if test and not is_valid_literal(test):
        raise Bad(f"invalid test subject, must be valid publish subject: {test}")
    accounts = [a for a in server.accounts if not account or a.name == account]
    offset, limit = max(0, offset), limit if limit > 0 else PAGE
    found = head(server) | facts.tree_stats([a.tree for a in accounts])
    if not subs and not test:
        return found | {"total": 0, "offset": offset, "limit": limit}
    listed = [
        subscription_detail(sub, connection.cid, connection.account)
        for connection in list(server.connections.values())
        if connection.account in accounts
        for sub in connection.subscriptions.values()
        if not test or matches(sub.subject, test.encode())
    ]
    page = listed[offset : offset + limit]
    found |= {"total": len(listed), "offset": offset, "limit": limit}
    if page:
        found["subscriptions_list"] = page
    return found


# --- accounts ---


def accountz(server: "Server", account: str = "") -> dict[str, Any]:
    found = head(server) | {"system_account": server.accounts.system.name}
    if not account:
        return found | {"accounts": [a.name for a in server.accounts]}
    wanted = server.accounts.find(account)
    if wanted is None:
        raise Bad(f"Account {account} does not exist")
    return found | {"account_detail": account_detail(server, wanted)}


def account_detail(server: "Server", account: "Account") -> dict[str, Any]:
    spec = account.spec
    now = server.clock.now()
    found: dict[str, Any] = {
        "account_name": account.name,
        "update_time": rfc3339(server.config_loaded_ns),
    }
    if account is server.accounts.system:
        found["is_system"] = True
    found |= {
        "expired": bool(spec.expires_ns and now >= spec.expires_ns),
        "complete": True,
        "jetstream_enabled": account.jetstream is not None,
        "leafnode_connections": 0,
        "client_connections": len(facts.connections_of(server, account)),
        "subscriptions": len(account.tree),
    }
    if spec.mappings:
        found["mappings"] = {
            mapping.source: [
                {"subject": d.subject, "weight": d.weight} for d in mapping.destinations
            ]
            for mapping in spec.mappings
        }
    if spec.exports:
        found["exports"] = [_export(export) for export in spec.exports]
    imports = sorted(spec.imports, key=lambda wanted: wanted.kind != "stream")
    shown = [_import(wanted) for wanted in imports]
    if account is not server.accounts.system:
        shown += [_import(wanted) for wanted in _system_imports(server, account.name)]
    if shown:
        found["imports"] = shown
    if spec.jwt:
        found |= {"jwt": spec.jwt, "issuer_key": spec.issuer}
    found["name_tag"] = spec.name_tag or account.name
    if spec.tags:
        found["tags"] = list(spec.tags)
    found["sublist_stats"] = facts.tree_stats([account.tree])
    return found


def _export(export: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"subject": export.subject, "type": export.kind}
    if export.accounts is not None:
        found["approved_accounts"] = list(export.accounts)
    if export.kind == "service":
        found["response_type"] = export.response
    return found


def _system_imports(server: "Server", name: str) -> list[ImportSpec]:
    """What every account takes from the system account without asking."""
    system = server.accounts.system.name
    offered = (
        (f"$SYS.REQ.ACCOUNT.{name}.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ", False),
        (f"$SYS.REQ.ACCOUNT.{name}.CONNZ", "$SYS.REQ.SERVER.PING.CONNZ", False),
        (f"$SYS.REQ.ACCOUNT.{name}.STATZ", "$SYS.REQ.ACCOUNT.PING.STATZ", False),
        (f"$SYS.REQ.USER.{name}.INFO", "$SYS.REQ.USER.INFO", True),
        ("$JS.API.>", "$JS.API.>", True),
    )
    return [ImportSpec("service", system, subject, to, share) for subject, to, share in offered]


def _import(wanted: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"subject": wanted.subject, "account": wanted.account}
    if wanted.kind == "service":
        found["to"] = wanted.to
    found |= {
        "local_subject": wanted.to,
        "type": wanted.kind,
        "invalid": False,
        "share": wanted.share,
        "tracking": False,
    }
    return found


def accstatz(
    server: "Server", *, unused: bool = False, accounts: list[str] | None = None
) -> dict[str, Any]:
    wanted = [a for a in server.accounts if not accounts or a.name in accounts]
    rows = [account_stats(server, account) for account in wanted]
    if not unused:
        rows = [row for row in rows if row["conns"] or row["total_conns"]]
    return head(server) | {"account_statz": rows}


def account_stats(server: "Server", account: "Account") -> dict[str, Any]:
    def flow(msgs: int, size: int) -> dict[str, Any]:
        none = {"msgs": 0, "bytes": 0}
        return {"msgs": msgs, "bytes": size, "gateways": none, "routes": none, "leafs": none}

    clients = facts.connections_of(server, account)
    in_msgs, in_bytes, out_msgs, out_bytes = facts.account_traffic(server, account)
    return {
        "acc": account.name,
        "name": account.spec.name_tag or account.name,
        "conns": len(clients),
        "leafnodes": 0,
        "total_conns": len(clients),
        "num_subscriptions": len(account.tree),
        "sent": flow(out_msgs, out_bytes),
        "received": flow(in_msgs, in_bytes),
        "slow_consumers": 0,
    }


# --- what a stand-alone server does not have ---


def routez(server: "Server") -> dict[str, Any]:
    return {
        "server_id": server.id,
        "server_name": server.name,
        "now": rfc3339(server.clock.now()),
        "num_routes": 0,
        "routes": [],
    }


def gatewayz(server: "Server") -> dict[str, Any]:
    return head(server) | {"outbound_gateways": {}, "inbound_gateways": {}}


def leafz(server: "Server") -> dict[str, Any]:
    return head(server) | {"leafnodes": 0, "leafs": []}
