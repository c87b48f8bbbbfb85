"""What a mirror or source makes of a message, and how it finds its place again."""

from jetstream.schema.stream import ExternalStream, StreamSource, SubjectTransform
from jetstream.stream.sources import Takeover


def test_the_origin_is_noted_and_found_again() -> None:
    takeover = Takeover(StreamSource("O", filter_subject="o.1"))
    block = takeover.sourced_headers(b"NATS/1.0\r\nA: b\r\n\r\n", 7, b"o.1", "identity")
    assert block == b"NATS/1.0\r\nA: b\r\nNats-Stream-Source: O 7 o.1 > o.1 identity\r\n\r\n"
    assert takeover.position_in(block) == 7
    assert Takeover(StreamSource("O")).position_in(block) == 0
    assert Takeover(StreamSource("P", filter_subject="o.1")).position_in(block) == 0
    assert takeover.position_in(b"") == 0


def test_the_first_matching_transform_names_the_message() -> None:
    changes = [SubjectTransform("o.*", "x.$1"), SubjectTransform("p", "")]
    takeover = Takeover(StreamSource("O", subject_transforms=changes))
    assert [takeover.subject(s) for s in (b"o.a", b"p", b"z")] == [b"x.a", b"p", b"z"]
    assert takeover.filters == [b"o.*", b"p"]
    assert b" O 1 o.*\x0cp x.$1\x0c> o.a id\r\n" in takeover.sourced_headers(b"", 1, b"o.a", "id")


def test_orders_meant_for_the_origin_are_not_passed_on() -> None:
    block = b"NATS/1.0\r\nNats-Expected-Stream: O\r\nNats-Batch-Id: b\r\nNats-TTL: 5\r\n\r\n"
    assert Takeover.mirrored_headers(block) == b"NATS/1.0\r\nNats-TTL: 5\r\n\r\n"
    plain = b"NATS/1.0\r\nA: b\r\n\r\n"
    assert Takeover.mirrored_headers(plain) is plain


def test_a_foreign_prefix_shows_as_a_hash() -> None:
    takeover = Takeover(StreamSource("O", external=ExternalStream("fromA", "d")))
    assert b"Nats-Stream-Source: O:C1gRFOq3 1 " in takeover.sourced_headers(b"", 1, b"s", "id")
