"""Our client against nats-py 2.16, on the same server, in the same run, taking turns.

    python -m benchmarks.client [--server nats-server|jetstream] [--rounds 5] [--quick]

Each row is the median of the rounds. "pipelined publish" is what each library offers for bulk:
`publish_many` here, a window of `publish_async` there. The blocking client is measured beside the
async one, to see what crossing into its background loop costs.
"""

import argparse
import asyncio
import gc
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import nats
from nats.js.api import ConsumerConfig

import jetstream
from benchmarks.harness import OURS, REFERENCE, ServerProcess, median
from jetstream import sync

PAYLOAD = b"x" * 128
MIB = 1 << 20


class Sizes:
    def __init__(self, quick: bool) -> None:
        few = 10 if quick else 1
        self.core = 200_000 // few
        self.awaited = 4_000 // few
        self.bulk_ours = 200_000 // few
        self.bulk_theirs = 50_000 // few
        self.read_ours = 200_000 // few
        self.read_theirs = 40_000 // few
        self.kv = 3_000 // few
        self.object = (8 if quick else 64) * MIB


async def timed(work: Awaitable[Any], count: float) -> float:
    gc.collect()
    start = time.perf_counter()
    await work
    return count / (time.perf_counter() - start)


class Ours:
    """This package."""

    def __init__(self, url: str, sizes: Sizes) -> None:
        self.url = url
        self.sizes = sizes

    async def open(self) -> None:
        self.nc = await jetstream.connect(self.url)
        self.js = self.nc.jetstream(timeout=30)

    async def close(self) -> None:
        await self.nc.close()

    async def core_publish(self) -> float:
        async def work() -> None:
            publish = self.nc.publish
            for _ in range(self.sizes.core):
                await publish("bench.core", PAYLOAD)
            await self.nc.flush(60)

        return await timed(work(), self.sizes.core)

    async def core_receive(self) -> float:
        sub = await self.nc.subscribe("bench.core")

        async def work() -> None:
            for _ in range(self.sizes.core):
                await self.nc.publish("bench.core", PAYLOAD)
            left = self.sizes.core
            async for _ in sub:
                left -= 1
                if not left:
                    break

        rate = await timed(work(), self.sizes.core)
        await sub.unsubscribe()
        return rate

    async def awaited_publish(self) -> float:
        async def work() -> None:
            for _ in range(self.sizes.awaited):
                await self.js.publish("bench.s", PAYLOAD)

        return await timed(work(), self.sizes.awaited)

    async def pipelined_publish(self) -> float:
        n = self.sizes.bulk_ours
        messages = (PAYLOAD for _ in range(n))
        return await timed(self.js.publish_many(messages, subject="bench.s"), n)

    async def publish_async(self) -> float:
        n = self.sizes.bulk_ours

        async def work() -> None:
            for _ in range(n):
                await self.js.publish_async("bench.s", PAYLOAD)
            await self.js.publish_async_complete(60)

        return await timed(work(), n)

    async def fetch_and_ack(self) -> float:
        n = self.sizes.read_ours
        consumer = await self.js.create_consumer("FULL", max_ack_pending=-1)

        async def work() -> None:
            left = n
            while left > 0:
                batch = await consumer.fetch(1000, max_wait=5)
                for message in batch:
                    await message.ack()
                left -= len(batch)

        rate = await timed(work(), n)
        await consumer.delete()
        return rate

    async def ordered_iteration(self) -> float:
        n = self.sizes.read_ours
        consumer = await self.js.ordered_consumer("FULL")

        async def work() -> None:
            left = n
            async with await consumer.messages() as flow:
                async for _ in flow:
                    left -= 1
                    if not left:
                        return

        return await timed(work(), n)

    async def kv_put(self) -> float:
        kv = await self.js.key_value("BENCH")

        async def work() -> None:
            for n in range(self.sizes.kv):
                await kv.put(f"key.{n % 100}", PAYLOAD)

        return await timed(work(), self.sizes.kv)

    async def kv_get(self) -> float:
        kv = await self.js.key_value("BENCH")

        async def work() -> None:
            for n in range(self.sizes.kv):
                await kv.get(f"key.{n % 100}")

        return await timed(work(), self.sizes.kv)

    async def object_put(self) -> float:
        store = await self.js.object_store("BENCH")
        data = os.urandom(self.sizes.object)
        return await timed(store.put("ours", data), self.sizes.object / MIB)

    async def object_get(self) -> float:
        store = await self.js.object_store("BENCH")
        return await timed(store.get_bytes("ours"), self.sizes.object / MIB)


