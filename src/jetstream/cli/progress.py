"""Progress of long work: a bar on a terminal, a line every five seconds elsewhere.

Drawn by hand: one line of text does not justify the time a drawing library takes to load.
"""

import sys
import time
from typing import Self

from jetstream.cli import human
from jetstream.cli.app import settings

REDRAW_SECONDS = 0.1
LINE_SECONDS = 5.0
_BLOCKS = " ▏▎▍▌▋▊▉█"


class Progress:
    """Counts up to a total (0: unknown). Use it with `with`."""

    def __init__(
        self,
        label: str,
        total: int = 0,
        *,
        unit: str = "msgs",
        enabled: bool = True,
    ) -> None:
        self.label = label
        self.total = total
        self.unit = unit
        self.done = 0
        self._start = time.monotonic()
        self._drawn = self._start
        self._terminal = sys.stderr.isatty()
        self._enabled = enabled and not settings().quiet
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._enabled and self._terminal and self._shown:
            self._draw()
            sys.stderr.write("\n")
            sys.stderr.flush()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def add(self, count: int = 1) -> None:
        self.done += count
        if not self._enabled:
            return
        now = time.monotonic()
        if now - self._drawn >= (REDRAW_SECONDS if self._terminal else LINE_SECONDS):
            self._drawn = now
            self._draw()

    def set(self, done: int) -> None:
        self.add(done - self.done)

    def _draw(self) -> None:
        text = self.text()
        if self._terminal:
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{text}")
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def text(self) -> str:
        shown = human.size if self.unit == "bytes" else human.number
        unit = "" if self.unit == "bytes" else f" {self.unit}"
        seconds = max(self.seconds, 1e-9)
        speed = f"{shown(int(self.done / seconds))}{unit}/s"
        if not self.total:
            return f"{self.label} {shown(self.done)}{unit}  {speed}"
        part = min(self.done / self.total, 1.0)
        left = human.duration(int((1 - part) * seconds / part * 1e9)) if part > 0 else "?"
        return (
            f"{self.label} {bar(part, 24)} {part:4.0%}  "
            f"{shown(self.done)}/{shown(self.total)}{unit}  {speed}  {left} left"
        )


def bar(part: float, width: int) -> str:
    """A bar with eighths of a character."""
    eighths = round(max(0.0, min(part, 1.0)) * width * 8)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_BLOCKS[rest] if rest else "")
    return text + " " * (width - len(text))
