"""Requests are read as the reference reads them: case, null, unknown fields, enum texts."""

import pytest

from jetstream.errors import ApiError
from jetstream.schema.decoding import decode
from jetstream.schema.requests import StreamConfigRequest
from jetstream.schema.stream import StreamSource


def refused(payload: bytes) -> str:
    with pytest.raises(ApiError) as caught:
        decode(payload, StreamConfigRequest)
    assert caught.value.err_code == 10025
    return caught.value.description


def test_names_match_in_any_case_and_null_is_absent() -> None:
    config = decode(
        b'{"NAME":"T","Sources":[{"Name":"A","filter_subject":null}],"mirror":null}',
        StreamConfigRequest,
    )
    assert config.name == "T"
    assert config.sources == [StreamSource(name="A")]
    assert config.mirror is None


def test_an_unknown_field_is_refused_also_in_nested_objects() -> None:
    assert refused(b'{"bogus":1}') == 'invalid JSON: json: unknown field "bogus"'
    assert refused(b'{"sources":[{"x":1}]}') == 'invalid JSON: json: unknown field "x"'
    assert decode(b'{"bogus":1}', StreamConfigRequest, strict=False).name == ""


def test_a_wrong_enum_value_is_quoted_back() -> None:
    assert refused(b'{"retention":"x"}') == 'invalid JSON: can not unmarshal "\\"x\\""'
    assert refused(b'{"compression":"x"}') == "invalid JSON: unknown compression algorithm"
    assert decode(b'{"discard":"NEW"}', StreamConfigRequest).discard == "new"


def test_wrong_types_and_broken_text_are_named() -> None:
    assert "cannot unmarshal number into Go struct field" in refused(b'{"name":1}')
    assert "cannot unmarshal number 1.5" in refused(b'{"max_msgs":1.5}')
    assert refused(b'{"name":"T"') == "invalid JSON: unexpected EOF"
    assert refused(b"x").startswith("invalid JSON: invalid character 'x'")
    assert "cannot unmarshal array" in refused(b"[]")
