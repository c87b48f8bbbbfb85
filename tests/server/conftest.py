"""What the door's tests share: the real server, certificates, a server of ours in a thread."""

import datetime
import ipaddress
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@pytest.fixture(scope="session")
def reference_server() -> str:
    """The path of the real nats-server."""
    found = Path(sys.executable).parent / "nats-server"
    path = str(found) if found.exists() else shutil.which("nats-server")
    if path is None:
        pytest.skip("nats-server is not installed")
    return path


class Certificates(NamedTuple):
    """Paths of PEM files."""

    ca: str
    server: str
    server_key: str
    client: str
    client_key: str


def _pem(path: Path, key: ec.EllipticCurvePrivateKey) -> str:
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(path)


def _issue(
    path: Path,
    name: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    extensions: list[x509.ExtensionType],
) -> str:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return str(path)


def _name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certificates]:
    """An authority, a server certificate for 127.0.0.1 and a client certificate."""
    folder = tmp_path_factory.mktemp("certificates")
    ca_key, server_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    ca_name = _name((NameOID.COMMON_NAME, "test authority"))
    ca = _issue(
        folder / "ca.pem",
        ca_name,
        ca_key,
        ca_name,
        ca_key,
        [x509.BasicConstraints(ca=True, path_length=None)],
    )
    here = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    server = _issue(
        folder / "server.pem",
        _name((NameOID.COMMON_NAME, "localhost")),
        server_key,
        ca_name,
        ca_key,
        [here],
    )
    client = _issue(
        folder / "client.pem",
        _name((NameOID.ORGANIZATION_NAME, "Acme"), (NameOID.COMMON_NAME, "alice")),
        client_key,
        ca_name,
        ca_key,
        [x509.SubjectAlternativeName([x509.RFC822Name("alice@acme.com")])],
    )
    yield Certificates(
        ca,
        server,
        _pem(folder / "server.key", server_key),
        client,
        _pem(folder / "client.key", client_key),
    )