class Theirs:
    """nats-py."""

    def __init__(self, url: str, sizes: Sizes) -> None:
        self.url = url
        self.sizes = sizes

    async def open(self) -> None:
        self.nc = await nats.connect(self.url)
        self.js = self.nc.jetstream(timeout=60, publish_async_max_pending=100_000)

    async def close(self) -> None:
        await self.nc.close()

    async def core_publish(self) -> float:
        async def work() -> None:
            publish = self.nc.publish
            for _ in range(self.sizes.core):
                await publish("bench.core", PAYLOAD)
            await self.nc.flush(60)

        return await timed(work(), self.sizes.core)

    async def core_receive(self) -> float:
        sub = await self.nc.subscribe("bench.core")
        n = self.sizes.core // 4

        async def work() -> None:
            for _ in range(n):
                await self.nc.publish("bench.core", PAYLOAD)
            left = n
            async for _ in sub.messages:
                left -= 1
                if not left:
                    break

        rate = await timed(work(), n)
        await sub.unsubscribe()
        return rate

    async def awaited_publish(self) -> float:
        async def work() -> None:
            for _ in range(self.sizes.awaited):
                await self.js.publish("bench.s", PAYLOAD)

        return await timed(work(), self.sizes.awaited)

    async def pipelined_publish(self) -> float:
        n = self.sizes.bulk_theirs

        async def work() -> None:
            for _ in range(n):
                await self.js.publish_async("bench.s", PAYLOAD, wait_stall=30)
            await self.js.publish_async_completed()

        return await timed(work(), n)

    publish_async = pipelined_publish

    async def fetch_and_ack(self) -> float:
        n = self.sizes.read_theirs
        name = f"bench{time.perf_counter_ns()}"
        config = ConsumerConfig(max_ack_pending=-1)
        psub = await self.js.pull_subscribe("full", durable=name, stream="FULL", config=config)

        async def work() -> None:
            left = n
            while left > 0:
                batch = await psub.fetch(1000, timeout=5)
                for message in batch:
                    await message.ack()
                left -= len(batch)

        rate = await timed(work(), n)
        await self.js.delete_consumer("FULL", name)
        return rate

    async def ordered_iteration(self) -> float:
        n = self.sizes.read_theirs
        sub = await self.js.subscribe("full", ordered_consumer=True, stream="FULL")

        async def work() -> None:
            left = n
            async for _ in sub.messages:
                left -= 1
                if not left:
                    return

        rate = await timed(work(), n)
        await sub.unsubscribe()
        return rate

    async def kv_put(self) -> float:
        kv = await self.js.key_value("BENCH")

        async def work() -> None:
            for n in range(self.sizes.kv):
                await kv.put(f"key.{n % 100}", PAYLOAD)

        return await timed(work(), self.sizes.kv)

    async def kv_get(self) -> float:
        kv = await self.js.key_value("BENCH")

        async def work() -> None:
            for n in range(self.sizes.kv):
                await kv.get(f"key.{n % 100}")

        return await timed(work(), self.sizes.kv)

    async def object_put(self) -> float:
        store = await self.js.object_store("BENCH")
        data = os.urandom(self.sizes.object)
        return await timed(store.put("theirs", data), self.sizes.object / MIB)

    async def object_get(self) -> float:
        store = await self.js.object_store("BENCH")
        return await timed(store.get("theirs"), self.sizes.object / MIB)


