"""The configuration file → `Options`: the top level, and the walk over its blocks."""

from pathlib import Path

from jetstream.clock import SECOND
from jetstream.schema.times import go_duration
from jetstream.security.nkeys import KeyKind, is_public
from jetstream.server.conf import Node, digest, parse_file, parse_text
from jetstream.server.options import Options
from jetstream.server.options_accounts import read_accounts, read_mappings
from jetstream.server.options_blocks import (
    read_jetstream,
    read_preload,
    read_resolver,
    read_tls,
    read_websocket,
)
from jetstream.server.options_reading import (
    Block,
    Problem,
    Problems,
    as_block,
    as_bool,
    as_duration,
    as_int,
    as_listen,
    as_text,
    duration_of,
    go_type,
    texts,
)
from jetstream.server.options_users import read_authorization

_INT32_MAX = (1 << 31) - 1
LAME_DUCK_MIN_NS = 30 * SECOND

# key (and its other names) → the option it fills.
_FLAGS = {
    "debug": "debug",
    "trace": "trace",
    "trace_headers": "trace_headers",
    "logtime": "logtime",
    "logtime_utc": "logtime_utc",
    "syslog": "syslog",
    "allow_non_tls": "allow_non_tls",
    "no_header_support": "no_header_support",
    "no_system_account": "no_system_account",
    "no_system": "no_system_account",
    "no_sys_acc": "no_system_account",
    "disable_sublist_cache": "disable_sublist_cache",
    "no_sublist_cache": "disable_sublist_cache",
    "no_fast_producer_stall": "no_fast_producer_stall",
}
_NUMBERS = {
    "port": "port",
    "http_port": "http_port",
    "monitor_port": "http_port",
    "https_port": "https_port",
    "max_connections": "max_connections",
    "max_conn": "max_connections",
    "max_subscriptions": "max_subscriptions",
    "max_subs": "max_subscriptions",
    "max_pending": "max_pending",
    "max_traced_msg_len": "max_traced_msg_len",
    "max_closed_clients": "max_closed_clients",
    "ping_max": "ping_max",
    "logfile_size_limit": "log_size_limit",
    "log_size_limit": "log_size_limit",
    "logfile_max_num": "log_max_num",
    "log_max_num": "log_max_num",
    "connect_error_reports": "connect_error_reports",
    "reconnect_error_reports": "reconnect_error_reports",
}
_BOUNDED = {
    "max_control_line": ("max_control_line", _INT32_MAX),
    "max_payload": ("max_payload", _INT32_MAX),
    "max_sub_tokens": ("max_sub_tokens", 255),
    "max_subscription_tokens": ("max_sub_tokens", 255),
}
_TEXTS = {
    "host": "host",
    "net": "host",
    "client_advertise": "client_advertise",
    "log_file": "log_file",
    "logfile": "log_file",
    "log_format": "log_format",
    "remote_syslog": "remote_syslog",
    "pid_file": "pid_file",
    "pidfile": "pid_file",
    "ports_file_dir": "ports_file_dir",
    "http_base_path": "http_base_path",
    "no_auth_user": "no_auth_user",
    "system_account": "system_account",
    "system": "system_account",
    "default_sentinel": "default_sentinel",
}
_NOT_OURS = {
    "cluster": "cluster",
    "gateway": "gateway",
    "leaf": "leafnodes",
    "leafnodes": "leafnodes",
    "mqtt": "mqtt",
}


def read_config(path: str, *, pedantic: bool = False) -> Options:
    """Options of a file. Raises ConfigError; `pedantic` (for `-t`) refuses warnings too."""
    tree = parse_file(path)
    options = options_of(tree, pedantic=pedantic)
    options.config_file = path
    return options


def read_config_text(text: str, path: str = "") -> Options:
    """The same from text."""
    return options_of(parse_text(text, path))


def options_of(tree: Block, *, pedantic: bool = False) -> Options:
    options, problems = Options(), Problems()
    # Accounts refuse what authorization allowed, whichever stands first in the file.
    entries = sorted(tree.items(), key=lambda entry: entry[0].lower() == "accounts")
    for key, node in entries:
        with problems.noting(node):
            _read_entry(key, node, options, problems)
    _check_together(options, problems)
    problems.refuse(pedantic=pedantic)
    options.warnings = problems.warnings
    options.config_digest = digest(tree)
    return options


def _read_entry(key: str, node: Node, options: Options, problems: Problems) -> None:
    name = key.lower()
    if name in _FLAGS:
        setattr(options, _FLAGS[name], as_bool(node))
    elif name in _NUMBERS:
        setattr(options, _NUMBERS[name], as_int(node))
    elif name in _TEXTS:
        setattr(options, _TEXTS[name], as_text(node))
    elif name in _BOUNDED:
        attribute, most = _BOUNDED[name]
        value = as_int(node)
        if value > most:
            raise Problem(f"{name} value is too big", node)
        setattr(options, attribute, value)
    elif name in _NOT_OURS:
        # An empty block asks for nothing.
        if node.value not in ({}, [], "", False):
            raise Problem(f"{_NOT_OURS[name]} is not supported: this server runs alone", node)
    else:
        _read_special(name, key, node, options, problems)


