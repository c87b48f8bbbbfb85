"""Publishing: ids, expectations, rollups, limits, time, and what is left after a restart."""

import random
from array import array

import pytest

from jetstream.errors import ApiError
from jetstream.schema.requests import StreamPurgeRequest
from jetstream.store.memory import MemoryStore
from jetstream.stream._dedupe import Window
from jetstream.stream.stream import Stream

from .builders import NOW, SECOND, a_stream, message, one, publish, text_of


def test_plain_messages_get_sequences_in_order() -> None:
    stream = a_stream()
    assert publish(stream, *[message(f"a.{i}") for i in range(5)]) == [1, 2, 3, 4, 5]
    assert stream.state().messages == 5
    assert stream.take_effects().appended


def test_headers_of_other_names_do_not_slow_a_run_down() -> None:
    stream = a_stream()
    assert publish(stream, message("a.1", {"nats-msg-id": "x"}), message("a.1", {"X": "y"})) == [
        1,
        2,
    ]


# -- ids --------------------------------------------------------------------------------------


def test_a_repeated_id_is_answered_with_the_first_sequence() -> None:
    stream = a_stream()
    answers = publish(
        stream,
        message("a.1", {"Nats-Msg-Id": "x"}),
        message("a.2", {"Nats-Msg-Id": "x"}),
        message("a.2", {"Nats-Msg-Id": "y"}),
    )
    assert answers == [1, {"stream": "S", "seq": 1, "duplicate": True}, 2]


