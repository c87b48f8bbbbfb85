"""The log-in matrix: every way in, and every way to be turned away."""

import asyncio
from collections.abc import Awaitable

import bcrypt
import pytest

from jetstream.clock import SECOND
from jetstream.security.nkeys import KeyKind, KeyPair, encode_signature
from jetstream.server import auth
from jetstream.server.auth import Authenticator, AuthError, Identity, has_plaintext_passwords
from jetstream.server.options import Options
from jetstream.server.options_file import read_config_text
from jetstream.server.tls import TlsPeer
from jetstream.wire.operations import Connect

KEY = KeyPair.create(KeyKind.USER)
NONCE = b"abcdefghijklmno"


class StoppedClock:
    def __init__(self) -> None:
        self.time = 1_000 * SECOND

    def now(self) -> int:
        return self.time

    def monotonic(self) -> int:
        return self.time


def door(config: str) -> Authenticator:
    return Authenticator(read_config_text(config), StoppedClock())


def enter(
    authenticator: Authenticator,
    connect: Connect | None = None,
    peer: TlsPeer | None = None,
    kind: str = "STANDARD",
) -> Identity:
    found = authenticator.authenticate(
        connect or Connect(),
        nonce=NONCE,
        tls_peer=peer,
        client_ip="127.0.0.1",
        connection_type=kind,
    )
    if isinstance(found, Identity):
        return found

    async def wait(outcome: Awaitable[Identity]) -> Identity:
        return await outcome

    return asyncio.run(wait(found))


def refused(
    authenticator: Authenticator, connect: Connect | None = None, **where: object
) -> AuthError:
    with pytest.raises(AuthError) as caught:
        enter(authenticator, connect, **where)  # type: ignore[arg-type]
    return caught.value


def test_without_configuration_everyone_is_in_the_global_account() -> None:
    identity = enter(Authenticator(Options()), Connect(user="whoever", password="x"))
    assert (identity.account, identity.user, identity.permissions) == ("$G", "", None)


def test_token() -> None:
    authenticator = door("authorization { token: s3cr3t }")
    assert enter(authenticator, Connect(auth_token="s3cr3t")).user == "[REDACTED]"
    for wrong in (Connect(), Connect(auth_token="S3cr3t"), Connect(user="s3cr3t")):
        assert refused(authenticator, wrong).text == "Authorization Violation"


def test_single_user() -> None:
    authenticator = door("authorization { user: joe, password: pw }")
    assert enter(authenticator, Connect(user="joe", password="pw")).user == "joe"
    for user, password in (("joe", ""), ("joe", "pW"), ("", "pw"), ("jo", "pw")):
        error = refused(authenticator, Connect(user=user, password=password))
        assert error.who == f' - User "{user}"' and "pw" not in str(error)


USERS = """
accounts {
  A { users: [ {user: a, password: pw, permissions: {publish: x}}, {nkey: KEY} ] }
  B { users: [ {user: b, password: pw, allowed_connection_types: [WEBSOCKET]} ] }
}
""".replace("KEY", KEY.public_key)


def test_users_are_in_their_accounts_with_their_permissions() -> None:
    identity = enter(door(USERS), Connect(user="a", password="pw"))
    assert identity.account == "A" and identity.permissions is not None
    assert identity.permissions.can_publish(b"x") and not identity.permissions.can_publish(b"y")


@pytest.mark.parametrize(
    "connect",
    [
        Connect(),
        Connect(user="nobody", password="pw"),
        Connect(user="a", password="wrong"),
        Connect(user="a"),
        Connect(auth_token="pw"),
        Connect(nkey="U", sig="x"),
        Connect(user="a", password="pw", account="B"),
    ],
)
def test_what_is_refused_where_users_are_configured(connect: Connect) -> None:
    refused(door(USERS), connect)


def test_connection_types() -> None:
    connect = Connect(user="b", password="pw")
    refused(door(USERS), connect)
    assert enter(door(USERS), connect, kind="WEBSOCKET").account == "B"


def test_nkey() -> None:
    signature = encode_signature(KEY.sign(NONCE))
    identity = enter(door(USERS), Connect(nkey=KEY.public_key, sig=signature))
    assert (identity.account, identity.user) == ("A", KEY.public_key)
    refused(door(USERS), Connect(nkey=KEY.public_key))
    refused(door(USERS), Connect(nkey=KEY.public_key, sig="%%"))
    refused(door(USERS), Connect(nkey=KEY.public_key, sig=encode_signature(KEY.sign(b"other"))))


