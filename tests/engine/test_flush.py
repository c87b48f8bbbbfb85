"""Syncs share what arrived meanwhile, and a failed one is told."""

import asyncio
import threading

from jetstream.engine.flush import Flusher, SyncPool
from jetstream.errors import StoreError


def test_what_arrives_during_a_sync_shares_the_next_one() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        pool = SyncPool(loop.call_soon_threadsafe)
        gate, syncs, done = threading.Event(), [], asyncio.Event()

        def job() -> None:
            syncs.append(1)
            gate.wait(10)

        results: list[BaseException | None] = []

        def on_synced(problem: BaseException | None) -> None:
            results.append(problem)
            if len(results) == 2:
                done.set()

        flusher = Flusher(pool, job, on_synced)
        flusher.start()
        for _ in range(5):
            flusher.start()
        gate.set()
        await asyncio.wait_for(done.wait(), 10)
        await asyncio.sleep(0)
        assert len(syncs) == 2
        assert results == [None, None]
        assert not flusher.syncing
        pool.stop()

    asyncio.run(scenario())


def test_a_failed_sync_is_reported_as_a_store_error() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        pool = SyncPool(loop.call_soon_threadsafe)
        told: asyncio.Future[BaseException | None] = loop.create_future()

        def job() -> None:
            raise ValueError("odd")

        Flusher(pool, job, told.set_result).start()
        problem = await asyncio.wait_for(told, 10)
        assert isinstance(problem, StoreError)
        assert "odd" in str(problem)
        pool.stop()

    asyncio.run(scenario())