def test_an_id_is_forgotten_after_the_window() -> None:
    stream = a_stream(duplicate_window=SECOND)
    assert one(stream, headers={"Nats-Msg-Id": "x"}) == 1
    assert one(stream, headers={"Nats-Msg-Id": "x"}, now=NOW + SECOND // 2)["duplicate"]
    assert one(stream, headers={"Nats-Msg-Id": "x"}, now=NOW + SECOND) == 2


def test_an_id_outlives_its_message() -> None:
    stream = a_stream()
    one(stream, headers={"Nats-Msg-Id": "x"})
    stream.purge(StreamPurgeRequest())
    assert one(stream, headers={"Nats-Msg-Id": "x"})["duplicate"]


def test_ids_and_the_last_id_are_rebuilt_after_a_restart() -> None:
    stream = a_stream()
    one(stream, headers={"Nats-Msg-Id": "old"}, now=NOW - 300 * SECOND)
    one(stream, headers={"Nats-Msg-Id": "x"})
    again = Stream(stream.config, stream.store)
    again.recover(NOW)
    assert again.last_msg_id == b"x"
    assert one(again, headers={"Nats-Msg-Id": "x"})["duplicate"]
    assert one(again, headers={"Nats-Msg-Id": "old"}) == 3


def test_a_message_without_an_id_clears_the_last_id() -> None:
    stream = a_stream()
    one(stream, headers={"Nats-Msg-Id": "x"})
    assert one(stream, headers={"Nats-Expected-Last-Msg-Id": "x"}) == 2
    assert one(stream, headers={"Nats-Expected-Last-Msg-Id": "x"}) == 10070


@pytest.mark.parametrize("seed", range(10))
def test_the_id_window_agrees_with_a_dictionary(seed: int) -> None:
    chance = random.Random(seed)
    window, now, seq = Window(SECOND), NOW, 0
    model: dict[bytes, tuple[int, int]] = {}
    for _ in range(3000):
        now += chance.randrange(3) * 1_000_000
        id_ = b"%d" % chance.randrange(1500)
        known = model.get(id_)
        expected = known[0] if known and now - known[1] < SECOND else 0
        assert window.lookup(id_, now) == expected
        if not expected:
            seq += 1
            window.remember(id_, seq, now)
            model[id_] = (seq, now)


def test_a_remembered_id_costs_at_most_forty_bytes() -> None:
    window = Window(120 * SECOND)
    for i in range(100_000):
        window.remember(b"a message id %d" % i, i + 1, NOW)
    assert window.nbytes <= 40 * 100_000


# -- expectations -----------------------------------------------------------------------------


def test_expected_last_sequence() -> None:
    stream = a_stream()
    assert one(stream, headers={"Nats-Expected-Last-Sequence": "0"}) == 1
    assert one(stream, headers={"Nats-Expected-Last-Sequence": "0"}) == 10071
    assert one(stream, headers={"Nats-Expected-Last-Sequence": "x"}) == 10071
    assert one(stream, headers={"Nats-Expected-Last-Sequence": ""}) == 2


def test_expected_last_subject_sequence_sees_the_same_run() -> None:
    stream = a_stream()
    name = "Nats-Expected-Last-Subject-Sequence"
    answers = publish(
        stream,
        message("a.1", {name: "0"}),
        message("a.2"),
        message("a.1", {name: "1"}),
        message("a.1", {name: "1"}),
        message("a.2", {name: "2"}),
    )
    assert [a if isinstance(a, int) else a["error"]["description"] for a in answers] == [
        1,
        2,
        3,
        "wrong last sequence: 3",
        4,
    ]


def test_the_subject_of_an_expectation_may_be_a_pattern() -> None:
    stream = a_stream()
    publish(stream, message("a.1"), message("a.2"))
    headers = {"Nats-Expected-Last-Subject-Sequence-Subject": "a.*"}
    assert one(stream, headers=headers) == 10193
    headers["Nats-Expected-Last-Subject-Sequence"] = "1"
    assert one(stream, headers=headers) == 10071
    headers["Nats-Expected-Last-Subject-Sequence"] = "2"
    assert one(stream, headers=headers) == 3


def test_an_expectation_is_reported_before_a_duplicate() -> None:
    stream = a_stream()
    one(stream, headers={"Nats-Msg-Id": "x"})
    headers = {"Nats-Msg-Id": "x", "Nats-Expected-Last-Sequence": "9"}
    assert one(stream, headers=headers) == 10071
    assert one(stream, headers={"Nats-Expected-Stream": "T"}) == 10060


# -- rollup, sizes, limits --------------------------------------------------------------------


def test_rollups_purge_the_subject_or_everything() -> None:
    stream = a_stream(allow_rollup_hdrs=True)
    publish(stream, message("a.1"), message("a.2"), message("a.1"))
    assert one(stream, "a.1", {"Nats-Rollup": "SUB"}) == 4
    assert list(stream.store.next_seqs(1, 10)) == [2, 4]
    assert one(stream, "a.1", {"Nats-Rollup": "all"}) == 5
    assert list(stream.store.next_seqs(1, 10)) == [5]
    assert stream.take_effects().purged
    assert one(stream, "a.1", {"Nats-Rollup": "x"}) == 10111
    assert one(a_stream(), "a.1", {"Nats-Rollup": "sub"}) == 10111


def test_sizes_are_refused_in_the_middle_of_a_run() -> None:
    stream = a_stream(max_msg_size=4)
    answers = publish(stream, message("a.1"), message("a.1", payload=b"12345"), message("a.1"))
    assert [answers[0], answers[1]["error"]["err_code"], answers[2]] == [1, 10054, 2]
    assert one(a_stream(), headers={"X": "y" * 70_000}) == 10097


def test_discard_old_keeps_the_newest() -> None:
    stream = a_stream(max_msgs=3)
    publish(stream, *[message("a.1") for _ in range(5)])
    assert list(stream.store.next_seqs(1, 10)) == [3, 4, 5]
    assert list(stream.take_effects().evicted) == [1, 2]


def test_a_message_larger_than_the_stream_leaves_it_empty() -> None:
    stream = a_stream(max_bytes=50)
    assert one(stream, payload=b"x" * 100) == 1
    state = stream.state()
    assert (state.messages, state.first_seq, state.last_seq) == (0, 2, 1)


def test_max_bytes_removes_exactly_what_is_needed() -> None:
    # 16 + 3 + 10 bytes each in memory; three fit.
    stream = a_stream(max_bytes=3 * 29)
    publish(stream, *[message("a.1", payload=b"x" * 10) for _ in range(10)])
    assert list(stream.store.next_seqs(1, 10)) == [8, 9, 10]


def test_discard_new_refuses_except_when_a_subject_replaces_its_own() -> None:
    stream = a_stream(max_msgs=2, discard="new", max_msgs_per_subject=1)
    assert publish(stream, message("a.1"), message("a.2")) == [1, 2]
    assert one(stream, "a.3") == 10077
    assert one(stream, "a.1") == 3
    stream = a_stream(max_msgs_per_subject=1, discard="new", discard_new_per_subject=True)
    assert one(stream, "a.1") == 1
    assert one(stream, "a.1") == 10077


def test_max_msgs_per_subject_evicts_inside() -> None:
    stream = a_stream(max_msgs_per_subject=1)
    publish(stream, message("a.1"), message("a.2"), message("a.1"))
    assert list(stream.store.next_seqs(1, 10)) == [2, 3]
    assert list(stream.take_effects().evicted) == [1]


def test_interest_without_interest_only_counts() -> None:
    stream = a_stream(retention="interest")
    assert one(stream, "a.1", {"Nats-Msg-Id": "x"}) == 1
    assert one(stream, "a.1", {"Nats-Msg-Id": "x"})["duplicate"]
    assert stream.state().messages == 0
    stream.set_interest([[b"a.2"]])
    assert publish(stream, message("a.1"), message("a.2")) == [2, 3]
    assert list(stream.store.next_seqs(1, 10)) == [3]
    stream.on_consumed(array("Q", [3]))
    assert stream.state().messages == 0


def test_a_sealed_stream_takes_nothing() -> None:
    stream = a_stream()
    one(stream)
    stream.config.sealed = True
    stream.publisher.configure()
    assert one(stream) == 10109
    with pytest.raises(ApiError):
        stream.purge(StreamPurgeRequest())
    with pytest.raises(ApiError):
        stream.delete_msg(1, True)


# -- time -------------------------------------------------------------------------------------


def test_messages_leave_when_they_are_old() -> None:
    stream = a_stream(max_age=10 * SECOND)
    one(stream)
    one(stream, now=NOW + 5 * SECOND)
    assert stream.next_deadline() == NOW + 10 * SECOND
    stream.expire(NOW + 10 * SECOND)
    assert list(stream.take_effects().evicted) == [1]
    assert stream.state().messages == 1


def test_a_ttl_ends_a_message_earlier_and_never_keeps_it() -> None:
    stream = a_stream(allow_msg_ttl=True, max_age=100 * SECOND)
    assert one(stream, "a.1", {"Nats-TTL": "2"}) == 1
    assert one(stream, "a.2", {"Nats-TTL": "never"}) == 2
    assert one(stream, "a.3", {"Nats-TTL": "500ms"}) == 10165
    assert one(a_stream(), "a.3", {"Nats-TTL": "2"}) == 10166
    stream.expire(NOW + 2 * SECOND)
    assert list(stream.store.next_seqs(1, 9)) == [2]
    stream.expire(NOW + 1000 * SECOND)
    assert list(stream.store.next_seqs(1, 9)) == [2]


def test_the_last_message_of_a_subject_leaves_a_marker() -> None:
    stream = a_stream(subject_delete_marker_ttl=3 * SECOND, max_age=10 * SECOND)
    one(stream, "a.1")
    one(stream, "a.1", {"Nats-TTL": "1"})
    assert "Nats-TTL: 3\r\n" in (text_of(stream, 2) or ("", "", b""))[1]
    stream.expire(NOW + 10 * SECOND)
    marker = text_of(stream, 3)
    assert marker == (
        "a.1",
        "NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 3s\r\nNats-Rollup: sub\r\n\r\n",
        b"",
    )
    stream.expire(NOW + 13 * SECOND)
    assert stream.state().messages == 0


# -- counters, transforms, republish ----------------------------------------------------------


def test_counters_add_up_in_any_size() -> None:
    stream = a_stream(allow_msg_counter=True)
    assert one(stream, headers={"Nats-Incr": "1"}, payload=b"")["val"] == "1"
    big = one(stream, headers={"Nats-Incr": "+" + "9" * 30, "Nats-Msg-Id": "m"}, payload=b"")
    assert big["val"] == "1" + "0" * 30
    assert "val" not in one(stream, headers={"Nats-Incr": "1", "Nats-Msg-Id": "m"}, payload=b"")
    assert one(stream, headers={"Nats-Incr": "-2"}, payload=b"")["val"] == "9" * 29 + "8"
    assert one(stream, payload=b"") == 10169
    assert one(stream, headers={"Nats-Incr": "x"}, payload=b"") == 10171
    assert one(stream, headers={"Nats-Incr": "1"}) == 10170
    assert one(a_stream(), headers={"Nats-Incr": "1"}) == 10168


def test_subjects_are_transformed_before_anything_else() -> None:
    from jetstream.schema.stream import SubjectTransform

    stream = a_stream(subject_transform=SubjectTransform("a.*", "b.$1"))
    assert publish(stream, message("a.1"), message("a.1.2"), message("a.3")) == [1, 2, 3]
    assert [stream.store.get(i).subject for i in (1, 2, 3)] == [b"b.1", b"a.1.2", b"b.3"]  # type: ignore[union-attr]


def test_what_is_stored_is_republished_with_a_note() -> None:
    from jetstream.schema.stream import RePublish

    stream = a_stream(republish=RePublish("a.>", "r.>"))
    publish(stream, message("a.1", {"X": "y"}, b"one"), message("a.1"))
    (subject, headers, payload), second = stream.take_effects().republish
    assert (subject, payload) == (b"r.1", b"one")
    assert headers.startswith(b"NATS/1.0\r\nX: y\r\nNats-Stream: S\r\nNats-Subject: a.1\r\n")
    assert headers.endswith(b"Nats-Last-Sequence: 0\r\n\r\n")
    assert second[1].endswith(b"Nats-Last-Sequence: 1\r\n\r\n")


# -- removing ---------------------------------------------------------------------------------


def test_message_deletes_name_what_is_wrong() -> None:
    stream = a_stream()
    publish(stream, *[message("a.1") for _ in range(4)])
    stream.delete_msg(2, True)
    for seq, code, text in (
        (2, 10043, "sequence 2 not found"),
        (9, 10057, "stream store EOF"),
        (0, 10057, "no message found"),
    ):
        with pytest.raises(ApiError) as caught:
            stream.delete_msg(seq, True)
        assert (caught.value.err_code, caught.value.description) == (code, text)
    assert stream.state().num_deleted == 1


def test_purges_by_filter_sequence_and_keep() -> None:
    stream = a_stream()
    publish(stream, *[message(f"a.{i % 2}") for i in range(6)])
    assert stream.purge(StreamPurgeRequest(filter="a.0", keep=1)) == 2
    assert list(stream.store.next_seqs(1, 9)) == [2, 4, 5, 6]
    assert stream.purge(StreamPurgeRequest(seq=5)) == 2
    assert stream.purge(StreamPurgeRequest(seq=20)) == 2
    state = stream.state()
    assert (state.first_seq, state.last_seq) == (20, 19)
    with pytest.raises(ApiError):
        stream.purge(StreamPurgeRequest(seq=1, keep=1))


def test_first_seq_is_where_a_stream_begins() -> None:
    stream = a_stream(first_seq=100)
    assert (stream.state().first_seq, stream.state().last_seq) == (100, 99)
    assert one(stream) == 100
    assert isinstance(stream.store, MemoryStore)