def test_bcrypt_is_checked_off_the_loop() -> None:
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode().replace("$2b$", "$2a$")
    authenticator = door(f"authorization {{ users: [ {{user: a, password: '{hashed}'}} ] }}")

    async def enter_twice() -> None:
        outcome = authenticator.authenticate(Connect(user="a", password="pw"))
        assert not isinstance(outcome, Identity)
        assert (await outcome).user == "a"
        wrong = authenticator.authenticate(Connect(user="a", password="no"))
        assert not isinstance(wrong, Identity)
        with pytest.raises(AuthError):
            await wrong

    asyncio.run(enter_twice())
    authenticator.close()
    assert not has_plaintext_passwords(authenticator.options)
    assert has_plaintext_passwords(read_config_text("authorization { user: a, password: b }"))


def test_bcrypt_tokens() -> None:
    hashed = bcrypt.hashpw(b"tok", bcrypt.gensalt(4)).decode()
    authenticator = Authenticator(Options(token=hashed))
    assert enter(authenticator, Connect(auth_token="tok")).user == "[REDACTED]"
    refused(authenticator, Connect(auth_token="nok"))
    refused(authenticator, Connect(auth_token=hashed))


def test_no_auth_user_is_for_those_who_say_nothing() -> None:
    authenticator = door("no_auth_user: a\n" + USERS)
    assert enter(authenticator, Connect()).account == "A"
    refused(authenticator, Connect(user="a", password="wrong"))
    refused(authenticator, Connect(auth_token="x"))
    nkey_default = door(f"no_auth_user: {KEY.public_key}\n" + USERS)
    assert enter(nkey_default, Connect()).user == KEY.public_key


def test_websocket_may_have_its_own_user() -> None:
    authenticator = door(
        "authorization {user: a, password: a}\n"
        "websocket {port: -1, no_tls: true, authorization {user: w, password: w}}"
    )
    assert enter(authenticator, Connect(user="w", password="w"), kind="WEBSOCKET").user == "w"
    refused(authenticator, Connect(user="a", password="a"), kind="WEBSOCKET")
    assert enter(authenticator, Connect(user="a", password="a")).user == "a"


def test_certificates_name_their_user() -> None:
    authenticator = door(
        "tls {verify_and_map: true}\nauthorization {users: ["
        '{user: "bob@acme.com"}, {user: "CN=alice,OU=Eng,O=Acme"}, {user: host.acme.com}]}'
    )
    by_mail = TlsPeer(names=("bob@acme.com", "x.acme.com"))
    assert enter(authenticator, peer=by_mail).user == "bob@acme.com"
    by_host = TlsPeer(names=("host.acme.com",))
    assert enter(authenticator, peer=by_host).user == "host.acme.com"
    by_name = TlsPeer(subject="O=Acme,CN=alice,OU=Eng")
    assert enter(authenticator, peer=by_name).user == "CN=alice,OU=Eng,O=Acme"
    refused(authenticator, peer=TlsPeer(subject="CN=eve"))
    refused(authenticator, Connect(user="bob@acme.com"))


def test_pinned_certificates() -> None:
    pin = "ab" * 32
    authenticator = door(f"tls {{pinned_certs: ['{pin}']}}")
    assert enter(authenticator, peer=TlsPeer(subject_pk_sha256=pin)).account == "$G"
    refused(authenticator, peer=TlsPeer(subject_pk_sha256="cd" * 32))


def test_somebody_who_fails_too_often_waits_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "FAILURE_DELAY_S", 0.0)
    authenticator = door("authorization { token: a }")
    for _ in range(auth.FAILURES_FREE):
        with pytest.raises(AuthError):
            authenticator.authenticate(Connect(auth_token="b"), client_ip="10.0.0.1")
    late = authenticator.authenticate(Connect(auth_token="b"), client_ip="10.0.0.1")
    assert not isinstance(late, Identity)

    async def wait() -> None:
        with pytest.raises(AuthError):
            await late

    asyncio.run(wait())
    with pytest.raises(AuthError):
        authenticator.authenticate(Connect(auth_token="b"), client_ip="10.0.0.2")
    good = authenticator.authenticate(Connect(auth_token="a"), client_ip="10.0.0.1")
    assert isinstance(good, Identity)
