"""Tokens: what is believed and what is not; the real server believes what we sign."""

import base64

import msgspec
import pytest

from jetstream.security.jwt import (
    AccountClaims,
    GenericClaims,
    InvalidToken,
    OperatorClaims,
    UserClaims,
    decode,
    encode,
)
from jetstream.security.nkeys import KeyKind, KeyPair

ACCOUNT = KeyPair.create(KeyKind.ACCOUNT)
USER = KeyPair.create(KeyKind.USER)


def a_token() -> str:
    return encode(UserClaims(sub=USER.public_key, name="joe"), ACCOUNT, 5)


def test_claims_round_trip() -> None:
    claims = decode(a_token(), UserClaims)
    assert (claims.iss, claims.sub, claims.name, claims.iat) == (
        ACCOUNT.public_key,
        USER.public_key,
        "joe",
        5,
    )


def test_a_token_says_what_it_is() -> None:
    body = a_token().split(".")[1]
    said = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert said["nats"]["type"] == "user" and said["nats"]["version"] == 2
    assert len(said["jti"]) == 52


def test_a_token_is_not_taken_for_another_kind() -> None:
    for kind in (AccountClaims, OperatorClaims):
        with pytest.raises(InvalidToken):
            decode(a_token(), kind)
    operator = KeyPair.create(KeyKind.OPERATOR)
    forged = encode(UserClaims(sub=USER.public_key), operator, 5)
    with pytest.raises(InvalidToken, match="issuer"):
        decode(forged, UserClaims)


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_changed_token_is_not_believed(part: int) -> None:
    chunks = a_token().split(".")
    middle = len(chunks[part]) // 2
    changed = "A" if chunks[part][middle] != "A" else "B"
    chunks[part] = chunks[part][:middle] + changed + chunks[part][middle + 1 :]
    with pytest.raises(InvalidToken):
        decode(".".join(chunks), UserClaims)


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "é.é.é", "e30.e30.e30"])
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken):
        decode(text, UserClaims)


def test_tokens_without_a_signature_are_refused() -> None:
    def pack(value: object) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()

    body = pack({"iss": ACCOUNT.public_key, "sub": USER.public_key, "nats": {"type": "user"}})
    with pytest.raises(InvalidToken, match="algorithm"):
        decode(f"{pack({'typ': 'JWT', 'alg': 'none'})}.{body}.", UserClaims)


def test_other_kinds_of_tokens_can_be_read() -> None:
    server = KeyPair.create(KeyKind.SERVER)
    claims = GenericClaims(sub=USER.public_key, nats={"type": "authorization_request"})
    assert decode(encode(claims, server, 1), GenericClaims).nats["type"] == "authorization_request"


def a_v1_token(signer: KeyPair, said: dict[str, object], sign_all: bool = False) -> str:
    def pack(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head = pack(b'{"typ":"jwt","alg":"ed25519"}')
    body = pack(msgspec.json.encode({"iss": signer.public_key, **said}))
    signed = f"{head}.{body}" if sign_all else body
    return f"{head}.{body}.{pack(signer.sign(signed.encode()))}"


def test_tokens_of_the_first_version_are_read() -> None:
    said: dict[str, object] = {"sub": USER.public_key, "type": "user", "name": "old"}
    said |= {"nats": {"pub": {"deny": ["x"]}, "sub": {}}, "issuer_account": ACCOUNT.public_key}
    claims = decode(a_v1_token(ACCOUNT, said), UserClaims)
    assert (claims.name, claims.nats.pub.deny) == ("old", ["x"])
    assert (claims.nats.subs, claims.nats.payload, claims.nats.data) == (-1, -1, -1)
    assert claims.nats.issuer_account == ACCOUNT.public_key
    with pytest.raises(InvalidToken):
        decode(a_v1_token(ACCOUNT, said, sign_all=True), UserClaims)
    with pytest.raises(InvalidToken):
        decode(a_v1_token(ACCOUNT, said), AccountClaims)


def test_a_token_of_the_second_version_does_not_pass_with_the_weaker_signature() -> None:
    said: dict[str, object] = {"sub": USER.public_key, "nats": {"type": "user", "version": 2}}
    with pytest.raises(InvalidToken):
        decode(a_v1_token(ACCOUNT, said), UserClaims)
    said["type"] = "user"
    with pytest.raises(InvalidToken):
        decode(a_v1_token(ACCOUNT, said), UserClaims)
