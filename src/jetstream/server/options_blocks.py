"""The blocks `tls`, `websocket`, `jetstream` and the account resolver."""

import re
from typing import Any

from jetstream.security.nkeys import KeyKind, is_public
from jetstream.server.conf import Node
from jetstream.server.options import (
    HANDSHAKE_FIRST_FALLBACK_NS,
    JetStreamLimitOptions,
    JetStreamOptions,
    ResolverOptions,
    TlsOptions,
    WebsocketOptions,
)
from jetstream.server.options_reading import (
    Problem,
    Problems,
    as_block,
    as_bool,
    as_duration,
    as_int,
    as_list,
    as_listen,
    as_seconds,
    as_storage,
    as_text,
    duration_of,
    go_text,
    go_type,
    texts,
)
from jetstream.server.options_users import read_simple_authorization

_TLS_FILES = {"cert_file", "key_file", "ca_file"}


def read_tls(node: Node, problems: Problems) -> TlsOptions:
    """A `tls` block; the files it names are opened to see that they are usable."""
    tls = TlsOptions()
    before = len(problems.errors)
    for key, value in as_block(node).items():
        with problems.noting(value):
            _read_tls_entry(key, value, tls)
    if len(problems.errors) > before:
        return tls
    if tls.cert_file and not tls.key_file:
        raise Problem("missing 'key_file' in TLS configuration", node)
    if tls.key_file and not tls.cert_file:
        raise Problem("missing 'cert_file' in TLS configuration", node)
    if tls.certs and tls.cert_file:
        raise Problem(
            "error parsing tls config, cannot combine 'cert_file' option with 'certs' option", node
        )
    if tls.cert_file or tls.certs or tls.ca_file:
        from jetstream.server.tls import TlsError, server_context

        try:
            server_context(tls)
        except TlsError as error:
            raise Problem(str(error), node) from None
    return tls


def _read_tls_entry(key: str, node: Node, tls: TlsOptions) -> None:
    name = key.lower()
    match name:
        case "cert_file" | "key_file" | "ca_file":
            if not isinstance(node.value, str):
                raise Problem(f"error parsing tls config, expected '{name}' to be filename", node)
            setattr(tls, name, node.value)
        case "verify":
            tls.verify = _tls_bool(name, node)
        case "verify_and_map":
            tls.verify_and_map = _tls_bool(name, node)
            tls.verify = tls.verify or tls.verify_and_map
        case "insecure":
            tls.insecure = _tls_bool(name, node)
        case "timeout":
            tls.timeout_ns = as_seconds(node, "tls config")
        case "min_version":
            tls.min_version = _min_version(node)
        case "cipher_suites":
            tls.cipher_suites = _suites(node)
        case "curve_preferences":
            tls.curve_preferences = _curves(node)
        case "connection_rate_limit":
            tls.connection_rate_limit = as_int(node)
        case "pinned_certs":
            tls.pinned_certs = _pinned(node)
        case "certs" | "certificates":
            for entry in as_list(node):
                block = as_block(entry)
                pair = [as_text(block[k]) if k in block else "" for k in ("cert_file", "key_file")]
                if not pair[0] or not pair[1]:
                    raise Problem(
                        "error parsing certificates config: both 'cert_file' and 'key_file' "
                        "options are required",
                        entry,
                    )
                tls.certs.append((pair[0], pair[1]))
        case "handshake_first" | "first" | "immediate":
            _handshake_first(key, node, tls)
        case "cert_match" | "cert_store" | "cert_match_by" | "cert_match_skip_invalid":
            raise Problem(
                f'error parsing tls config, "{key}" is for Windows certificate stores', node
            )
        case "ocsp_peer":
            pass
        case _:
            if not node.is_variable:
                raise Problem(f'error parsing tls config, unknown field "{key}"', node)


