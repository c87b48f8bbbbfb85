"""Consumers: making them, and every way to receive and to acknowledge."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jetstream.client.config import ConsumerConfig
from jetstream.client.errors import (
    ApiError,
    ConsumerDeletedError,
    ConsumerNotFoundError,
    JetStreamError,
    MissingHeartbeatError,
    NotJetStreamMessageError,
)
from jetstream.client.message import JetStreamMessage, to_jetstream


async def filled(js: Any, n: int = 10, **fields: Any) -> Any:
    stream = await js.create_stream(name="S", subjects=["s.>"], **fields)
    if n:
        await js.publish_many((f"s.{i % 3}", b"%d" % i) for i in range(n))
    return stream


async def test_a_consumer_is_made_changed_found_and_removed(js: Any) -> None:
    stream = await filled(js)
    consumer = await stream.create_consumer(
        ConsumerConfig(durable_name="c", ack_wait=5, backoff=[1, 2.5], max_deliver=4)
    )
    config = consumer.cached_info.config
    assert (config.ack_policy, config.backoff) == ("explicit", [1, 2.5])
    with pytest.raises(ApiError) as caught:
        await stream.create_consumer(durable_name="c", max_deliver=9)
    assert caught.value.err_code == 10148
    await stream.update_consumer(durable_name="c", description="new")
    await stream.create_or_update_consumer(durable_name="d", filter_subject="s.1")
    assert [name async for name in js.consumer_names("S")] == ["c", "d"]
    assert [info.name async for info in stream.list_consumers()] == ["c", "d"]
    assert (await stream.consumer("d")).cached_info.num_pending == 3
    with pytest.raises(ApiError):
        await stream.update_consumer(durable_name="nope")
    await consumer.delete()
    with pytest.raises(ConsumerNotFoundError):
        await stream.consumer("c")


async def test_an_ephemeral_gets_a_name(js: Any) -> None:
    stream = await filled(js)
    consumer = await stream.create_consumer(filter_subjects=["s.0", "s.1"])
    assert consumer.name
    assert consumer.cached_info.num_pending == 7


async def test_fetch_gets_what_is_there_and_knows_its_place(js: Any) -> None:
    consumer = await (await filled(js)).create_consumer(durable_name="c")
    batch = await consumer.fetch(4, max_wait=2)
    assert [m.data for m in batch] == [b"0", b"1", b"2", b"3"]
    meta = batch[3].metadata
    assert (meta.stream, meta.consumer, meta.stream_seq, meta.consumer_seq) == ("S", "c", 4, 4)
    assert (meta.deliveries, meta.pending) == (1, 6)
    assert abs((datetime.now(UTC) - meta.time).total_seconds()) < 60
    assert (batch[0].seq, batch[0].redelivered) == (1, False)


async def test_an_empty_fetch_is_an_empty_list(js: Any) -> None:
    consumer = await (await filled(js, 0)).create_consumer(durable_name="c")
    assert await consumer.fetch(5, max_wait=0.1) == []
    assert await consumer.fetch_no_wait(5) == []
    assert await consumer.next(0.1) is None
    assert (await consumer.fetch(5, max_wait=0.1)).error is None


async def test_fetch_returns_early_with_part_of_it_when_time_is_up(js: Any) -> None:
    consumer = await (await filled(js, 3)).create_consumer(durable_name="c")
    assert len(await consumer.fetch(10, max_wait=0.2)) == 3


async def test_fetch_no_wait_takes_what_is_there(js: Any) -> None:
    consumer = await (await filled(js, 3)).create_consumer(durable_name="c")
    assert len(await consumer.fetch_no_wait(2)) == 2
    assert len(await consumer.fetch_no_wait(10)) == 1


async def test_fetch_by_bytes(js: Any) -> None:
    stream = await js.create_stream(name="S")
    await js.publish_many([b"x" * 1000] * 10, subject="S")
    consumer = await stream.create_consumer(durable_name="c")
    batch = await consumer.fetch_bytes(3500, max_wait=1)
    assert len(batch) == 3


async def test_fetches_in_a_row_do_not_mix(js: Any) -> None:
    consumer = await (await filled(js, 300)).create_consumer(durable_name="c")
    seen = []
    for _ in range(100):
        seen += [m.seq for m in await consumer.fetch(3, max_wait=1)]
    assert seen == list(range(1, 301))


async def test_fetches_at_the_same_time_share_the_messages(js: Any) -> None:
    consumer = await (await filled(js, 60)).create_consumer(durable_name="c")
    parts = await asyncio.gather(*(consumer.fetch(20, max_wait=2) for _ in range(3)))
    assert sorted(m.seq for part in parts for m in part) == list(range(1, 61))


async def test_acknowledging_one_by_one_and_as_a_batch(js: Any) -> None:
    consumer = await (await filled(js)).create_consumer(durable_name="c")
    batch = await consumer.fetch(5, max_wait=1)
    await batch[0].ack()
    await batch[1].ack_sync()
    assert (await consumer.info()).num_ack_pending == 3
    rest = await consumer.fetch(5, max_wait=1)
    await rest.ack_sync()
    for message in batch[2:]:
        await message.ack_sync()
    info = await consumer.info()
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 10)
    await rest.ack()


async def test_nak_term_and_progress(js: Any) -> None:
    consumer = await (await filled(js, 3)).create_consumer(durable_name="c", ack_wait=30)
    first, second, third = await consumer.fetch(3, max_wait=1)
    await first.nak()
    again = await consumer.next(2)
    assert (again.seq, again.deliveries, again.redelivered) == (1, 2, True)
    await second.nak(delay=0.2)
    await third.in_progress()
    await third.term("broken")
    delayed = await consumer.next(3)
    assert (delayed.seq, delayed.deliveries) == (2, 2)
    await again.ack_sync()
    await delayed.ack_sync()
    assert (await consumer.info()).num_ack_pending == 0


async def test_a_message_not_from_a_stream_cannot_be_acknowledged(nc: Any) -> None:
    sub = await nc.subscribe("a")
    await nc.publish("a", b"")
    with pytest.raises(NotJetStreamMessageError):
        to_jetstream(await sub.next(2))
    with pytest.raises(NotJetStreamMessageError):
        await JetStreamMessage(b"a", b"", b"", b"").ack()


async def test_a_plain_subscription_on_a_deliver_subject_can_be_converted(js: Any) -> None:
    await filled(js, 2)
    sub = await js.connection.subscribe("deliver.here")
    config = ConsumerConfig(durable_name="p", deliver_subject="deliver.here")
    await js.make_consumer("S", config)
    message = to_jetstream(await sub.next(2))
    assert (message.seq, message.subject) == (1, "s.0")
    await message.ack_sync()


async def test_messages_flow_and_ask_ahead(js: Any) -> None:
    consumer = await (await filled(js, 2000)).create_consumer(durable_name="c")
    seen = []
    async with consumer.messages(max_messages=100, threshold=20) as flow:
        async for message in flow:
            await message.ack()
            seen.append(message.seq)
            if len(seen) == 2000:
                break
    assert seen == list(range(1, 2001))


async def test_messages_by_bytes(js: Any) -> None:
    stream = await js.create_stream(name="S")
    await js.publish_many([b"x" * 1000] * 200, subject="S")
    consumer = await stream.create_consumer(durable_name="c")
    got = 0
    async with consumer.messages(max_bytes=20_000) as flow:
        async for message in flow:
            await message.ack()
            got += 1
            if got == 200:
                break
    assert got == 200


async def test_messages_arrive_while_waiting(js: Any) -> None:
    stream = await filled(js, 0)
    consumer = await stream.create_consumer(durable_name="c")
    async with consumer.messages() as flow:
        assert await flow.next(0.05) is None
        await js.publish("s.1", b"new")
        assert (await flow.next(2)).data == b"new"


async def test_a_flow_can_end_after_a_number(js: Any) -> None:
    consumer = await (await filled(js, 10)).create_consumer(durable_name="c")
    seen = [m.seq async for m in consumer.messages(stop_after=4)]
    assert seen == [1, 2, 3, 4]
    assert (await consumer.info()).num_ack_pending == 4


async def test_consume_calls_back_until_it_is_stopped(js: Any) -> None:
    stream = await filled(js, 50)
    consumer = await stream.create_consumer(durable_name="c")
    seen: list[int] = []

    async def callback(message: JetStreamMessage) -> None:
        seen.append(message.seq)
        await message.ack()

    context = await consumer.consume(callback)
    while len(seen) < 50:
        await asyncio.sleep(0.01)
    await context.stop()
    await js.publish("s.1", b"")
    assert seen == list(range(1, 51))


async def test_consume_drains_what_has_arrived(js: Any) -> None:
    consumer = await (await filled(js, 100)).create_consumer(durable_name="c")
    seen: list[int] = []
    context = await consumer.consume(lambda m: seen.append(m.seq), max_messages=1000)
    while not seen:
        await asyncio.sleep(0.01)
    await context.drain(5)
    assert len(seen) == 100


async def test_a_failing_callback_does_not_end_the_flow(js: Any) -> None:
    errors: list[Exception] = []
    js.connection.options.on_error = errors.append
    consumer = await (await filled(js, 3)).create_consumer(durable_name="c")
    seen: list[int] = []

    def callback(message: JetStreamMessage) -> None:
        seen.append(message.seq)
        raise ValueError("no")

    context = await consumer.consume(callback)
    while len(seen) < 3:
        await asyncio.sleep(0.01)
    await context.stop()
    assert len(errors) == 3


async def test_deleting_the_consumer_ends_the_flow_with_an_error(js: Any) -> None:
    consumer = await (await filled(js, 0)).create_consumer(durable_name="c")
    flow = consumer.messages()
    waiting = asyncio.ensure_future(flow.__anext__())
    await js.connection.flush()
    await consumer.delete()
    with pytest.raises(ConsumerDeletedError):
        await waiting
    await flow.stop()


async def test_a_missing_consumer_is_an_error_not_a_hang(js: Any) -> None:
    await filled(js, 1)
    handle = js.consumer_handle("S", "nope")
    with pytest.raises(JetStreamError):
        await handle.fetch(1, max_wait=5)
    with pytest.raises(JetStreamError):
        await handle.messages().__anext__()


async def test_limits_of_the_consumer_are_told(js: Any) -> None:
    stream = await filled(js, 5)
    consumer = await stream.create_consumer(durable_name="c", max_batch=2)
    with pytest.raises(JetStreamError, match="MaxRequestBatch"):
        await consumer.fetch(5, max_wait=1)
    assert len(await consumer.fetch(2, max_wait=1)) == 2


async def test_missing_heartbeats_are_noticed(js: Any) -> None:
    consumer = await (await filled(js, 0)).create_consumer(durable_name="c")
    errors: list[Exception] = []
    flow = consumer.messages(expires=2, heartbeat=0.2, error_handler=errors.append)
    await js.connection.flush()
    # The server goes on sending heartbeats; taking its subscription away silences it.
    inbox = flow._stream._inbox
    js.connection.command(b"UNSUB %d\r\n" % inbox.sid)
    await flow.next(0.9)
    assert any(isinstance(error, MissingHeartbeatError) for error in errors)
    await flow.stop()


async def test_heartbeats_keep_a_quiet_flow_alive(js: Any) -> None:
    consumer = await (await filled(js, 0)).create_consumer(durable_name="c")
    async with consumer.messages(expires=1, heartbeat=0.2) as flow:
        assert await flow.next(1.5) is None
        await js.publish("s.1", b"late")
        assert (await flow.next(2)).data == b"late"


async def test_a_paused_consumer_delivers_after_it_resumes(js: Any) -> None:
    stream = await filled(js, 2)
    consumer = await stream.create_consumer(durable_name="c")
    state = await consumer.pause(60)
    assert state.paused
    assert 0 < state.pause_remaining <= 60
    assert await consumer.fetch(1, max_wait=0.2) == []
    assert not (await consumer.resume()).paused
    assert len(await consumer.fetch(1, max_wait=1)) == 1
    paused = await stream.pause_consumer("c", datetime.now(UTC) + timedelta(hours=1))
    assert paused.paused
    await stream.resume_consumer("c")


async def test_a_consumer_can_be_reset(js: Any) -> None:
    consumer = await (await filled(js, 5)).create_consumer(durable_name="c")
    await (await consumer.fetch(5, max_wait=1)).ack_sync()
    await consumer.reset(3)
    assert (await consumer.next(2)).seq == 3


async def test_priority_groups_overflow_and_pinned(js: Any) -> None:
    stream = await filled(js, 10)
    consumer = await stream.create_consumer(
        durable_name="o", priority_groups=["g"], priority_policy="overflow"
    )
    assert await consumer.fetch(1, max_wait=0.2, group="g", min_pending=100) == []
    assert len(await consumer.fetch(1, max_wait=1, group="g", min_pending=5)) == 1
    pinned = await stream.create_consumer(
        durable_name="p", priority_groups=["g"], priority_policy="pinned_client"
    )
    async with pinned.messages(group="g", max_messages=2) as flow:
        assert (await flow.next(2)).headers["Nats-Pin-Id"]
        assert (await flow.next(2)).seq == 2
        assert (await pinned.info()).priority_groups[0].pinned_client_id
        await pinned.unpin("g")


async def test_a_closed_connection_ends_a_fetch(js: Any, url: str) -> None:
    import jetstream

    await (await filled(js, 0)).create_consumer(durable_name="c")
    nc = await jetstream.connect(url)
    waiting = asyncio.ensure_future(nc.jetstream().consumer_handle("S", "c").fetch(1, max_wait=5))
    await nc.flush()
    await nc.close()
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(waiting, 10)


async def test_a_batch_becomes_an_arrow_table(js: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    stream = await filled(js, 5)
    await js.publish("s.h", b"x", headers={"A": "b"})
    consumer = await stream.create_consumer(durable_name="c")
    table = await consumer.fetch_arrow(6, max_wait=1)
    assert table.column("seq").to_pylist() == [1, 2, 3, 4, 5, 6]
    assert table.column("data").to_pylist()[:2] == [b"0", b"1"]
    assert table.column("headers").to_pylist()[5] == [("A", "b")]
    assert table.schema.field("time").type == pyarrow.timestamp("ns", "UTC")
    assert (await consumer.fetch(1, max_wait=0.1)).to_arrow().num_rows == 0
