"""Credentials files are read as nats-py and nsc write them."""

import pytest

from jetstream.security.creds import Creds, InvalidCreds, find_jwt, format_creds, parse_creds
from jetstream.security.nkeys import KeyKind, KeyPair

JWT = "eyJ0eXAiOiJKV1QifQ.eyJqdGkiOiJ4In0.c2ln"


def test_what_we_write_we_read_back() -> None:
    seed = KeyPair.create(KeyKind.USER).seed
    assert parse_creds(format_creds(JWT, seed)) == Creds(JWT, seed)


def test_windows_line_ends_and_missing_last_newline_do_not_matter() -> None:
    seed = KeyPair.create(KeyKind.USER).seed
    text = format_creds(JWT, seed).replace("\n", "\r\n").rstrip()
    assert parse_creds(text.encode()) == Creds(JWT, seed)


def test_a_file_with_only_a_token_is_a_jwt() -> None:
    assert find_jwt(JWT + "\n") == JWT
    assert find_jwt("hello world") is None


@pytest.mark.parametrize("text", ["", "-----BEGIN NATS USER JWT-----\nx\n------END------\n", JWT])
def test_incomplete_credentials_are_refused(text: str) -> None:
    with pytest.raises(InvalidCreds):
        parse_creds(text)


def test_repr_shows_no_secret() -> None:
    seed = KeyPair.create(KeyKind.USER).seed
    assert seed not in repr(Creds(JWT, seed))
