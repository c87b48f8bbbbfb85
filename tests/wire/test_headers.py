"""The header block: written, read, looked up and changed."""

from hypothesis import given
from hypothesis import strategies as st

from jetstream.wire.headers import (
    Headers,
    encode_headers,
    get_header,
    with_header,
    without_headers,
)

names = st.text("ABCDEFabcdef-0123456789", min_size=1, max_size=10)
values = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12).map(
    str.strip
)
fields = st.dictionaries(names, st.lists(values, min_size=1, max_size=3), max_size=5)


@given(fields=fields)
def test_what_is_written_is_read_again(fields: dict[str, list[str]]) -> None:
    block = encode_headers(fields)
    assert block.startswith(b"NATS/1.0\r\n")
    assert block.endswith(b"\r\n\r\n")
    read = Headers.parse(block)
    assert dict(read.items()) == fields
    assert read.encode() == block


@given(fields=fields, name=names, value=values)
def test_a_header_is_added_and_removed(fields: dict[str, list[str]], name: str, value: str) -> None:
    fields.pop(name, None)
    block = encode_headers(fields)
    more = with_header(block, name.encode(), value.encode())
    assert get_header(more, name.encode()) == value.encode()
    back = without_headers(more, name.encode() + b":")
    assert back == (block if fields else b"")


def test_the_first_line_may_carry_a_status() -> None:
    block = encode_headers({"A": "b"}, status=503, description="No Responders")
    assert block == b"NATS/1.0 503 No Responders\r\nA: b\r\n\r\n"
    read = Headers.parse(block)
    assert (read.status, read.description, read.get("A")) == (503, "No Responders", "b")


def test_names_are_compared_as_they_are_and_the_first_one_counts() -> None:
    block = b"NATS/1.0\r\nkey: 1\r\nKey:   2\r\nKey: 3\r\n\r\n"
    assert get_header(block, b"Key") == b"2"
    assert get_header(block, b"KEY") is None
    read = Headers.parse(block)
    assert read.get_all("Key") == ["2", "3"]
    assert read.get_any_case("KEY") == "1"


def test_a_value_without_an_end_is_not_there() -> None:
    assert get_header(b"NATS/1.0\r\nKey: 1", b"Key") is None
    assert get_header(b"", b"Key") is None


def test_an_empty_block_gets_its_first_line() -> None:
    assert with_header(b"", b"A", b"b") == b"NATS/1.0\r\nA: b\r\n\r\n"
