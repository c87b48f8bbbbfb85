"""The operations of the NATS client protocol, as small numbers and as values.

The kernel speaks numbers (`Kind`), the control path speaks `Connect` and `Info`.
"""

from enum import IntEnum
from typing import Any

import msgspec
from msgspec import Struct

from jetstream.errors import ProtocolError


class Role(IntEnum):
    """Which side of the conversation a parser reads for."""

    SERVER = 0  # reads what clients send
    CLIENT = 1  # reads what servers send


class Kind(IntEnum):
    PUB = 1
    HPUB = 2
    SUB = 3
    UNSUB = 4
    CONNECT = 5
    PING = 6
    PONG = 7
    INFO = 8
    MSG = 9
    HMSG = 10
    OK = 11
    ERR = 12


class Fault(IntEnum):
    """Why a parser stopped; the numbers are shared with the kernel."""

    NONE = 0
    UNKNOWN_OPERATION = 1
    CONTROL_LINE = 2
    PAYLOAD = 3
    ARGUMENTS = 4  # closed without a word
    HEADERS = 5  # HPUB although headers were not agreed


FAULT_TEXT: dict[int, str] = {
    Fault.UNKNOWN_OPERATION: "Unknown Protocol Operation",
    Fault.CONTROL_LINE: "maximum control line exceeded",
    Fault.PAYLOAD: "Maximum Payload Violation",
}


class Connect(Struct, omit_defaults=True):
    """What a client says in CONNECT."""

    verbose: bool = False
    pedantic: bool = False
    tls_required: bool = False
    nkey: str | None = None
    jwt: str | None = None
    sig: str | None = None
    auth_token: str | None = None
    user: str | None = None
    # "pass" is a Python word, so the field has another name than on the wire.
    password: str | None = None
    name: str | None = None
    lang: str | None = None
    version: str | None = None
    protocol: int = 0
    echo: bool = True
    headers: bool = False
    no_responders: bool = False
    account: str | None = None
    new_account: bool | None = None


# Before a client has said CONNECT it is taken to have said this.
UNSAID = Connect(verbose=True, pedantic=True)

_FIELDS: dict[str, tuple[str, type]] = {
    # on the wire: (field, type)
    "pass" if name == "password" else name: (
        name,
        int if name == "protocol" else bool if isinstance(default, bool) else str,
    )
    for name, default in zip(Connect.__struct_fields__, Connect.__struct_defaults__, strict=True)
}
_FIELDS["new_account"] = ("new_account", bool)


def read_connect(text: bytes, before: Connect = UNSAID) -> Connect:
    """What CONNECT says on top of what was said before; ProtocolError if it cannot be understood.

    As the reference reads it: names in any case, null leaves a field alone, unknown names are
    ignored, a value of the wrong type spoils all of it.
    """
    try:
        said = msgspec.json.decode(text.decode("utf-8", "replace"))
    except msgspec.DecodeError:
        raise ProtocolError("CONNECT is not JSON") from None
    if said is None:
        said = {}
    if not isinstance(said, dict):
        raise ProtocolError("CONNECT is not an object")
    changes: dict[str, Any] = {}
    for key, value in said.items():
        known = _FIELDS.get(key) or _FIELDS.get(key.lower())
        if known is None or value is None:
            continue
        name, wanted = known
        if type(value) is not wanted:
            raise ProtocolError(f"CONNECT: {key} has the wrong type")
        changes[name] = value
    return msgspec.structs.replace(before, **changes)


class Info(Struct, omit_defaults=True):
    """What a server says in INFO, as far as a client needs it; unknown fields are ignored."""

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    proto: int = 0
    go: str = ""
    host: str = ""
    port: int = 0
    headers: bool = False
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int = 0
    jetstream: bool = False
    ip: str = ""
    client_id: int = 0
    client_ip: str = ""
    nonce: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    domain: str = ""
    connect_urls: list[str] = []
    ws_connect_urls: list[str] = []
    ldm: bool = False
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    xkey: str = ""
    feature_flags: dict[str, Any] = {}
