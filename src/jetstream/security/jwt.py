"""NATS JWTs: signed statements of operators about accounts and of accounts about users.

A token is `base64url(header).base64url(claims).base64url(signature)`; the signature of the `iss`
key covers the first two parts (in tokens of version 1 only the second). `decode` returns claims
only when the signature is good and the issuer is of the right kind; whether it is to be trusted
is for `server/operator.py` to decide.
"""

import base64
import binascii
import hashlib
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from jetstream.errors import JetStreamError
from jetstream.security.nkeys import InvalidKey, KeyKind, KeyPair, PublicKey, decode_public

ALGORITHM = "ed25519-nkey"
ALGORITHM_V1 = "ed25519"
TOKEN_BYTES_MAX = 1024 * 1024
NO_LIMIT = -1


class InvalidToken(JetStreamError):
    """Text that is not a JWT, or whose signature does not fit."""


class PermissionClaim(Struct, omit_defaults=True):
    """Allow and deny lists."""

    allow: list[str] = []
    deny: list[str] = []


class ResponseClaim(Struct, omit_defaults=True):
    """How many replies may be sent, and for how long (nanoseconds)."""

    max: int = 0
    ttl: int = 0


class TimeRange(Struct):
    start: str = ""
    end: str = ""


# `type` and `version` come from factories, so that they are written although they are defaults.
class UserPermissions(Struct, omit_defaults=True):
    """What a user may do; also the template of a scoped signing key. Limits: -1 is unlimited."""

    pub: PermissionClaim = field(default_factory=PermissionClaim)
    sub: PermissionClaim = field(default_factory=PermissionClaim)
    resp: ResponseClaim | None = None
    src: list[str] | str = []
    times: list[TimeRange] = []
    times_location: str = ""
    subs: int = 0
    data: int = 0
    payload: int = 0
    bearer_token: bool = False
    proxy_required: bool = False
    allowed_connection_types: list[str] = []


class UserNats(UserPermissions, omit_defaults=True):
    issuer_account: str = ""
    tags: list[str] = []
    type: str = field(default_factory=lambda: "user")
    version: int = field(default_factory=lambda: 2)


class ImportClaim(Struct, omit_defaults=True):
    name: str = ""
    subject: str = ""
    account: str = ""
    token: str = ""
    to: str = ""
    local_subject: str = ""
    type: str = ""
    share: bool = False
    allow_trace: bool = False


class LatencyClaim(Struct, omit_defaults=True):
    sampling: int | str = 0
    results: str = ""


class ExportClaim(Struct, omit_defaults=True):
    name: str = ""
    subject: str = ""
    type: str = ""
    token_req: bool = False
    revocations: dict[str, int] = {}
    response_type: str = ""
    response_threshold: int = 0
    service_latency: LatencyClaim | None = None
    account_token_position: int = 0
    advertise: bool = False
    allow_trace: bool = False


class JetStreamTier(Struct, omit_defaults=True):
    mem_storage: int = 0
    disk_storage: int = 0
    streams: int = 0
    consumer: int = 0
    max_ack_pending: int = 0
    mem_max_stream_bytes: int = 0
    disk_max_stream_bytes: int = 0
    max_bytes_required: bool = False


class AccountLimits(JetStreamTier, omit_defaults=True):
    subs: int = 0
    data: int = 0
    payload: int = 0
    imports: int = 0
    exports: int = 0
    wildcards: bool = False
    disallow_bearer: bool = False
    conn: int = 0
    leaf: int = 0
    tiered_limits: dict[str, JetStreamTier] = {}


class MappingClaim(Struct, omit_defaults=True):
    subject: str = ""
    weight: int = 0
    cluster: str = ""


class SigningKey(Struct, omit_defaults=True):
    """A scoped signing key: users it signs get the template's permissions."""

    kind: str = "user_scope"
    key: str = ""
    role: str = ""
    template: UserPermissions = field(default_factory=UserPermissions)
    description: str = ""


class CalloutClaim(Struct, omit_defaults=True):
    auth_users: list[str] = []
    allowed_accounts: list[str] = []
    xkey: str = ""


class TraceClaim(Struct, omit_defaults=True):
    dest: str = ""
    sampling: int = 0


class DefaultPermissions(Struct, omit_defaults=True):
    pub: PermissionClaim = field(default_factory=PermissionClaim)
    sub: PermissionClaim = field(default_factory=PermissionClaim)
    resp: ResponseClaim | None = None


class AccountNats(Struct, omit_defaults=True):
    imports: list[ImportClaim] | None = []
    exports: list[ExportClaim] | None = []
    limits: AccountLimits = field(default_factory=AccountLimits)
    signing_keys: list[str | dict[str, Any]] | None = []
    revocations: dict[str, int] | None = {}
    default_permissions: DefaultPermissions = field(default_factory=DefaultPermissions)
    mappings: dict[str, list[MappingClaim]] | None = {}
    authorization: CalloutClaim = field(default_factory=CalloutClaim)
    trace: TraceClaim | None = None
    cluster_traffic: str = ""
    description: str = ""
    info_url: str = ""
    tags: list[str] = []
    type: str = field(default_factory=lambda: "account")
    version: int = field(default_factory=lambda: 2)


