"""What an account is allowed to be: plain values that configuration or a JWT turns into.

The server builds them (`server/accounts.py`), the broker lives by them. Nothing here decides.
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from jetstream.broker.permissions import PermissionRules
from jetstream.subjects.match import is_subset

UNLIMITED = -1
GLOBAL_ACCOUNT = "$G"
SYSTEM_ACCOUNT = "$SYS"
RESPONSE_THRESHOLD_NS = 120_000_000_000

Kind = Literal["stream", "service"]


class MappingDestination(Struct, frozen=True):
    """Where a share of the messages goes; `weight` is a percentage."""

    subject: str
    weight: int = 100
    cluster: str = ""


class MappingSpec(Struct, frozen=True):
    """Publishes to `source` are rewritten to one of the destinations.

    A share missing to 100 keeps the subject, unless the source is itself listed as a destination:
    then the missing share is lost on purpose.
    """

    source: str
    destinations: tuple[MappingDestination, ...]


class LatencySpec(Struct, frozen=True):
    """Where service latencies are published; sampling in percent, 0 = only when headers ask."""

    subject: str
    sampling: int = 100


class ExportSpec(Struct, frozen=True):
    """What other accounts may import. `accounts` None means everyone."""

    kind: Kind
    subject: str
    accounts: tuple[str, ...] | None = None
    response: Literal["Singleton", "Stream", "Chunked"] = "Singleton"
    threshold_ns: int = RESPONSE_THRESHOLD_NS
    latency: LatencySpec | None = None
    account_token_position: int = 0
    allow_trace: bool = False


class ImportSpec(Struct, frozen=True):
    """What is taken from another account.

    stream:  messages on `subject` of `account` appear here as `to` (`$1` stands for wildcards).
    service: requests published here on `to` reach `account` as `subject`.
    """

    kind: Kind
    account: str
    subject: str
    to: str
    share: bool = False
    allow_trace: bool = False


class AccountJetStream(Struct, frozen=True):
    """JetStream limits of an account; -1 is unlimited."""

    max_memory: int = UNLIMITED
    max_store: int = UNLIMITED
    max_streams: int = UNLIMITED
    max_consumers: int = UNLIMITED
    max_ack_pending: int = UNLIMITED
    memory_max_stream_bytes: int = UNLIMITED
    store_max_stream_bytes: int = UNLIMITED
    max_bytes_required: bool = False


class AccountSpec(Struct, frozen=True):
    """One tenant."""

    name: str
    nkey: str = ""
    exports: tuple[ExportSpec, ...] = ()
    imports: tuple[ImportSpec, ...] = ()
    mappings: tuple[MappingSpec, ...] = ()
    max_connections: int = UNLIMITED
    max_subscriptions: int = UNLIMITED
    max_payload: int = UNLIMITED
    max_leafnodes: int = UNLIMITED
    jetstream: AccountJetStream | None = None
    jetstream_tiers: dict[str, AccountJetStream] = {}
    default_permissions: PermissionRules | None = None
    trace_dest: str = ""
    trace_sampling: int = 100
    # Only in operator mode:
    jwt: str = ""
    issuer: str = ""
    name_tag: str = ""
    tags: tuple[str, ...] = ()
    expires_ns: int = 0


def export_for(wanted: ImportSpec, exports: Iterable[ExportSpec]) -> ExportSpec | None:
    """The export that covers the import; the narrowest wins."""
    covering = [
        export
        for export in exports
        if export.kind == wanted.kind and is_subset(wanted.subject, export.subject)
    ]
    if not covering:
        return None
    return max(covering, key=lambda export: (export.subject == wanted.subject, len(export.subject)))


def may_import(export: ExportSpec, importer: str, subject: str) -> bool:
    """Public, listed by name, or the account's own name stands at the token position."""
    if export.account_token_position:
        tokens = subject.split(".")
        return tokens[export.account_token_position - 1] == importer
    return export.accounts is None or importer in export.accounts


def stream_transform(wanted: ImportSpec) -> tuple[str, str]:
    """Source and destination of the subject transform from the exporter to the importer."""
    return wanted.subject, _numbered(wanted.to)


def service_transform(wanted: ImportSpec) -> tuple[str, str]:
    """Source and destination of the subject transform from the importer to the exporter.

    `to: "b.$2.$1"` for `a.*.*` takes requests on `b.*.*` and sends them to `a.$2.$1`.
    """
    tokens = wanted.to.split(".")
    order: dict[int, int] = {}
    count = 0
    for position, token in enumerate(tokens):
        if token == "*" or (token[:1] == "$" and token[1:].isdigit()):
            count += 1
            order[count if token == "*" else int(token[1:])] = count
            tokens[position] = "*"
    remote = wanted.subject.split(".")
    count = 0
    for position, token in enumerate(remote):
        if token == "*":
            count += 1
            remote[position] = f"${order.get(count, count)}"
    return ".".join(tokens), ".".join(remote)


def _numbered(subject: str) -> str:
    tokens = subject.split(".")
    count = 0
    for position, token in enumerate(tokens):
        if token == "*":
            count += 1
            tokens[position] = f"${count}"
    return ".".join(tokens)
