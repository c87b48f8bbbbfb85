"""Unmodified nats-py against our server: every way it can consume a stream."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy
from nats.js.errors import NotFoundError

from jetstream.server.server import Server

Body = Callable[[Client, JetStreamContext, Server], Awaitable[None]]


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[tuple[Client, JetStreamContext, Server]]:
    async with Server(port=0, store_dir=str(path)) as server:
        client = await nats.connect(server.url)
        try:
            yield client, client.jetstream(timeout=3), server
        finally:
            await client.close()


def run(path: Path, body: Body) -> None:
    async def main() -> None:
        async with connected(path) as (client, js, server):
            await js.add_stream(name="S", subjects=["s.>"])
            await body(client, js, server)

    asyncio.run(asyncio.wait_for(main(), 30))


async def fill(js: JetStreamContext, count: int, subject: str = "s.a") -> None:
    for number in range(count):
        await js.publish(subject, str(number).encode())


def test_fetching_in_batches_with_acks(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        await fill(js, 25)
        sub = await js.pull_subscribe("s.>", "c")
        seen: list[int] = []
        while len(seen) < 25:
            for message in await sub.fetch(10, timeout=2):
                seen.append(message.metadata.sequence.stream)
                await message.ack()
        assert seen == list(range(1, 26))
        with pytest.raises(nats.errors.TimeoutError):
            await sub.fetch(1, timeout=0.2)
        await asyncio.sleep(0.05)
        info = await sub.consumer_info()
        assert info.ack_floor is not None
        assert (info.num_ack_pending, info.num_pending, info.ack_floor.stream_seq) == (0, 0, 25)

    run(tmp_path, body)


def test_fetch_waits_for_what_is_published_meanwhile(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        sub = await js.pull_subscribe("s.>", "c")
        waiting = asyncio.create_task(sub.fetch(3, timeout=3))
        await asyncio.sleep(0.05)
        await fill(js, 3)
        # nats-py is content with the first one it had to wait for.
        assert (await waiting)[0].data == b"0"

    run(tmp_path, body)


def test_every_kind_of_ack(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        await fill(js, 5)
        sub = await js.pull_subscribe("s.>", "c", config=ConsumerConfig(ack_wait=1))
        one, two, three, four, five = await sub.fetch(5)
        await one.ack_sync(timeout=2)
        await two.nak()
        await three.nak(delay=0.2)
        await four.term()
        await five.in_progress()
        again = await sub.fetch(1, timeout=1)
        assert (again[0].metadata.sequence.stream, again[0].metadata.num_delivered) == (2, 2)
        await again[0].ack()
        delayed = await sub.fetch(1, timeout=1)
        assert delayed[0].metadata.sequence.stream == 3
        await delayed[0].ack()
        await five.ack()
        await asyncio.sleep(0.05)
        info = await sub.consumer_info()
        assert info.ack_floor is not None
        assert (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 5)

    run(tmp_path, body)


def test_an_unacked_message_comes_again(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        await fill(js, 1)
        sub = await js.pull_subscribe("s.>", "c", config=ConsumerConfig(ack_wait=0.2))
        await sub.fetch(1)
        (again,) = await sub.fetch(1, timeout=2)
        assert again.metadata.num_delivered == 2

    run(tmp_path, body)


def test_push_subscriptions(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        await fill(js, 3)
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def on_message(message: Msg) -> None:
            await got.put(message.data)

        sub = await js.subscribe("s.>", durable="p", cb=on_message)
        await fill(js, 2)
        assert [await asyncio.wait_for(got.get(), 2) for _ in range(5)] == [
            b"0",
            b"1",
            b"2",
            b"0",
            b"1",
        ]
        await asyncio.sleep(0.05)
        assert (await js.consumer_info("S", "p")).num_ack_pending == 0
        await sub.unsubscribe()
        await fill(js, 1)
        sub = await js.subscribe("s.>", durable="p", cb=on_message)
        assert await asyncio.wait_for(got.get(), 2) == b"0"

    run(tmp_path, body)


def test_queue_push_shares_the_work(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        seen: dict[str, list[int]] = {"a": [], "b": []}

        def worker(name: str) -> Callable[[Msg], Awaitable[None]]:
            async def on_message(message: Msg) -> None:
                seen[name].append(message.metadata.sequence.stream)

            return on_message

        await js.subscribe("s.>", queue="workers", cb=worker("a"))
        await js.subscribe("s.>", queue="workers", cb=worker("b"))
        await fill(js, 100)
        for _ in range(50):
            if len(seen["a"]) + len(seen["b"]) >= 100:
                break
            await asyncio.sleep(0.05)
        assert sorted(seen["a"] + seen["b"]) == list(range(1, 101))
        assert seen["a"] and seen["b"]

    run(tmp_path, body)


def test_ordered_consumers_survive_the_loss_of_their_consumer(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        await fill(js, 10)
        sub = await js.subscribe("s.>", ordered_consumer=True, idle_heartbeat=0.5)
        first = [(await sub.next_msg(timeout=2)).metadata.sequence.stream for _ in range(10)]
        assert first == list(range(1, 11))
        info = await sub.consumer_info()
        await js.delete_consumer("S", info.name)
        await fill(js, 5)
        rest = [(await sub.next_msg(timeout=5)).metadata.sequence.stream for _ in range(5)]
        assert rest == list(range(11, 16))

    run(tmp_path, body)


def test_flow_control_carries_large_amounts(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        for _ in range(400):
            await client.publish("s.a", b"x" * 20_000)
        await client.flush()
        await js.publish("s.a", b"last")
        sub = await js.subscribe(
            "s.>", durable="f", flow_control=True, idle_heartbeat=0.5, manual_ack=True
        )
        count = 0
        while True:
            message = await sub.next_msg(timeout=5)
            await message.ack()
            count += 1
            if message.data == b"last":
                break
        assert count == 401

    run(tmp_path, body)


def test_starting_points(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        for subject in ("s.a", "s.b", "s.a", "s.b"):
            await js.publish(subject, b"x")
        for policy, more, wanted in (
            (DeliverPolicy.ALL, {}, [1, 2, 3, 4]),
            (DeliverPolicy.LAST, {}, [4]),
            (DeliverPolicy.BY_START_SEQUENCE, {"opt_start_seq": 3}, [3, 4]),
            (DeliverPolicy.LAST_PER_SUBJECT, {"filter_subject": "s.>"}, [3, 4]),
        ):
            config = ConsumerConfig(deliver_policy=policy, ack_policy=AckPolicy.NONE, **more)
            sub = await js.subscribe("s.>", config=config)
            got = [(await sub.next_msg(timeout=2)).metadata.sequence.stream for _ in wanted]
            assert got == wanted
            await sub.unsubscribe()

    run(tmp_path, body)


def test_a_work_queue_is_emptied_by_its_workers(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        await js.add_stream(name="W", subjects=["w.>"], retention=RetentionPolicy.WORK_QUEUE)
        await fill(js, 40, "w.a")
        seen: list[int] = []

        async def worker() -> None:
            sub = await js.pull_subscribe("w.>", "w")
            while len(seen) < 40:
                try:
                    for message in await sub.fetch(5, timeout=0.5):
                        seen.append(message.metadata.sequence.stream)
                        await message.ack_sync()
                except nats.errors.TimeoutError:
                    return

        await asyncio.gather(*(worker() for _ in range(4)))
        assert sorted(seen) == list(range(1, 41))
        await asyncio.sleep(0.05)
        assert (await js.stream_info("W")).state.messages == 0

    run(tmp_path, body)


def test_deleting_a_consumer(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        await js.add_consumer("S", ConsumerConfig(durable_name="c"))
        assert [info.name for info in await js.consumers_info("S")] == ["c"]
        assert await js.delete_consumer("S", "c")
        with pytest.raises(NotFoundError):
            await js.consumer_info("S", "c")

    run(tmp_path, body)


def test_pending_deliveries_survive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with connected(tmp_path) as (_, js, _):
            await js.add_stream(name="S", subjects=["s.>"])
            await fill(js, 6)
            sub = await js.pull_subscribe("s.>", "c", config=ConsumerConfig(ack_wait=1))
            messages = await sub.fetch(4)
            await messages[0].ack_sync()
            await messages[2].ack_sync()
        async with connected(tmp_path) as (_, js, _):
            info = await js.consumer_info("S", "c")
            assert (info.num_ack_pending, info.num_pending) == (2, 2)
            assert (info.delivered.consumer_seq, info.ack_floor.stream_seq) == (4, 1)
            sub = await js.pull_subscribe_bind("c", "S")
            got: list[tuple[int, int]] = []
            while len(got) < 4:
                for message in await sub.fetch(4, timeout=3):
                    meta = message.metadata
                    got.append((meta.sequence.stream, meta.num_delivered))
                    await message.ack_sync()
            assert sorted(got) == [(2, 2), (4, 2), (5, 1), (6, 1)]

    asyncio.run(asyncio.wait_for(main(), 30))
