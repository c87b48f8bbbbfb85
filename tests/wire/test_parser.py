"""Both parsers say the same, whatever arrives and however it is cut."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.wire import _parser, parser
from jetstream.wire.operations import Fault, Kind, Role

AnyParser = _parser.Parser | parser.Parser
Said = tuple[int, bytes, bytes, bytes, bytes, int]
TWINS: list[type[_parser.Parser] | type[parser.Parser]] = [_parser.Parser, parser.Parser]

words = st.binary(min_size=1, max_size=8).filter(lambda b: not set(b) & set(b" \t\r\n"))
payloads = st.one_of(st.binary(max_size=40), st.just(b"\r\n"), st.just(b"PING\r\n"))
blanks = st.sampled_from([b" ", b"\t", b"  ", b" \t "])
ends = st.sampled_from([b"\r\n", b"\n"])


def any_case(word: bytes) -> st.SearchStrategy[bytes]:
    return st.lists(st.booleans(), min_size=len(word), max_size=len(word)).map(
        lambda up: b"".join(
            bytes([byte]).upper() if big else bytes([byte]).lower()
            for byte, big in zip(word, up, strict=True)
        )
    )


@st.composite
def from_clients(draw: st.DrawFn) -> tuple[bytes, Said | None]:
    """An operation as bytes, and what a parser should make of it."""
    kind = draw(st.sampled_from([b"PUB", b"HPUB", b"SUB", b"UNSUB", b"PING", b"PONG", b"+OK"]))
    op, blank, end = draw(any_case(kind)), draw(blanks), draw(ends)
    subject, reply, payload = draw(words), draw(st.one_of(st.just(b""), words)), draw(payloads)
    middle = [reply] if reply else []
    if kind == b"PUB":
        line = blank.join([op, subject, *middle, b"%d" % len(payload)]) + end
        return line + payload + b"\r\n", (Kind.PUB, subject, reply, b"", payload, 0)
    if kind == b"HPUB":
        headers = draw(payloads)
        sizes = [b"%d" % len(headers), b"%d" % (len(headers) + len(payload))]
        line = blank.join([op, subject, *middle, *sizes]) + end
        return line + headers + payload + b"\r\n", (Kind.HPUB, subject, reply, headers, payload, 0)
    if kind == b"SUB":
        line = blank.join([op, subject, *middle, b"77"]) + end
        return line, (Kind.SUB, subject, reply, b"", b"77", 0)
    if kind == b"UNSUB":
        limit = draw(st.integers(0, 10**9 - 1))
        return blank.join([op, subject, b"%d" % limit]) + end, (
            Kind.UNSUB, b"", b"", b"", subject, limit,
        )  # fmt: skip
    if kind == b"+OK":
        return op + end, None
    return op + end, (Kind.PING if kind == b"PING" else Kind.PONG, b"", b"", b"", b"", 0)


@st.composite
def from_servers(draw: st.DrawFn) -> tuple[bytes, Said]:
    subject, reply, payload = draw(words), draw(st.one_of(st.just(b""), words)), draw(payloads)
    headers = draw(st.one_of(st.just(b""), st.just(b"NATS/1.0\r\nA: b\r\n\r\n")))
    sid = draw(st.integers(0, 10**12))
    middle = [reply] if reply else []
    total = b"%d" % (len(headers) + len(payload))
    sizes = [b"%d" % len(headers), total] if headers else [total]
    op = b"HMSG" if headers else b"MSG"
    line = b" ".join([op, subject, b"%d" % sid, *middle, *sizes]) + b"\r\n"
    kind = Kind.HMSG if headers else Kind.MSG
    return line + headers + payload + b"\r\n", (kind, subject, reply, headers, payload, sid)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def read_all(reader: AnyParser, data: Sequence[bytes], whole: bool = False) -> list[Said]:
    said: list[Said] = []
    for piece in data:
        if whole and isinstance(reader, _parser.Parser):
            at = 0
            while at < len(piece):
                room = memoryview(reader.get_buffer())
                n = min(len(room), len(piece) - at)
                room[:n] = piece[at : at + n]
                reader.received(n)
                at += n
                said += drain(reader)
        else:
            reader.feed(piece)
            said += drain(reader)
    return said


def drain(reader: AnyParser) -> list[Said]:
    said: list[Said] = []
    while (batch := reader.next_batch()) is not None:
        for i in range(len(batch)):
            said.append(
                (
                    batch.kind(i),
                    batch.subject(i),
                    batch.reply(i),
                    batch.headers(i),
                    batch.payload(i),
                    batch.sid(i),
                )
            )
    return said


def a_parser(make: type[_parser.Parser] | type[parser.Parser], role: int = 0) -> AnyParser:
    reader = make(role)
    reader.headers_agreed = True
    return reader


@pytest.mark.parametrize("make", TWINS)
@pytest.mark.parametrize("whole", [False, True])
@given(ops=st.lists(from_clients(), max_size=12), cuts=st.lists(st.integers(0, 2000), max_size=10))
def test_where_the_bytes_are_cut_does_not_matter(
    make: type[_parser.Parser] | type[parser.Parser],
    whole: bool,
    ops: list[tuple[bytes, Said | None]],
    cuts: list[int],
) -> None:
    reader = a_parser(make)
    data = b"".join(raw for raw, _ in ops)
    expected = [said for _, said in ops if said is not None]
    assert read_all(reader, pieces(data, cuts), whole) == expected
    assert reader.fault == Fault.NONE
    assert reader.unparsed == 0


@pytest.mark.parametrize("make", TWINS)
@given(ops=st.lists(from_servers(), max_size=12), cuts=st.lists(st.integers(0, 2000), max_size=10))
def test_a_client_reads_messages_however_they_are_cut(
    make: type[_parser.Parser] | type[parser.Parser],
    ops: list[tuple[bytes, Said]],
    cuts: list[int],
) -> None:
    reader = a_parser(make, Role.CLIENT)
    data = b"".join(raw for raw, _ in ops)
    assert read_all(reader, pieces(data, cuts)) == [said for _, said in ops]
    assert reader.fault == Fault.NONE


nonsense = st.one_of(
    st.binary(max_size=60),
    st.text("PUBSHCONET+-OKR \t\r\n0123456789ab.*>", max_size=60).map(str.encode),
    st.tuples(
        st.sampled_from(b"PUB |HPUB |SUB |UNSUB |CONNECT |INFO|-ERR |MSG ".split(b"|")),
        st.text("ab 0123456789-\t\r\n", max_size=30).map(str.encode),
    ).map(b"".join),
)  # fmt: skip


@pytest.mark.parametrize("role", [Role.SERVER, Role.CLIENT])
@given(
    parts=st.lists(st.one_of(nonsense, from_clients().map(lambda op: op[0])), max_size=8),
    cuts=st.lists(st.integers(0, 500), max_size=6),
    agreed=st.booleans(),
)
def test_garbage_never_crashes_and_both_parsers_see_the_same_in_it(
    role: Role, parts: list[bytes], cuts: list[int], agreed: bool
) -> None:
    seen = []
    for make in TWINS:
        reader = a_parser(make, role)
        reader.headers_agreed = agreed
        said = read_all(reader, pieces(b"".join(parts), cuts))
        seen.append((said, reader.fault))
    assert seen[0] == seen[1]


@given(
    data=st.one_of(
        nonsense, st.just(b"PUB a 3\r\nabc\r\nSUB b 1\r\nPING\r\nHPUB a 2 4\r\nhhpp\r\n")
    ),
    cuts=st.lists(st.integers(0, 500), max_size=6),
)
def test_a_fault_is_the_same_wherever_the_bytes_were_cut(data: bytes, cuts: list[int]) -> None:
    at_once, in_pieces = a_parser(_parser.Parser), a_parser(_parser.Parser)
    assert read_all(at_once, [data]) == read_all(in_pieces, pieces(data, cuts))
    # A line without its end may be refused early or late; once refused it stays refused.
    assert at_once.fault == in_pieces.fault


@pytest.mark.parametrize("make", TWINS)
def test_a_message_larger_than_the_receive_buffer_arrives_whole(
    make: type[_parser.Parser] | type[parser.Parser],
) -> None:
    reader = a_parser(make)
    payload = bytes(range(256)) * 4096
    data = b"PUB big 1048576\r\n" + payload + b"\r\nPING\r\n"
    said = read_all(reader, [data[i : i + 70_000] for i in range(0, len(data), 70_000)], whole=True)
    assert [one[0] for one in said] == [Kind.PUB, Kind.PING]
    assert said[0][4] == payload


@pytest.mark.parametrize("make", TWINS)
@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"HELLO\r\n", Fault.UNKNOWN_OPERATION),
        (b"X", Fault.UNKNOWN_OPERATION),
        (b"PUB a 2\r\nhi\n", Fault.UNKNOWN_OPERATION),
        (b"PUB a 1048577\r\n", Fault.PAYLOAD),
        (b"PUB a x\r\n", Fault.ARGUMENTS),
        (b"PUB a\r\n", Fault.ARGUMENTS),
        (b"PUB a b c 1\r\n", Fault.ARGUMENTS),
        (b"SUB a\r\n", Fault.ARGUMENTS),
        (b"HPUB a 5 2\r\n", Fault.ARGUMENTS),
        (b"PUB " + b"a" * 5000, Fault.CONTROL_LINE),
        (b"SUB " + b"a" * 5000 + b" 1\r\n", Fault.CONTROL_LINE),
    ],
)
def test_what_breaks_the_protocol_is_named(
    make: type[_parser.Parser] | type[parser.Parser], data: bytes, fault: Fault
) -> None:
    reader = a_parser(make)
    assert read_all(reader, [b"PING\r\n" + data]) == [(Kind.PING, b"", b"", b"", b"", 0)]
    assert reader.fault == fault


@pytest.mark.parametrize("make", TWINS)
def test_headers_have_to_be_agreed_on(
    make: type[_parser.Parser] | type[parser.Parser],
) -> None:
    reader = make(Role.SERVER)
    assert read_all(reader, [b"HPUB a 2 2\r\nhi\r\n"]) == []
    assert reader.fault == Fault.HEADERS


@pytest.mark.parametrize("make", TWINS)
def test_connect_ends_a_batch(make: type[_parser.Parser] | type[parser.Parser]) -> None:
    reader = make(Role.SERVER)
    reader.feed(b"CONNECT {}\r\nPING\r\n")
    first = reader.next_batch()
    assert first is not None
    assert len(first) == 1
    assert first.payload(0) == b"{}"
    second = reader.next_batch()
    assert second is not None
    assert second.kind(0) == Kind.PING


def test_a_batch_made_by_hand_reads_like_a_parsed_one() -> None:
    messages = [(b"a", b"r", b"NATS/1.0\r\n\r\n", b"x"), (b"b.c", b"", b"", b"")]
    for make in (_parser.Batch, parser.Batch):
        batch = make.of(messages)
        assert [
            (batch.subject(i), batch.reply(i), batch.headers(i), batch.payload(i)) for i in range(2)
        ] == messages
        assert batch.kind(0) == Kind.HPUB
        assert batch.size(0) == 13
        assert batch.header_size(0) == 12


def test_a_server_has_to_put_a_blank_behind_info() -> None:
    for make in TWINS:
        reader = a_parser(make, Role.CLIENT)
        assert read_all(reader, [b"INFO\x00"]) == []
        assert reader.fault == Fault.UNKNOWN_OPERATION
