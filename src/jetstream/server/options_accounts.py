"""The `accounts` and `mappings` blocks: configuration → account values."""

from typing import Any

from msgspec import structs

from jetstream.broker.accounts_spec import (
    GLOBAL_ACCOUNT,
    AccountJetStream,
    AccountSpec,
    ExportSpec,
    ImportSpec,
    LatencySpec,
    MappingDestination,
    MappingSpec,
)
from jetstream.security.nkeys import KeyKind, is_public
from jetstream.server.accounts import AccountError, check_accounts
from jetstream.server.conf import Node
from jetstream.server.options import Options
from jetstream.server.options_reading import (
    Problem,
    Problems,
    as_bool,
    as_int,
    as_text,
    duration_of,
    go_type,
    texts,
)
from jetstream.server.options_users import add_users, read_permissions, read_users
from jetstream.subjects.tokens import is_valid_subject
from jetstream.subjects.transform import BadTransform, SubjectTransform


def read_accounts(node: Node, options: Options, problems: Problems) -> None:
    """Every account, its users, and then what they say about each other."""
    if isinstance(node.value, list):
        options.accounts = [AccountSpec(name) for name in texts(node)]
        return
    if not isinstance(node.value, dict):
        return
    before = len(problems.errors)
    for name, value in node.value.items():
        with problems.noting(value):
            options.accounts.append(_account(name, value, options, problems))
    if len(problems.errors) > before:
        return
    try:
        check_accounts(options.accounts)
    except AccountError as error:
        raise Problem(str(error), node) from None


def _account(name: str, node: Node, options: Options, problems: Problems) -> AccountSpec:
    if name == GLOBAL_ACCOUNT:
        raise Problem(f'"{name}" is a Reserved Account', node)
    if not isinstance(node.value, dict):
        raise Problem("Expected map entries for accounts", node)
    found: dict[str, Any] = {}
    users: tuple[Node, list[Any]] | None = None
    for key, value in node.value.items():
        with problems.noting(value):
            match key.lower():
                case "nkey":
                    found["nkey"] = as_text(value)
                    if not is_public(found["nkey"], KeyKind.ACCOUNT):
                        raise Problem(
                            f'Not a valid public nkey for an account: "{found["nkey"]}"', value
                        )
                case "imports":
                    found["imports"] = tuple(_imports(value, problems))
                case "exports":
                    found["exports"] = tuple(_exports(value, problems))
                case "jetstream":
                    found["jetstream"] = _jetstream(value, problems)
                case "users":
                    users = value, read_users(value, problems)
                case "default_permissions":
                    found["default_permissions"] = read_permissions(value, problems)
                case "mappings" | "maps":
                    found["mappings"] = tuple(read_mappings(value, problems))
                case "limits":
                    found.update(_limits(value, problems))
                case "msg_trace" | "trace_dest":
                    found.update(_trace(value, problems))
                case _:
                    problems.unknown(key, value)
    if users is not None:
        for user in users[1]:
            user.account = name
            if user.permissions is None:
                user.permissions = found.get("default_permissions")
        if options.username:
            raise Problem("Can not have a single user/pass and accounts", users[0])
        if options.token:
            raise Problem("Can not have a token and accounts", users[0])
        add_users(users[1], options, users[0])
    return AccountSpec(name, **found)


def _limits(node: Node, problems: Problems) -> dict[str, int]:
    if not isinstance(node.value, dict):
        raise Problem(f"Expected account limits to be a map/struct, got {node.value}", node)
    found: dict[str, int] = {}
    for key, value in node.value.items():
        match key.lower():
            case "max_connections" | "max_conn":
                found["max_connections"] = as_int(value)
            case "max_subscriptions" | "max_subs":
                found["max_subscriptions"] = as_int(value)
            case "max_payload" | "max_pay":
                found["max_payload"] = as_int(value)
            case "max_leafnodes" | "max_leafs":
                found["max_leafnodes"] = as_int(value)
            case _:
                if not value.is_variable:
                    problems.error(f'Unknown field "{key}" parsing account limits', value)
    return found


