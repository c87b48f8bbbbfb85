"""The demo's pipeline as a process of its own, so that it can be killed without mercy."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from string import Template

TEMPLATE = Path(__file__).with_name("pipeline.yaml")
STOP_PATIENCE_S = 40.0


class SparkRun:
    """`jetstream pipeline run` on a copy of the demo's file."""

    def __init__(self, directory: Path, servers: str) -> None:
        self.file = directory / "pipeline.yaml"
        self.archive = directory / "archive"
        self.log = directory / "spark.log"
        self.starts = 0
        text = Template(TEMPLATE.read_text()).substitute(
            SERVERS=servers, CHECKPOINT=directory / "checkpoint", ARCHIVE=self.archive
        )
        self.file.write_text(text)
        self._servers = servers
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.starts += 1
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "jetstream", "-s", self._servers,
                "pipeline", "run", str(self.file), "--master", "local[2]",
                stdout=log, stderr=log, stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def kill(self) -> None:
        """No warning, no clean-up: driver, JVM and workers at once."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self) -> None:
        """Let the running batch finish."""
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_PATIENCE_S)
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def last_words(self) -> str:
        """The end of the log, for when something went wrong."""
        if not self.log.exists():
            return ""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-15:])
