"""kill -9 under a working consumer: what was confirmed stays, what was not comes again."""

import asyncio
import signal
from pathlib import Path

import nats
from nats.js.api import ConsumerConfig, RetentionPolicy

from .servers import Ours


def test_nothing_confirmed_comes_again_and_nothing_is_forgotten(tmp_path: Path) -> None:
    server = Ours("-js", "-sd", str(tmp_path))
    confirmed: set[int] = set()
    attempts: dict[int, int] = {}

    async def fill() -> None:
        client = await nats.connect(f"nats://127.0.0.1:{server.port}")
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], retention=RetentionPolicy.WORK_QUEUE)
        for number in range(200):
            await js.publish("s.a", str(number).encode())
        await js.pull_subscribe("s.>", "c", config=ConsumerConfig(ack_wait=1, max_deliver=20))
        await client.close()

    async def work(rounds: int) -> int:
        """Acknowledge half of what comes; returns how much is left in the stream."""
        client = await nats.connect(f"nats://127.0.0.1:{server.port}")
        js = client.jetstream()
        sub = await js.pull_subscribe_bind("c", "S")
        for _ in range(rounds):
            try:
                messages = await sub.fetch(10, timeout=2)
            except nats.errors.TimeoutError:
                break
            for at, message in enumerate(messages):
                meta = message.metadata
                seq = meta.sequence.stream
                assert seq not in confirmed
                assert meta.num_delivered > attempts.get(seq, 0)
                attempts[seq] = meta.num_delivered
                if at % 2 == 0:
                    await message.ack_sync(timeout=3)
                    confirmed.add(seq)
        left = (await js.stream_info("S")).state.messages
        await client.close()
        return left

    with server:
        asyncio.run(fill())
        for _ in range(3):
            asyncio.run(work(4))
            server.stop(signal.SIGKILL)
            server.start()
        deadline = 60
        while asyncio.run(work(5)) and deadline:
            deadline -= 1
    assert confirmed == set(range(1, 201))
