"""Accounts that are pushed to a running server."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest

from jetstream.security.creds import format_creds
from jetstream.security.jwt import AccountClaims, GenericClaims, OperatorClaims, UserClaims, encode
from jetstream.security.nkeys import KeyKind, KeyPair
from jetstream.server.options_file import read_config_text
from jetstream.server.server import Server

OPERATOR = KeyPair.create(KeyKind.OPERATOR)
SYSTEM, ACCOUNT = KeyPair.create(KeyKind.ACCOUNT), KeyPair.create(KeyKind.ACCOUNT)
NOW = int(time.time())


def an_account(key: KeyPair, signer: KeyPair = OPERATOR, **nats_fields: Any) -> str:
    claims = AccountClaims(sub=key.public_key, name="acme")
    limits = claims.nats.limits
    limits.conn = limits.subs = limits.payload = limits.data = -1
    for name, value in nats_fields.items():
        setattr(claims.nats, name, value)
    return encode(claims, signer, NOW)


class Person:
    """Somebody with credentials for an account."""

    def __init__(self, account: KeyPair, folder: Path, name: str) -> None:
        self.key = KeyPair.create(KeyKind.USER)
        claims = UserClaims(sub=self.key.public_key, name=name)
        claims.nats.subs = claims.nats.payload = claims.nats.data = -1
        self.creds = folder / f"{name}.creds"
        self.creds.write_text(format_creds(encode(claims, account, NOW), self.key.seed))

    async def connect(self, server: Server) -> Any:
        async def ignore(error: Exception) -> None: ...

        return await nats.connect(
            server.url,
            user_credentials=str(self.creds),
            error_cb=ignore,
            allow_reconnect=False,
            connect_timeout=3,
        )


def with_server(
    folder: Path, resolver: str, scenario: Callable[[Server, Any], Awaitable[None]]
) -> None:
    operator = OperatorClaims(sub=OPERATOR.public_key)
    operator.nats.system_account = SYSTEM.public_key
    config = (
        f"listen: 127.0.0.1:-1\noperator: {encode(operator, OPERATOR, NOW)}\n{resolver}\n"
        f"resolver_preload {{ {SYSTEM.public_key}: {an_account(SYSTEM)} }}"
    )

    async def run() -> None:
        async with Server(read_config_text(config)) as server, asyncio.timeout(20):
            admin = await Person(SYSTEM, folder, "admin").connect(server)
            try:
                await scenario(server, admin)
            finally:
                await admin.close()

    asyncio.run(run())


async def ask(client: Any, subject: str, body: str = "") -> Any:
    answer = await client.request(subject, body.encode(), timeout=2)
    return json.loads(answer.data)


def test_an_account_can_be_pushed_and_its_users_come_in(tmp_path: Path) -> None:
    async def scenario(server: Server, admin: Any) -> None:
        joe = Person(ACCOUNT, tmp_path, "joe")
        with pytest.raises(nats.errors.Error):
            await joe.connect(server)
        subject = f"$SYS.REQ.ACCOUNT.{ACCOUNT.public_key}.CLAIMS.UPDATE"
        answer = await ask(admin, subject, an_account(ACCOUNT))
        assert answer["data"]["message"] == "jwt updated"
        client = await joe.connect(server)
        closed: asyncio.Event = asyncio.Event()

        async def on_closed() -> None:
            closed.set()

        client._closed_cb = on_closed
        revoked = an_account(ACCOUNT, revocations={joe.key.public_key: NOW + 10})
        assert "error" not in await ask(admin, subject, revoked)
        await asyncio.wait_for(closed.wait(), 5)
        assert server.closed[-1].reason == "Credentials Revoked"
        with pytest.raises(nats.errors.Error):
            await joe.connect(server)

    with_server(tmp_path, "resolver: MEM", scenario)


def test_accounts_of_strangers_are_not_taken(tmp_path: Path) -> None:
    async def scenario(server: Server, admin: Any) -> None:
        subject = f"$SYS.REQ.ACCOUNT.{ACCOUNT.public_key}.CLAIMS.UPDATE"
        forged = an_account(ACCOUNT, KeyPair.create(KeyKind.OPERATOR))
        for body in (forged, "nonsense", an_account(KeyPair.create(KeyKind.ACCOUNT))):
            assert (await ask(admin, subject, body))["error"]["code"] == 500
        with pytest.raises(nats.errors.Error):
            await Person(ACCOUNT, tmp_path, "joe").connect(server)

    with_server(tmp_path, "resolver: MEM", scenario)


def test_a_directory_keeps_accounts_over_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "jwt"
    resolver = f'resolver {{ type: full, dir: "{folder}", allow_delete: true, hard_delete: true }}'

    async def push(server: Server, admin: Any) -> None:
        await ask(admin, "$SYS.REQ.CLAIMS.UPDATE", an_account(ACCOUNT))
        listed = await ask(admin, "$SYS.REQ.CLAIMS.LIST")
        assert set(listed["data"]) == {SYSTEM.public_key, ACCOUNT.public_key}

    with_server(tmp_path, resolver, push)
    assert (folder / f"{ACCOUNT.public_key}.jwt").exists()

    async def delete(server: Server, admin: Any) -> None:
        joe = Person(ACCOUNT, tmp_path, "joe")
        await (await joe.connect(server)).close()
        lookup = f"$SYS.REQ.ACCOUNT.{ACCOUNT.public_key}.CLAIMS.LOOKUP"
        token = (await admin.request(lookup, b"", timeout=2)).data.decode()
        assert token.count(".") == 2
        assert "error" in await ask(admin, "$SYS.REQ.CLAIMS.DELETE", "nonsense")
        wish = GenericClaims(sub=OPERATOR.public_key, nats={"accounts": [ACCOUNT.public_key]})
        answer = await ask(admin, "$SYS.REQ.CLAIMS.DELETE", encode(wish, OPERATOR, NOW))
        assert answer["data"]["message"] == "deleted 1 accounts"
        with pytest.raises(nats.errors.Error):
            await joe.connect(server)

    with_server(tmp_path, resolver, delete)
    assert not (folder / f"{ACCOUNT.public_key}.jwt").exists()
