"""The testing kit as a user sees it: fixtures, time travel, crashes, a bad network."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import nats
import pytest

import jetstream
from jetstream import sync
from jetstream.client.errors import KeyNotFoundError, RequestTimeoutError
from jetstream.testing import BlockingServer, FaultyProxy, LocalServer, ManualClock


def test_the_fixture_gives_a_working_server(js: Any, jetstream_server: BlockingServer) -> None:
    stream = js.create_stream(name="S", subjects=["s.>"])
    assert js.publish("s.1", b"x").seq == 1
    assert stream.get_msg(1).data == b"x"
    with sync.connect(jetstream_server.url) as other:
        assert other.jetstream().stream_info("S").state.messages == 1


def test_a_server_starts_in_milliseconds() -> None:
    with BlockingServer(disk="memory"):
        pass
    start = time.perf_counter()
    for _ in range(3):
        with BlockingServer(disk="memory"):
            pass
    assert (time.perf_counter() - start) / 3 < 0.25


def test_the_ack_wait_is_over_when_time_has_passed(
    js: Any, jetstream_server: BlockingServer
) -> None:
    stream = js.create_stream(name="S")
    consumer = stream.create_consumer(durable_name="c", ack_wait=30)
    js.publish("S", b"x")
    assert consumer.next(1).deliveries == 1
    assert consumer.fetch_no_wait(1) == []
    jetstream_server.advance(31)
    assert consumer.next(1).deliveries == 2


def test_values_expire_and_schedules_fire(js: Any, jetstream_server: BlockingServer) -> None:
    kv = js.create_key_value("B", ttl=60)
    kv.put("k", b"x")
    jetstream_server.advance(timedelta(seconds=61))
    with pytest.raises(KeyNotFoundError):
        kv.get("k")
    stream = js.create_stream(
        name="S", subjects=["s.>", "t.>"], allow_msg_schedules=True, allow_msg_ttl=True
    )
    at = jetstream_server.clock.time + timedelta(hours=1)
    js.publish("s.plan", b"later", schedule=at, schedule_target="t.now")
    assert stream.info().state.messages == 1
    jetstream_server.advance(timedelta(hours=1, seconds=1))
    assert stream.get_last_msg("t.now").data == b"later"


def test_clients_come_back_after_a_dropped_connection(
    js: Any, nats_connection: Any, jetstream_server: BlockingServer
) -> None:
    js.create_stream(name="S")
    assert jetstream_server.drop_connections() == 1
    assert js.publish("S", b"x", retry_attempts=20).seq == 1
    assert nats_connection.stats().reconnects == 1


def test_what_was_acknowledged_survives_a_crash(js: Any, jetstream_server: BlockingServer) -> None:
    js.create_stream(name="S")
    for n in range(20):
        js.publish("S", b"%d" % n)
    jetstream_server.crash()
    assert js.stream_info("S").state.messages == 20


def test_what_was_only_written_is_not_acknowledged_and_may_be_gone(
    js: Any, jetstream_server: BlockingServer
) -> None:
    js.create_stream(name="S")
    js.publish("S", b"safe")
    disk = jetstream_server.disk
    assert disk is not None
    disk.hold_syncs()
    future = js.publish_async("S", b"in between")
    time.sleep(0.05)
    assert not future.done()
    jetstream_server.crash("nothing")
    assert js.stream_info("S").state.last_seq == 1


def test_a_restart_in_good_order_keeps_everything(
    js: Any, jetstream_server: BlockingServer
) -> None:
    js.create_key_value("B").put("k", b"v")
    jetstream_server.restart()
    assert js.key_value("B").get("k").value == b"v"


def run(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


def test_the_same_in_an_event_loop() -> None:
    async def inside() -> None:
        async with LocalServer(disk="memory") as server, server.connect() as nc:
            js = nc.jetstream()
            consumer = await (await js.create_stream(name="S")).create_consumer(
                durable_name="c", ack_wait=10
            )
            await js.publish("S", b"x")
            await consumer.next(1)
            await server.advance(11)
            again = await consumer.next(1)
            assert again is not None
            assert again.deliveries == 2
            theirs = await nats.connect(server.url)
            assert (await theirs.jetstream().stream_info("S")).state.messages == 1
            await theirs.close()

    run(inside)


def test_a_lost_ack_is_a_timeout_and_a_repeat_with_an_id_is_a_duplicate() -> None:
    async def inside() -> None:
        async with (
            LocalServer() as server,
            FaultyProxy(server.url) as proxy,
            jetstream.connect(proxy.url) as nc,
        ):
            js = nc.jetstream()
            await js.create_stream(name="S")
            proxy.lose_acks(1)
            with pytest.raises(RequestTimeoutError):
                await js.publish("S", b"x", msg_id="1", timeout=0.2)
            assert (await js.publish("S", b"x", msg_id="1")).duplicate
            assert len(proxy.lost) == 1

    run(inside)


def test_a_bad_network_is_survived() -> None:
    async def inside() -> None:
        async with (
            LocalServer() as server,
            FaultyProxy(server.url) as proxy,
            jetstream.connect(proxy.url, reconnect_wait=0.01) as nc,
        ):
            js = nc.jetstream()
            stream = await js.create_stream(name="S")
            await js.publish_many([b"%d" % n for n in range(300)], subject="S")
            consumer = await stream.ordered_consumer()
            seen = []
            async with await consumer.messages(max_messages=20) as flow:
                async for message in flow:
                    seen.append(message.seq)
                    if len(seen) in (40, 150):
                        proxy.cut()
                    if len(seen) == 100:
                        proxy.lose(lambda passing: passing.reply.startswith(b"$JS.ACK"), 3)
                    if len(seen) == 300:
                        break
            assert seen == list(range(1, 301))
            proxy.delay = 0.05
            assert await nc.rtt() >= 0.05
            proxy.delay = 0
            proxy.pause()
            with pytest.raises(TimeoutError):
                await nc.flush(0.1)
            proxy.resume()
            proxy.refuse()
            proxy.cut()
            await asyncio.sleep(0.05)
            assert not nc.is_connected
            proxy.refuse(False)
            await nc.flush(10)

    run(inside)


def test_a_frozen_clock_moves_only_when_told() -> None:
    clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    told: list[int] = []
    clock.on_advance.append(lambda: told.append(clock.now()))
    before = clock.now()
    assert clock.now() == before
    clock.advance(seconds=1.5)
    assert clock.now() - before == 1_500_000_000
    assert told == [clock.now()]
    clock.set_back(10)
    assert clock.now() < before
    assert clock.monotonic() == 1_500_000_000
    assert clock.time.year == 2029
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)
