"""Operator mode: accounts and users are described by signed tokens, not by the configuration.

    operator key ──signs──► account JWT ──its keys sign──► user JWT ──its key signs──► the nonce

The server trusts the operator's keys and knows the accounts (preloaded, or pushed later). A user
brings its own token; nothing about users is stored here.
"""

import ipaddress
import itertools
import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from jetstream.broker.accounts_spec import (
    AccountJetStream,
    AccountSpec,
    ExportSpec,
    ImportSpec,
    LatencySpec,
    MappingDestination,
    MappingSpec,
)
from jetstream.broker.permissions import PermissionRules, Permissions, ResponseRule, SubjectRules
from jetstream.clock import SECOND, Clock, SystemClock
from jetstream.security.jwt import (
    AccountClaims,
    GenericClaims,
    ImportClaim,
    InvalidToken,
    JetStreamTier,
    OperatorClaims,
    PermissionClaim,
    ResponseClaim,
    UserClaims,
    UserPermissions,
    decode,
)
from jetstream.server.options import Options
from jetstream.subjects.match import is_subset
from jetstream.subjects.tokens import is_valid_subject

if TYPE_CHECKING:
    from jetstream.server.auth import Attempt, Identity

_VARIABLE = re.compile(r"\{\{\s*([a-z-]+)\(\s*([^)]*?)\s*\)\s*\}\}", re.IGNORECASE)
TEMPLATE_SUBJECTS_MAX = 4096


class Operator:
    """The trusted keys and the known accounts of one server."""

    def __init__(self, options: Options, clock: Clock | None = None) -> None:
        self.options = options
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.trusted = trusted_keys(options)
        self.accounts: dict[str, AccountClaims] = {}
        for key, token in options.resolver_preload.items():
            claims = self.check_account(token)
            if claims.sub == key:
                self.accounts[key] = claims

    def check_account(self, token: str) -> AccountClaims:
        """Claims of an account that one of our operators vouches for; InvalidToken otherwise."""
        claims = decode(token, AccountClaims)
        if claims.iss not in self.trusted:
            raise InvalidToken("account is not signed by a trusted operator")
        return claims

    def authenticate(self, attempt: "Attempt") -> "Identity":
        """The checks of a user's token, in the order of the reference."""
        from jetstream.server.auth import AuthError, Identity, check_signature

        connect = attempt.connect
        token = connect.jwt or self.options.default_sentinel
        if not token:
            raise AuthError("user JWT missing")
        try:
            user = decode(token, UserClaims)
        except InvalidToken as error:
            raise AuthError(f"user JWT not valid: {error}") from None
        now = self.clock.now()
        self._check_validity(user, now)
        account_key = user.nats.issuer_account or user.iss
        account = self.accounts.get(account_key)
        if account is None:
            raise AuthError("account not known")
        if account.iss not in self.trusted:
            raise AuthError("account is not signed by a trusted operator")
        permissions = self._permissions(user, account)
        if account.exp and now >= account.exp * SECOND:
            raise AuthError("account JWT has expired", text="Account Authentication Expired")
        if permissions.bearer_token and account.nats.limits.disallow_bearer:
            raise AuthError("account does not allow bearer tokens")
        allowed = [kind.upper() for kind in permissions.allowed_connection_types]
        if allowed and attempt.connection_type not in allowed:
            raise AuthError("connection type not allowed")
        if not permissions.bearer_token:
            check_signature(user.sub, connect.sig, attempt.nonce)
        if is_revoked(user, account):
            raise AuthError("user JWT is revoked")
        if not is_source_allowed(permissions.src, attempt.client_ip):
            raise AuthError("source address not allowed")
        closes_ns = allowed_until(permissions, now)
        if closes_ns is None:
            raise AuthError("not allowed at this time")
        ends = [at for at in (user.exp * SECOND, closes_ns) if at]
        rules = rules_of(permissions.pub, permissions.sub, permissions.resp)
        if rules.is_open:
            default = account.nats.default_permissions
            rules = rules_of(default.pub, default.sub, default.resp)
        return Identity(
            account=account_key,
            user=user.sub,
            user_name=user.name,
            permissions=None if rules.is_open else Permissions(rules),
            rules=rules,
            max_payload=permissions.payload,
            max_subscriptions=permissions.subs,
            max_data=permissions.data,
            expires_ns=min(ends) if ends else 0,
            jwt=token,
            issuer_key=user.iss,
            name_tag=user.name,
            tags=tuple(user.nats.tags),
            claims_id=user.jti,
        )

    def _check_validity(self, user: UserClaims, now: int) -> None:
        from jetstream.server.auth import AuthError

        if user.exp and now >= user.exp * SECOND:
            raise AuthError("user JWT has expired")
        if user.nbf and now < user.nbf * SECOND:
            raise AuthError("user JWT is not valid yet")

    def _permissions(self, user: UserClaims, account: AccountClaims) -> UserPermissions:
        """The user's own permissions, or those of the scoped key that signed for it."""
        from jetstream.server.auth import AuthError

        if user.iss == account.sub:
            return user.nats
        keys = account.signing_keys()
        if user.iss not in keys:
            raise AuthError("user JWT is not signed by its account")
        scope = keys[user.iss]
        if scope is None:
            return user.nats
        own = structs.asdict(user.nats)
        empty = structs.asdict(UserPermissions())
        # nsc writes -1 for "not set" into scoped users as well.
        if any(own[key] != value and own[key] != -1 for key, value in empty.items()):
            raise AuthError("scoped user JWT carries permissions of its own")
        try:
            return fill_template(scope.template, user, account)
        except ValueError as error:
            raise AuthError(f"scoped permissions cannot be filled in: {error}") from None


