"""The system account: what it answers, to whom, and what it announces."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import nats
import pytest
from nats.errors import NoRespondersError

from jetstream.server.options_file import read_config_text
from jetstream.server.server import Server

CONFIG = """
listen: 127.0.0.1:-1
server_name: srv
server_tags: [red]
accounts {
  A { users: [ {user: a, password: a, permissions: {publish: {deny: "secret"}}} ] }
  "$SYS" { users: [ {user: s, password: s} ] }
}
"""


async def client_of(server: Server, user: str) -> Any:
    async def ignore(error: Exception) -> None: ...

    return await nats.connect(
        server.url, user=user, password=user, name=user, error_cb=ignore, allow_reconnect=False
    )


async def ask(client: Any, subject: str, body: object = None) -> Any:
    payload = b"" if body is None else json.dumps(body).encode()
    answer = await client.request(subject, payload, timeout=2)
    return json.loads(answer.data)


def in_house(scenario: Callable[[Server, Any, Any], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Server(read_config_text(CONFIG)) as server, asyncio.timeout(20):
            system, user = await client_of(server, "s"), await client_of(server, "a")
            try:
                await scenario(server, system, user)
            finally:
                await system.close()
                await user.close()

    asyncio.run(run())


def test_ping_and_its_filters() -> None:
    async def scenario(server: Server, system: Any, user: Any) -> None:
        found = await ask(system, "$SYS.REQ.SERVER.PING")
        assert found["server"]["name"] == "srv" and found["server"]["ver"] == "2.15.1"
        assert found["statsz"]["connections"] == 2
        assert await ask(system, "$SYS.REQ.SERVER.PING", {"server_name": "sr"})
        assert await ask(system, "$SYS.REQ.SERVER.PING", {"tags": ["red"]})
        for other in (
            {"server_name": "zz"},
            {"server_name": "sr", "exact_match": True},
            {"tags": ["blue"]},
            {"cluster": "x"},
        ):
            with pytest.raises(nats.errors.TimeoutError):
                await system.request(
                    "$SYS.REQ.SERVER.PING", json.dumps(other).encode(), timeout=0.1
                )
        idz = await ask(system, "$SYS.REQ.SERVER.PING.IDZ")
        assert list(idz) == ["name", "host", "id"]

    in_house(scenario)


def test_views_by_server_id() -> None:
    async def scenario(server: Server, system: Any, user: Any) -> None:
        prefix = f"$SYS.REQ.SERVER.{server.id}"
        for name in ("VARZ", "SUBSZ", "CONNZ", "ROUTEZ", "GATEWAYZ", "LEAFZ", "ACCOUNTZ", "JSZ"):
            found = await ask(system, f"{prefix}.{name}")
            assert found["data"]["server_id"] == server.id, name
        health = await ask(system, f"{prefix}.HEALTHZ")
        assert health["data"] == {"status": "ok", "status_code": 200}
        wrong = await ask(system, f"{prefix}.CONNZ", {"sort": "zz"})
        assert wrong["error"]["description"] == "invalid sorting option: zz"
        with pytest.raises(NoRespondersError):
            await system.request(f"{prefix}.FOO", b"", timeout=1)
        reload = await ask(system, f"{prefix}.RELOAD")
        assert "configuration file" in reload["error"]["description"]

    in_house(scenario)


def test_accounts_are_described() -> None:
    async def scenario(server: Server, system: Any, user: Any) -> None:
        info = await ask(system, "$SYS.REQ.ACCOUNT.A.INFO")
        assert info["data"]["account_name"] == "A" and info["data"]["client_connections"] == 1
        conns = await ask(system, "$SYS.REQ.ACCOUNT.A.CONNS")
        assert conns["type"] == "io.nats.server.advisory.v1.account_connections"
        connz = await ask(system, "$SYS.REQ.ACCOUNT.A.CONNZ")
        assert [c["name"] for c in connz["data"]["connections"]] == ["a"]
        statz = await ask(system, "$SYS.REQ.ACCOUNT.PING.STATZ", {"accounts": ["A"]})
        assert [row["acc"] for row in statz["data"]["account_statz"]] == ["A"]
        missing = await ask(system, "$SYS.REQ.ACCOUNT.Z.INFO")
        assert missing["error"] == {"code": 500, "description": "Account Z does not exist"}

    in_house(scenario)


def test_other_accounts_hear_about_themselves_only() -> None:
    async def scenario(server: Server, system: Any, user: Any) -> None:
        info = await ask(user, "$SYS.REQ.USER.INFO")
        assert info["data"]["user"] == "a" and info["data"]["account"] == "A"
        assert info["data"]["permissions"] == {"publish": {"deny": ["secret"]}}
        for subject in ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.PING.CONNZ"):
            connz = await ask(user, subject, {"acc": "$SYS"})
            assert [c["name"] for c in connz["data"]["connections"]] == ["a"]
        statz = await ask(user, "$SYS.REQ.ACCOUNT.PING.STATZ")
        assert [row["acc"] for row in statz["data"]["account_statz"]] == ["A"]
        for subject in ("$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.A.INFO"):
            with pytest.raises(NoRespondersError):
                await user.request(subject, b"", timeout=1)

    in_house(scenario)


def test_events_and_kick() -> None:
    async def scenario(server: Server, system: Any, user: Any) -> None:
        heard: dict[str, Any] = {}
        everything = asyncio.Event()

        async def on_event(message: Any) -> None:
            heard[message.subject] = json.loads(message.data)
            if len(heard) >= 5:
                everything.set()

        await system.subscribe("$SYS.ACCOUNT.>", cb=on_event)
        await system.subscribe("$SYS.SERVER.>", cb=on_event)
        await system.flush()
        third = await client_of(server, "a")
        cid = third._server_info["client_id"]
        kicked = await ask(system, f"$SYS.REQ.SERVER.{server.id}.KICK", {"cid": cid})
        assert "error" not in kicked
        with pytest.raises(nats.errors.Error):

            async def ignore(error: Exception) -> None: ...

            await nats.connect(
                server.url, user="a", password="no", error_cb=ignore, allow_reconnect=False
            )
        await asyncio.wait_for(everything.wait(), 5)
        connect, leave = heard["$SYS.ACCOUNT.A.CONNECT"], heard["$SYS.ACCOUNT.A.DISCONNECT"]
        assert connect["type"] == "io.nats.server.advisory.v1.client_connect"
        assert connect["client"]["user"] == "a" and connect["client"]["id"] == cid
        assert leave["reason"] == "Kicked" and "stop" in leave["client"]
        assert "$SYS.ACCOUNT.A.SERVER.CONNS" in heard and "$SYS.SERVER.ACCOUNT.A.CONNS" in heard
        failed = heard[f"$SYS.SERVER.{server.id}.CLIENT.AUTH.ERR"]
        assert failed["reason"] == "Authentication Failure"
        await third.close()

    in_house(scenario)
