"""Operator mode: who is believed, and what a token gives."""

from typing import Any

import pytest

from jetstream.clock import SECOND
from jetstream.security.jwt import (
    AccountClaims,
    ExportClaim,
    GenericClaims,
    ImportClaim,
    InvalidToken,
    JetStreamTier,
    OperatorClaims,
    PermissionClaim,
    ResponseClaim,
    TimeRange,
    UserClaims,
    UserPermissions,
    decode,
    encode,
)
from jetstream.security.nkeys import KeyKind, KeyPair, encode_signature
from jetstream.server.accounts import accounts_of
from jetstream.server.auth import Authenticator, AuthError, Identity
from jetstream.server.operator import (
    account_spec,
    activated,
    allowed_until,
    is_source_allowed,
)
from jetstream.server.options import Options
from jetstream.server.options_file import read_config_text
from jetstream.wire.operations import Connect

NOW = 1_800_000_000
NONCE = b"abcdefghijklmno"


class FixedClock:
    def now(self) -> int:
        return NOW * SECOND

    def monotonic(self) -> int:
        return NOW * SECOND


OPERATOR = KeyPair.create(KeyKind.OPERATOR)
ACCOUNT = KeyPair.create(KeyKind.ACCOUNT)
SIGNER = KeyPair.create(KeyKind.ACCOUNT)
SCOPED = KeyPair.create(KeyKind.ACCOUNT)
SYSTEM = KeyPair.create(KeyKind.ACCOUNT)
USER = KeyPair.create(KeyKind.USER)


def an_account(**changes: Any) -> AccountClaims:
    claims = AccountClaims(sub=ACCOUNT.public_key, name="acme")
    claims.nats.limits.conn = claims.nats.limits.subs = claims.nats.limits.payload = -1
    claims.nats.tags = ["region:eu"]
    template = UserPermissions(subs=-1, payload=-1, data=-1)
    template.pub = PermissionClaim(["u.{{name()}}.>", "t.{{tag(team)}}.{{account-tag(region)}}"])
    claims.nats.signing_keys = [
        SIGNER.public_key,
        {
            "kind": "user_scope",
            "key": SCOPED.public_key,
            "role": "r",
            "template": {"pub": {"allow": template.pub.allow}, "subs": -1, "payload": 500},
        },
    ]
    for name, value in changes.items():
        setattr(claims.nats, name, value)
    return claims


def an_operator_server(account: AccountClaims | None = None, **settings: Any) -> Authenticator:
    operator = OperatorClaims(sub=OPERATOR.public_key, name="O")
    operator.nats.system_account = SYSTEM.public_key
    system = AccountClaims(sub=SYSTEM.public_key, name="SYS")
    options = Options(
        operators=[encode(operator, OPERATOR, NOW)],
        resolver_preload={
            ACCOUNT.public_key: encode(account or an_account(), OPERATOR, NOW),
            SYSTEM.public_key: encode(system, OPERATOR, NOW),
        },
        **settings,
    )
    return Authenticator(options, FixedClock())


def a_user(signer: KeyPair = ACCOUNT, issued_at: int = NOW, **nats: Any) -> str:
    claims = UserClaims(sub=USER.public_key, name="joe")
    if signer is not SCOPED:
        claims.nats.subs = claims.nats.payload = claims.nats.data = -1
    if signer is not ACCOUNT:
        claims.nats.issuer_account = ACCOUNT.public_key
    for name, value in nats.items():
        setattr(claims if name in ("exp", "nbf") else claims.nats, name, value)
    return encode(claims, signer, issued_at)


def enter(authenticator: Authenticator, token: str, sign: bool = True, **where: Any) -> Identity:
    signature = encode_signature(USER.sign(NONCE)) if sign else None
    found = authenticator.authenticate(
        Connect(jwt=token, sig=signature), nonce=NONCE, **{"client_ip": "10.1.2.3", **where}
    )
    assert isinstance(found, Identity)
    return found


def refused(authenticator: Authenticator, token: str, **where: Any) -> str:
    with pytest.raises(AuthError) as caught:
        enter(authenticator, token, **where)
    assert caught.value.text.endswith(("Violation", "Expired"))
    return caught.value.why