def trusted_keys(options: Options) -> set[str]:
    found = set(options.trusted_keys)
    for token in options.operators:
        claims = decode(token, OperatorClaims)
        found.update(claims.nats.signing_keys or ())
        if not claims.nats.strict_signing_key_usage:
            found.add(claims.sub)
    return found


def is_revoked(user: UserClaims, account: AccountClaims) -> bool:
    """A revocation counts for tokens issued up to its time."""
    revocations = account.nats.revocations or {}
    times = [revocations[key] for key in (user.sub, "*") if key in revocations]
    return any(user.iat <= at for at in times)


def is_source_allowed(src: list[str] | str, client_ip: str) -> bool:
    networks = src.split(",") if isinstance(src, str) else list(src)
    networks = [network.strip() for network in networks if network.strip()]
    if not networks:
        return True
    try:
        address = ipaddress.ip_address(client_ip)
        return any(address in ipaddress.ip_network(network, strict=False) for network in networks)
    except ValueError:
        return False


def allowed_until(permissions: UserPermissions, now: int) -> int | None:
    """When the current time window closes (ns); 0 without windows, None outside of all."""
    if not permissions.times:
        return 0
    zone: tzinfo = UTC
    if permissions.times_location:
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        try:
            zone = ZoneInfo(permissions.times_location)
        except (ZoneInfoNotFoundError, ValueError):
            return None
    here = datetime.fromtimestamp(now / SECOND, zone)
    for window in permissions.times:
        try:
            start, end = (_at(here, text) for text in (window.start, window.end))
        except ValueError:
            return None
        if end < start:  # over midnight
            if here < end:
                start -= timedelta(days=1)
            else:
                end += timedelta(days=1)
        if start <= here < end:
            return int(end.timestamp()) * SECOND
    return None


def _at(day: datetime, text: str) -> datetime:
    hour, minute, second = (int(part) for part in text.split(":"))
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0)


def rules_of(
    pub: PermissionClaim, sub: PermissionClaim, resp: ResponseClaim | None
) -> PermissionRules:
    responses = None
    if resp is not None:
        default = ResponseRule()
        responses = ResponseRule(resp.max or default.max_msgs, resp.ttl or default.expires_ns)
    return PermissionRules(
        SubjectRules(tuple(pub.allow) or None, tuple(pub.deny)),
        SubjectRules(tuple(sub.allow) or None, tuple(sub.deny)),
        responses,
    )


