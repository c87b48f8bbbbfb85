"""`/jsz` and `/healthz`: JetStream seen from outside."""

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from jetstream.schema.times import rfc3339
from jetstream.server.monitor import PAGE

if TYPE_CHECKING:
    from jetstream.engine.account import JetStreamAccount, StreamAsset
    from jetstream.server.server import Server

API_LEVEL = 5
DEFAULT_MAX_CONSUMERS = 1000
UNLIMITED = 2**64 - 1


class JszOptions(Struct):
    """The question, with the names the system account uses."""

    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumer: bool = False
    direct_consumer: bool = False
    config: bool = False
    leader_only: bool = False
    offset: int = 0
    limit: int = PAGE
    raft: bool = False
    stream_leader_only: bool = False


class HealthzOptions(Struct):
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False
    js_enabled: bool = field(default=False, name="js-enabled")
    js_enabled_only: bool = field(default=False, name="js-enabled-only")
    js_server_only: bool = field(default=False, name="js-server-only")
    js_meta_only: bool = field(default=False, name="js-meta-only")


def config(server: "Server") -> dict[str, Any]:
    """What JetStream was started with."""
    from jetstream.engine import limits as lim

    engine, options = server.engine, server.options.jetstream
    assert engine is not None
    found: dict[str, Any] = {
        "max_memory": lim.memory_limit(options.max_memory),
        "max_storage": lim.store_limit(options.max_store, engine.free_bytes()),
        "store_dir": engine.store_dir,
        "sync_interval": options.sync_interval_ns,
    }
    if options.sync_always:
        found["sync_always"] = True
    if options.domain:
        found["domain"] = options.domain
    if options.unique_tag:
        found["unique_tag"] = options.unique_tag
    if options.strict:
        found["strict"] = True
    return found


def limits(server: "Server") -> dict[str, Any]:
    options = server.options.jetstream.limits
    found: dict[str, Any] = {}
    for name, value in (
        ("max_request_batch", options.max_request_batch),
        ("max_ack_pending", options.max_ack_pending),
        ("max_ha_assets", options.max_ha_assets),
        ("duplicate_window", options.duplicate_window_ns),
    ):
        if value:
            found[name] = value
    found["default_max_consumers"] = options.default_max_consumers or DEFAULT_MAX_CONSUMERS
    return found


def _accounts(server: "Server") -> "list[JetStreamAccount]":
    return list(server.engine.accounts.values()) if server.engine is not None else []


def stats(server: "Server") -> dict[str, Any]:
    accounts = _accounts(server)
    return {
        "memory": sum(js.used("memory") for js in accounts),
        "storage": sum(js.used("file") for js in accounts),
        "reserved_memory": sum(js.reserved("memory") for js in accounts),
        "reserved_storage": sum(js.reserved("file") for js in accounts),
        "accounts": len(accounts),
        "ha_assets": 0,
        "api": {
            "level": API_LEVEL,
            "total": sum(js.api_total for js in accounts),
            "errors": sum(js.api_errors for js in accounts),
        },
    }


def jsz(server: "Server", asked: JszOptions) -> dict[str, Any]:
    """The answer, as deep as asked."""
    if server.engine is None:
        return {
            **_no_stats(),
            "server_id": server.id,
            "now": rfc3339(server.clock.now()),
            "disabled": True,
            "config": {"max_memory": 0, "max_storage": 0, "sync_interval": 0},
            "limits": {},
            "streams": 0,
            "consumers": 0,
            "messages": 0,
            "bytes": 0,
            "total": 0,
        }
    accounts = _accounts(server)
    assets = [asset for js in accounts for asset in js.streams.values()]
    found: dict[str, Any] = {
        **stats(server),
        "server_id": server.id,
        "now": rfc3339(server.clock.now()),
        "config": config(server),
        "limits": limits(server),
        "streams": len(assets),
        "consumers": sum(len(asset.consumers) for asset in assets),
        "messages": sum(asset.store.msgs for asset in assets),
        "bytes": sum(asset.store.bytes for asset in assets),
    }
    details = _details(server, asked, accounts)
    if details:
        found["account_details"] = details
    return found | {"total": len(accounts)}


def _no_stats() -> dict[str, Any]:
    return {
        "memory": 0,
        "storage": 0,
        "reserved_memory": 0,
        "reserved_storage": 0,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": API_LEVEL, "total": 0, "errors": 0},
    }


def _details(
    server: "Server", asked: JszOptions, accounts: "list[JetStreamAccount]"
) -> list[dict[str, Any]]:
    streams = asked.streams or asked.consumer or asked.direct_consumer
    if asked.account:
        accounts = [js for js in accounts if js.name == asked.account]
    elif not (asked.accounts or streams):
        return []
    accounts = sorted(accounts, key=lambda js: js.name)
    offset, limit = max(0, asked.offset), asked.limit if asked.limit > 0 else PAGE
    if not asked.account:
        accounts = accounts[offset : offset + limit]
    return [_account(server, js, asked, streams=streams) for js in accounts]


