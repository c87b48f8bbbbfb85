"""The one background event loop that all blocking connections of a process share.

A call from any thread hands a coroutine to the loop and waits on a lock; small things that need no
answer (acks) are collected and handed over together. After a fork the child gets a loop of its own:
threads do not survive a fork, which matters for Spark's Python workers and multiprocessing.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Call:
    """A coroutine on its way through the loop, and the caller who waits for it."""

    __slots__ = ("coroutine", "done", "error", "result", "task")

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.coroutine = coroutine
        self.done = threading.Lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None
        self.task: asyncio.Task[Any] | None = None


class Portal:
    """A thread with an event loop in it."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._small: deque[Callable[[], None]] = deque()
        self._small_planned = False
        self.loop = _new_loop()
        self.thread = threading.Thread(target=self._run_loop, name="jetstream-sync", daemon=True)
        self.thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it in the loop and wait for its result here."""
        self._check(coroutine)
        call = _Call(coroutine)
        self.loop.call_soon_threadsafe(self._start, call)
        try:
            call.done.acquire()
        except BaseException:
            self.loop.call_soon_threadsafe(self._cancel, call)
            raise
        if call.error is not None:
            try:
                raise call.error
            finally:
                call.error = None  # no cycle through the traceback
        return call.result  # type: ignore[no-any-return]

    def _check(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        problem = ""
        if os.getpid() != self.pid:
            problem = "this connection was made before a fork; connect again in this process"
        elif threading.current_thread() is self.thread:
            problem = "a blocking call cannot be made inside the client's own event loop"
        if problem:
            coroutine.close()
            raise RuntimeError(problem)

    def _start(self, call: _Call) -> None:
        task = call.task = self.loop.create_task(call.coroutine)
        task.add_done_callback(lambda done: self._finish(call, done))

    @staticmethod
    def _cancel(call: _Call) -> None:
        if call.task is not None:
            call.task.cancel()

    @staticmethod
    def _finish(call: _Call, task: "asyncio.Task[Any]") -> None:
        if task.cancelled():
            call.error = asyncio.CancelledError()
        else:
            call.error = task.exception()
            if call.error is None:
                call.result = task.result()
        call.done.release()

    def post(self, work: Callable[[], None]) -> None:
        """Do this in the loop soon; many posts cost one wake-up."""
        self._small.append(work)
        if not self._small_planned:
            self._small_planned = True
            self.loop.call_soon_threadsafe(self._do_small)

    def _do_small(self) -> None:
        self._small_planned = False
        small = self._small
        while small:
            small.popleft()()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_portal: Portal | None = None
_lock = threading.Lock()


def portal() -> Portal:
    """The portal of this process, made on first use."""
    global _portal
    with _lock:
        if _portal is None or _portal.pid != os.getpid():
            _portal = Portal()
        return _portal


def _after_fork() -> None:
    # The lock may have been held by a thread that does not exist here.
    global _lock, _portal
    _lock = threading.Lock()
    _portal = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
