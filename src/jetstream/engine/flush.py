"""When the disk is synced, and which answers wait for it.

    turn 1   write a b c ──► sync 1 (worker thread) ────────► done: answers of a b c go out
    turn 2        write d e ─┐                             ┌─► sync 2 starts at once
    turn 3           write f ┴─ wait for sync 2 ───────────┘

Everything that arrived while one sync runs shares the next one, so the number of syncs adapts to
the load and a lone publisher never waits for a timer. A sync that failed is never repeated as if it
had worked: its answers become errors, and the store says what is wrong until it is right again.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from jetstream.errors import StoreError

SYNC_THREADS = 4
# A sync that usually takes less than this may be waited for on the loop, when the loop is idle.
SYNC_HERE_NS = 1_000_000

Job = Callable[[], None]
Done = Callable[[BaseException | None], None]


class SyncPool:
    """A few threads that sync; results come back on the loop, in one wake-up for many."""

    def __init__(
        self,
        call_soon_threadsafe: Callable[..., Any],
        after: Callable[[], None] | None = None,
        threads: int = SYNC_THREADS,
    ) -> None:
        """`after` is called on the loop when results have been handed out."""
        self._call_soon = call_soon_threadsafe
        self._after = after
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._finished: deque[tuple[Done, BaseException | None]] = deque()
        self._threads: list[threading.Thread] = []
        self._limit = threads
        self._idle = 0
        self.running = True

    def submit(self, job: Job, done: Done) -> None:
        """Run `job` in a thread, then `done(error)` on the loop."""
        if self._idle == 0 and len(self._threads) < self._limit:
            thread = threading.Thread(target=self._work, name="jetstream-sync", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._jobs.put((job, done))

    def _work(self) -> None:
        while True:
            self._idle += 1
            item = self._jobs.get()
            self._idle -= 1
            if item is None:
                return
            job, done = item
            problem: BaseException | None = None
            try:
                job()
            except BaseException as error:
                problem = error
            first = not self._finished
            self._finished.append((done, problem))
            if first:
                try:
                    self._call_soon(self._deliver)
                except RuntimeError:
                    return  # the loop is closed; nobody waits any more

    def _deliver(self) -> None:
        while self._finished:
            done, problem = self._finished.popleft()
            done(problem)
        if self._after is not None and self.running:
            self._after()

    def stop(self) -> None:
        self.running = False
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=10)


class Flusher:
    """The sync of one stream: in a thread, or right here on a quick disk nobody else needs."""

    def __init__(self, pool: SyncPool, job: Job, on_synced: Done) -> None:
        self._pool = pool
        self._job = job
        self._on_synced = on_synced
        self._usual_ns = SYNC_HERE_NS * 2

    def start(self, alone: bool = False) -> None:
        """Sync what was written before this call.

        `alone` says that nobody else had anything to do this turn. Then a disk that has been quick
        so far is waited for right here: two thread switches cost as much as such a sync.
        """
        if alone and self._usual_ns < SYNC_HERE_NS:
            try:
                self._timed()
            except Exception as problem:
                self._done(problem)
            else:
                self._done(None)
            return
        self._pool.submit(self._timed, self._done)

    def _timed(self) -> None:
        started = time.perf_counter_ns()
        self._job()
        took = time.perf_counter_ns() - started
        self._usual_ns = (self._usual_ns * 7 + took) // 8

    def _done(self, problem: BaseException | None) -> None:
        if problem is not None and not isinstance(problem, StoreError | OSError):
            problem = StoreError(f"sync failed: {problem!r}")
        self._on_synced(problem)