def _read_special(name: str, key: str, node: Node, options: Options, problems: Problems) -> None:
    match name:
        case "listen":
            host, options.port = as_listen(node)
            options.host = host or options.host
        case "http":
            host, options.http_port = as_listen(node)
            options.http_host = host or options.http_host
        case "https":
            host, options.https_port = as_listen(node)
            options.http_host = host or options.http_host
        case "server_name":
            options.server_name = as_text(node)
            if " " in options.server_name:
                raise Problem("server name cannot contain spaces", node)
        case "server_tags":
            options.server_tags = texts(node)
        case "server_metadata":
            if not isinstance(node.value, dict):
                raise Problem(
                    f"error parsing metadata: unsupported type {go_type(node.value)}", node
                )
            options.server_metadata = {k: as_text(v) for k, v in node.value.items()}
        case "feature_flags":
            options.feature_flags = _feature_flags(node)
        case "trace_verbose":
            options.trace_verbose = as_bool(node)
            options.trace = options.trace or options.trace_verbose
        case "ping_interval":
            options.ping_interval_ns = as_duration(node, "ping_interval", problems)
        case "write_deadline":
            options.write_deadline_ns = as_duration(node, "write_deadline", problems)
        case "write_timeout":
            options.write_timeout = as_text(node)
            if options.write_timeout not in ("default", "close", "retry"):
                raise Problem("write_timeout must be 'default', 'close' or 'retry'", node)
        case "lame_duck_duration" | "lame_duck_grace_period":
            _read_lame_duck(name, node, options)
        case "tls":
            options.tls = read_tls(node, problems)
        case "ocsp" | "ocsp_cache" | "proxies" | "prof_port" | "proxy_protocol":
            if node.value not in (False, 0, {}):
                options.without_effect.append(name)
        case "authorization":
            read_authorization(node, options, problems)
        case "accounts":
            read_accounts(node, options, problems)
        case "mappings" | "maps":
            options.mappings = read_mappings(node, problems)
        case "websocket" | "ws":
            read_websocket(node, options.websocket, problems)
        case "jetstream":
            read_jetstream(node, options.jetstream, problems)
        case "store_dir" | "storedir":
            directory = as_text(node)
            if options.jetstream.store_dir:
                raise Problem("Duplicate 'store_dir' configuration", node)
            options.jetstream.store_dir = directory
        case "operator" | "operators" | "root" | "roots" | "root_operator" | "root_operators":
            _read_operators(node, options)
        case "trusted" | "trusted_keys":
            _read_trusted(node, options)
        case "resolver" | "account_resolver" | "accounts_resolver":
            options.resolver = read_resolver(node)
        case "resolver_tls":
            read_tls(node, problems)
        case "resolver_preload":
            options.resolver_preload = read_preload(node)
        case "resolver_pinned_accounts":
            options.resolver_pinned_accounts = texts(node)
        case "default_js_domain":
            options.default_js_domain = {k: as_text(v) for k, v in as_block(node).items()}
        case _:
            problems.unknown(key, node)


def _feature_flags(node: Node) -> dict[str, bool]:
    if not isinstance(node.value, dict):
        raise Problem(f"error parsing feature flags: unsupported type {go_type(node.value)}", node)
    found = {}
    for key, value in node.value.items():
        if not isinstance(value.value, bool):
            kind = go_type(value.value)
            raise Problem(f'error parsing feature flag "{key}": expected bool, got {kind}', value)
        found[key] = value.value
    return found


def _read_lame_duck(name: str, node: Node, options: Options) -> None:
    text = as_text(node)
    try:
        duration_ns = duration_of(text)
    except ValueError as error:
        raise Problem(f"error parsing {name}: {error}", node) from None
    if name == "lame_duck_duration":
        if duration_ns < LAME_DUCK_MIN_NS:
            shown = go_duration(duration_ns)
            raise Problem(f"invalid lame_duck_duration of {shown}, minimum is 30 seconds", node)
        options.lame_duck_duration_ns = duration_ns
    else:
        if duration_ns < 0:
            raise Problem("invalid lame_duck_grace_period, needs to be positive", node)
        options.lame_duck_grace_ns = duration_ns


def _read_operators(node: Node, options: Options) -> None:
    """Each is a JWT, or a file that holds one."""
    from jetstream.security.creds import find_jwt
    from jetstream.security.jwt import InvalidToken, OperatorClaims, decode

    if not isinstance(node.value, str | list):
        raise Problem(f"error parsing operators: unsupported type {go_type(node.value)}", node)
    for text in texts(node):
        token = text
        if text.count(".") != 2 or not text.startswith("eyJ"):
            try:
                token = find_jwt(Path(text).read_text()) or ""
            except OSError:
                why = f"open {text}: no such file or directory"
                raise Problem(f"error parsing operator JWT: {why}", node) from None
        try:
            decode(token, OperatorClaims)
        except InvalidToken as error:
            raise Problem(f"error parsing operator JWT: {error}", node) from None
        options.operators.append(token)


def _read_trusted(node: Node, options: Options) -> None:
    entries = node.value if isinstance(node.value, list) else [node]
    for entry in entries:
        key = as_text(entry)
        if not is_public(key, KeyKind.OPERATOR):
            text = f'trust key "{key}" required to be a valid public operator nkey'
            raise Problem(text, entry)
        options.trusted_keys.append(key)


def _check_together(options: Options, problems: Problems) -> None:
    """What single entries cannot see."""
    if not options.is_operator_mode:
        return
    if options.accounts or options.users:
        # The reference starts and then refuses; saying it at once is kinder.
        problems.error("operators do not allow Accounts or Users to be configured directly")
        return
    if problems.errors:
        return
    from jetstream.security.jwt import InvalidToken
    from jetstream.server.claims import load_directory
    from jetstream.server.operator import directory_of

    try:
        load_directory(options)
        directory = directory_of(options)
    except InvalidToken as error:
        problems.error(f"invalid account JWT: {error}")
        return
    options.accounts, options.system_account = directory.accounts, directory.system_account
