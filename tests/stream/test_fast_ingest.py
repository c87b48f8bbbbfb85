"""Fast ingest: few acks, gaps told; runs taken in one go are answered as one by one."""

from .builders import NOW, SECOND, Message, a_stream, message, publish


def step(batch: str, seq: int, op: int, flow: int = 3, mode: str = "fail") -> Message:
    return message("a.1", reply=f"in.{batch}.{flow}.{mode}.{seq}.{op}.$FI")


def test_acks_come_every_so_often_and_the_commit_tells_the_end() -> None:
    stream = a_stream(allow_batched=True)
    steps = [step("b", 1, 0), *[step("b", seq, 1) for seq in range(2, 8)], step("b", 8, 2)]
    together = publish(stream, *steps)
    other = a_stream(allow_batched=True)
    one_by_one = [answer for s in steps for answer in publish(other, s)]
    assert together == one_by_one
    assert together == [
        {"type": "ack", "seq": 0, "msgs": 3},
        {"type": "ack", "seq": 3, "msgs": 3},
        {"type": "ack", "seq": 6, "msgs": 3},
        {"stream": "S", "seq": 8, "batch": "b", "count": 8},
    ]
    assert stream.state().messages == 8


def test_a_gap_ends_a_strict_batch_and_is_told_in_a_tolerant_one() -> None:
    stream = a_stream(allow_batched=True)
    answers = publish(stream, step("s", 1, 0), step("s", 4, 1), step("s", 5, 1))
    assert answers[1] == {"type": "gap", "last_seq": 2, "seq": 4}
    assert answers[2] == {"stream": "S", "seq": 1, "batch": "s", "count": 1}
    assert answers[3]["error"]["err_code"] == 10208
    tolerant = publish(
        stream,
        step("t", 1, 0, 10, "ok"),
        step("t", 4, 1, 10, "ok"),
        step("t", 5, 2, 10, "ok"),
    )
    assert [a.get("type") for a in tolerant] == ["ack", "gap", None]
    assert tolerant[-1]["count"] == 5


def test_runs_of_two_batches_may_be_mixed_with_ordinary_messages() -> None:
    stream = a_stream(allow_batched=True)
    answers = publish(
        stream,
        step("x", 1, 0, 100),
        step("x", 2, 1, 100),
        message("a.2"),
        step("y", 1, 0, 100),
        step("x", 3, 1, 100),
        step("x", 4, 3, 100),
    )
    assert answers[1] == 3
    assert answers[-1] == {"stream": "S", "seq": 5, "batch": "x", "count": 3}


def test_an_idle_batch_is_forgotten() -> None:
    stream = a_stream(allow_batched=True)
    publish(stream, step("b", 1, 0))
    assert stream.next_deadline() == NOW + 10 * SECOND
    stream.expire(NOW + 10 * SECOND)
    (answer,) = publish(stream, step("b", 2, 1))
    assert answer["error"]["err_code"] == 10208


def test_a_stream_without_fast_ingest_says_so() -> None:
    (answer,) = publish(a_stream(), step("b", 1, 0))
    assert answer["error"]["err_code"] == 10205
