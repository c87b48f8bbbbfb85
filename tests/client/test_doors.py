"""TLS, WebSocket, tokens, nkeys, credentials files: each against both servers."""

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jetstream
from jetstream import sync
from jetstream.client.errors import AuthorizationError, NoRespondersError, NoServersError
from jetstream.security.nkeys import KeyKind, KeyPair
from tests.client.conftest import ServerProcess, free_port


def certificate(directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate for the loopback address."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = directory / "cert.pem", directory / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_file, key_file


class Configured:
    """Starts servers with a configuration text and removes them afterwards."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.directory = directory
        self.started: list[ServerProcess] = []

    def __call__(self, text: str) -> ServerProcess:
        path = self.directory / f"{len(self.started)}.conf"
        path.write_text(text)
        server = ServerProcess(self.kind, "-c", str(path))
        self.started.append(server)
        return server.start()


@pytest.fixture
def configured(server_kind: str, tmp_path: Path) -> Iterator[Configured]:
    made = Configured(server_kind, tmp_path)
    yield made
    for server in made.started:
        server.remove()


def cut(nc: Any) -> None:
    nc._keeper.link.transport.abort()


async def round_trip(nc: Any) -> None:
    sub = await nc.subscribe("a")
    await nc.publish("a", b"x" * 300_000)
    assert len((await sub.next(5)).data) == 300_000


async def test_tls(configured: Configured, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    server = configured(f'tls {{ cert_file: "{cert}", key_file: "{key}" }}')
    context = ssl.create_default_context(cafile=str(cert))
    async with jetstream.connect(server.url, tls=context) as nc:
        await round_trip(nc)
        cut(nc)
        await round_trip(nc)
    async with jetstream.connect(f"tls://127.0.0.1:{server.port}", tls=context) as nc:
        await round_trip(nc)
    with pytest.raises(NoServersError):
        await jetstream.connect(server.url)
    with sync.connect(server.url, tls=context) as blocking:
        blocking.flush()


async def test_tls_first(configured: Configured, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    text = f'tls {{ cert_file: "{cert}", key_file: "{key}", handshake_first: "100ms" }}'
    server = configured(text)
    context = ssl.create_default_context(cafile=str(cert))
    async with jetstream.connect(server.url, tls=context, tls_first=True) as nc:
        await round_trip(nc)


async def test_websocket(configured: Configured) -> None:
    port = free_port()
    configured(f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true }}')
    async with jetstream.connect(f"ws://127.0.0.1:{port}") as nc:
        await round_trip(nc)
        js = nc.jetstream()
        await js.create_stream(name="S")
        assert (await js.publish_many([b"x" * 100] * 2000, subject="S")).ok
        cut(nc)
        await round_trip(nc)


async def test_secure_websocket(configured: Configured, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    port = free_port()
    configured(
        f'websocket {{ listen: "127.0.0.1:{port}", '
        f'tls {{ cert_file: "{cert}", key_file: "{key}" }} }}'
    )
    context = ssl.create_default_context(cafile=str(cert))
    async with jetstream.connect(f"wss://127.0.0.1:{port}", tls=context) as nc:
        await round_trip(nc)


async def test_token(configured: Configured) -> None:
    server = configured('authorization { token: "secret" }')
    async with jetstream.connect(server.url, token="secret") as nc:
        await nc.flush()
    async with jetstream.connect(f"nats://secret@127.0.0.1:{server.port}") as nc:
        await nc.flush()
    with pytest.raises(AuthorizationError):
        await jetstream.connect(server.url, token="wrong")


async def test_nkey(configured: Configured, tmp_path: Path) -> None:
    pair = KeyPair.create(KeyKind.USER)
    server = configured(f"authorization {{ users: [ {{ nkey: {pair.public_key} }} ] }}")
    async with jetstream.connect(server.url, nkey_seed=pair.seed) as nc:
        await nc.flush()
    file = tmp_path / "seed"
    file.write_text(pair.seed + "\n")
    async with jetstream.connect(server.url, nkey_seed=str(file)) as nc:
        await nc.flush()
    with pytest.raises(AuthorizationError):
        await jetstream.connect(server.url, nkey_seed=KeyPair.create(KeyKind.USER).seed)


async def test_credentials_file(configured: Configured, tmp_path: Path) -> None:
    from tests.interop.keys import operator_mode

    text, creds = operator_mode()
    server = configured(text)
    file = tmp_path / "user.creds"
    file.write_text(creds)
    async with jetstream.connect(server.url, creds=file) as nc:
        await nc.flush()
    async with jetstream.connect(server.url, creds=creds) as nc:
        await nc.flush()
    with sync.connect(server.url, creds=str(file)) as blocking:
        blocking.flush()
    with pytest.raises(AuthorizationError):
        await jetstream.connect(server.url)


async def test_a_domain_is_reached_by_its_name(configured: Configured) -> None:
    server = configured("jetstream { domain: hub }")
    async with jetstream.connect(server.url) as nc:
        js = nc.jetstream(domain="hub")
        stream = await js.create_stream(name="S", subjects=["s"])
        assert (await js.publish("s", b"x")).domain == "hub"
        consumer = await stream.create_consumer(durable_name="c")
        message = await consumer.next(2)
        assert message is not None
        await message.ack_sync()
        kv = await js.create_key_value("B")
        await kv.put("k", b"v")
        assert (await kv.get("k")).value == b"v"
        assert await kv.keys() == ["k"]
        assert (await js.account_info()).domain == "hub"
        with pytest.raises(NoRespondersError) as caught:
            await nc.jetstream(domain="nowhere").account_info()
        assert caught.value.hint


async def test_permissions_are_reported(configured: Configured) -> None:
    server = configured(
        "authorization { users: [ { user: u, password: p, permissions: "
        '{ publish: "ok.>", subscribe: ["ok.>", "_INBOX.>"] } } ] }'
    )
    errors: list[str] = []
    async with jetstream.connect(
        server.url, user="u", password="p", on_error=lambda error: errors.append(str(error))
    ) as nc:
        await nc.publish("no", b"")
        await nc.subscribe("no")
        await nc.flush()
        await nc.flush()
    assert any('Publish to "no"' in error for error in errors)
    assert any('Subscription to "no"' in error for error in errors)
