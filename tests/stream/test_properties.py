"""How messages are cut into batches does not matter: kernels and one-by-one rules agree."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jetstream.stream.stream import Stream
from jetstream.stream.values import Answered, Stored
from jetstream.wire._parser import Batch

from .builders import NOW, Message, a_stream, block

subjects = st.sampled_from(["a.1", "a.2", "a.3"])
some_headers = st.fixed_dictionaries(
    {},
    optional={
        "Nats-Msg-Id": st.sampled_from(["", "x", "y", "z"]),
        "Nats-Expected-Last-Subject-Sequence": st.sampled_from(["0", "1", "2", "3", "", "no"]),
        "Nats-Expected-Last-Sequence": st.sampled_from(["0", "1", "5"]),
        "Nats-Rollup": st.sampled_from(["sub", "all", "no"]),
        "Nats-Expected-Last-Msg-Id": st.sampled_from(["x", "y"]),
        "X": st.just("y"),
    },
)
messages = st.lists(
    st.builds(
        lambda subject, headers, size: (subject.encode(), b"r", block(headers), b"x" * size),
        subjects,
        some_headers,
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=40,
)
configs = st.fixed_dictionaries(
    {},
    optional={
        "max_msgs": st.integers(1, 6),
        "max_bytes": st.integers(40, 400),
        "max_msgs_per_subject": st.integers(1, 3),
        "discard": st.sampled_from(["old", "new"]),
        "max_msg_size": st.integers(5, 120),
        "allow_rollup_hdrs": st.booleans(),
    },
)


def answers(stream: Stream, batch: list[Message], size: int) -> list[Any]:
    """One answer per message, in order, whatever the cut."""
    told: list[Any] = []
    for at in range(0, len(batch), size):
        run = batch[at : at + size]
        for outcome in stream.publish(Batch.of(run), 0, len(run), NOW):
            if isinstance(outcome, Stored):
                told += range(outcome.first_seq, outcome.first_seq + outcome.stop - outcome.start)
            else:
                assert isinstance(outcome, Answered)
                told.append(outcome.ack)
    return told


def contents(stream: Stream) -> list[tuple[int, bytes, bytes, bytes]]:
    found = [stream.store.get(seq) for seq in stream.store.next_seqs(1, 1000)]
    return [(m.seq, m.subject, m.headers, m.payload) for m in found if m is not None]


@settings(max_examples=150, deadline=None)
@given(config=configs, batch=messages, size=st.integers(2, 40))
def test_a_batch_is_answered_like_its_messages(
    config: dict[str, Any], batch: list[Message], size: int
) -> None:
    one_by_one, together = a_stream(**config), a_stream(**config)
    assert answers(one_by_one, batch, 1) == answers(together, batch, size)
    assert contents(one_by_one) == contents(together)
    assert one_by_one.state() == together.state()
    assert one_by_one.last_msg_id == together.last_msg_id
    gone_apart = sorted(one_by_one.take_effects().evicted)
    gone_together = sorted(together.take_effects().evicted)
    if "allow_rollup_hdrs" not in config:
        assert gone_apart == gone_together
