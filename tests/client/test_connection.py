"""Publish, subscribe, request; limits, draining, events."""

import asyncio
from typing import Any

import pytest

import jetstream
from jetstream.client.errors import (
    AuthorizationError,
    BadSubjectError,
    ConnectionClosedError,
    MaxPayloadError,
    NoRespondersError,
    NoServersError,
    RequestTimeoutError,
    SlowConsumerError,
)


async def test_both_ways_to_connect_work(url: str) -> None:
    async with jetstream.connect(url, name="a") as nc:
        assert nc.is_connected
    assert nc.is_closed
    async with await jetstream.connect(url) as nc:
        assert nc.status == "connected"


async def test_a_message_arrives_with_its_headers(nc: Any) -> None:
    sub = await nc.subscribe("a.*")
    await nc.publish("a.b", b"x", headers={"Key": ["1", "2"], "key": "3"}, reply="back")
    message = await sub.next(2)
    assert (message.subject, message.data, message.reply) == ("a.b", b"x", "back")
    assert message.headers.get_all("Key") == ["1", "2"]
    assert message.headers["key"] == "3"


async def test_text_and_views_can_be_published(nc: Any) -> None:
    sub = await nc.subscribe("a")
    await nc.publish("a", "grüß")
    await nc.publish("a", memoryview(b"abc")[1:])
    assert (await sub.next(2)).text == "grüß"
    assert (await sub.next(2)).data == b"bc"


async def test_a_request_gets_its_answer(nc: Any) -> None:
    async def answer(message: jetstream.Message) -> None:
        await message.respond(message.data.upper(), headers={"A": "b"})

    await nc.subscribe("service", callback=answer)
    reply = await nc.request("service", b"hey")
    assert reply.data == b"HEY"
    assert reply.headers["A"] == "b"


async def test_many_requests_at_once_do_not_mix(nc: Any) -> None:
    await nc.subscribe("double", callback=lambda m: m.respond(m.data * 2))
    replies = await asyncio.gather(*(nc.request("double", b"%d" % n) for n in range(200)))
    assert [reply.data for reply in replies] == [b"%d" % n * 2 for n in range(200)]


async def test_nobody_listening_is_told_at_once(nc: Any) -> None:
    with pytest.raises(NoRespondersError, match="nobody"):
        await nc.request("nobody", timeout=5)


async def test_a_silent_service_times_out(nc: Any) -> None:
    await nc.subscribe("silent")
    with pytest.raises(TimeoutError):
        await nc.request("silent", timeout=0.05)


async def test_several_answers_are_collected_until_they_stall(nc: Any) -> None:
    async def answer(message: jetstream.Message) -> None:
        for n in range(3):
            await message.respond(b"%d" % n)

    await nc.subscribe("many", callback=answer)
    got = [m.data async for m in nc.request_many("many", timeout=2, stall=0.1)]
    assert got == [b"0", b"1", b"2"]
    got = [m.data async for m in nc.request_many("many", timeout=2, max_messages=2)]
    assert got == [b"0", b"1"]


async def test_a_queue_group_shares_messages(nc: Any) -> None:
    subs = [await nc.subscribe("work", queue="q") for _ in range(3)]
    for n in range(60):
        await nc.publish("work", b"%d" % n)
    await nc.flush()
    assert sum(sub.pending for sub in subs) == 60


async def test_a_subscription_ends_by_itself_after_its_maximum(nc: Any) -> None:
    sub = await nc.subscribe("a", max_messages=2)
    for _ in range(5):
        await nc.publish("a", b"")
    await nc.flush()
    assert len([m async for m in sub]) == 2
    assert sub.is_closed


async def test_unsubscribe_stops_messages(nc: Any) -> None:
    sub = await nc.subscribe("a")
    await sub.unsubscribe()
    await nc.publish("a", b"")
    await nc.flush()
    assert sub.pending == 0
    with pytest.raises(ConnectionClosedError):
        await sub.next(0.1)


async def test_a_slow_reader_loses_messages_and_hears_of_it(url: str) -> None:
    errors: list[Exception] = []
    async with jetstream.connect(url, on_error=errors.append) as nc:
        sub = await nc.subscribe("a", pending_msgs=10)
        for _ in range(50):
            await nc.publish("a", b"")
        await nc.flush()
        assert (sub.pending, sub.dropped) == (10, 40)
        assert len(errors) == 1
        assert isinstance(errors[0], SlowConsumerError)


async def test_bytes_are_limited_too(nc: Any) -> None:
    sub = await nc.subscribe("a", pending_bytes=1000)
    for _ in range(50):
        await nc.publish("a", b"x" * 99)
    await nc.flush()
    assert sub.pending == 10


async def test_an_error_in_a_callback_is_reported_and_the_next_message_still_comes(
    url: str,
) -> None:
    errors: list[Exception] = []
    seen: list[bytes] = []

    def callback(message: jetstream.Message) -> None:
        seen.append(message.data)
        if message.data == b"1":
            raise ValueError("bad")

    async with jetstream.connect(url, on_error=errors.append) as nc:
        await nc.subscribe("a", callback=callback)
        for n in range(3):
            await nc.publish("a", b"%d" % n)
    assert seen == [b"0", b"1", b"2"]
    assert [str(error) for error in errors] == ["bad"]