def test_a_user_of_the_account_comes_in() -> None:
    identity = enter(an_operator_server(), a_user(pub=PermissionClaim(["a"]), payload=100))
    assert identity.account == ACCOUNT.public_key and identity.user == USER.public_key
    assert identity.max_payload == 100 and identity.name_tag == "joe"
    assert identity.permissions is not None and not identity.permissions.can_publish(b"b")


def test_a_user_of_a_signing_key_comes_in() -> None:
    assert enter(an_operator_server(), a_user(SIGNER)).permissions is None


def test_absent_limits_mean_nothing_is_allowed() -> None:
    identity = enter(an_operator_server(), a_user(subs=0, payload=0))
    assert (identity.max_subscriptions, identity.max_payload) == (0, 0)


def test_scoped_permissions_are_filled_in() -> None:
    token = a_user(SCOPED, tags=["team:red", "team:blue"])
    identity = enter(an_operator_server(), token)
    assert identity.rules is not None
    assert identity.rules.publish.allow == ("u.joe.>", "t.red.eu", "t.blue.eu")
    assert identity.max_payload == 500
    assert "of its own" in refused(an_operator_server(), a_user(SCOPED, bearer_token=True))


def test_a_template_whose_tags_are_missing_allows_less() -> None:
    identity = enter(an_operator_server(), a_user(SCOPED))
    assert identity.rules is not None and identity.rules.publish.allow == ("u.joe.>",)


@pytest.mark.parametrize(
    ("nats", "why"),
    [
        ({"exp": NOW}, "expired"),
        ({"nbf": NOW + 1}, "not valid yet"),
        ({"src": ["192.168.0.0/16"]}, "source"),
        ({"src": "192.168.0.0/16,172.16.0.0/12"}, "source"),
        ({"times": [TimeRange("00:00:00", "00:00:01")]}, "time"),
        ({"allowed_connection_types": ["WEBSOCKET"]}, "connection type"),
    ],
)
def test_claims_that_refuse(nats: dict[str, Any], why: str) -> None:
    assert why in refused(an_operator_server(), a_user(**nats))


def test_claims_that_allow() -> None:
    enter(an_operator_server(), a_user(src=["10.0.0.0/8"], exp=NOW + 5))
    identity = enter(an_operator_server(), a_user(exp=NOW + 5))
    assert identity.expires_ns == (NOW + 5) * SECOND


def test_signatures() -> None:
    server = an_operator_server()
    assert "signature missing" in refused(server, a_user(), sign=False)
    assert enter(server, a_user(bearer_token=True), sign=False)
    stranger = KeyPair.create(KeyKind.ACCOUNT)
    assert "not signed by its account" in refused(server, a_user(stranger))
    head, body, signature = a_user().split(".")
    assert "not valid" in refused(server, f"{head}.{body}.{signature[:-4]}AAAA")
    assert "missing" in refused(server, "")
    assert "not valid" in refused(server, "x.y.z")


def test_bearer_tokens_can_be_disallowed() -> None:
    account = an_account()
    account.nats.limits.disallow_bearer = True
    assert "bearer" in refused(an_operator_server(account), a_user(bearer_token=True))


def test_revocations() -> None:
    server = an_operator_server(an_account(revocations={USER.public_key: NOW - 10}))
    assert enter(server, a_user())
    assert "revoked" in refused(server, a_user(issued_at=NOW - 10))
    everyone = an_operator_server(an_account(revocations={"*": NOW}))
    assert "revoked" in refused(everyone, a_user())


def test_an_expired_account_lets_nobody_in() -> None:
    account = an_account()
    account.exp = NOW - 1
    with pytest.raises(AuthError) as caught:
        enter(an_operator_server(account), a_user())
    assert caught.value.text == "Account Authentication Expired"


def test_default_permissions_of_the_account() -> None:
    account = an_account()
    account.nats.default_permissions.sub = PermissionClaim(["only.this"])
    identity = enter(an_operator_server(account), a_user())
    assert identity.permissions is not None
    assert identity.permissions.can_subscribe(b"only.this")
    assert not identity.permissions.can_subscribe(b"that")


def test_a_sentinel_stands_in_for_those_without_a_token() -> None:
    sentinel = a_user(bearer_token=True, pub=PermissionClaim(deny=[">"]))
    server = an_operator_server(default_sentinel=sentinel)
    assert isinstance(server.authenticate(Connect(), nonce=NONCE), Identity)


