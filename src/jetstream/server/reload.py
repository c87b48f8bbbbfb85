"""A changed configuration: what may change while the server runs, and what may not."""

from collections.abc import Callable
from typing import Any

from jetstream.errors import JetStreamError
from jetstream.schema.times import go_duration
from jetstream.server.options import Options, TlsOptions


class ReloadError(JetStreamError):
    """The change needs a restart; nothing was changed."""


# Options that stay as they are while a server runs, under the reference's names.
_FIXED = {
    "host": "Host",
    "port": "Port",
    "server_name": "ServerName",
    "http_host": "HTTPHost",
    "http_port": "HTTPPort",
    "https_port": "HTTPSPort",
    "http_base_path": "HTTPBasePath",
    "max_pending": "MaxPending",
    "max_subscriptions": "MaxSubs",
    "max_sub_tokens": "MaxSubTokens",
    "max_closed_clients": "MaxClosedClients",
    "no_header_support": "NoHeaderSupport",
    "disable_sublist_cache": "NoSublistCache",
    "allow_non_tls": "AllowNonTLS",
    "system_account": "SystemAccount",
    "write_timeout": "WriteTimeout",
    "log_size_limit": "LogSizeLimit",
    "log_max_num": "LogMaxFiles",
    "ephemeral": "Ephemeral",
}
_FIXED_DURATIONS = {
    "lame_duck_duration_ns": "LameDuckDuration",
    "lame_duck_grace_ns": "LameDuckGracePeriod",
}


def _enabled(tls: TlsOptions | None) -> str:
    return "enabled" if tls is not None else "disabled"


def _word(value: bool) -> str:
    return "true" if value else "false"


# Changes that apply, with the line the log gets, in the order the reference reports them.
_FIRST: dict[str, Callable[[Any], str]] = {
    "debug": lambda v: f"Reloaded: debug = {_word(v)}",
    "trace": lambda v: f"Reloaded: trace = {_word(v)}",
    "logtime": lambda v: f"Reloaded: logtime = {_word(v)}",
    "logtime_utc": lambda v: f"Reloaded: logtime_utc = {_word(v)}",
    "max_connections": lambda v: f"Reloaded: max_connections = {v}",
    "client_advertise": lambda v: f"Reload: client_advertise = {v}",
}
_THEN: dict[str, Callable[[Any], str]] = {
    "log_file": lambda v: f"Reloaded: log_file = {v}",
    "pid_file": lambda v: f"Reloaded: pid_file = {v}",
    "ports_file_dir": lambda v: f"Reloaded: ports_file_dir = {v}",
    "syslog": lambda v: f"Reloaded: syslog = {_word(v)}",
    "remote_syslog": lambda v: f"Reloaded: remote_syslog = {v}",
    "max_payload": lambda v: f"Reloaded: max_payload = {v}",
    "max_control_line": lambda v: f"Reloaded: max_control_line = {v}",
    "max_traced_msg_len": lambda v: f"Reloaded: max_traced_msg_len = {v}",
    "ping_interval_ns": lambda v: f"Reloaded: ping_interval = {go_duration(v)}",
    "ping_max": lambda v: f"Reloaded: ping_max = {v}",
    "write_deadline_ns": lambda v: f"Reloaded: write_deadline = {go_duration(v)}",
    "server_tags": lambda v: "Reloaded: tags",
    "server_metadata": lambda v: "Reloaded: metadata",
    "username": lambda v: "Reloaded: authorization username",
    "password": lambda v: "Reloaded: authorization password",
    "token": lambda v: "Reloaded: authorization token",
    "auth_timeout": lambda v: f"Reloaded: authorization timeout = {v / 1e9:g}",
    "tls": lambda v: f"Reloaded: tls = {_enabled(v)}",
    "connect_error_reports": lambda v: f"Reloaded: connect_error_reports = {v}",
    "reconnect_error_reports": lambda v: f"Reloaded: reconnect_error_reports = {v}",
    "no_fast_producer_stall": lambda v: (
        "Reloaded: fast producers will not be stalled"
        if v
        else "Reloaded: fast producers will be stalled"
    ),
}


def check_reload(old: Options, new: Options) -> None:
    """Raise ReloadError if the new options need a restart."""
    for field, name in _FIXED.items():
        before, after = getattr(old, field), getattr(new, field)
        # A random port was taken once and stays.
        if field == "port" and before <= 0 and after <= 0:
            continue
        if before != after:
            raise _unsupported(name, _shown(before), _shown(after))
    for field, name in _FIXED_DURATIONS.items():
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            raise _unsupported(name, go_duration(before), go_duration(after))
    if old.websocket != new.websocket:
        raise _unsupported("Websocket", str(old.websocket.port), str(new.websocket.port))
    js, js_new = old.jetstream, new.jetstream
    if js.enabled and js_new.enabled:
        if js.store_dir != js_new.store_dir:
            raise ReloadError("config reload not supported for jetstream storage directory")
        if (js.max_memory, js.max_store) != (js_new.max_memory, js_new.max_store) and (
            js.max_memory < 0 or js.max_store < 0
        ):
            raise ReloadError(
                "config reload not supported for jetstream dynamic max memory and store"
            )
    elif js.enabled != js_new.enabled:
        raise _unsupported("JetStream", _word(js.enabled), _word(js_new.enabled))


def _unsupported(name: str, old: str, new: str) -> ReloadError:
    return ReloadError(f"config reload not supported for {name}: old={old}, new={new}")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return _word(value)
    return "" if value == "default" else str(value)


def reload_lines(old: Options, new: Options) -> list[str]:
    """What the log says about an accepted change."""

    def changed(table: dict[str, Callable[[Any], str]]) -> list[str]:
        return [
            line(getattr(new, field))
            for field, line in table.items()
            if getattr(old, field) != getattr(new, field)
        ]

    always = ["Reloaded: authorization users", "Reloaded: accounts"]
    jetstream = ["Reloaded: JetStream"] if old.jetstream != new.jetstream else []
    return [*changed(_FIRST), *always, *changed(_THEN), *jetstream]