# --- scoped permissions ---


def fill_template(
    template: UserPermissions, user: UserClaims, account: AccountClaims
) -> UserPermissions:
    """A scoped key's template with `{{name()}}`, `{{tag(x)}}`, … filled in for one user.

    A tag may have several values: then one entry becomes several. An entry whose tag is missing
    drops out of an allow list; in a deny list that would open a door, so it is an error.
    """

    def filled(claim: PermissionClaim) -> PermissionClaim:
        allow = _fill(claim.allow, user, account, strict=False)
        deny = _fill(claim.deny, user, account, strict=True)
        if claim.allow and not allow:
            deny = [*deny, ">"]  # nothing is left of what was allowed: allow nothing
        return PermissionClaim(allow, deny)

    return structs.replace(template, pub=filled(template.pub), sub=filled(template.sub))


def _fill(
    subjects: list[str], user: UserClaims, account: AccountClaims, *, strict: bool
) -> list[str]:
    found: list[str] = []
    for subject in subjects:
        variables = list(_VARIABLE.finditer(subject))
        if not variables:
            found.append(subject)
            continue
        choices = [_values(v.group(1).lower(), v.group(2), user, account) for v in variables]
        for values in itertools.islice(itertools.product(*choices), TEMPLATE_SUBJECTS_MAX):
            text = subject
            for variable, value in zip(variables, values, strict=True):
                text = text.replace(variable.group(0), value, 1)
            if is_valid_subject(text.partition(" ")[0]):
                found.append(text)
            elif strict:
                raise ValueError(f"{subject!r} gives no valid subject")
        if strict and not all(choices):
            raise ValueError(f"{subject!r} names a tag that is not set")
    return found


def _values(name: str, argument: str, user: UserClaims, account: AccountClaims) -> list[str]:
    match name:
        case "name":
            return [user.name]
        case "subject":
            return [user.sub]
        case "account-name":
            return [account.name]
        case "account-subject":
            return [account.sub]
        case "tag":
            return _tagged(user.nats.tags, argument)
        case "account-tag":
            return _tagged(account.nats.tags, argument)
    raise ValueError(f"template function {name!r} is not known")


def _tagged(tags: list[str], name: str) -> list[str]:
    prefix = name.lower() + ":"
    return [tag[len(prefix) :] for tag in tags if tag.lower().startswith(prefix)]


# --- accounts ---


class AccountDirectory(Struct):
    """What a file-configured server would have in its options."""

    accounts: list[AccountSpec]
    system_account: str


def directory_of(options: Options) -> AccountDirectory:
    """Accounts of the preloaded tokens, and the operator's system account."""
    operator = Operator(options)
    system = options.system_account
    for token in options.operators:
        system = system or decode(token, OperatorClaims).nats.system_account
    specs = [
        account_spec(claims, options.resolver_preload[key], activated(key, operator.accounts))
        for key, claims in operator.accounts.items()
    ]
    return AccountDirectory(specs, system)


def activated(exporter: str, accounts: dict[str, AccountClaims]) -> dict[str, tuple[str, ...]]:
    """Private exports of an account, by subject, and who holds a good activation token for them."""
    claims = accounts[exporter]
    signers = {exporter, *claims.signing_keys()}
    found: dict[str, tuple[str, ...]] = {
        export.subject: () for export in claims.nats.exports or () if export.token_req
    }
    for importer, other in accounts.items() if found else ():
        for wanted in other.nats.imports or ():
            if wanted.account != exporter or not wanted.token:
                continue
            try:
                token = decode(wanted.token, GenericClaims)
            except InvalidToken:
                continue
            allowed = str(token.nats.get("subject", token.nats.get("import_subject", "")))
            for subject in found:
                if token.iss in signers and token.sub == importer and is_subset(allowed, subject):
                    found[subject] = (*found[subject], importer)
    return found


