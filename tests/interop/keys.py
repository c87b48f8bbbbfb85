"""Keys and tokens for log-ins: an nkey user, and a small operator with one account."""

import time

from jetstream.security.creds import format_creds
from jetstream.security.jwt import AccountClaims, OperatorClaims, UserClaims, encode
from jetstream.security.nkeys import KeyKind, KeyPair


def user_seed() -> tuple[str, str]:
    """A user's seed and public key."""
    user = KeyPair.create(KeyKind.USER)
    return user.seed, user.public_key


def operator_mode() -> tuple[str, str]:
    """The configuration of a server in operator mode, and the credentials of a user."""
    now = int(time.time())
    operator, account, system = (
        KeyPair.create(kind) for kind in (KeyKind.OPERATOR, KeyKind.ACCOUNT, KeyKind.ACCOUNT)
    )
    user = KeyPair.create(KeyKind.USER)
    operator_claims = OperatorClaims(sub=operator.public_key, name="operator")
    operator_claims.nats.system_account = system.public_key
    account_claims = AccountClaims(sub=account.public_key, name="account")
    limits = account_claims.nats.limits
    limits.conn = limits.subs = limits.payload = limits.data = -1
    system_claims = AccountClaims(sub=system.public_key, name="SYS")
    user_claims = UserClaims(sub=user.public_key, name="user")
    user_claims.nats.subs = user_claims.nats.payload = user_claims.nats.data = -1
    config = f"""
        operator: {encode(operator_claims, operator, now)}
        system_account: {system.public_key}
        resolver: MEM
        resolver_preload: {{
            {account.public_key}: {encode(account_claims, operator, now)}
            {system.public_key}: {encode(system_claims, operator, now)}
        }}
    """
    return config, format_creds(encode(user_claims, account, now), user.seed)
