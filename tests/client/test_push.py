"""Push consumers: subscribe by subject, flow control, queue groups, keeping and destroying."""

import asyncio
from typing import Any

import pytest

from jetstream.client.errors import ConsumerNotFoundError, StreamNotFoundError
from jetstream.client.message import JetStreamMessage


async def filled(js: Any, n: int = 10) -> Any:
    stream = await js.create_stream(name="S", subjects=["s.>"])
    if n:
        await js.publish_many((f"s.{i % 2}", b"%d" % i) for i in range(n))
    return stream


async def test_a_subject_is_enough_to_subscribe(js: Any) -> None:
    stream = await filled(js)
    async with await js.subscribe("s.1") as sub:
        assert [(await sub.next(2)).seq for _ in range(5)] == [2, 4, 6, 8, 10]
        assert await sub.next(0.05) is None
    assert [name async for name in stream.consumer_names()] == []
    with pytest.raises(StreamNotFoundError):
        await js.subscribe("nowhere")


async def test_a_durable_is_kept_by_unsubscribe_and_removed_by_destroy(js: Any) -> None:
    stream = await filled(js, 4)
    sub = await js.subscribe("s.>", durable="d", manual_ack=True, deliver_to="here.please")
    first = await sub.next(2)
    await first.ack_sync()
    await sub.unsubscribe()
    info = (await stream.consumer("d")).cached_info
    assert info.config.deliver_subject == "here.please"
    again = await js.subscribe("s.>", durable="d", ack_wait=1)
    for _ in range(100):
        if (await again.consumer_info()).push_bound:
            break
        await asyncio.sleep(0.02)
    assert again._info.push_bound
    await again.destroy()
    with pytest.raises(ConsumerNotFoundError):
        await stream.consumer("d")


async def test_iterating_acknowledges_unless_told_not_to(js: Any) -> None:
    await filled(js, 3)
    sub = await js.subscribe("s.>", durable="d")
    for _ in range(3):
        await sub.next(2)
    assert await sub.next(0.05) is None
    await js.connection.flush()
    await asyncio.sleep(0.05)
    assert (await sub.consumer_info()).num_ack_pending == 0
    await sub.destroy()
    manual = await js.subscribe("s.>", durable="m", manual_ack=True)
    for _ in range(3):
        await manual.next(2)
    assert (await manual.consumer_info()).num_ack_pending == 3
    await manual.destroy()


async def test_a_callback_gets_messages_and_they_are_acknowledged(js: Any) -> None:
    await filled(js, 10)
    seen: list[int] = []

    async def callback(message: JetStreamMessage) -> None:
        seen.append(message.seq)

    sub = await js.subscribe("s.>", durable="d", callback=callback)
    while len(seen) < 10:
        await asyncio.sleep(0.01)
    await sub.drain()
    info = await js.consumer_info("S", "d")
    assert seen == list(range(1, 11))
    assert info.num_ack_pending == 0


async def test_a_queue_group_shares_one_consumer(js: Any) -> None:
    await filled(js, 0)
    subs = [await js.subscribe("s.>", queue="workers") for _ in range(3)]
    await js.publish_many([b""] * 60, subject="s.1")
    await asyncio.sleep(0.2)
    assert sum(sub.pending for sub in subs) == 60
    assert [name async for name in js.consumer_names("S")] == ["workers"]
    for sub in subs:
        await sub.unsubscribe()


async def test_flow_control_and_heartbeats_are_answered(js: Any) -> None:
    await js.create_stream(name="S", storage="memory")
    await js.publish_many([b"x" * 50_000] * 400, subject="S")
    sub = await js.subscribe(
        "S", ack_policy="none", flow_control=True, idle_heartbeat=0.5, max_deliver=1
    )
    for n in range(400):
        message = await sub.next(5)
        assert message.consumer_seq == n + 1
    assert await sub.next(1.2) is None
    await sub.destroy()


async def test_a_pull_subscription_is_found_by_subject(js: Any) -> None:
    await filled(js, 4)
    sub = await js.pull_subscribe("s.1", durable="p")
    assert [m.seq for m in await sub.fetch(2)] == [2, 4]
    again = await js.pull_subscribe("s.1", durable="p")
    assert await again.next(0.1) is None
    with pytest.raises(ValueError, match="pull consumer"):
        await js.subscribe("s.1", durable="p")
    await sub.destroy()


async def test_a_pull_subscription_gives_what_was_asked_for(js: Any) -> None:
    await filled(js, 10)
    sub = await js.pull_subscribe("s.>", durable="p")
    await sub.unsubscribe(4)
    await sub.pull(batch=3, expires=2)
    await sub.pull(batch=3, expires=2)
    seen = []
    async for message in sub:
        seen.append(message.seq)
        await message.ack()
    assert seen == [1, 2, 3, 4]
    other = await js.pull_subscribe("s.1", durable="q")
    await other.pull(no_wait=True)
    assert (await other.__anext__()).seq == 2
    await other.unsubscribe()
    with pytest.raises(StopAsyncIteration):
        await other.__anext__()
