"""NATS keys: ed25519 keys (and curve keys) in their printable form.

Text is base32 without padding of `prefix, 32-byte key, CRC-16`; a seed has two prefix bytes, so
that its first letter is `S` and its second names the kind of key:

    public   | prefix        | key (32)         | crc lo | crc hi |
    seed     | 0x90 | t >> 5 | (t & 31) << 3    | seed (32) | crc lo | crc hi |

Signing uses libsodium through PyNaCl, which is imported only when a key is really used, so that a
server without nkey users does not pay for it at start.
"""

import base64
import binascii
from enum import IntEnum

from jetstream.errors import JetStreamError

_SEED = 18 << 3
_PRIVATE = 15 << 3
KEY_BYTES = 32
PUBLIC_TEXT_LENGTH = 56
SEED_TEXT_LENGTH = 58
SIGNATURE_BYTES = 64


class KeyKind(IntEnum):
    """What a key is for; the value is its prefix byte."""

    OPERATOR = 14 << 3
    ACCOUNT = 0
    USER = 20 << 3
    SERVER = 13 << 3
    CLUSTER = 2 << 3
    CURVE = 23 << 3


class InvalidKey(JetStreamError):
    """Text that is not an nkey, or not of the kind asked for."""


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM (polynomial 0x1021, start 0)."""
    return binascii.crc_hqx(data, 0)


def _encode(raw: bytes) -> str:
    checked = raw + crc16(raw).to_bytes(2, "little")
    return base64.b32encode(checked).rstrip(b"=").decode("ascii")


def _decode(text: str | bytes) -> bytes:
    data = text.encode("utf-8") if isinstance(text, str) else bytes(text)
    try:
        raw = base64.b32decode(data + b"=" * (-len(data) % 8))
    except binascii.Error as error:
        raise InvalidKey("nkeys: invalid encoded key") from error
    if len(raw) < 4:
        raise InvalidKey("nkeys: invalid encoding")
    body, checksum = raw[:-2], raw[-2:]
    if crc16(body).to_bytes(2, "little") != checksum:
        raise InvalidKey("nkeys: invalid checksum")
    return body


def encode_public(kind: KeyKind, key: bytes) -> str:
    """The printable form of a 32-byte public key."""
    if len(key) != KEY_BYTES:
        raise InvalidKey("nkeys: invalid public key")
    return _encode(bytes([kind]) + key)


def encode_seed(kind: KeyKind, seed: bytes) -> str:
    """The printable form of a 32-byte seed; keep it secret."""
    if len(seed) != KEY_BYTES:
        raise InvalidKey("nkeys: invalid seed length")
    return _encode(bytes([_SEED | (kind >> 5), (kind & 31) << 3]) + seed)


def decode_public(text: str | bytes) -> tuple[KeyKind, bytes]:
    """Kind and 32 bytes of a public key."""
    raw = _decode(text)
    if len(raw) != KEY_BYTES + 1:
        raise InvalidKey("nkeys: invalid public key")
    try:
        return KeyKind(raw[0]), raw[1:]
    except ValueError as error:
        raise InvalidKey("nkeys: invalid prefix byte") from error


def decode_seed(text: str | bytes) -> tuple[KeyKind, bytes]:
    """Kind and 32 bytes of a seed."""
    raw = _decode(text.strip())
    if len(raw) != KEY_BYTES + 2 or raw[0] & 248 != _SEED:
        raise InvalidKey("nkeys: invalid seed")
    try:
        return KeyKind((raw[0] & 7) << 5 | (raw[1] & 248) >> 3), raw[2:]
    except ValueError as error:
        raise InvalidKey("nkeys: invalid prefix byte") from error


def is_public(text: str, kind: KeyKind | None = None) -> bool:
    """True if the text is a valid public key (of that kind)."""
    try:
        found, _ = decode_public(text)
    except InvalidKey:
        return False
    return kind is None or found is kind


class PublicKey:
    """Verifies signatures of one key."""

    __slots__ = ("_key", "kind", "text")

    def __init__(self, text: str) -> None:
        self.kind, self._key = decode_public(text)
        self.text = text

    def verify(self, data: bytes, signature: bytes) -> bool:
        """True if `signature` over `data` was made by this key."""
        from nacl import bindings
        from nacl.exceptions import BadSignatureError, CryptoError

        if len(signature) != SIGNATURE_BYTES:
            return False
        try:
            bindings.crypto_sign_open(signature + data, self._key)
        except (BadSignatureError, CryptoError, ValueError):
            return False
        return True


class KeyPair:
    """A key one can sign with. `wipe()` forgets the secret."""

    __slots__ = ("_seed", "_signer", "kind", "public_key")

    def __init__(self, kind: KeyKind, seed: bytes) -> None:
        from nacl import bindings
        from nacl.signing import SigningKey

        if len(seed) != KEY_BYTES:
            raise InvalidKey("nkeys: invalid seed length")
        self.kind = kind
        self._seed: bytes = seed
        self._signer: SigningKey | None = None
        if kind is KeyKind.CURVE:
            raw = bindings.crypto_scalarmult_base(seed)
        else:
            self._signer = SigningKey(seed)
            raw = bytes(self._signer.verify_key)
        self.public_key = encode_public(kind, raw)

    @classmethod
    def from_seed(cls, text: str | bytes) -> "KeyPair":
        """From the printable seed (`SU…`, `SA…`, …)."""
        return cls(*decode_seed(text))

    @classmethod
    def create(cls, kind: KeyKind) -> "KeyPair":
        """A new random key."""
        from nacl.utils import random

        return cls(kind, random(KEY_BYTES))

    @property
    def seed(self) -> str:
        return encode_seed(self.kind, self._seed)

    def sign(self, data: bytes) -> bytes:
        """The 64-byte signature over `data`."""
        if self._signer is None:
            raise InvalidKey("nkeys: curve keys and wiped keys cannot sign")
        return self._signer.sign(data).signature

    def seal(self, data: bytes, recipient: str) -> bytes:
        """Encrypt for another curve key (`xkv1`, nonce, box), as auth callout does."""
        from nacl import bindings
        from nacl.utils import random

        kind, key = decode_public(recipient)
        if self.kind is not KeyKind.CURVE or kind is not KeyKind.CURVE:
            raise InvalidKey("nkeys: sealing needs curve keys")
        nonce = random(24)
        return _BOX_VERSION + nonce + bindings.crypto_box(data, nonce, key, self._seed)

    def open(self, data: bytes, sender: str) -> bytes:
        """Undo `seal`."""
        from nacl import bindings
        from nacl.exceptions import CryptoError

        kind, key = decode_public(sender)
        if self.kind is not KeyKind.CURVE or kind is not KeyKind.CURVE:
            raise InvalidKey("nkeys: opening needs curve keys")
        if data[:4] != _BOX_VERSION or len(data) < 28:
            raise InvalidKey("nkeys: invalid encrypted payload")
        try:
            return bindings.crypto_box_open(data[28:], data[4:28], key, self._seed)
        except CryptoError as error:
            raise InvalidKey("nkeys: could not decrypt input") from error

    def verify(self, data: bytes, signature: bytes) -> bool:
        return PublicKey(self.public_key).verify(data, signature)

    def wipe(self) -> None:
        """Forget the secret; the public key stays."""
        self._seed = b"\0" * KEY_BYTES
        self._signer = None


_BOX_VERSION = b"xkv1"


def encode_signature(signature: bytes) -> str:
    """As it stands in CONNECT: base64url without padding."""
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode("ascii")


def decode_signature(text: str) -> bytes:
    """Accepts base64url without padding and, as older clients send it, standard base64."""
    data = text.rstrip("=").replace("+", "-").replace("/", "_")
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidKey("signature not valid base64") from error