def _trace(node: Node, problems: Problems) -> dict[str, Any]:
    if isinstance(node.value, str):
        return {"trace_dest": _trace_subject(node)}
    if not isinstance(node.value, dict):
        raise Problem(f"Expected trace message destination, got {go_type(node.value)}", node)
    found: dict[str, Any] = {}
    for key, value in node.value.items():
        match key.lower():
            case "dest" | "destination":
                found["trace_dest"] = _trace_subject(value)
            case "sampling":
                number = _percent(value)
                if not 1 <= number <= 100:
                    # The reference's own spelling.
                    raise Problem(
                        f"Ttrace destination sampling value {number} is invalid, "
                        "needs to be [1..100]",
                        value,
                    )
                found["trace_sampling"] = number
            case _:
                problems.unknown(key, value)
    if found.get("trace_sampling") and not found.get("trace_dest"):
        problems.warn("Trace destination sampling ignored since no destination was set", node)
        found.pop("trace_sampling")
    return found


def _trace_subject(node: Node) -> str:
    subject = as_text(node)
    if not is_valid_subject(subject):
        raise Problem(f'Trace destination "{subject}" is not valid', node)
    return subject


def _percent(node: Node) -> int:
    if isinstance(node.value, str):
        text = node.value.strip().removesuffix("%")
        try:
            return int(text)
        except ValueError:
            raise Problem(f"Expected a number, got {node.value}", node) from None
    return as_int(node)


def _jetstream(node: Node, problems: Problems) -> AccountJetStream | None:
    value = node.value
    if isinstance(value, bool):
        return AccountJetStream() if value else None
    if isinstance(value, str):
        match value.lower():
            case "enabled" | "enable":
                return AccountJetStream()
            case "disabled" | "disable":
                return None
        problems.error(f"Expected 'enabled' or 'disabled' for string value, got '{value}'")
        return None
    if not isinstance(value, dict):
        problems.error(f"Expected map, bool or string to define JetStream, got {go_type(value)}")
        return None
    found: dict[str, Any] = {}
    for key, entry in value.items():
        name = _JETSTREAM_KEYS.get(key.lower())
        if name is None:
            if key.lower() != "cluster_traffic":
                problems.unknown(key, entry)
        elif name == "max_bytes_required":
            found[name] = as_bool(entry)
        elif isinstance(entry.value, int) and not isinstance(entry.value, bool):
            found[name] = entry.value
        else:
            raise Problem(f'Expected a parseable size for "{key}", got {entry.value}', entry)
    return AccountJetStream(**found)


_JETSTREAM_KEYS = {
    **dict.fromkeys(("max_memory", "max_mem", "mem", "memory"), "max_memory"),
    **dict.fromkeys(("max_store", "max_file", "max_disk", "store", "disk"), "max_store"),
    **dict.fromkeys(("max_streams", "streams"), "max_streams"),
    **dict.fromkeys(("max_consumers", "consumers"), "max_consumers"),
    **dict.fromkeys(("max_bytes_required", "max_stream_bytes", "max_bytes"), "max_bytes_required"),
    **dict.fromkeys(("mem_max_stream_bytes", "memory_max_stream_bytes"), "memory_max_stream_bytes"),
    **dict.fromkeys(("disk_max_stream_bytes", "store_max_stream_bytes"), "store_max_stream_bytes"),
    "max_ack_pending": "max_ack_pending",
}


# --- exports and imports ---


def _exports(node: Node, problems: Problems) -> list[ExportSpec]:
    if not isinstance(node.value, list):
        raise Problem(f"Exports should be an array, got {go_type(node.value)}", node)
    found = []
    for entry in node.value:
        with problems.noting(entry):
            export = _export(entry, problems)
            if export is not None:
                found.append(export)
    return found


