"""Ordered consumers: no gap, no repeat, whatever happens to the consumer or the connection."""

import asyncio
from typing import Any

import pytest

from jetstream.client.errors import StreamNotFoundError


async def filled(js: Any, n: int) -> Any:
    stream = await js.create_stream(name="S", subjects=["s.>"])
    if n:
        await js.publish_many((f"s.{i % 2}", b"%d" % i) for i in range(n))
    return stream


async def test_everything_comes_in_order(js: Any) -> None:
    stream = await filled(js, 3000)
    consumer = await stream.ordered_consumer()
    async with await consumer.messages(max_messages=200) as flow:
        seen = []
        async for message in flow:
            seen.append(message.seq)
            if len(seen) == 3000:
                break
    assert seen == list(range(1, 3001))
    assert [name async for name in stream.consumer_names()] == []


async def test_filters_and_starting_points(js: Any) -> None:
    stream = await filled(js, 10)
    consumer = await stream.ordered_consumer(filter_subjects="s.1", opt_start_seq=5)
    assert [m.seq for m in await consumer.fetch(3, max_wait=1)] == [6, 8, 10]
    last = await stream.ordered_consumer(deliver_policy="last_per_subject", filter_subjects=["s.*"])
    assert [m.seq for m in await last.fetch(2, max_wait=1)] == [9, 10]
    new = await stream.ordered_consumer(deliver_policy="new")
    assert await new.fetch_no_wait(5) == []
    await js.publish("s.1", b"")
    assert (await new.next(2)).seq == 11


async def test_it_survives_the_deletion_of_its_consumer(js: Any) -> None:
    stream = await filled(js, 100)
    consumer = await stream.ordered_consumer()
    seen = []
    async with await consumer.messages(max_messages=10) as flow:
        async for message in flow:
            seen.append(message.seq)
            if len(seen) in (7, 42, 77):
                await stream.delete_consumer(consumer.name)
            if len(seen) == 100:
                break
    assert seen == list(range(1, 101))


async def test_fetch_survives_it_too(js: Any) -> None:
    stream = await filled(js, 30)
    consumer = await stream.ordered_consumer()
    seen = [m.seq for m in await consumer.fetch(10, max_wait=2)]
    await stream.delete_consumer(consumer.name)
    seen += [m.seq for m in await consumer.fetch(10, max_wait=2)]
    seen += [m.seq for m in await consumer.fetch(10, max_wait=2)]
    assert seen == list(range(1, 31))


async def test_a_lost_message_is_fetched_again(js: Any) -> None:
    stream = await filled(js, 50)
    consumer = await stream.ordered_consumer()
    real = consumer.accept
    dropped: list[Any] = []

    def losing(made: list[Any]) -> list[Any]:
        if not dropped and len(made) > 3:
            dropped.append(made.pop(2))
        kept: list[Any] = real(made)
        return kept

    consumer.accept = losing
    async with await consumer.messages(max_messages=20) as flow:
        seen = []
        async for message in flow:
            seen.append(message.seq)
            if len(seen) == 50:
                break
    assert dropped
    assert seen == list(range(1, 51))


async def test_it_survives_a_lost_connection(js: Any) -> None:
    stream = await filled(js, 400)
    consumer = await stream.ordered_consumer()
    seen = []
    async with await consumer.messages(max_messages=40) as flow:
        async for message in flow:
            seen.append(message.seq)
            if len(seen) in (50, 200):
                js.connection._keeper.link.transport.abort()
            if len(seen) == 400:
                break
    assert seen == list(range(1, 401))
    assert js.connection.stats().reconnects == 2


async def test_it_survives_a_restart_of_the_server(own_server: Any) -> None:
    import jetstream

    async with jetstream.connect(own_server.url, max_reconnects=-1) as nc:
        js = nc.jetstream(timeout=10)
        await filled(js, 200)
        consumer = await js.ordered_consumer("S")
        seen = []
        async with await consumer.messages(max_messages=20) as flow:
            async for message in flow:
                seen.append(message.seq)
                if len(seen) == 100:
                    await asyncio.to_thread(own_server.stop)
                    await asyncio.to_thread(own_server.start)
                if len(seen) == 200:
                    break
        assert seen == list(range(1, 201))


async def test_the_end_of_the_stream_is_an_error(js: Any) -> None:
    stream = await filled(js, 1)
    consumer = await stream.ordered_consumer()
    async with await consumer.messages(expires=2) as flow:
        assert (await flow.next(2)).seq == 1
        await stream.delete()
        with pytest.raises(StreamNotFoundError):
            await asyncio.wait_for(flow.__anext__(), 10)
    with pytest.raises(StreamNotFoundError):
        await js.ordered_consumer("S")


async def test_consume_calls_back_in_order(js: Any) -> None:
    stream = await filled(js, 20)
    consumer = await stream.ordered_consumer()
    seen: list[int] = []
    async with await consumer.consume(lambda m: seen.append(m.seq)):
        while len(seen) < 20:
            await asyncio.sleep(0.01)
    assert seen == list(range(1, 21))