def _tls_bool(name: str, node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise Problem(f"error parsing tls config, expected '{name}' to be a boolean", node)
    return node.value


def _min_version(node: Node) -> str:
    if not isinstance(node.value, str):
        raise Problem(f"error parsing tls config: 'min_version' wrong type: {go_text(node)}", node)
    if node.value in ("1.2", "1.3"):
        return node.value
    if node.value in ("1.0", "1.1"):
        raise Problem(f"error parsing tls config: unsupported TLS version: TLS {node.value}", node)
    raise Problem(f"error parsing tls config: unknown version: {node.value}", node)


def _suites(node: Node) -> list[str]:
    from jetstream.server.tls import CIPHER_SUITES

    entries = as_list(node)
    if not entries:
        raise Problem("error parsing tls config, 'cipher_suites' cannot be empty", node)
    for entry in entries:
        if as_text(entry) not in CIPHER_SUITES:
            raise Problem(f"unrecognized cipher {entry.value}", entry)
    return texts(node)


def _curves(node: Node) -> list[str]:
    from jetstream.server.tls import CURVES

    entries = as_list(node)
    if not entries:
        raise Problem("error parsing tls config, 'curve_preferences' cannot be empty", node)
    for entry in entries:
        if as_text(entry) not in CURVES:
            raise Problem(f"unrecognized curve preference {entry.value}", entry)
    return texts(node)


def _pinned(node: Node) -> list[str]:
    found = []
    for entry in as_list(node):
        key = as_text(entry).lower()
        if not re.fullmatch(r"[0-9a-f]{64}", key):
            raise Problem(
                f"error parsing tls config, 'pinned_certs' key {entry.value} does not look like "
                "hex-encoded sha256 of DER encoded SubjectPublicKeyInfo",
                entry,
            )
        found.append(key)
    return found


def _handshake_first(key: str, node: Node, tls: TlsOptions) -> None:
    value = node.value
    if isinstance(value, bool):
        tls.handshake_first = value
        return
    if not isinstance(value, str):
        raise Problem(f'field "{key}" should be a boolean or a string, got {go_type(value)}', node)
    tls.handshake_first = True
    match value.lower():
        case "auto" | "auto_fallback":
            tls.handshake_first_fallback_ns = HANDSHAKE_FIRST_FALLBACK_NS
        case _:
            try:
                tls.handshake_first_fallback_ns = duration_of(value)
            except ValueError:
                raise Problem(f'field "{key}"\'s value "{value}" is invalid', node) from None


# --- websocket ---


def read_websocket(node: Node, ws: WebsocketOptions, problems: Problems) -> None:
    if not isinstance(node.value, dict):
        raise Problem(f"Expected websocket to be a map, got {go_type(node.value)}", node)
    for key, value in node.value.items():
        with problems.noting(value):
            _read_websocket_entry(key, value, ws, problems)


def _read_websocket_entry(key: str, node: Node, ws: WebsocketOptions, problems: Problems) -> None:
    match key.lower():
        case "listen":
            host, ws.port = as_listen(node)
            ws.host = host or ws.host
        case "port":
            ws.port = as_int(node)
        case "host" | "net":
            ws.host = as_text(node)
        case "advertise":
            ws.advertise = as_text(node)
        case "no_tls":
            ws.no_tls = as_bool(node)
        case "tls":
            ws.tls = read_tls(node, problems)
        case "same_origin":
            ws.same_origin = as_bool(node)
        case (
            "allowed_origins"
            | "allowed_origin"
            | "allow_origins"
            | "allow_origin"
            | "origins"
            | "origin"
        ):
            ws.allowed_origins = texts(node)
        case "handshake_timeout":
            ws.handshake_timeout_ns = _websocket_duration(node)
        case "ping_interval":
            ws.ping_interval_ns = _websocket_duration(node)
        case "compress" | "compression":
            ws.compression = as_bool(node)
        case "authorization" | "authentication":
            found = read_simple_authorization(node, problems)
            ws.username, ws.password, ws.token = found.user, found.password, found.token
            ws.auth_timeout_ns = found.timeout_ns
        case "no_auth_user":
            ws.no_auth_user = as_text(node)
        case "jwt_cookie":
            ws.jwt_cookie = as_text(node)
        case "user_cookie":
            ws.user_cookie = as_text(node)
        case "pass_cookie":
            ws.pass_cookie = as_text(node)
        case "token_cookie":
            ws.token_cookie = as_text(node)
        case "headers":
            ws.headers = {name: as_text(value) for name, value in as_block(node).items()}
        case _:
            problems.unknown(key, node)


def _websocket_duration(node: Node) -> int:
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value * 1_000_000_000
    try:
        return duration_of(as_text(node))
    except ValueError as error:
        raise Problem(str(error), node) from None


# --- jetstream ---


def read_jetstream(node: Node, js: JetStreamOptions, problems: Problems) -> None:
    value = node.value
    if isinstance(value, bool):
        js.enabled = value
    elif isinstance(value, str):
        match value.lower():
            case "enabled" | "enable":
                js.enabled = True
            case "disabled" | "disable":
                js.enabled = False
            case _:
                raise Problem(
                    f"Expected 'enabled' or 'disabled' for string value, got '{value}'", node
                )
    elif isinstance(value, dict):
        js.enabled = True
        for key, entry in value.items():
            with problems.noting(entry):
                _read_jetstream_entry(key, entry, js, problems)
    else:
        raise Problem(
            f"Expected map, bool or string to define JetStream, got {go_type(value)}", node
        )


def _read_jetstream_entry(key: str, node: Node, js: JetStreamOptions, problems: Problems) -> None:
    match key.lower():
        case "enabled" | "enable":
            js.enabled = as_bool(node)
        case "strict":
            if not isinstance(node.value, bool):
                raise Problem(
                    f"Expected 'true' or 'false' for bool value, got '{go_text(node)}'", node
                )
            js.strict = node.value
        case "store_dir" | "storedir":
            if js.store_dir:
                raise Problem("Duplicate 'store_dir' configuration", node)
            js.store_dir = as_text(node)
        case "sync" | "sync_interval":
            js.sync_set = True
            if isinstance(node.value, str) and node.value.lower() == "always":
                js.sync_always = True
            else:
                js.sync_interval_ns = as_duration(node, key, problems)
        case "max_memory_store" | "max_mem_store" | "max_mem":
            js.max_memory = as_storage(node, "max_mem_store")
        case "max_file_store" | "max_file":
            js.max_store = as_storage(node, "max_file_store")
        case "domain":
            js.domain = as_text(node)
        case "key" | "ek" | "encryption_key" | "prev_key" | "prev_ek" | "prev_encryption_key":
            as_text(node)
            raise Problem("encryption at rest is not supported: use an encrypted volume", node)
        case "cipher":
            if as_text(node).lower() not in ("chacha", "chachapoly", "aes"):
                raise Problem(f'Unknown cipher type: "{node.value}"', node)
        case "unique_tag":
            js.unique_tag = as_text(node)
        case "extension_hint":
            js.extension_hint = as_text(node)
        case "max_outstanding_catchup":
            as_storage(node, "max_outstanding_catchup")
        case "max_buffered_size":
            js.max_buffered_size = as_storage(node, "max_buffered_size")
        case "max_buffered_msgs":
            js.max_buffered_msgs = as_int(node)
        case "request_queue_limit":
            js.request_queue_limit = as_int(node)
        case "info_queue_limit":
            js.info_queue_limit = as_int(node)
        case "max_concurrent_io":
            js.max_concurrent_io = as_int(node)
            if not 4 <= js.max_concurrent_io <= 8192:
                raise Problem(
                    'Expected an absolute size for "max_concurrent_io" between 4 and 8192, '
                    f"got {node.value}",
                    node,
                )
        case "limits":
            _read_limits(node, js.limits, problems)
        case "tpm":
            if node.value != {}:
                raise Problem("tpm is not supported: use an encrypted volume", node)
        case _:
            problems.unknown(key, node)


def _read_limits(node: Node, limits: JetStreamLimitOptions, problems: Problems) -> None:
    for key, value in as_block(node).items():
        match key.lower():
            case (
                "max_ack_pending" | "max_ha_assets" | "max_request_batch" | "default_max_consumers"
            ):
                setattr(limits, key.lower(), as_int(value))
            case "duplicate_window":
                try:
                    limits.duplicate_window_ns = duration_of(as_text(value))
                except ValueError as error:
                    problems.error(str(error))
            case "batch":
                _read_batch_limits(value, limits, problems)
            case _:
                problems.unknown(key, value)


def _read_batch_limits(node: Node, limits: JetStreamLimitOptions, problems: Problems) -> None:
    for key, value in as_block(node).items():
        match key.lower():
            case "max_inflight_per_stream" | "max_inflight_total" | "max_msgs":
                setattr(limits, f"batch_{key.lower()}", as_int(value))
            case "timeout":
                try:
                    limits.batch_timeout_ns = duration_of(as_text(value))
                except ValueError as error:
                    problems.error(str(error))
            case _:
                problems.unknown(key, value)


# --- the account resolver ---

_RESOLVER = (
    'error parsing account resolver, should be MEM or  URL("url") or a map containing dir and '
    "type state=[FULL|CACHE])"
)


def read_resolver(node: Node) -> ResolverOptions:
    value = node.value
    if isinstance(value, str):
        if value.upper() in ("MEM", "MEMORY"):
            return ResolverOptions("MEM")
        found = re.fullmatch(r"(?i)URL\((.*)\)", value)
        if found is None:
            raise Problem(_RESOLVER, node)
        raise Problem("resolver URL is not supported: use MEM with resolver_preload", node)
    block: dict[str, Any] = {key.lower(): entry for key, entry in as_block(node).items()}
    kind = as_text(block["type"]).lower() if "type" in block else ""
    if kind in ("mem", "memory"):
        return ResolverOptions("MEM")
    if kind not in ("full", "cache"):
        raise Problem(_RESOLVER, node)
    directory = as_text(block["dir"]) if "dir" in block else ""
    if not directory:
        raise Problem("dir has no value and needs to point to a directory", node)
    resolver = ResolverOptions(kind, directory=directory)
    for key in ("allow_delete", "hard_delete"):
        if key in block:
            setattr(resolver, key, as_bool(block[key]))
    if "limit" in block:
        resolver.limit = as_int(block["limit"])
    for key in ("interval", "ttl", "timeout"):
        if key in block:
            try:
                setattr(resolver, f"{key}_ns", duration_of(as_text(block[key])))
            except ValueError as error:
                raise Problem(str(error), node) from None
    return resolver


def read_preload(node: Node) -> dict[str, str]:
    if not isinstance(node.value, dict):
        raise Problem("preload should be a map of account_public_key:account_jwt", node)
    found = {}
    for key, value in node.value.items():
        if not isinstance(value.value, str):
            raise Problem("preload map value should be a string JWT", value)
        if value.value.count(".") != 2 or not is_public(key, KeyKind.ACCOUNT):
            raise Problem("invalid account JWT", value)
        found[key] = value.value
    return found