def _export(node: Node, problems: Problems) -> ExportSpec | None:
    if not isinstance(node.value, dict):
        raise Problem(
            f"Export Items should be a map with type entry, got {go_type(node.value)}", node
        )
    block = {key.lower(): value for key, value in node.value.items()}
    found: dict[str, Any] = {}
    if "stream" in block and "service" in block:
        service = block["service"]
        raise Problem(f'Detected service "{service.value}" but already saw a stream', service)
    for key, value in block.items():
        match key:
            case "stream" | "service":
                found["kind"], found["subject"] = key, as_text(value)
            case "accounts":
                found["accounts"] = tuple(texts(value))
            case "response" | "response_type":
                _only_service(block, value, "response")
                kind = as_text(value)
                if kind.lower() not in ("single", "singleton", "stream", "chunk", "chunked"):
                    raise Problem(f'Unknown response type: "{kind}"', value)
                found["response"] = {"s": "Singleton", "c": "Chunked"}.get(kind[0].lower(), "")
                if kind.lower() == "stream":
                    found["response"] = "Stream"
            case "threshold" | "response_threshold" | "response_max_time" | "response_time":
                _only_service(block, value, "response")
                found["threshold_ns"] = _threshold(value)
            case "latency":
                _only_service(block, value, "latency")
                found["latency"] = _latency(value, problems)
            case "account_token_position":
                found["account_token_position"] = as_int(value)
            case "allow_trace":
                found["allow_trace"] = as_bool(value)
            case _:
                problems.unknown(key, value)
    return ExportSpec(**found) if "subject" in found else None


def _only_service(block: dict[str, Node], value: Node, what: str) -> None:
    if "stream" in block:
        raise Problem(f"Detected {what} directive on non-service", value)


def _threshold(node: Node) -> int:
    text = "Expected response threshold to be a parseable time duration, got "
    if not isinstance(node.value, str):
        raise Problem(text + go_type(node.value), node)
    try:
        return duration_of(node.value)
    except ValueError:
        raise Problem(f'{text}"{node.value}"', node) from None


def _latency(node: Node, problems: Problems) -> LatencySpec:
    if isinstance(node.value, str):
        return LatencySpec(node.value)
    if not isinstance(node.value, dict):
        raise Problem(
            f"Expected latency entry to be a map/struct or string, got {go_type(node.value)}", node
        )
    sampling, subject = 100, ""
    for key, value in node.value.items():
        match key.lower():
            case "sampling":
                if isinstance(value.value, str) and value.value.lower() in ("header", "headers"):
                    sampling = 0
                    continue
                sampling = _percent(value)
                if not 1 <= sampling <= 100:
                    raise Problem("bad sampling percentage, should be 1-100", value)
            case "subject" | "subj":
                subject = as_text(value)
            case _:
                problems.unknown(key, value)
    if not subject:
        raise Problem("Latency subject is required and missing", node)
    return LatencySpec(subject, sampling)


def _imports(node: Node, problems: Problems) -> list[ImportSpec]:
    if not isinstance(node.value, list):
        raise Problem(f"Imports should be an array, got {go_type(node.value)}", node)
    found: list[ImportSpec] = []
    services: dict[str, ImportSpec] = {}
    for entry in node.value:
        with problems.noting(entry):
            wanted = _import(entry, problems)
            if wanted is None:
                continue
            known = services.get(wanted.to) if wanted.kind == "service" else None
            if known is not None:
                raise Problem(
                    f'Duplicate service import subject "{wanted.to}", previously used in import '
                    f'for account "{known.account}", subject "{known.subject}"',
                    entry,
                )
            if wanted.kind == "service":
                services[wanted.to] = wanted
            found.append(wanted)
    return found


def _import(node: Node, problems: Problems) -> ImportSpec | None:
    if not isinstance(node.value, dict):
        raise Problem(
            f"Import Items should be a map with type entry, got {go_type(node.value)}", node
        )
    block = {key.lower(): value for key, value in node.value.items()}
    if "stream" in block and "service" in block:
        raise Problem("Detected service import but already saw a stream", block["service"])
    kind, account, subject = "", "", ""
    for key, value in block.items():
        match key:
            case "stream" | "service":
                kind = key
                account, subject = _account_and_subject(key, value, problems)
            case "prefix" | "to" | "share" | "allow_trace":
                pass
            case _:
                problems.unknown(key, value)
    if not kind:
        return None
    prefix = as_text(block["prefix"]) if "prefix" in block else ""
    to = as_text(block["to"]) if "to" in block else ""
    if kind == "stream" and prefix and to:
        raise Problem("Stream import can not have a 'prefix' and a 'to' property", block["to"])
    if kind == "stream" and prefix:
        to = f"{prefix.rstrip('.')}.{subject}"
    return ImportSpec(
        "stream" if kind == "stream" else "service",
        account,
        subject,
        to or subject,
        share=as_bool(block["share"]) if "share" in block else False,
        allow_trace=as_bool(block["allow_trace"]) if "allow_trace" in block else False,
    )


