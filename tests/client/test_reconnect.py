"""Losing the connection: what is restored, what is buffered, what is told."""

import asyncio
from typing import Any

import pytest

import jetstream
from jetstream.client.errors import (
    ConnectionClosedError,
    DisconnectedError,
    OutboundBufferError,
)


async def cut(nc: Any) -> None:
    """Break the link as a network would."""
    nc._keeper.link.transport.abort()
    while nc.is_connected:
        await asyncio.sleep(0)


async def test_subscriptions_and_buffered_publishes_survive(nc: Any) -> None:
    sub = await nc.subscribe("a")
    await nc.flush()
    await cut(nc)
    for n in range(100):
        await nc.publish("a", b"%d" % n)
    got = [(await sub.next(5)).data for _ in range(100)]
    assert got == [b"%d" % n for n in range(100)]
    assert nc.stats().reconnects == 1


async def test_a_subscription_with_a_maximum_keeps_counting(nc: Any) -> None:
    sub = await nc.subscribe("a", max_messages=3)
    await nc.publish("a", b"1")
    await sub.next(2)
    await cut(nc)
    for _ in range(5):
        await nc.publish("a", b"")
    assert len([m async for m in sub]) == 2


async def test_requests_wait_for_the_new_link(nc: Any) -> None:
    await nc.subscribe("echo", callback=lambda m: m.respond(m.data))
    await nc.request("echo", b"1")
    await cut(nc)
    assert (await nc.request("echo", b"2")).data == b"2"


async def test_a_flush_under_way_fails_and_later_ones_work(nc: Any) -> None:
    waiting = asyncio.ensure_future(nc.flush())
    await asyncio.sleep(0)
    nc._keeper.link.transport.abort()
    try:
        await waiting
    except DisconnectedError:
        pass
    await nc.flush()


async def test_too_much_while_disconnected_is_refused(url: str) -> None:
    async with jetstream.connect(url, reconnect_buffer_bytes=1000, reconnect_wait=5) as nc:
        await nc.publish("a", b"")
        await cut(nc)
        assert nc._keeper._reconnecting is not None
        nc._keeper._reconnecting.cancel()
        with pytest.raises(OutboundBufferError):
            for _ in range(20):
                await nc.publish("a", b"x" * 100)
        await nc.close()


async def test_everybody_is_told(url: str) -> None:
    told: list[str] = []
    async with jetstream.connect(
        url,
        on_event=lambda event: told.append(event.kind.value),
        on_disconnect=lambda event: told.append("!disconnect"),
        on_reconnect=lambda event: told.append("!reconnect"),
        on_close=lambda event: told.append("!close"),
    ) as nc:
        await cut(nc)
        await nc.flush()
    assert told == [
        "connected",
        "disconnected",
        "!disconnect",
        "reconnected",
        "!reconnect",
        "closed",
        "!close",
    ]


async def test_without_reconnect_it_is_closed(url: str) -> None:
    nc = await jetstream.connect(url, reconnect=False)
    sub = await nc.subscribe("a")
    await cut(nc)
    with pytest.raises(ConnectionClosedError):
        await sub.next(5)
    assert nc.is_closed


async def test_after_too_many_attempts_it_gives_up(own_server: Any) -> None:
    nc = await jetstream.connect(
        own_server.url, max_reconnects=2, reconnect_wait=0.01, reconnect_jitter=0
    )
    sub = await nc.subscribe("a")
    await asyncio.to_thread(own_server.stop)
    with pytest.raises(ConnectionClosedError):
        await sub.next(10)
    assert nc.is_closed
    assert nc.last_error is not None


async def test_a_restarted_server_is_found_again(own_server: Any) -> None:
    async with jetstream.connect(
        own_server.url, max_reconnects=-1, reconnect_wait=0.05, request_timeout=20
    ) as nc:
        js = nc.jetstream(timeout=20)
        stream = await js.create_stream(name="S")
        consumer = await stream.create_consumer(durable_name="c")
        await js.publish("S", b"before")
        await asyncio.to_thread(own_server.stop)
        publish = asyncio.ensure_future(js.publish("S", b"during", retry_attempts=20))
        await asyncio.to_thread(own_server.start)
        await publish
        seen = [m.data for m in await consumer.fetch(2, max_wait=10)]
        assert seen == [b"before", b"during"]


async def test_a_flow_goes_on_after_a_reconnect(js: Any) -> None:
    stream = await js.create_stream(name="S")
    consumer = await stream.create_consumer(durable_name="c", ack_wait=1)
    async with consumer.messages() as flow:
        for n in range(5):
            await js.publish("S", b"%d" % n)
            message = await flow.next(5)
            assert message is not None
            assert message.data == b"%d" % n
            await message.ack_sync()
            await cut(js.connection)


async def test_bulk_publishing_reports_what_was_lost(js: Any) -> None:
    await js.create_stream(name="S")

    async def source() -> Any:
        for n in range(2000):
            if n == 1000:
                await cut(js.connection)
            yield b"%d" % n

    report = await js.publish_many(source(), subject="S", timeout=1)
    assert report.count == 2000
    stored = (await js.stream_info("S")).state.messages
    assert stored >= sum(seq > 0 for seq in report.sequences)
    assert sum(seq > 0 for seq in report.sequences) + len(report.failed) == 2000
    assert report.sequences[1999] > 0


async def test_lost_acks_do_not_block_the_window_for_ever(js: Any) -> None:
    quick = js.connection.jetstream(timeout=0.3)
    await quick.create_stream(name="S")
    futures = [await quick.publish_async("S", b"%d" % n) for n in range(50)]
    js.connection._keeper.link.transport.abort()
    futures += [await quick.publish_async("S", b"%d" % n) for n in range(50)]
    await quick.publish_async_complete(10)
    assert all(future.done() for future in futures)
    assert futures[-1].exception() is None


async def test_errors_nobody_asked_for_are_logged(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with jetstream.connect(url) as nc:
        sub = await nc.subscribe("a", pending_msgs=1)
        for _ in range(3):
            await nc.publish("a", b"")
        await nc.flush()
        assert sub.dropped == 2
    assert "slow consumer" in caplog.text


async def test_a_failing_callback_does_not_break_the_connection(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(event: Any) -> None:
        raise ValueError("async callback")

    def broken_too(event: Any) -> None:
        raise ValueError("plain callback")

    async with jetstream.connect(url, on_event=broken_too, on_disconnect=broken) as nc:
        await cut(nc)
        await nc.flush()
    assert "plain callback" in caplog.text
    assert "async callback" in caplog.text


async def test_pings_find_a_dead_connection(url: str) -> None:
    async with jetstream.connect(url, ping_interval=0.05, max_outstanding_pings=2) as nc:
        await nc.flush()
        # The transport no longer reads: from our side the server has gone silent.
        assert nc._keeper.link is not None
        nc._keeper.link.transport.pause_reading()
        while nc.stats().reconnects == 0:
            await asyncio.sleep(0.01)
        await nc.flush()
