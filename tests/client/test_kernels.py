"""The compiled parts: frames from batches, acks, outgoing text."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.client._inbound import (
    AckRun,
    Frame,
    ack_list,
    dispatch,
    frames,
    in_order,
    total_size,
)
from jetstream.client._outbound import OutBuffer
from jetstream.schema.addresses import AckAddress, ack, parse_ack
from jetstream.wire._parser import Batch, Parser
from jetstream.wire.operations import Kind, Role

numbers = st.integers(0, 2**63 - 1)


def parsed(data: bytes) -> Batch:
    parser = Parser(Role.CLIENT)
    parser.feed(data)
    batch = parser.next_batch()
    assert batch is not None
    return batch


@given(st.tuples(numbers, numbers, numbers, numbers, numbers))
def test_the_numbers_of_a_delivery_are_read_as_the_readable_parser_does(
    given_numbers: tuple[int, int, int, int, int],
) -> None:
    address = AckAddress("S", "C", *given_numbers)
    frame = Frame(b"a", ack(address).encode())
    assert parse_ack(frame.reply) == address
    assert frame.is_delivery
    assert frame.ack_parts() == ("", "S", "C")
    read = (frame.deliveries, frame.seq, frame.consumer_seq, frame.time_ns, frame.pending)
    assert read == given_numbers


@pytest.mark.parametrize("tail", ["", ".random"])
def test_the_longer_form_with_domain_and_account(tail: str) -> None:
    frame = Frame(b"a", f"$JS.ACK.hub.HASH.S.C.1.2.3.4.5{tail}".encode())
    assert frame.ack_parts() == ("hub", "S", "C")
    assert (frame.deliveries, frame.seq, frame.consumer_seq, frame.pending) == (1, 2, 3, 5)
    assert Frame(b"a", b"$JS.ACK._.H.S.C.1.2.3.4.5").ack_parts() == ("", "S", "C")


@pytest.mark.parametrize(
    "reply", [b"", b"_INBOX.x", b"$JS.ACK.", b"$JS.ACK.S.C.1.2.3.4", b"$JS.ACK.S.C.1.2.3.4.x"]
)
def test_anything_else_is_no_delivery(reply: bytes) -> None:
    frame = Frame(b"a", reply)
    assert not frame.is_delivery
    assert frame.ack_parts() is None
    assert frame.seq == 0


def test_runs_of_one_subscription_come_together() -> None:
    batch = parsed(
        b"MSG a 1 1\r\nx\r\nMSG b 1 r 2\r\nyz\r\nPING\r\nHMSG c 2 12 13\r\nNATS/1.0\r\n\r\n!\r\n"
        b"MSG d 9 0\r\n\r\n+OK\r\n"
    )
    runs: list[tuple[int, int, int]] = []
    control: list[int] = []
    receivers = {
        1: lambda batch, start, stop: runs.append((1, start, stop)),
        2: lambda batch, start, stop: runs.append((2, start, stop)),
    }
    count, size = dispatch(batch, receivers, lambda kind, text: control.append(kind))
    assert runs == [(1, 0, 2), (2, 3, 4)]
    assert control == [Kind.PING, Kind.OK]
    assert (count, size) == (4, 16)
    made, statuses = frames(batch, 0, 2, Frame, None)
    assert [(f.subject, f.reply, f.data) for f in made] == [("a", "", b"x"), ("b", "r", b"yz")]
    assert statuses == 0
    assert total_size(made) == 6


def test_statuses_are_counted() -> None:
    block = b"NATS/1.0 408 Request Timeout\r\n\r\n"
    batch = parsed(b"HMSG a 1 %d %d\r\n%b\r\n" % (len(block), len(block), block))
    (frame,), statuses = frames(batch, 0, 1, Frame, None)
    assert (frame.status, statuses) == (408, 1)
    assert Frame(b"", b"", b"NATS/1.0\r\nA: b\r\n\r\n").status == 0


def test_order_is_checked_up_to_the_first_gap() -> None:
    made = [Frame(b"a", b"$JS.ACK.S.C.1.%d.%d.0.0" % (n, n)) for n in (1, 2, 3, 5)]
    assert in_order(made, 1) == 3
    assert in_order(made, 2) == 0
    assert in_order([], 7) == 0


def answers(*bodies: tuple[int, bytes]) -> Batch:
    return parsed(b"".join(b"MSG in.%d 1 %d\r\n%b\r\n" % (n, len(b), b) for n, b in bodies))


def test_bulk_acks_are_read_without_objects() -> None:
    run = AckRun(3)
    run.expect(4)
    odd = b'{"error":{"code":400,"err_code":1,"description":"x"},"stream":"S","seq":0}'
    batch = answers(
        (0, b'{"stream":"S","seq":18446744073709551614}'),
        (2, b'{"stream":"S","domain":"hub","seq":7}'),
        (1, odd),
        (9, b'{"stream":"S","seq":1}'),
    )
    run.receive(batch, 0, 4)
    run.receive(batch, 0, 4)
    assert (run.sent, run.answered, run.outstanding) == (4, 3, 1)
    assert run.odd == [(1, b"", odd)]
    assert run.missing() == [3]
    assert list(run.sequences()) == [2**64 - 2, 0, 7, 0]
    assert ack_list(batch, 1, 2, 3) == [(2, b"", b'{"stream":"S","domain":"hub","seq":7}')]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"stream":"S","seq":}',
        b'{"stream":"S","seq":1,"duplicate": true}',
        b'{"stream":"S","batch":"b","count":2}',
        b"+OK",
    ],
)
def test_what_is_not_plain_is_left_to_python(body: bytes) -> None:
    run = AckRun(3)
    run.expect(1)
    run.receive(answers((0, body)), 0, 1)
    assert run.odd == [(0, b"", body)]


def test_a_waiter_is_woken_when_few_are_left() -> None:
    async def wait() -> None:
        run = AckRun(3)
        run.expect(3)
        run.wake_at = 1
        run.waiter = asyncio.get_running_loop().create_future()
        waiter = run.waiter
        run.receive(answers((0, b'{"stream":"S","seq":1}')), 0, 1)
        assert not waiter.done()
        run.receive(answers((1, b'{"stream":"S","seq":2}')), 0, 1)
        assert waiter.done()

    asyncio.run(wait())


def test_outgoing_text() -> None:
    out = OutBuffer()
    out.pub("a.b", None, None, b"x")
    out.pub(b"a", "r", b"NATS/1.0\r\n\r\n", "ü")
    out.numbered("a", b"in.", 7, None, bytearray(b"z"))
    out.raw(b"PING\r\n")
    assert out.messages == 3
    assert out.take() == (
        b"PUB a.b 1\r\nx\r\nHPUB a r 12 14\r\nNATS/1.0\r\n\r\n\xc3\xbc\r\n"
        b"PUB a in.7 1\r\nz\r\nPING\r\n"
    )
    assert out.take() == b""


def test_a_refused_message_leaves_nothing_behind() -> None:
    out = OutBuffer()
    out.pub("ok", None, None, b"")
    before = out.size
    for subject in ("", "a b", "a\r\n", "a\tb"):
        with pytest.raises(ValueError, match="invalid subject"):
            out.pub(subject, None, None, b"")
        with pytest.raises(ValueError, match="invalid subject"):
            out.many([("ok", None, b""), (subject, None, b"")], b"in.", 0)
    with pytest.raises(TypeError):
        out.pub("a", None, None, 5)  # type: ignore[arg-type]
    assert (out.size, out.messages) == (before, 1)


@given(st.lists(st.tuples(st.sampled_from(["a", "b.c"]), st.binary(max_size=50)), max_size=30))
def test_a_server_reads_what_we_write(messages: list[tuple[str, bytes]]) -> None:
    out = OutBuffer()
    out.many([(subject, None, data) for subject, data in messages], b"in.", 0)
    parser = Parser(Role.SERVER)
    parser.feed(out.take())
    read = []
    while (batch := parser.next_batch()) is not None:
        read += [(batch.subject(i).decode(), batch.payload(i)) for i in range(len(batch))]
    assert read == messages


def test_acks_of_a_batch_in_one_go() -> None:
    out = OutBuffer()
    made = [Frame(b"a", b"r%d" % n) for n in range(3)] + [Frame(b"a")]
    assert out.acks(made, b"+ACK") == 3
    assert out.take() == b"".join(b"PUB r%d 4\r\n+ACK\r\n" % n for n in range(3))
