"""Publishing in bulk: a pipe that is kept full, and only sequence numbers kept of what comes back.

Chunks of messages are encoded by the kernel in one go, with numbered reply subjects; `AckRun` reads
the answers without making an object of each. How many messages a chunk has and how many may be
unanswered follows from how large they turn out to be.
"""

import asyncio
from collections.abc import AsyncIterable, Iterable
from itertools import islice
from typing import Any

from jetstream.client._inbound import AckRun
from jetstream.client.acks import PublishReport, read_ack
from jetstream.client.api import Api
from jetstream.client.errors import ConnectionClosedError, RequestTimeoutError
from jetstream.client.lines import header_block

BULK_CHUNK = 512
CHUNK_BYTES = 512 * 1024
WINDOW_BYTES = 16 * 1024 * 1024


class Bulk:
    """A pipelined publish in pieces: `start()`, `send(chunk)` …, `finish()`."""

    def __init__(self, api: Api, subject: str | None, window: int, timeout: float) -> None:
        self._connection = api.connection
        self._subject = subject
        self._window = window
        self._chunk_max = max(1, min(BULK_CHUNK, window // 4))
        # The first chunk is small: afterwards we know how large messages are.
        self._chunk = min(16, self._chunk_max)
        self._room = window
        self._timeout = timeout
        inbox = self._connection.new_inbox() + "."
        self._inbox = inbox
        self._prefix = inbox.encode()
        self._run = AckRun(len(self._prefix))
        self._sid = 0

    @property
    def chunk_size(self) -> int:
        """How many messages the next chunk should have."""
        return self._chunk

    @property
    def has_failures(self) -> bool:
        """Something came back that was no plain ack (it may only be a duplicate)."""
        return bool(self._run.odd)

    def start(self) -> None:
        self._sid = self._connection.attach(self._inbox + "*", self._run.receive)

    async def finish(self) -> PublishReport:
        """Wait for the last acks and tell what became of everything."""
        try:
            await self._wait(0)
        except RequestTimeoutError:
            pass  # the missing ones are reported one by one
        finally:
            if not self._connection.is_closed:
                self._connection.detach(self._sid)
        return self._report()

    async def run(
        self, messages: Iterable[Any] | AsyncIterable[Any], stop_on_error: bool
    ) -> PublishReport:
        self.start()
        try:
            if isinstance(messages, AsyncIterable):
                await self._from_async(messages, stop_on_error)
            else:
                source = iter(messages)
                while chunk := list(islice(source, self._chunk)):
                    await self.send(chunk)
                    if stop_on_error and self._run.odd:
                        break
        except RequestTimeoutError:
            pass
        except BaseException:
            self._connection.detach(self._sid)
            raise
        return await self.finish()

    async def _from_async(self, source: AsyncIterable[Any], stop_on_error: bool) -> None:
        chunk: list[Any] = []
        async for item in source:
            chunk.append(item)
            # A slow source should not keep what it gave waiting for a full chunk.
            if len(chunk) >= self._chunk or self._run.outstanding == 0:
                await self.send(chunk)
                chunk = []
                if stop_on_error and self._run.odd:
                    return
        if chunk:
            await self.send(chunk)

    async def send(self, chunk: list[Any]) -> None:
        """Publish these; waits while too many are unanswered."""
        run = self._run
        if run.outstanding + len(chunk) > self._room:
            await self._wait(max(self._room // 2 - len(chunk), 0))
        connection = self._connection
        if connection.is_closed:
            raise ConnectionClosedError("the connection was closed while publishing")
        if not connection.is_connected:
            await connection.wait_connected(self._timeout)
        before = connection.out.payload_bytes
        connection.out.many(self._shaped(chunk), self._prefix, run.sent)
        run.expect(len(chunk))
        mean = (connection.out.payload_bytes - before) // len(chunk) + 1
        self._chunk = max(1, min(self._chunk_max, CHUNK_BYTES // mean))
        self._room = max(1, min(self._window, WINDOW_BYTES // mean))
        connection.plan_flush()
        if connection.is_full:
            await connection.writable()
        elif connection.out.size == 0:
            await asyncio.sleep(0)

    def _shaped(self, chunk: list[Any]) -> list[tuple[str, bytes | None, Any]]:
        subject = self._subject
        if subject is not None and not isinstance(chunk[0], tuple):
            return [(subject, None, data) for data in chunk]
        made: list[tuple[str, bytes | None, Any]] = []
        for item in chunk:
            if len(item) == 2:
                made.append((item[0], None, item[1]))
            else:
                made.append((item[0], header_block(item[2]), item[1]))
        return made

    async def _wait(self, at_most: int) -> None:
        """Until no more than this many are unanswered."""
        run = self._run
        if run.outstanding <= at_most:
            return
        waiter = self._connection.loop.create_future()
        run.wake_at = at_most
        run.waiter = waiter
        while True:
            before = run.answered
            done, _ = await asyncio.wait([waiter], timeout=self._timeout)
            if done:
                return
            if run.answered == before:
                run.waiter = None
                raise RequestTimeoutError("acks stopped coming")

    def _report(self) -> PublishReport:
        run = self._run
        report = PublishReport(count=run.sent, sequences=run.sequences())
        for position, headers, payload in run.odd:
            try:
                ack = read_ack(self._subject or f"message {position}", headers, payload)
            except Exception as error:
                report.failed.append((position, error))
                continue
            report.sequences[position] = ack.seq
            report.duplicates += ack.duplicate
        if run.outstanding:
            late = RequestTimeoutError("no ack came for this message")
            report.failed += [(position, late) for position in run.missing()]
            report.failed.sort(key=lambda pair: pair[0])
        return report