class OperatorNats(Struct, omit_defaults=True):
    signing_keys: list[str] | None = []
    account_server_url: str = ""
    operator_service_urls: list[str] | None = []
    system_account: str = ""
    assert_server_version: str = ""
    strict_signing_key_usage: bool = False
    tags: list[str] = []
    type: str = field(default_factory=lambda: "operator")
    version: int = field(default_factory=lambda: 2)


class Claims(Struct, omit_defaults=True):
    """What every token says. Times are unix seconds, 0 = not said."""

    aud: str = ""
    exp: int = 0
    jti: str = ""
    iat: int = 0
    iss: str = ""
    name: str = ""
    nbf: int = 0
    sub: str = ""


class UserClaims(Claims, omit_defaults=True):
    nats: UserNats = field(default_factory=UserNats)


class AccountClaims(Claims, omit_defaults=True):
    nats: AccountNats = field(default_factory=AccountNats)

    def signing_keys(self) -> dict[str, SigningKey | None]:
        """Every key that may sign users for this account; None where it is not scoped."""
        found: dict[str, SigningKey | None] = {}
        for entry in self.nats.signing_keys or ():
            if isinstance(entry, str):
                found[entry] = None
            else:
                scope = msgspec.convert(entry, SigningKey)
                found[scope.key] = scope
        return found


class OperatorClaims(Claims, omit_defaults=True):
    nats: OperatorNats = field(default_factory=OperatorNats)


class GenericClaims(Claims, omit_defaults=True):
    """Tokens of other kinds, e.g. auth callout requests and answers."""

    nats: dict[str, Any] = {}


_ISSUERS: dict[type, tuple[KeyKind, ...]] = {
    UserClaims: (KeyKind.ACCOUNT,),
    AccountClaims: (KeyKind.ACCOUNT, KeyKind.OPERATOR),
    OperatorClaims: (KeyKind.OPERATOR,),
    GenericClaims: (KeyKind.ACCOUNT, KeyKind.OPERATOR, KeyKind.USER, KeyKind.SERVER),
}
_TYPES: dict[type, str] = {
    UserClaims: "user",
    AccountClaims: "account",
    OperatorClaims: "operator",
}
C = TypeVar("C", bound=Claims)


class _Said(Struct):
    """What decides how a token is to be read; the first version has it beside `nats`."""

    type: str = ""
    issuer_account: str = ""
    tags: list[str] = []
    nats: dict[str, Any] = {}


def decode(token: str, kind: type[C]) -> C:
    """Claims of a token whose signature is good; InvalidToken otherwise."""
    if len(token) > TOKEN_BYTES_MAX:
        raise InvalidToken("token is too long")
    chunks = token.strip().split(".")
    if len(chunks) != 3:
        raise InvalidToken("expected 3 chunks")
    header, body, signature = (_unpack(chunk) for chunk in chunks)
    try:
        head = msgspec.json.decode(header, type=dict[str, Any])
        said = msgspec.json.decode(body, type=_Said)
        claims = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidToken(f"claims cannot be read: {error}") from None
    algorithm = str(head.get("alg", "")).lower()
    if str(head.get("typ", "")).upper() != "JWT" or algorithm not in (ALGORITHM, ALGORITHM_V1):
        raise InvalidToken(f"unexpected {head.get('alg')!r} algorithm")
    try:
        issuer = PublicKey(claims.iss)
        decode_public(claims.sub)
    except InvalidKey as error:
        raise InvalidToken(f"issuer or subject is no key: {error}") from None
    if issuer.kind not in _ISSUERS[kind]:
        raise InvalidToken("issuer is of the wrong kind")
    wanted = _TYPES.get(kind)
    # Older tokens say it beside the claims, newer ones among them.
    if wanted and wanted not in (said.nats.get("type"), said.type):
        raise InvalidToken(f"not {wanted} claim")
    is_v1 = said.nats.get("version", 1) == 1 and bool(said.type)
    signed = chunks[1] if is_v1 else f"{chunks[0]}.{chunks[1]}"
    if not issuer.verify(signed.encode(), signature):
        raise InvalidToken("claim failed signature verification")
    if is_v1 and isinstance(claims, UserClaims):
        _modernise(claims, said)
    return claims


def _modernise(claims: UserClaims, said: "_Said") -> None:
    """The first version said less: what is missing is unlimited, and some fields stood outside."""
    claims.nats.subs = claims.nats.data = NO_LIMIT
    claims.nats.payload = claims.nats.payload or NO_LIMIT
    claims.nats.issuer_account = claims.nats.issuer_account or said.issuer_account
    claims.nats.tags = claims.nats.tags or said.tags


def encode(claims: Claims, signer: KeyPair, issued_at: int) -> str:
    """Sign: fills `iss`, `iat` and `jti`, and returns the token."""
    claims.iss = signer.public_key
    claims.iat = issued_at
    claims.jti = ""
    digest = hashlib.new("sha512_256", msgspec.json.encode(claims)).digest()
    claims.jti = base64.b32encode(digest).rstrip(b"=").decode()
    head = _pack(msgspec.json.encode({"typ": "JWT", "alg": ALGORITHM}))
    body = _pack(msgspec.json.encode(claims))
    signature = _pack(signer.sign(f"{head}.{body}".encode()))
    return f"{head}.{body}.{signature}"


def _unpack(chunk: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(chunk + "=" * (-len(chunk) % 4))
    except (binascii.Error, ValueError) as error:
        raise InvalidToken("token is no base64") from error


def _pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
