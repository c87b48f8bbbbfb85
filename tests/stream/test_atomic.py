"""Atomic batches: everything or nothing, checked as a whole at the commit."""

import json

from jetstream.stream.stream import Stream

from .builders import NOW, SECOND, Message, a_stream, message, one, publish


def part(batch: str, seq: int, subject: str = "a.1", **headers: str) -> Message:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return message(subject, {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(seq)} | named)


def commit(batch: str, seq: int, subject: str = "a.1", **headers: str) -> Message:
    return part(batch, seq, subject, **{"Nats_Batch_Commit": "1"} | headers)


def code(answer: object) -> object:
    return answer["error"]["err_code"] if isinstance(answer, dict) and "error" in answer else answer


def test_nothing_is_visible_before_the_commit() -> None:
    stream = a_stream(allow_atomic=True)
    assert publish(stream, part("b", 1), part("b", 2, "a.2")) == [b"", b""]
    assert stream.state().messages == 0
    (done,) = publish(stream, commit("b", 3))
    assert done == {"stream": "S", "seq": 3, "batch": "b", "count": 3}
    assert stream.state().messages == 3


def test_eob_commits_what_came_before_it() -> None:
    stream = a_stream(allow_atomic=True)
    publish(stream, part("b", 1))
    (done,) = publish(stream, part("b", 2, Nats_Batch_Commit="eob"))
    assert (done["seq"], done["count"]) == (1, 1)
    stored = stream.store.get(1)
    assert stored is not None and b"Nats-Batch-Commit: 1" in stored.headers


def test_a_failed_check_keeps_the_whole_batch_out() -> None:
    stream = a_stream(allow_atomic=True)
    publish(stream, part("b", 1))
    (refused,) = publish(stream, commit("b", 2, Nats_Expected_Last_Sequence="7"))
    assert code(refused) == 10071
    assert stream.state().messages == 0
    (later,) = publish(stream, part("b", 3))
    assert code(later) == 10176


def test_an_expectation_may_not_ask_about_the_batch_itself() -> None:
    stream = a_stream(allow_atomic=True)
    publish(stream, part("b", 1))
    (refused,) = publish(stream, commit("b", 2, Nats_Expected_Last_Subject_Sequence="0"))
    assert code(refused) == 10164


def test_ids_must_be_new_inside_and_outside() -> None:
    stream = a_stream(allow_atomic=True)
    assert one(stream, headers={"Nats-Msg-Id": "x"}) == 1
    publish(stream, part("b", 1, Nats_Msg_Id="x"))
    assert code(publish(stream, commit("b", 2))[0]) == 10201
    publish(stream, part("c", 1, Nats_Msg_Id="y"))
    assert code(publish(stream, commit("c", 2, Nats_Msg_Id="y"))[0]) == 10201


def test_an_idle_batch_is_abandoned_with_an_advisory() -> None:
    stream = a_stream(allow_atomic=True)
    publish(stream, part("b", 1))
    assert stream.next_deadline() == NOW + 10 * SECOND
    stream.expire(NOW + 10 * SECOND)
    ((subject, body),) = stream.take_effects().advisories
    assert subject == "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.S"
    assert json.loads(body) == {"stream": "S", "batch": "b", "reason": "timeout"}


def test_batches_have_limits() -> None:
    stream = a_stream(allow_atomic=True)
    answers = publish(stream, *[part("big", i) for i in range(1, 1002)])
    assert code(answers[-1]) == 10199
    answers = publish(stream, *[part(f"b{i}", 1) for i in range(51)])
    assert code(answers[-1]) == 10210
    assert code(publish(a_stream(), part("b", 1))[0]) == 10174
    assert code(publish(stream, part("x" * 65, 1))[0]) == 10179


def test_half_a_batch_left_by_a_crash_is_removed() -> None:
    stream = a_stream(allow_atomic=True)
    one(stream)
    for seq, item in enumerate((part("b", 1), part("b", 2)), 2):
        assert stream.store.append(item[0], item[2], item[3], NOW) == seq
    again = Stream(stream.config, stream.store)
    again.recover(NOW)
    assert list(again.store.next_seqs(1, 9)) == [1]


def test_a_whole_batch_is_kept_by_a_restart() -> None:
    stream = a_stream(allow_atomic=True)
    publish(stream, part("b", 1), commit("b", 2))
    again = Stream(stream.config, stream.store)
    again.recover(NOW)
    assert again.state().messages == 2
