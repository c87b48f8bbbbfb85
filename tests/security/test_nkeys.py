"""Keys read and print as every other NATS tool reads and prints them."""

import nkeys as reference  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.security.nkeys import (
    InvalidKey,
    KeyKind,
    KeyPair,
    PublicKey,
    decode_public,
    decode_seed,
    decode_signature,
    encode_public,
    encode_seed,
    encode_signature,
    is_public,
)

ZERO_SEED = "SUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEQ"
ZERO_PUBLIC = "UA5WUJ54Z23KILLCUOUNAKTPBVZWKMQVO4O6EQ5GHLAERIMLLHNCTYM5"


def test_the_vector_of_the_spec() -> None:
    assert encode_seed(KeyKind.USER, bytes(32)) == ZERO_SEED
    assert KeyPair.from_seed(ZERO_SEED).public_key == ZERO_PUBLIC


@given(seed=st.binary(min_size=32, max_size=32), kind=st.sampled_from(list(KeyKind)))
def test_seeds_and_public_keys_round_trip(seed: bytes, kind: KeyKind) -> None:
    assert decode_seed(encode_seed(kind, seed)) == (kind, seed)
    assert decode_public(encode_public(kind, seed)) == (kind, seed)


@pytest.mark.parametrize(
    ("kind", "letter"),
    [
        (KeyKind.OPERATOR, "O"),
        (KeyKind.ACCOUNT, "A"),
        (KeyKind.USER, "U"),
        (KeyKind.SERVER, "N"),
        (KeyKind.CLUSTER, "C"),
        (KeyKind.CURVE, "X"),
    ],
)
def test_the_first_letter_names_the_kind(kind: KeyKind, letter: str) -> None:
    pair = KeyPair.create(kind)
    assert pair.public_key[0] == letter and len(pair.public_key) == 56
    assert pair.seed[:2] == "S" + letter and len(pair.seed) == 58
    assert is_public(pair.public_key, kind)
    assert not is_public(pair.seed, kind)


def test_signatures_agree_with_the_python_nkeys_package() -> None:
    pair = KeyPair.create(KeyKind.USER)
    other = reference.from_seed(bytearray(pair.seed.encode()))
    assert other.public_key.decode() == pair.public_key
    signature = pair.sign(b"nonce")
    assert other.verify(b"nonce", signature)
    assert pair.verify(b"nonce", other.sign(b"nonce"))
    assert not pair.verify(b"other", signature)
    assert not PublicKey(KeyPair.create(KeyKind.USER).public_key).verify(b"nonce", signature)
    assert not pair.verify(b"nonce", b"short")


@pytest.mark.parametrize(
    "text", ["", "U", "not a key", ZERO_SEED[:-1] + "A", ZERO_PUBLIC.lower(), "é" * 56]
)
def test_what_is_not_a_key_is_refused(text: str) -> None:
    assert not is_public(text)
    with pytest.raises(InvalidKey):
        KeyPair.from_seed(text)


def test_a_wiped_key_does_not_sign_any_more() -> None:
    pair = KeyPair.create(KeyKind.USER)
    pair.wipe()
    with pytest.raises(InvalidKey):
        pair.sign(b"x")


def test_curve_keys_seal_and_open() -> None:
    here, there = KeyPair.create(KeyKind.CURVE), KeyPair.create(KeyKind.CURVE)
    box = here.seal(b"hello", there.public_key)
    assert there.open(box, here.public_key) == b"hello"
    with pytest.raises(InvalidKey):
        there.open(box[:-1] + b"?", here.public_key)


@given(st.binary(min_size=64, max_size=64))
def test_signatures_are_accepted_in_both_base64_alphabets(raw: bytes) -> None:
    import base64

    assert decode_signature(encode_signature(raw)) == raw
    assert decode_signature(base64.b64encode(raw).decode()) == raw


def test_a_signature_that_is_not_base64_is_refused() -> None:
    with pytest.raises(InvalidKey):
        decode_signature("%%%")
