"""Rates as rows of bars: `stream graph`, `consumer graph`, `sub --graph`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import command
from jetstream.cli.output import say, terminal_width
from jetstream.cli.picking import consumer_info, pick_consumer, pick_stream, stream_info
from jetstream.cli.session import connect
from jetstream.cli.top_data import Rates

BARS = "▁▂▃▄▅▆▇█"
SECONDS = 60


def bars(values: list[float]) -> str:
    """One bar per value, the tallest for the largest."""
    top = max([*values, 1.0])
    return "".join(BARS[int(value * (len(BARS) - 1) // top)] for value in values)


class Sparkline:
    """Messages per second over the last minute, as a row of bars."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._now = 0

    def count(self, now: float) -> None:
        self._now = int(now)
        self._counts[self._now] = self._counts.get(self._now, 0) + 1
        for second in [s for s in self._counts if s <= self._now - SECONDS]:
            del self._counts[second]

    def text(self) -> str:
        first = min(self._counts, default=self._now)
        seen = [self._counts.get(second, 0) for second in range(first, self._now + 1)]
        last = seen[-1] if seen else 0
        return f"{bars([float(s) for s in seen])} {last:,} msgs/s (most {max([*seen, 0]):,})"


async def draw(
    title: str, look: Callable[[], Awaitable[dict[str, tuple[float, str]]]], times: int
) -> None:
    """Look every second and redraw; label → (value, value for eyes)."""
    history: dict[str, list[float]] = {}
    drawn = 0
    while True:
        for label, (value, shown) in (await look()).items():
            row = history.setdefault(label, [])
            row.append(value)
            del row[: -min(SECONDS, max(terminal_width() - 45, 10))]
            history[label] = row
            say(f"{title:<24.24} {label:<14} {bars(row)} {shown}")
        drawn += 1
        if times and drawn >= times:
            return
        await asyncio.sleep(1)
        click.echo(f"\x1b[{len(history)}A\x1b[J", nl=False)


count_option = click.option("--count", type=int, default=0, help="end after so many looks")


@command(
    "graph",
    help="Draw how a stream grows; Ctrl-C ends it.",
    examples="jetstream stream graph ORDERS",
)
@click.argument("stream", required=False)
@count_option
async def stream_graph(stream: str | None, count: int) -> None:
    rates = Rates()
    async with connect() as session:
        name = await pick_stream(session, stream)

        async def look() -> dict[str, tuple[float, str]]:
            state = (await stream_info(session, name))["state"]
            stored = rates.of("stored", state["last_seq"])
            removed = rates.of("removed", state["last_seq"] - state["messages"])
            return {
                "messages": (state["messages"], human.number(state["messages"])),
                "stored/s": (stored, f"{stored:,.0f}"),
                "removed/s": (removed, f"{removed:,.0f}"),
            }

        await draw(name, look, count)


@command(
    "graph",
    help="Draw how a consumer works; Ctrl-C ends it.",
    examples="jetstream consumer graph ORDERS work",
)
@click.argument("stream", required=False)
@click.argument("consumer", required=False)
@count_option
async def consumer_graph(stream: str | None, consumer: str | None, count: int) -> None:
    rates = Rates()
    async with connect() as session:
        name = await pick_stream(session, stream)
        which = await pick_consumer(session, name, consumer)

        async def look() -> dict[str, tuple[float, str]]:
            info: dict[str, Any] = await consumer_info(session, name, which)
            delivered = rates.of("delivered", info["delivered"]["consumer_seq"])
            acked = rates.of("acked", info["ack_floor"]["consumer_seq"])
            return {
                "outstanding": (info["num_ack_pending"], human.number(info["num_ack_pending"])),
                "unprocessed": (info["num_pending"], human.number(info["num_pending"])),
                "delivered/s": (delivered, f"{delivered:,.0f}"),
                "acked/s": (acked, f"{acked:,.0f}"),
            }

        await draw(f"{name} > {which}", look, count)