def account_spec(
    claims: AccountClaims, token: str, private: dict[str, tuple[str, ...]] | None = None
) -> AccountSpec:
    """An account as its token describes it; `private` says who may use which private export."""
    nats = claims.nats
    limits = nats.limits
    tiers = {name: _jetstream(tier) for name, tier in limits.tiered_limits.items()}
    jetstream = _jetstream(limits) if limits.mem_storage or limits.disk_storage else None
    default = nats.default_permissions
    rules = rules_of(default.pub, default.sub, default.resp)
    return AccountSpec(
        name=claims.sub,
        nkey=claims.sub,
        exports=tuple(_export(export, private or {}) for export in nats.exports or ()),
        imports=tuple(_import(entry) for entry in nats.imports or ()),
        mappings=tuple(
            _mapping(source, entries) for source, entries in (nats.mappings or {}).items()
        ),
        max_connections=limits.conn,
        max_subscriptions=limits.subs,
        max_payload=limits.payload,
        max_leafnodes=limits.leaf,
        jetstream=jetstream if jetstream is not None else tiers.get("R1"),
        jetstream_tiers=tiers,
        default_permissions=None if rules.is_open else rules,
        trace_dest=nats.trace.dest if nats.trace is not None else "",
        trace_sampling=(nats.trace.sampling or 100) if nats.trace is not None else 100,
        jwt=token,
        issuer=claims.iss,
        name_tag=claims.name,
        tags=tuple(nats.tags),
        expires_ns=claims.exp * SECOND,
    )


def _jetstream(tier: JetStreamTier) -> AccountJetStream:
    def some(value: int) -> int:
        return value if value > 0 else -1

    return AccountJetStream(
        max_memory=tier.mem_storage,
        max_store=tier.disk_storage,
        max_streams=some(tier.streams),
        max_consumers=some(tier.consumer),
        max_ack_pending=some(tier.max_ack_pending),
        memory_max_stream_bytes=some(tier.mem_max_stream_bytes),
        store_max_stream_bytes=some(tier.disk_max_stream_bytes),
        max_bytes_required=tier.max_bytes_required,
    )


def _export(export: Any, private: dict[str, tuple[str, ...]]) -> ExportSpec:
    kind = "stream" if str(export.type).lower() == "stream" else "service"
    latency = None
    if export.service_latency is not None and export.service_latency.results:
        sampling = export.service_latency.sampling
        latency = LatencySpec(
            export.service_latency.results, sampling if isinstance(sampling, int) else 0
        )
    found: dict[str, Any] = {"latency": latency}
    if export.response_type in ("Stream", "Chunked"):
        found["response"] = export.response_type
    if export.response_threshold:
        found["threshold_ns"] = export.response_threshold
    return ExportSpec(
        "stream" if kind == "stream" else "service",
        export.subject,
        accounts=private.get(export.subject, ()) if export.token_req else None,
        account_token_position=export.account_token_position,
        allow_trace=export.allow_trace,
        **found,
    )


def _import(entry: ImportClaim) -> ImportSpec:
    """Older tokens say `to`: for a stream a prefix here, for a service the subject over there."""
    common = {"share": entry.share, "allow_trace": entry.allow_trace}
    if entry.type.lower() == "stream":
        local = entry.local_subject or (
            f"{entry.to}.{entry.subject}" if entry.to else entry.subject
        )
        return ImportSpec("stream", entry.account, entry.subject, local, **common)
    if entry.local_subject:
        return ImportSpec("service", entry.account, entry.subject, entry.local_subject, **common)
    return ImportSpec("service", entry.account, entry.to or entry.subject, entry.subject, **common)


def _mapping(source: str, entries: list[Any]) -> MappingSpec:
    return MappingSpec(
        source,
        tuple(MappingDestination(e.subject, e.weight or 100, e.cluster) for e in entries),
    )
