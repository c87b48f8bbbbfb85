"""The demo from beginning to end: open, play, kill Spark once, prove, sum up.

0 s      server, console, streams and buckets are there; orders flow
~15 s    Spark is up (started in the background; nothing waits for it)
half     the pipeline is killed (SIGKILL) and started again
end      the producer stops, the pipeline catches up, both ends are compared
"""

import asyncio
import contextlib
import shutil
import statistics
import tempfile
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from jetstream.demo.proof import Proof, read_archive, read_stream
from jetstream.demo.spark_run import SparkRun
from jetstream.demo.stage import Stage

CATCH_UP_S = 180.0

Tell = Callable[[str], None]


class Summary(Struct):
    """What happened."""

    seconds: float
    open_seconds: float
    messages_stored: int
    spark_starts: int
    batches: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    rows_archived: int
    proof: Proof
    console: str
    directory: str | None = None
    trouble: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.proof.holds and not self.trouble

    def facts(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 1),
            "open_seconds": round(self.open_seconds, 3),
            "messages_stored": self.messages_stored,
            "spark_starts": self.spark_starts,
            "batches": self.batches,
            "latency_p50_ms": self.latency_p50_ms,
            "latency_p99_ms": self.latency_p99_ms,
            "rows_archived": self.rows_archived,
            "proof": self.proof.facts(),
            "trouble": self.trouble,
            "directory": self.directory,
        }


class Demo:
    """One performance."""

    def __init__(
        self,
        seconds: float,
        tell: Tell,
        status: Tell,
        *,
        keep: Path | None = None,
        browser: bool = False,
        rate: float = 200.0,
        console_port: int = 0,
    ) -> None:
        self.seconds = seconds
        self.tell = tell
        self.status = status
        self.browser = browser
        self.keep = keep
        self.directory = keep or Path(tempfile.mkdtemp(prefix="jetstream-demo-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.stage = Stage(str(self.directory / "store"), console_port, rate)
        self.enough = asyncio.Event()
        self.trouble: list[str] = []
        self._killed = False

    async def perform(self) -> Summary:
        started = time.perf_counter()
        try:
            await self.stage.open()
            opened = time.perf_counter() - started
            self.tell(f"server   {self.stage.server.url}   (up in {opened * 1000:.0f} ms)")
            self.tell(f"console  {self.stage.console.url}")
            if self.browser:
                webbrowser.open(self.stage.console.url)
            self.spark = SparkRun(self.directory, self.stage.server.url)
            self.stage.play()
            await self.spark.start()
            self.tell("spark    starting in the background; orders are flowing already")
            await self._play(started)
            return await self._sum_up(started, opened)
        finally:
            with contextlib.suppress(AttributeError):
                await self.spark.stop()
            with contextlib.suppress(AttributeError):
                await self.stage.close()
            if self.keep is None:
                shutil.rmtree(self.directory, ignore_errors=True)

    async def _play(self, started: float) -> None:
        """Until the time is over: show what happens, and kill the pipeline once."""
        while not self.enough.is_set():
            passed = time.perf_counter() - started
            arrived = await self._arrived()
            if passed >= self.seconds:
                break
            if not self._killed and arrived > 0 and passed >= self.seconds / 2:
                await self._kill(arrived)
            if not self.spark.is_running and not self.enough.is_set():
                self.trouble.append("the pipeline ended by itself:\n" + self.spark.last_words())
                break
            self.status(
                f"{passed:4.0f} s   {self.stage.published:,} orders sent   {arrived:,} through"
                f" Spark   {self.stage.processed:,} consumed"
                + ("" if arrived else "   (Spark is starting)")
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.enough.wait(), 0.5)
        await self.stage.stop_producing()

    async def _kill(self, arrived: int) -> None:
        self._killed = True
        self.spark.kill()
        self.tell(f"spark    killed (SIGKILL) after {arrived:,} orders; starting it again")
        while self.spark.is_running:
            await asyncio.sleep(0.05)
        await self.spark.start()

    async def _arrived(self) -> int:
        return int((await self.stage.js.stream_info("CLEAN")).raw["state"]["messages"])

    async def _catch_up(self) -> None:
        """Wait until everything sent is through: the stream, the dead letters, the table."""
        sent, refused = self.stage.sent.count, self.stage.refused
        deadline = time.perf_counter() + CATCH_UP_S
        while time.perf_counter() < deadline:
            arrived = await self._arrived()
            dead = (await self.stage.js.stream_info("DEAD")).raw["state"]["messages"]
            archived = await asyncio.to_thread(read_archive, self.spark.archive)
            self.status(
                f"catching up: {arrived:,} of {sent:,} through, {archived.count:,} archived"
            )
            if not self._killed and arrived and not self.enough.is_set():
                # Spark was so slow to start that its death is still to come.
                await self._kill(arrived)
                continue
            if arrived >= sent and archived.count >= sent and dead >= refused:
                return
            if not self.spark.is_running:
                self.trouble.append("the pipeline ended by itself:\n" + self.spark.last_words())
                return
            await asyncio.sleep(0.5)
        self.trouble.append(f"the pipeline did not catch up within {CATCH_UP_S:.0f} s")

    async def _sum_up(self, started: float, opened: float) -> Summary:
        if not self.trouble:
            await self._catch_up()
        batches = await self._batches()
        await self.spark.stop()
        arrived = await read_stream(self.stage.js, "CLEAN")
        archived = await asyncio.to_thread(read_archive, self.spark.archive)
        dead = (await self.stage.js.stream_info("DEAD")).raw["state"]["messages"]
        stored = sum([s.raw["state"]["messages"] async for s in self.stage.js.list_streams()])
        late = sorted(self.stage.latencies_ms)
        return Summary(
            seconds=time.perf_counter() - started,
            open_seconds=opened,
            messages_stored=stored,
            spark_starts=self.spark.starts,
            batches=batches,
            latency_p50_ms=round(statistics.median(late), 1) if late else None,
            latency_p99_ms=round(late[int(len(late) * 0.99)], 1) if late else None,
            rows_archived=archived.count,
            proof=Proof(self.stage.sent, arrived, archived, int(dead), self.stage.refused),
            console=self.stage.console.url,
            directory=str(self.directory) if self.keep else None,
            trouble=self.trouble,
        )

    async def _batches(self) -> int:
        """Micro-batches of the pipeline's queries, as it reported them."""
        from jetstream.console.looking import pipelines

        total = 0
        for record in await pipelines(self.stage.js):
            for query in (record.get("queries") or {}).values():
                total += int(query.get("batch", -1)) + 1
        return total
