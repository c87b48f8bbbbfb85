"""The set of the demo: an embedded server, the console, streams, buckets and those who use them."""

import asyncio
import contextlib
from datetime import UTC, datetime

import msgspec

import jetstream
from jetstream.client.jetstream import JetStream
from jetstream.console.serve import ConsoleServer
from jetstream.demo.orders import Checksum, Orders
from jetstream.server.server import Server

STREAMS = {
    "ORDERS": ["orders.>"],
    "CLICKS": ["clicks.>"],
    "CLEAN": ["clean.>"],
    "REVENUE": ["revenue.>"],
    "DEAD": ["dead.>"],
}


class Stage:
    """Everything but Spark."""

    def __init__(self, store_dir: str, console_port: int = 0, rate: float = 200.0) -> None:
        self.store_dir = store_dir
        self.rate = rate
        self.sent = Checksum()
        self.published = 0
        self.refused = 0
        self.processed = 0
        self.latencies_ms: list[float] = []
        self._console_port = console_port
        self._tasks: list[asyncio.Task[None]] = []
        self._producing = True

    async def open(self) -> None:
        """Server, console, assets; well under a second."""
        self.server = await Server(host="127.0.0.1", port=0, store_dir=self.store_dir).start()
        self.console = ConsoleServer(self.server.url, port=self._console_port)
        await self.console.start()
        self.client = await jetstream.connect(self.server.url, name="demo")
        self.js: JetStream = self.client.jetstream()
        for name, subjects in STREAMS.items():
            await self.js.create_stream(name=name, subjects=subjects, allow_direct=True)
        await self.js.create_key_value("dashboard", history=5)
        files = await self.js.create_object_store("reports")
        await files.put("welcome.txt", b"Reports of the demo end up here.\n")
        await self.js.create_consumer("ORDERS", durable_name="packing", ack_policy="explicit")
        await self.js.create_consumer("ORDERS", durable_name="billing-slow", ack_policy="explicit")

    def play(self) -> None:
        """Start the producer and the consumers."""
        for work in (
            self._produce(),
            self._click(),
            self._consume("packing", 0.0),
            self._consume("billing-slow", 0.02),
            self._measure(),
        ):
            self._tasks.append(asyncio.create_task(work))

    async def stop_producing(self) -> None:
        self._producing = False
        await self._tasks[0]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(jetstream.JetStreamError):
            await self.client.close()
        await self.console.stop()
        await self.server.stop()

    # --- those who use it ---------------------------------------------------------------------

    async def _produce(self) -> None:
        """Publish orders at a steady rate, each acknowledged before it counts as sent."""
        orders = Orders()
        loop = asyncio.get_running_loop()
        started = loop.time()
        made = 0
        while self._producing:
            due = int((loop.time() - started) * self.rate) - made
            batch = [orders.next(_now()) for _ in range(min(due, 500))]
            made += len(batch)
            acks = [await self.js.publish_async(subject, data) for subject, data, _ in batch]
            for (_, _, number), ack in zip(batch, acks, strict=True):
                await ack
                self.published += 1
                if number is None:
                    self.refused += 1
                else:
                    self.sent.add(number)
            await asyncio.sleep(0.02)

    async def _click(self) -> None:
        count = 0
        while True:
            count += 1
            await self.js.publish(f"clicks.page{count % 7}", b'{"n":%d}' % count)
            await asyncio.sleep(0.05)

    async def _consume(self, name: str, seconds_each: float) -> None:
        """Acknowledge orders; the slow one falls behind, so that lag can be seen."""
        consumer = await self.js.consumer("ORDERS", name)
        async with consumer.messages(max_messages=100) as messages:
            async for message in messages:
                if seconds_each:
                    await asyncio.sleep(seconds_each)
                await message.ack()
                self.processed += 1

    async def _measure(self) -> None:
        """How long an order takes from its birth to the end of the pipeline."""
        consumer = await self.js.ordered_consumer("CLEAN", deliver_policy="new")
        async with await consumer.messages() as messages:
            async for message in messages:
                with contextlib.suppress(msgspec.MsgspecError, KeyError, ValueError):
                    born = datetime.fromisoformat(msgspec.json.decode(message.data)["at"])
                    late = (datetime.now(UTC) - born.astimezone(UTC)).total_seconds() * 1000
                    self.latencies_ms.append(late)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
