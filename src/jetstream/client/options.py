"""How to connect: addresses, credentials, patience.

Pure values; `Credentials.answer()` is the only thing that computes, it signs the server's nonce.
"""

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_PORTS = {"nats": 4222, "tls": 4222, "ws": 80, "wss": 443}
RECONNECT_BUFFER_BYTES = 8 * 1024 * 1024
PENDING_MSGS_MAX = 512 * 1024
PENDING_BYTES_MAX = 128 * 1024 * 1024

Callback = Callable[..., Any] | Callable[..., Awaitable[Any]]


class Address(Struct, frozen=True):
    """One server to dial."""

    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = None
    path: str = ""

    @property
    def is_websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def wants_tls(self) -> bool:
        return self.scheme in ("tls", "wss")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_address(text: str, scheme: str = "nats") -> Address:
    """`host`, `host:port` or a URL; user and password (or a token) may be in it."""
    text = text.strip()
    if "://" not in text:
        text = f"{scheme}://{text}"
    parts = urlsplit(text)
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError(f"unknown scheme in {text!r}: use nats, tls, ws or wss")
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    return Address(
        parts.scheme,
        parts.hostname or "127.0.0.1",
        port,
        unquote(parts.username) if parts.username is not None else None,
        unquote(parts.password) if parts.password is not None else None,
        parts.path,
    )


def parse_addresses(servers: str | list[str] | tuple[str, ...]) -> list[Address]:
    """One URL, several separated by commas, or a list of them."""
    texts = servers.split(",") if isinstance(servers, str) else list(servers)
    found = [parse_address(text) for text in texts if text.strip()]
    if not found:
        raise ValueError("no server address given")
    return found


class Credentials(Struct, kw_only=True, frozen=True):
    """Who we are; at most one way of saying it is used."""

    user: str | None = None
    password: str | None = None
    token: str | None = None
    nkey_seed: str | None = None
    creds: str | Path | None = None

    def answer(self, address: Address, nonce: str) -> dict[str, str]:
        """The fields for CONNECT."""
        if self.creds is not None:
            return self._from_creds(nonce)
        if self.nkey_seed is not None:
            from jetstream.security.nkeys import KeyPair, encode_signature

            pair = KeyPair.from_seed(_text_or_file(self.nkey_seed))
            signature = encode_signature(pair.sign(nonce.encode()))
            return {"nkey": pair.public_key, "sig": signature}
        if self.token is not None:
            return {"auth_token": self.token}
        user, password = self.user, self.password
        if user is None and address.user is not None:
            user, password = address.user, address.password
            if password is None:
                return {"auth_token": user}
        if user is None:
            return {}
        return {"user": user, "pass": password or ""}

    def _from_creds(self, nonce: str) -> dict[str, str]:
        from jetstream.security.creds import parse_creds
        from jetstream.security.nkeys import encode_signature

        creds = parse_creds(_text_or_file(self.creds or ""))
        signature = encode_signature(creds.key_pair().sign(nonce.encode()))
        return {"jwt": creds.jwt, "sig": signature}


def _text_or_file(given: str | Path) -> str:
    """The content itself, or the file it is in."""
    if isinstance(given, str) and ("BEGIN" in given or (len(given) == 58 and given[0] == "S")):
        return given
    return Path(given).expanduser().read_text().strip()


class Options(Struct, kw_only=True):
    """Everything `connect()` takes besides the addresses; durations in seconds."""

    name: str | None = None
    credentials: Credentials = Credentials()
    tls: ssl.SSLContext | bool | None = None
    tls_hostname: str | None = None
    tls_first: bool = False
    connect_timeout: float = 2.0
    reconnect: bool = True
    max_reconnects: int = 60
    reconnect_wait: float = 0.1
    reconnect_wait_max: float = 5.0
    reconnect_jitter: float = 0.5
    reconnect_buffer_bytes: int = RECONNECT_BUFFER_BYTES
    retry_first_connect: bool = False
    ping_interval: float = 120.0
    max_outstanding_pings: int = 2
    drain_timeout: float = 30.0
    request_timeout: float = 5.0
    echo: bool = True
    verbose: bool = False
    pedantic: bool = False
    inbox_prefix: str = "_INBOX"
    randomize: bool = True
    use_discovered: bool = True
    pending_msgs: int = PENDING_MSGS_MAX
    pending_bytes: int = PENDING_BYTES_MAX
    ws_headers: dict[str, str] = {}
    on_event: Callback | None = None
    on_error: Callback | None = None
    on_disconnect: Callback | None = None
    on_reconnect: Callback | None = None
    on_close: Callback | None = None


def back_off(attempt: int, options: Options, chance: float) -> float:
    """Seconds before the attempt-th round over all servers; doubles up to a limit, plus jitter.

    >>> [round(back_off(n, Options(), 0.0), 2) for n in (0, 1, 2, 3, 9)]
    [0.0, 0.1, 0.2, 0.4, 5.0]
    """
    if attempt <= 0:
        return 0.0
    wait = min(options.reconnect_wait * 2 ** min(attempt - 1, 20), options.reconnect_wait_max)
    return float(wait * (1.0 + options.reconnect_jitter * chance))
