"""Credentials files (`.creds`): a user's JWT and the seed that proves it, as text blocks.

-----BEGIN NATS USER JWT-----
eyJ0eXAiOi…
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
SUA…
------END USER NKEY SEED------
"""

import re

from msgspec import Struct

from jetstream.errors import JetStreamError
from jetstream.security.nkeys import InvalidKey, KeyKind, KeyPair, decode_seed

_BLOCK = re.compile(r"\s*-{3,}[^\n]*-{3,}\r?\n(.+?)(?:\r?\n\s*-{3,}[^\n]*-{3,}\s*(?:\n|$))", re.S)

_WARNING = """************************* IMPORTANT *************************
NKEY Seed printed below can be used to sign and prove identity.
NKEYs are sensitive and should be treated as secrets.
"""


class InvalidCreds(JetStreamError):
    """The text holds no user JWT or no seed."""


class Creds(Struct, frozen=True):
    """What a user needs to log in. The seed is a secret: `repr` does not show it."""

    jwt: str
    seed: str

    def key_pair(self) -> KeyPair:
        return KeyPair.from_seed(self.seed)

    def __repr__(self) -> str:
        return "Creds(jwt=…, seed=…)"


def parse_creds(text: str | bytes) -> Creds:
    """Read a credentials file's content."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    jwt = find_jwt(text)
    if jwt is None:
        raise InvalidCreds("no user JWT found in the credentials")
    seed = find_seed(text)
    if seed is None:
        raise InvalidCreds("no nkey seed found in the credentials")
    return Creds(jwt, seed)


def find_jwt(text: str) -> str | None:
    """The JWT of a decorated file, or of a file that holds only the token."""
    for block in _BLOCK.findall(text):
        token = "".join(str(block).split())
        if token.count(".") == 2:
            return token
    bare = text.strip()
    return bare if bare.count(".") == 2 and len(bare.split()) == 1 else None


def find_seed(text: str) -> str | None:
    """The first valid seed in the text: in its block, or alone on a line."""
    candidates = [str(block).strip() for block in _BLOCK.findall(text)]
    candidates += [line.strip() for line in text.splitlines()]
    for candidate in candidates:
        if candidate.startswith("S"):
            try:
                decode_seed(candidate)
            except InvalidKey:
                continue
            return candidate
    return None


def format_creds(jwt: str, seed: str) -> str:
    """The content of a `.creds` file."""
    kind = decode_seed(seed)[0]
    if kind is not KeyKind.USER:
        raise InvalidCreds("credentials need a user seed (SU…)")
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"{_WARNING}\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n\n"
        "*************************************************************\n"
    )