ROWS: list[tuple[str, str, float]] = [
    ("core publish (msg/s)", "core_publish", 1),
    ("core publish and receive (msg/s)", "core_receive", 1),
    ("awaited publish (msg/s)", "awaited_publish", 1),
    ("pipelined publish (msg/s)", "pipelined_publish", 5),
    ("publish_async (msg/s)", "publish_async", 1),
    ("fetch 1000 and ack each (msg/s)", "fetch_and_ack", 5),
    ("ordered iteration (msg/s)", "ordered_iteration", 5),
    ("KV put (op/s)", "kv_put", 1),
    ("KV get (op/s)", "kv_get", 1),
    ("object put (MiB/s)", "object_put", 1),
    ("object get (MiB/s)", "object_get", 10),
]


async def prepare(url: str, sizes: Sizes) -> None:
    async with jetstream.connect(url) as nc:
        js = nc.jetstream(timeout=30)
        await js.create_stream(name="S", subjects=["bench.s"])
        await js.create_stream(name="FULL", subjects=["full"])
        await js.create_key_value("BENCH")
        await js.create_object_store("BENCH")
        await js.publish_many((PAYLOAD for _ in range(sizes.read_ours)), subject="full")


async def compare(url: str, sizes: Sizes, rounds: int) -> list[str]:
    await prepare(url, sizes)
    lines = ["| | nats-py | ours | ratio | goal |", "| --- | ---: | ---: | ---: | ---: |"]
    for title, name, goal in ROWS:
        results: dict[str, list[float]] = {"ours": [], "theirs": []}
        for number in range(rounds):
            sides: list[tuple[str, Any]] = [
                ("ours", Ours(url, sizes)),
                ("theirs", Theirs(url, sizes)),
            ]
            for key, side in sides if number % 2 else reversed(sides):
                if name == "object_get" and key == "theirs" and number:
                    continue  # a quarter of a minute each: once is enough
                await side.open()
                measure: Callable[[], Awaitable[float]] = getattr(side, name)
                results[key].append(await measure())
                await side.close()
        ours, theirs = median(results["ours"]), median(results["theirs"])
        lines.append(f"| {title} | {theirs:,.0f} | {ours:,.0f} | {ours / theirs:.1f} | {goal:g} |")
        print(lines[-1], flush=True)
    return lines


def blocking(url: str, sizes: Sizes) -> None:
    """What the background loop costs: the same work through `jetstream.sync`."""
    with sync.connect(url) as nc:
        js = nc.jetstream(timeout=30)
        start = time.perf_counter()
        for _ in range(sizes.awaited):
            js.publish("bench.s", PAYLOAD)
        print(f"blocking publish {sizes.awaited / (time.perf_counter() - start):,.0f}/s")
        start = time.perf_counter()
        js.publish_many((PAYLOAD for _ in range(sizes.bulk_ours)), subject="bench.s")
        print(f"blocking publish_many {sizes.bulk_ours / (time.perf_counter() - start):,.0f}/s")
        consumer = js.create_consumer("FULL", max_ack_pending=-1)
        start = time.perf_counter()
        left = sizes.read_ours
        while left > 0:
            batch = consumer.fetch(1000, max_wait=5)
            batch.ack()
            left -= len(batch)
        print(f"blocking fetch and ack {sizes.read_ours / (time.perf_counter() - start):,.0f}/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=[REFERENCE, OURS], default=REFERENCE)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    sizes = Sizes(given.quick)
    server = ServerProcess(given.server)
    try:
        url = f"nats://127.0.0.1:{server.port}"
        print(f"# clients on {given.server}, medians of {given.rounds}")
        asyncio.run(compare(url, sizes, given.rounds))
        blocking(url, sizes)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
