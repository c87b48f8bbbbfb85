"""TLS at the door: contexts from options, who the peer is, and how many may try per second.

A connection starts TLS in one of two ways: after the INFO line was sent in clear (`upgrade`), or
before anything else (`handshake_first`). Both end in asyncio's `loop.start_tls`; which one it is
decides `starts_with_tls` from the first byte, where both are allowed.
"""

import hashlib
import ssl
from pathlib import Path
from typing import Any

from msgspec import Struct

from jetstream.errors import JetStreamError
from jetstream.server.options import TlsOptions

TLS_RECORD_HANDSHAKE = 0x16

# Names of Go's crypto/tls → names of OpenSSL. TLS 1.3 suites are always on.
CIPHER_SUITES = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
}
CURVES = {
    "X25519": "X25519",
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519MLKEM768": "",
}


class TlsError(JetStreamError):
    """Certificates or keys that cannot be used; the text is what the user sees."""


class TlsPeer(Struct, frozen=True):
    """Who stands at the other end of a TLS connection, as far as a certificate says."""

    version: str = ""
    cipher_suite: str = ""
    subject: str = ""  # distinguished name, RFC 2253
    names: tuple[str, ...] = ()  # subject alternative names: emails, then DNS names, then URIs
    subject_pk_sha256: str = ""
    cert_sha256: str = ""


def server_context(tls: TlsOptions) -> ssl.SSLContext:
    """A context for accepting; raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = (
        ssl.TLSVersion.TLSv1_3 if tls.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
    )
    for cert_file, key_file in tls.certs or [(tls.cert_file, tls.key_file)]:
        if cert_file:
            _load_pair(context, cert_file, key_file)
    suites = [CIPHER_SUITES[name] for name in tls.cipher_suites if CIPHER_SUITES[name]]
    if suites:
        try:
            context.set_ciphers(":".join(dict.fromkeys(suites)))
        except ssl.SSLError as error:
            raise TlsError(f"cipher suites cannot be used: {error}") from None
    # One curve is all that Python's ssl takes; the first one named is the preferred one.
    curve = next((CURVES[name] for name in tls.curve_preferences if CURVES.get(name)), "")
    if curve:
        context.set_ecdh_curve(curve)
    if tls.ca_file:
        _load_roots(context, tls.ca_file)
    if tls.verify:
        context.verify_mode = ssl.CERT_REQUIRED
        if not tls.ca_file:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    return context


def _load_pair(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    what = "error parsing X509 certificate/key pair: "
    for path in (cert_file, key_file):
        _read(path, what)
    try:
        context.load_cert_chain(cert_file, key_file)
    except ssl.SSLError as error:
        if "KEY_VALUES_MISMATCH" in str(error):
            raise TlsError(what + "tls: private key does not match public key") from None
        raise TlsError(what + "tls: failed to find any PEM data in certificate input") from None


def _load_roots(context: ssl.SSLContext, ca_file: str) -> None:
    _read(ca_file, "")
    try:
        context.load_verify_locations(ca_file)
    except (ssl.SSLError, OSError):
        raise TlsError("failed to parse root ca certificate") from None


def _read(path: str, what: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        reason = "no such file or directory" if error.errno == 2 else str(error.strerror).lower()
        raise TlsError(f"{what}open {path}: {reason}") from None


def starts_with_tls(first: bytes) -> bool:
    """True if these bytes open a TLS handshake rather than a NATS conversation."""
    return bool(first) and first[0] == TLS_RECORD_HANDSHAKE


# --- the peer ---


def peer_of(ssl_object: Any) -> TlsPeer:
    """Facts about an established TLS session (`transport.get_extra_info("ssl_object")`)."""
    version = str(ssl_object.version() or "").removeprefix("TLSv")
    cipher = ssl_object.cipher()
    suite = _go_suite(cipher[0]) if cipher else ""
    der = ssl_object.getpeercert(binary_form=True)
    if not der:
        return TlsPeer(version, suite)
    found = ssl_object.getpeercert() or {}
    return TlsPeer(
        version,
        suite,
        subject=distinguished_name(found.get("subject", ())),
        names=_alternative_names(found.get("subjectAltName", ())),
        subject_pk_sha256=public_key_digest(der),
        cert_sha256=hashlib.sha256(der).hexdigest(),
    )


def _go_suite(name: str) -> str:
    if name.startswith("TLS_"):
        return name
    return next((go for go, openssl in CIPHER_SUITES.items() if openssl == name), name)


_SHORT_NAMES = {
    "countryName": "C",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "commonName": "CN",
    "serialNumber": "SERIALNUMBER",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "postalCode": "POSTALCODE",
    "domainComponent": "DC",
    "emailAddress": "emailAddress",
}


def distinguished_name(rdns: Any) -> str:
    """RFC 2253: the most specific part first, `CN=…,OU=…`; parts of one RDN joined by `+`."""
    parts = []
    for rdn in reversed(tuple(rdns)):
        pieces = [f"{_SHORT_NAMES.get(key, key)}={_escaped(value)}" for key, value in rdn]
        parts.append("+".join(pieces))
    return ",".join(parts)


def same_name(one: str, other: str) -> bool:
    """Do two distinguished names hold the same parts, in whatever order?"""
    split = [sorted(part.strip() for part in text.split(",")) for text in (one, other)]
    return split[0] == split[1]


def _escaped(value: str) -> str:
    text = "".join("\\" + c if c in ',+"\\<>;' else c for c in value)
    return "\\" + text if text[:1] in ("#", " ") else text


def _alternative_names(entries: Any) -> tuple[str, ...]:
    order = {"email": 0, "DNS": 1, "URI": 2}
    known = [(order[kind], value) for kind, value in entries if kind in order]
    return tuple(value for _, value in sorted(known, key=lambda entry: entry[0]))


def public_key_digest(der: bytes) -> str:
    """Hex SHA-256 of the certificate's SubjectPublicKeyInfo: what `pinned_certs` lists."""
    return hashlib.sha256(_public_key_info(der)).hexdigest()


def _public_key_info(der: bytes) -> bytes:
    """Walk the ASN.1 of a certificate down to its public key.

    Certificate → TBSCertificate → [version], serial, signature, issuer, validity, subject, SPKI.
    """
    start, _, _ = _element(der, 0)
    at, end, _ = _element(der, start)
    position = at
    wanted = 6 if der[position] == 0xA0 else 5
    for _ in range(wanted):
        _, position, _ = _element(der, position)
    _, stop, _ = _element(der, position)
    assert stop <= end
    return der[position:stop]


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Content start, end, and tag of the element at `at`."""
    tag, length = der[at], der[at + 1]
    start = at + 2
    if length & 0x80:
        size = length & 0x7F
        length = int.from_bytes(der[start : start + size], "big")
        start += size
    return start, start + length, tag


def is_pinned(peer: TlsPeer, pinned: list[str]) -> bool:
    """True if there is no list, or the peer's key stands on it."""
    return not pinned or peer.subject_pk_sha256 in pinned


class RateLimit:
    """At most so many handshakes in any second."""

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._started_at = 0
        self._count = 0
        self.blocked = 0

    def allow(self, now: int) -> bool:
        if self.per_second <= 0:
            return True
        if now - self._started_at >= 1_000_000_000:
            self._started_at, self._count = now, 0
        self._count += 1
        if self._count > self.per_second:
            self.blocked += 1
            return False
        return True
