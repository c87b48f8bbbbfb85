"""Publishing into streams: acks, expectations, windows, bulk, atomic batches."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jetstream.client.errors import ApiError, BatchAbandonedError, NoRespondersError


async def test_a_publish_returns_stream_and_sequence(js: Any) -> None:
    await js.create_stream(name="S", subjects=["s.>"])
    ack = await js.publish("s.a", b"x")
    assert (ack.stream, ack.seq, ack.duplicate) == ("S", 1, False)


async def test_a_message_id_makes_a_repeat_harmless(js: Any) -> None:
    await js.create_stream(name="S")
    first = await js.publish("S", b"x", msg_id="one")
    again = await js.publish("S", b"x", msg_id="one")
    assert (again.seq, again.duplicate) == (first.seq, True)


async def test_expectations_are_checked(js: Any) -> None:
    await js.create_stream(name="S", subjects=["s.>"])
    await js.publish("s.a", b"", msg_id="m1", expect_last_seq=0)
    await js.publish("s.a", b"", msg_id="m2", expect_last_msg_id="m1", expect_stream="S")
    await js.publish("s.b", b"", expect_last_subject_seq=0)
    for wish, number in (
        ({"expect_last_seq": 1}, 10071),
        ({"expect_last_subject_seq": 1}, 10071),
        ({"expect_last_msg_id": "m1"}, 10070),
        ({"expect_stream": "T"}, 10060),
        ({"expect_last_subject_seq": 9, "expect_last_subject_seq_subject": "s.*"}, 10071),
    ):
        with pytest.raises(ApiError) as caught:
            await js.publish("s.a", b"", **wish)
        assert caught.value.err_code == number
        assert caught.value.hint


async def test_a_message_with_a_ttl_expires(js: Any) -> None:
    stream = await js.create_stream(name="S", allow_msg_ttl=True)
    await js.publish("S", b"x", ttl=1)
    await js.publish("S", b"x", ttl="never")
    assert (await stream.get_msg(1)).headers["Nats-TTL"] in ("1s", "1")
    for _ in range(50):
        if (await stream.info()).state.messages == 1:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not expire")


async def test_a_schedule_publishes_later(js: Any) -> None:
    stream = await js.create_stream(
        name="S", subjects=["s.>", "t.>"], allow_msg_schedules=True, allow_msg_ttl=True
    )
    at = datetime.now(UTC) - timedelta(seconds=1)
    await js.publish("s.plan", b"later", schedule=at, schedule_target="t.now")
    for _ in range(50):
        try:
            assert (await stream.get_last_msg("t.now")).data == b"later"
            return
        except ApiError:
            await asyncio.sleep(0.1)
    raise AssertionError("it did not fire")


async def test_counters_add_up(js: Any) -> None:
    await js.create_stream(name="S", subjects=["s.>"], allow_msg_counter=True)
    assert (await js.publish("s.hits", increment=5)).value == 5
    assert (await js.publish("s.hits", increment=-2)).value == 3


async def test_a_subject_without_stream_is_refused_after_retries(js: Any) -> None:
    with pytest.raises(NoRespondersError, match="no stream captures"):
        await js.publish("nowhere", b"", retry_attempts=1, retry_wait=0.01)


async def test_futures_resolve_in_any_order_of_asking(js: Any) -> None:
    await js.create_stream(name="S")
    futures = [await js.publish_async("S", b"%d" % n) for n in range(100)]
    await js.publish_async_complete(5)
    assert js.publish_async_pending == 0
    assert [future.result().seq for future in reversed(futures)] == list(range(100, 0, -1))
    assert (await futures[3]).seq == 4


async def test_the_window_holds_publishers_back(js: Any) -> None:
    narrow = js.connection.jetstream(publish_window=10)
    await narrow.create_stream(name="S")
    for n in range(200):
        await narrow.publish_async("S", b"%d" % n)
        assert narrow.publish_async_pending <= 10
    await narrow.publish_async_complete()
    assert (await narrow.stream_info("S")).state.messages == 200


async def test_a_refused_async_publish_raises_when_asked(js: Any) -> None:
    await js.create_stream(name="S")
    future = await js.publish_async("S", b"", expect_last_seq=7)
    with pytest.raises(ApiError):
        await future
    assert isinstance(future.exception(), ApiError)


async def test_bulk_publishing_keeps_order_and_reports_sequences(js: Any) -> None:
    stream = await js.create_stream(name="S", subjects=["s.>"])
    report = await js.publish_many(((f"s.{n % 7}", b"%d" % n) for n in range(5000)), window=500)
    assert (report.count, report.first_seq, report.last_seq, report.ok) == (5000, 1, 5000, True)
    assert list(report.sequences) == list(range(1, 5001))
    assert (await stream.get_msg(4711)).data == b"4710"


async def test_bulk_publishing_takes_payloads_headers_and_async_sources(js: Any) -> None:
    await js.create_stream(name="S")

    async def source() -> AsyncIterator[bytes]:
        for n in range(100):
            yield b"%d" % n

    assert (await js.publish_many(source(), subject="S")).count == 100
    same = [("S", b"", {"Nats-Msg-Id": "x"})] * 3
    report = await js.publish_many(same)
    assert (report.duplicates, list(report.sequences)) == (2, [101, 101, 101])
    assert (await js.publish_many([])).count == 0


async def test_bulk_failures_name_their_position(js: Any) -> None:
    await js.create_stream(name="S", max_msg_size=10)
    report = await js.publish_many([b"ok", b"far too large for it", b"ok"], subject="S")
    assert [position for position, _ in report.failed] == [1]
    assert report.failed[0][1].err_code == 10054
    assert list(report.sequences) == [1, 0, 2]
    with pytest.raises(ApiError):
        report.raise_first()


async def test_bulk_to_nowhere_fails_everything(js: Any) -> None:
    report = await js.publish_many([b"a", b"b"], subject="nowhere")
    assert [type(error) for _, error in report.failed] == [NoRespondersError] * 2


async def test_large_messages_do_not_pile_up(js: Any) -> None:
    stream = await js.create_stream(name="S", storage="memory")
    report = await js.publish_many((b"x" * 500_000 for _ in range(60)), subject="S")
    assert report.ok
    assert (await stream.info()).state.messages == 60


async def test_an_atomic_batch_is_stored_together(js: Any) -> None:
    stream = await js.create_stream(name="S", subjects=["s.>"], allow_atomic=True)
    async with js.batch() as batch:
        for n in range(5):
            await batch.add(f"s.{n}", b"%d" % n, headers={"N": str(n)})
        assert (await stream.info()).state.messages == 0
    assert (batch.ack.seq, batch.ack.count) == (5, 5)
    assert (await stream.get_msg(3)).headers["N"] == "2"


async def test_an_abandoned_batch_leaves_nothing(js: Any) -> None:
    stream = await js.create_stream(name="S", subjects=["s.>"], allow_atomic=True)
    with pytest.raises(KeyError):
        async with js.batch() as batch:
            await batch.add("s.1")
            await batch.add("s.2")
            raise KeyError
    with pytest.raises(BatchAbandonedError):
        await batch.add("s.3")
    assert (await stream.info()).state.messages == 0


async def test_a_batch_whose_expectation_fails_stores_nothing(js: Any) -> None:
    stream = await js.create_stream(name="S", subjects=["s.>"], allow_atomic=True)
    batch = js.batch()
    await batch.add("s.1", expect_last_seq=9)
    await batch.add("s.2")
    with pytest.raises(ApiError):
        await batch.commit()
    assert (await stream.info()).state.messages == 0


async def test_a_stream_without_batches_says_so(js: Any) -> None:
    await js.create_stream(name="S", subjects=["s.>"])
    batch = js.batch()
    await batch.add("s.1")
    with pytest.raises(ApiError) as caught:
        await batch.add("s.2")
    assert caught.value.err_code == 10174