def account_info(server: "Server", js: "JetStreamAccount", asked: JszOptions) -> dict[str, Any]:
    """One account, as `$SYS.REQ.ACCOUNT.<name>.JSZ` tells it."""
    streams = asked.streams or asked.consumer or asked.direct_consumer
    return _account(server, js, asked, streams=streams)


def _account(
    server: "Server", js: "JetStreamAccount", asked: JszOptions, *, streams: bool
) -> dict[str, Any]:
    def reserved(limit: int) -> int:
        return limit if limit >= 0 else UNLIMITED

    account = server.accounts.find(js.name)
    tag = account.spec.name_tag if account is not None and account.spec is not None else ""
    found: dict[str, Any] = {
        "name": tag or js.name,
        "id": js.name,
        "memory": js.used("memory"),
        "storage": js.used("file"),
        "reserved_memory": reserved(js.limits.max_memory),
        "reserved_storage": reserved(js.limits.max_storage),
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": js.api_total, "errors": js.api_errors},
    }
    if streams:
        found["stream_detail"] = [
            _stream(server, js, asset, asked) for asset in js.sorted_streams()
        ]
    return found


def _stream(
    server: "Server", js: "JetStreamAccount", asset: "StreamAsset", asked: JszOptions
) -> dict[str, Any]:
    from jetstream.api.streams import stream_info

    now = server.clock.now()
    info = stream_info(js, asset, listed=True)
    found: dict[str, Any] = {
        "name": asset.name,
        "created": rfc3339(asset.created_ns),
        "cluster": {"leader": server.name},
    }
    if asked.config:
        found["config"] = info.config
    found["state"] = info.state
    if asked.consumer or asked.direct_consumer:
        rows = []
        for consumer in asset.consumers.values():
            row = consumer.consumer.info(now)
            rows.append(row if asked.config else _without_config(row))
        found["consumer_detail"] = rows
    for name in ("mirror", "sources"):
        value = getattr(info, name, None)
        if value:
            found[name] = value
    return found


def _without_config(info: Any) -> Any:
    plain = msgspec.to_builtins(info)
    plain.pop("config", None)
    return plain


# --- health ---


def healthz(server: "Server", asked: HealthzOptions) -> tuple[int, dict[str, Any]]:
    """HTTP status and answer."""
    if asked.stream and not asked.account:
        return _unhealthy(
            asked, 400, "BAD_REQUEST", '"account" must not be empty when checking stream health'
        )
    if asked.consumer and not asked.stream:
        return _unhealthy(
            asked, 400, "BAD_REQUEST", '"stream" must not be empty when checking consumer health'
        )
    if not server.running:
        return _unhealthy(asked, 503, "CONNECTION", "server is shutting down")
    if server.lame_duck_mode:
        return _unhealthy(asked, 503, "CONNECTION", "server is in lame duck mode")
    if server.engine is None:
        if asked.js_enabled or asked.js_enabled_only:
            return _unhealthy(asked, 503, "JETSTREAM", "JetStream not enabled")
        if asked.account:
            return _unhealthy(asked, 503, "JETSTREAM", "NATS server configured JetStream disabled")
        return 200, {"status": "ok"}
    if not asked.account:
        return 200, {"status": "ok"}
    js = server.engine.accounts.get(asked.account)
    if js is None:
        text = f'JetStream account "{asked.account}" not found'
        return _unhealthy(asked, 404, "ACCOUNT", text)
    if not asked.stream:
        return 200, {"status": "ok"}
    asset = js.streams.get(asked.stream)
    if asset is None:
        text = f'JetStream stream "{asked.stream}" not found on account "{asked.account}"'
        return _unhealthy(asked, 404, "STREAM", text)
    if asked.consumer and asked.consumer not in asset.consumers:
        text = (
            f'JetStream consumer "{asked.consumer}" not found for stream "{asked.stream}" '
            f'on account "{asked.account}"'
        )
        return _unhealthy(asked, 404, "CONSUMER", text)
    return 200, {"status": "ok"}


def _unhealthy(
    asked: HealthzOptions, status: int, kind: str, text: str
) -> tuple[int, dict[str, Any]]:
    if not asked.details:
        return status, {"status": "error" if status == 400 else "unavailable", "error": text}
    problem: dict[str, Any] = {"type": kind}
    for name in ("account", "stream", "consumer"):
        value = getattr(asked, name)
        if value:
            problem[name] = value
    return status, {"status": "error", "errors": [{**problem, "error": text}]}
