"""The doors from outside: nats-py logs in every way there is, over TCP, TLS and WebSocket."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import NoServersError

from jetstream.security.creds import format_creds
from jetstream.security.jwt import AccountClaims, OperatorClaims, UserClaims, encode
from jetstream.security.nkeys import KeyKind, KeyPair
from jetstream.server.options_check import check_start
from jetstream.server.options_file import read_config_text
from jetstream.server.server import Server

from .conftest import Certificates

Scenario = Callable[[Server], Awaitable[None]]


def with_server(config: str, scenario: Scenario) -> None:
    """Run a scenario against a server with this configuration, on a free port."""

    async def run() -> None:
        options = read_config_text("listen: 127.0.0.1:-1\n" + config)
        check_start(options)
        async with Server(options) as server:
            async with asyncio.timeout(20):
                await scenario(server)

    asyncio.run(run())


async def connect(server: Server, **how: Any) -> Any:
    url = how.pop("url", server.url)
    quiet: dict[str, Any] = {
        "allow_reconnect": False,
        "connect_timeout": 2,
        "max_reconnect_attempts": 0,
    }

    async def ignore(error: Exception) -> None:
        pass

    return await nats.connect(url, error_cb=ignore, **{**quiet, **how})


async def echo(client: Any) -> None:
    """The connection carries messages both ways."""
    subscription = await client.subscribe("echo")
    await client.publish("echo", b"hello" * 100)
    message = await subscription.next_msg(timeout=2)
    assert message.data == b"hello" * 100


async def comes_in(server: Server, **how: Any) -> None:
    client = await connect(server, **how)
    await echo(client)
    await client.close()


async def is_refused(server: Server, **how: Any) -> None:
    with pytest.raises((nats.errors.Error, OSError, NoServersError, ssl.SSLError)):
        await connect(server, **how)


def test_token_user_and_password() -> None:
    async def tokens(server: Server) -> None:
        await comes_in(server, token="secret")
        await is_refused(server, token="wrong")
        await is_refused(server)

    with_server("authorization { token: secret }", tokens)

    async def users(server: Server) -> None:
        await comes_in(server, user="joe", password="pw")
        await is_refused(server, user="joe", password="no")

    with_server("authorization { users: [ {user: joe, password: pw} ] }", users)


def test_bcrypt_password() -> None:
    import bcrypt

    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()

    async def scenario(server: Server) -> None:
        await comes_in(server, user="joe", password="pw")
        await is_refused(server, user="joe", password="no")

    with_server(f"authorization {{ users: [ {{user: joe, password: '{hashed}'}} ] }}", scenario)


def test_nkey_seed(tmp_path: Path) -> None:
    key = KeyPair.create(KeyKind.USER)
    seed = tmp_path / "user.nk"
    seed.write_text(key.seed)
    stranger = tmp_path / "stranger.nk"
    stranger.write_text(KeyPair.create(KeyKind.USER).seed)

    async def scenario(server: Server) -> None:
        await comes_in(server, nkeys_seed=str(seed))
        await is_refused(server, nkeys_seed=str(stranger))

    with_server(f"authorization {{ users: [ {{nkey: {key.public_key}}} ] }}", scenario)


def test_credentials_file(tmp_path: Path) -> None:
    operator, account, user = (
        KeyPair.create(kind) for kind in (KeyKind.OPERATOR, KeyKind.ACCOUNT, KeyKind.USER)
    )
    claims = AccountClaims(sub=account.public_key, name="acme")
    claims.nats.limits.conn = claims.nats.limits.subs = claims.nats.limits.payload = -1
    person = UserClaims(sub=user.public_key, name="joe")
    person.nats.subs = person.nats.payload = person.nats.data = -1
    person.nats.pub.deny = ["forbidden"]
    creds = tmp_path / "joe.creds"
    creds.write_text(format_creds(encode(person, account, 1), user.seed))
    config = (
        f"operator: {encode(OperatorClaims(sub=operator.public_key), operator, 1)}\n"
        f"resolver: MEM\nresolver_preload {{ {account.public_key}: {encode(claims, operator, 1)} }}"
    )

    async def scenario(server: Server) -> None:
        await comes_in(server, user_credentials=str(creds))
        await is_refused(server)
        client = await connect(server, user_credentials=str(creds))
        connection = next(iter(server.connections.values()))
        assert connection.account.name == account.public_key
        assert connection.permissions is not None
        assert not connection.permissions.can_publish(b"forbidden")
        await client.close()

    with_server(config, scenario)


def client_context(certificates: Certificates, *, own: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.ca)
    if own:
        context.load_cert_chain(certificates.client, certificates.client_key)
    return context


def tls_block(certificates: Certificates, more: str = "") -> str:
    return (
        f'tls {{ cert_file: "{certificates.server}", key_file: "{certificates.server_key}", '
        f'ca_file: "{certificates.ca}"\n {more} }}\n'
    )


def test_tls_after_info(certificates: Certificates) -> None:
    async def scenario(server: Server) -> None:
        await comes_in(server, tls=client_context(certificates))
        await is_refused(server, tls=ssl.create_default_context())
        client = await connect(server, tls=client_context(certificates))
        connection = next(iter(server.connections.values()))
        assert connection.tls_peer.version in ("1.2", "1.3")
        await client.close()

    with_server(tls_block(certificates), scenario)


def test_tls_first(certificates: Certificates) -> None:
    async def scenario(server: Server) -> None:
        await comes_in(
            server, tls=client_context(certificates), tls_handshake_first=True, url=server.url
        )

    with_server(tls_block(certificates, "handshake_first: true"), scenario)


def test_tls_first_with_fallback_takes_both(certificates: Certificates) -> None:
    async def scenario(server: Server) -> None:
        context = client_context(certificates)
        await comes_in(server, tls=context, tls_handshake_first=True)
        await comes_in(server, tls=context)

    with_server(tls_block(certificates, "handshake_first: auto"), scenario)


def test_clients_with_a_certificate(certificates: Certificates) -> None:
    async def verified(server: Server) -> None:
        await comes_in(server, tls=client_context(certificates, own=True))
        await is_refused(server, tls=client_context(certificates))

    with_server(tls_block(certificates, "verify: true"), verified)

    async def mapped(server: Server) -> None:
        client = await connect(server, tls=client_context(certificates, own=True))
        connection = next(iter(server.connections.values()))
        assert connection.identity is not None
        assert connection.identity.user == "alice@acme.com"
        await client.close()

    with_server(
        tls_block(certificates, "verify_and_map: true")
        + "authorization { users: [ {user: alice@acme.com} ] }",
        mapped,
    )

    async def by_subject(server: Server) -> None:
        await comes_in(server, tls=client_context(certificates, own=True))

    with_server(
        tls_block(certificates, "verify_and_map: true")
        + 'authorization { users: [ {user: "CN=alice,O=Acme"} ] }',
        by_subject,
    )


def test_clients_without_tls_where_it_may_be_left_out(certificates: Certificates) -> None:
    async def scenario(server: Server) -> None:
        await comes_in(server)
        await comes_in(server, tls=client_context(certificates))

    with_server("allow_non_tls: true\n" + tls_block(certificates), scenario)


def test_a_plain_client_does_not_get_past_tls(certificates: Certificates) -> None:
    async def scenario(server: Server) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert b'"tls_required":true' in await reader.readline()
        writer.write(b"CONNECT {}\r\nPING\r\n")
        assert await reader.read() == b""
        writer.close()

    with_server(tls_block(certificates, "timeout: 1"), scenario)


@pytest.mark.parametrize("compression", ["false", "true"])
def test_websocket(compression: str) -> None:
    pytest.importorskip("aiohttp")

    async def scenario(server: Server) -> None:
        port = server.open_ports["websocket"][2]
        await comes_in(server, url=f"ws://127.0.0.1:{port}")

    with_server(
        f"websocket {{ listen: '127.0.0.1:-1', no_tls: true, compression: {compression} }}",
        scenario,
    )


def test_websocket_over_tls(certificates: Certificates) -> None:
    pytest.importorskip("aiohttp")

    async def scenario(server: Server) -> None:
        port = server.open_ports["websocket"][2]
        await comes_in(server, url=f"wss://localhost:{port}", tls=client_context(certificates))

    block = tls_block(certificates).rstrip()
    with_server(f"websocket {{ listen: '127.0.0.1:-1', {block} }}", scenario)


def test_clients_are_told_the_advertised_address() -> None:
    async def scenario(server: Server) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert b'"host":"nats.example","port":4000' in await reader.readline()
        writer.close()

    with_server('client_advertise: "nats.example:4000"', scenario)


def test_too_many_connections() -> None:
    async def scenario(server: Server) -> None:
        first = await connect(server)
        await is_refused(server)
        await first.close()

    with_server("max_connections: 1", scenario)


def test_a_taken_port_is_reported_in_the_reference_words() -> None:
    from jetstream.server.doors import DoorError

    async def scenario(server: Server) -> None:
        options = read_config_text(f"listen: 127.0.0.1:{server.port}")
        with pytest.raises(DoorError, match="bind: address already in use"):
            await Server(options).start()

    with_server("", scenario)