async def test_draining_lets_callbacks_finish(url: str) -> None:
    seen: list[bytes] = []

    async def slowly(message: jetstream.Message) -> None:
        await asyncio.sleep(0)
        seen.append(message.data)

    nc = await jetstream.connect(url)
    await nc.subscribe("a", callback=slowly)
    for n in range(100):
        await nc.publish("a", b"%d" % n)
    await nc.drain()
    assert len(seen) == 100
    assert nc.is_closed


async def test_a_message_larger_than_the_server_takes_is_refused_here(nc: Any) -> None:
    with pytest.raises(MaxPayloadError):
        await nc.publish("a", b"x" * (nc.max_payload + 1))
    await nc.publish("a", b"x" * nc.max_payload)
    await nc.flush()


@pytest.mark.parametrize("subject", ["", "a b", "a..b", ".a", "a.", "a.>.b", "a\r\nPING"])
async def test_bad_subjects_are_refused(nc: Any, subject: str) -> None:
    with pytest.raises(BadSubjectError):
        await nc.subscribe(subject)


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB x 0\r\n"])
async def test_a_publish_cannot_smuggle_commands(nc: Any, subject: str) -> None:
    with pytest.raises(ValueError, match="invalid subject"):
        await nc.publish(subject, b"")
    with pytest.raises(ValueError, match="line end"):
        await nc.publish("a", b"", headers={"A": "b\r\nC: d"})
    await nc.flush()


async def test_closing_fails_waiting_requests(url: str) -> None:
    nc = await jetstream.connect(url)
    await nc.subscribe("silent")
    waiting = asyncio.ensure_future(nc.request("silent", timeout=10))
    await nc.flush()
    await nc.close()
    with pytest.raises(ConnectionClosedError):
        await waiting
    with pytest.raises(ConnectionClosedError):
        await nc.publish("a", b"")


async def test_no_server_is_an_error_that_names_them() -> None:
    with pytest.raises(NoServersError, match=r"127\.0\.0\.1:9"):
        await jetstream.connect(["127.0.0.1:9", "nats://127.0.0.1:1"], connect_timeout=1)


async def test_a_dead_server_in_the_list_is_skipped(url: str) -> None:
    async with jetstream.connect(["127.0.0.1:9", url], randomize=False) as nc:
        assert nc.connected_url == url


async def test_statistics_and_round_trip_time(nc: Any) -> None:
    sub = await nc.subscribe("a")
    await nc.publish("a", b"12345")
    await sub.next(2)
    stats = nc.stats()
    assert (stats.out_msgs, stats.in_msgs, stats.out_bytes, stats.in_bytes) == (1, 1, 5, 5)
    assert 0 < await nc.rtt() < 5


async def test_own_messages_can_be_left_out(url: str) -> None:
    async with jetstream.connect(url, echo=False) as nc:
        sub = await nc.subscribe("a")
        await nc.publish("a", b"")
        await nc.flush()
        assert sub.pending == 0


async def test_events_tell_the_story(url: str) -> None:
    nc = await jetstream.connect(url)
    events = nc.events()
    told = asyncio.ensure_future(events.__anext__())
    await asyncio.sleep(0)
    await nc.close()
    assert (await told).kind == "closed"


async def test_a_flood_larger_than_any_buffer_arrives_complete(nc: Any) -> None:
    sub = await nc.subscribe("flood")
    for n in range(20_000):
        await nc.publish("flood", n.to_bytes(4, "big") * 64)
    got = 0
    async for message in sub:
        assert int.from_bytes(message.data[:4], "big") == got
        got += 1
        if got == 20_000:
            break


async def test_large_messages_pass_whole(nc: Any) -> None:
    sub = await nc.subscribe("large")
    for n in range(8):
        await nc.publish("large", bytes([n]) * 900_000)
    for n in range(8):
        message = await sub.next(5)
        assert message.data == bytes([n]) * 900_000


async def test_waiting_for_a_message_can_time_out_and_go_on(nc: Any) -> None:
    sub = await nc.subscribe("a")
    with pytest.raises(RequestTimeoutError):
        await sub.next(0.02)
    await nc.publish("a", b"1")
    assert (await sub.next(2)).data == b"1"


async def test_wrong_credentials_are_told_apart() -> None:
    from tests.client.conftest import ServerProcess

    server = ServerProcess("reference", "--user", "u", "--pass", "p").start()
    try:
        with pytest.raises(AuthorizationError):
            await jetstream.connect(server.url)
        async with jetstream.connect(server.url, user="u", password="p") as nc:
            await nc.flush()
        async with jetstream.connect(f"nats://u:p@127.0.0.1:{server.port}") as nc:
            await nc.flush()
    finally:
        server.remove()