def _account_and_subject(kind: str, node: Node, problems: Problems) -> tuple[str, str]:
    if not isinstance(node.value, dict):
        raise Problem(
            f"{kind.capitalize()} entry should be an account map, got {go_type(node.value)}", node
        )
    account = subject = ""
    for key, value in node.value.items():
        match key.lower():
            case "account":
                account = as_text(value)
            case "subject":
                subject = as_text(value)
            case _:
                problems.unknown(key, value)
    if not account or not subject:
        raise Problem("Expect an account name and a subject", node)
    return account, subject


# --- mappings ---


def read_mappings(node: Node, problems: Problems) -> list[MappingSpec]:
    if not isinstance(node.value, dict):
        raise Problem(
            f"interface conversion: interface {{}} is {go_type(node.value)}, "
            "not map[string]interface {}",
            node,
        )
    found = []
    for source, value in node.value.items():
        with problems.noting(value):
            if not is_valid_subject(source):
                raise Problem(f'Subject "{source}" is not a valid subject', node)
            found.append(_mapping(source, value))
    return found


def _mapping(source: str, node: Node) -> MappingSpec:
    if isinstance(node.value, str):
        spec = MappingSpec(source, (MappingDestination(node.value),))
        try:
            SubjectTransform(source, node.value)
        except BadTransform as error:
            text = f'Error adding mapping for "{source}" to "{node.value}" : {error}'
            raise Problem(text, node) from None
        return spec
    if isinstance(node.value, list):
        entries = node.value
    elif isinstance(node.value, dict):
        entries = [node]
    else:
        raise Problem("Expected an entry for the mapping destination", node)
    spec = MappingSpec(source, tuple(_destination(entry) for entry in entries))
    problem = mapping_problem(spec)
    if problem:
        raise Problem(f'Error adding mapping for "{source}" : {problem}', node)
    return structs.replace(spec)


def mapping_problem(spec: MappingSpec) -> str:
    """Why a mapping cannot be used, or "". Weights count per cluster."""
    totals: dict[str, int] = {}
    for destination in spec.destinations:
        totals[destination.cluster] = totals.get(destination.cluster, 0) + destination.weight
        if totals[destination.cluster] > 100:
            return "total weight needs to be <= 100"
        try:
            if destination.subject:
                SubjectTransform(spec.source, destination.subject)
        except BadTransform as error:
            return str(error)
    return ""


def _destination(node: Node) -> MappingDestination:
    if not isinstance(node.value, dict):
        raise Problem("Expected an entry for the mapping destination", node)
    subject, cluster, weight = "", "", -1
    for key, value in node.value.items():
        match key.lower():
            case "dest" | "destination":
                subject = as_text(value)
            case "weight":
                weight = _weight(value)
            case "cluster":
                cluster = as_text(value)
            case _:
                raise Problem(f'Unknown field "{key}" for mapping destination', value)
    if weight < 0:
        raise Problem(f'Missing weight for mapping destination "{subject}"', node)
    return MappingDestination(subject, weight, cluster)


def _weight(node: Node) -> int:
    value = node.value
    if isinstance(value, str):
        try:
            value = int(value.strip().removesuffix("%"))
        except ValueError:
            raise Problem(f'Invalid weight "{value}" for mapping destination', node) from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise Problem(f"Unknown entry type for weight of mapping: {go_type(value)}", node)
    if not 0 <= value <= 100:
        raise Problem(f"Invalid weight {value} for mapping destination", node)
    return value
