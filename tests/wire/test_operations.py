"""CONNECT is read as the reference reads it."""

import pytest

from jetstream.errors import ProtocolError
from jetstream.wire.operations import UNSAID, read_connect


def test_what_is_not_said_stays_as_it_was() -> None:
    assert read_connect(b"{}") == UNSAID
    assert read_connect(b"null") == UNSAID
    first = read_connect(b'{"verbose":false,"user":"a","pass":"b"}')
    second = read_connect(b'{"pedantic":false}', first)
    assert (second.verbose, second.pedantic, second.user, second.password) == (
        False, False, "a", "b",
    )  # fmt: skip


def test_names_are_taken_in_any_case_and_unknown_ones_ignored() -> None:
    said = read_connect(b'{"VERBOSE":false,"Echo":false,"nonsense":[1],"protocol":1,"name":null}')
    assert (said.verbose, said.echo, said.protocol, said.name) == (False, False, 1, None)


def test_bad_text_in_a_name_is_replaced() -> None:
    assert read_connect(b'{"name":"a\xff"}').name == "a\ufffd"


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"1", b"{", b'{"verbose":1}', b'{"protocol":1.0}', b'{"user":5}'],
)  # fmt: skip
def test_anything_else_is_not_understood(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_connect(text)