def test_an_account_of_another_operator_is_not_believed() -> None:
    stranger = KeyPair.create(KeyKind.OPERATOR)
    with pytest.raises(InvalidToken):
        Authenticator(
            Options(
                trusted_keys=[OPERATOR.public_key],
                resolver_preload={ACCOUNT.public_key: encode(an_account(), stranger, NOW)},
            )
        )


def test_the_configuration_file_gives_accounts_and_the_system_account() -> None:
    options = an_operator_server().options
    text = f"operator: {options.operators[0]}\nresolver: MEM\nresolver_preload {{\n"
    text += "\n".join(f"{key}: {token}" for key, token in options.resolver_preload.items())
    found = read_config_text(text + "\n}")
    assert found.system_account == SYSTEM.public_key
    assert set(accounts_of(found)) == {"$G", ACCOUNT.public_key, SYSTEM.public_key}


def test_accounts_become_specs() -> None:
    claims = an_account()
    claims.nats.limits.tiered_limits = {"R1": JetStreamTier(mem_storage=5, disk_storage=-1)}
    spec = account_spec(claims, "token")
    assert spec.max_connections == -1 and spec.name_tag == "acme"
    assert spec.jetstream is not None and spec.jetstream.max_memory == 5
    assert spec.jetstream.max_streams == -1


def test_a_private_export_is_for_those_with_an_activation_token() -> None:
    others = [KeyPair.create(KeyKind.ACCOUNT) for _ in range(3)]
    exporter = an_account(exports=[ExportClaim(subject="q.>", type="service", token_req=True)])

    def an_importer(key: KeyPair, signer: KeyPair, subject: str) -> AccountClaims:
        activation = GenericClaims(
            sub=key.public_key, nats={"type": "activation", "subject": subject}
        )
        wish = ImportClaim(subject="q.x", account=ACCOUNT.public_key, type="service")
        wish.token = encode(activation, signer, NOW)
        claims = AccountClaims(sub=key.public_key)
        claims.nats.imports = [wish]
        return claims

    accounts = {
        ACCOUNT.public_key: exporter,
        others[0].public_key: an_importer(others[0], ACCOUNT, "q.x"),
        others[1].public_key: an_importer(others[1], others[1], "q.x"),  # signed for itself
        others[2].public_key: an_importer(others[2], ACCOUNT, "other"),
    }
    private = activated(ACCOUNT.public_key, accounts)
    assert private == {"q.>": (others[0].public_key,)}
    assert account_spec(exporter, "token", private).exports[0].accounts == private["q.>"]


def test_responses_in_tokens() -> None:
    identity = enter(an_operator_server(), a_user(resp=ResponseClaim(3, 0)))
    assert identity.rules is not None and identity.rules.responses is not None
    assert identity.rules.responses.max_msgs == 3


def test_time_windows_over_midnight_and_in_other_zones() -> None:
    at = 1_800_000_000 * SECOND  # 2027-01-15 08:00:00 UTC
    window = UserPermissions(times=[TimeRange("23:00:00", "09:00:00")])
    assert allowed_until(window, at) == (1_800_000_000 + 3600) * SECOND
    there = UserPermissions(
        times=[TimeRange("02:59:00", "03:01:00")], times_location="America/New_York"
    )
    assert allowed_until(there, at) == (1_800_000_000 + 60) * SECOND
    assert allowed_until(UserPermissions(times=[TimeRange("x", "y")]), at) is None
    assert allowed_until(UserPermissions(), at) == 0


def test_source_addresses() -> None:
    assert is_source_allowed([], "1.2.3.4")
    assert is_source_allowed(["1.2.3.0/24"], "1.2.3.4")
    assert not is_source_allowed(["1.2.3.0/24"], "1.2.4.4")
    assert not is_source_allowed(["1.2.3.0/24"], "not an address")


def test_tokens_round_trip_and_are_checked() -> None:
    token = a_user()
    assert decode(token, UserClaims).name == "joe"
    with pytest.raises(InvalidToken):
        decode(token, AccountClaims)
    with pytest.raises(InvalidToken):
        decode(token, OperatorClaims)
