"""Auth callout: a service of the test decides who comes in."""

import asyncio
import time
from typing import Any

import nats
import pytest

from jetstream.security.jwt import GenericClaims, UserClaims, decode, encode
from jetstream.security.nkeys import KeyKind, KeyPair
from jetstream.server.options_file import read_config_text
from jetstream.server.server import Server

ISSUER = KeyPair.create(KeyKind.ACCOUNT)
SERVICE_CURVE = KeyPair.create(KeyKind.CURVE)


def config(more: str = "") -> str:
    return f"""
    listen: 127.0.0.1:-1
    accounts {{
      AUTH {{ users: [ {{user: auth, password: auth}} ] }}
      APP {{}}
    }}
    authorization {{
      timeout: 1
      auth_callout {{ issuer: {ISSUER.public_key}, auth_users: [ auth ], account: AUTH {more} }}
    }}
    """


class Service:
    """Lets `joe` with the password `pw` into APP; may be told to misbehave."""

    def __init__(self, sealed: bool = False, signer: KeyPair = ISSUER) -> None:
        self.sealed = sealed
        self.signer = signer
        self.requests: list[GenericClaims] = []

    async def answer(self, message: Any) -> None:
        data = message.data
        if self.sealed:
            data = SERVICE_CURVE.open(data, message.headers["Nats-Server-Xkey"])
        asked = decode(data.decode(), GenericClaims)
        self.requests.append(asked)
        said = asked.nats["connect_opts"]
        nats_part: dict[str, Any] = {"type": "authorization_response", "version": 2}
        if said.get("user") == "joe" and said.get("pass") == "pw":
            user = UserClaims(sub=asked.nats["user_nkey"], name="joe", aud="APP")
            user.nats.subs = user.nats.payload = user.nats.data = -1
            user.nats.pub.deny = ["secret"]
            nats_part["jwt"] = encode(user, self.signer, int(time.time()))
        else:
            nats_part["error"] = "who are you?"
        response = GenericClaims(
            sub=asked.nats["user_nkey"], aud=asked.nats["server_id"]["id"], nats=nats_part
        )
        body = encode(response, self.signer, int(time.time())).encode()
        if self.sealed:
            body = SERVICE_CURVE.seal(body, message.headers["Nats-Server-Xkey"])
        await message.respond(body)


async def knock(server: Server, user: str, password: str) -> Any:
    async def ignore(error: Exception) -> None: ...

    return await nats.connect(
        server.url, user=user, password=password, error_cb=ignore, allow_reconnect=False
    )


async def refused(server: Server, user: str, password: str) -> None:
    with pytest.raises(nats.errors.Error):
        await knock(server, user, password)


@pytest.mark.parametrize("sealed", [False, True])
def test_the_service_decides(sealed: bool) -> None:
    async def run() -> None:
        more = f", xkey: {SERVICE_CURVE.public_key}" if sealed else ""
        async with Server(read_config_text(config(more))) as server, asyncio.timeout(20):
            service = Service(sealed)
            helper = await knock(server, "auth", "auth")
            await helper.subscribe("$SYS.REQ.USER.AUTH", cb=service.answer)
            await helper.flush()
            client = await knock(server, "joe", "pw")
            connection = next(c for c in server.connections.values() if c.connect.user == "joe")
            assert connection.account.name == "APP"
            assert connection.permissions is not None
            assert not connection.permissions.can_publish(b"secret")
            assert service.requests[0].nats["client_info"]["host"] == "127.0.0.1"
            await refused(server, "joe", "wrong")
            await refused(server, "auth", "wrong")
            await client.close()
            await helper.close()

    asyncio.run(run())


def test_only_the_issuer_is_believed() -> None:
    async def run() -> None:
        async with Server(read_config_text(config())) as server, asyncio.timeout(20):
            helper = await knock(server, "auth", "auth")
            forger = Service(signer=KeyPair.create(KeyKind.ACCOUNT))
            await helper.subscribe("$SYS.REQ.USER.AUTH", cb=forger.answer)
            await helper.flush()
            await refused(server, "joe", "pw")
            await helper.close()

    asyncio.run(run())


def test_without_a_service_nobody_comes_in() -> None:
    async def run() -> None:
        async with Server(read_config_text(config())) as server, asyncio.timeout(20):
            await refused(server, "joe", "pw")

    asyncio.run(run())
