"""Syncs share what arrived meanwhile, and a failed one is told."""

import asyncio

from jetstream.engine.flush import Flusher, SyncPool
from jetstream.errors import StoreError


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
