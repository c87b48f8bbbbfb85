"""The ack kernel says the same as the readable description."""

from hypothesis import given
from hypothesis import strategies as st

from jetstream.consumer.acks import parse_ack
from jetstream.engine._acks import parse_acks
from jetstream.wire._parser import Batch

names = st.text("abcXYZ_-09", min_size=1, max_size=8)
numbers = st.integers(0, 2**63)
bodies = st.sampled_from(
    [
        b"",
        b"+ACK",
        b"+OK",
        b"-NAK",
        b'-NAK {"delay": 5}',
        b"+WPI",
        b"+NXT 3",
        b"+TERM why not",
        b"zzz",
    ]
)
plain = st.tuples(names, names, numbers, numbers, numbers).map(
    lambda t: f"$JS.ACK.{t[0]}.{t[1]}.{t[2]}.{t[3]}.{t[4]}.1700000000000000000.7".encode()
)
odd = st.sampled_from(
    [
        b"$JS.ACK.a.b",
        b"$JS.ACK.a.b.x.1.2.3.4",
        b"$JS.ACK._.hash.s.c.1.2.3.4.5",
        b"$JS.ACK.a.b.1.2.3.4.5.6",
    ]
)


@given(st.lists(st.tuples(plain | odd, bodies, st.sampled_from([b"", b"_INBOX.x"])), max_size=30))
def test_a_run_of_acks_is_parsed_as_described(acks: list[tuple[bytes, bytes, bytes]]) -> None:
    batch = Batch.of([(subject, reply, b"", body) for subject, body, reply in acks])
    runs, left = parse_acks(batch, 0, len(acks))
    seen = []
    for stream, consumer, run in runs:
        for i in range(len(run)):
            seen.append(
                (
                    stream,
                    consumer,
                    run.kinds[i],
                    run.stream_seqs[i],
                    run.consumer_seqs[i],
                    run.deliveries[i],
                    run.bodies.get(i, b"") if run.kinds[i] in (1, 3, 4) else b"",
                    run.replies.get(i, b""),
                )
            )
    expected = []
    for i, (subject, body, reply) in enumerate(acks):
        ack = parse_ack(subject, body)
        if i in left:
            assert ack is None or ack.account_hash
            continue
        assert ack is not None
        argument = ack.argument if ack.kind in (1, 3, 4) else b""
        expected.append(
            (
                ack.stream,
                ack.consumer,
                ack.kind,
                ack.stream_seq,
                ack.consumer_seq,
                ack.deliveries,
                argument,
                reply,
            )
        )
    assert seen == expected
