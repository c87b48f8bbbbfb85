"""`jetstream rtt`: the time to each server and back."""

import time
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import command as make_command
from jetstream.cli.app import settings
from jetstream.cli.output import print_json, say, screen
from jetstream.cli.problems import Failure
from jetstream.cli.session import open_connection


@make_command(
    "rtt",
    help="Measure the time to each server and back.",
    examples="jetstream rtt 10",
)
@click.argument("iterations", type=int, required=False, default=5)
async def command(iterations: int) -> None:
    chosen = settings()
    rows: list[dict[str, Any]] = []
    for url in chosen.url.split(","):
        chosen.values["server"] = url.strip()
        rows.append(await _measure(url.strip(), iterations))
    if screen().json:
        print_json(rows)
        return
    for row in rows:
        say(f"{row['url']}:\n")
        if row.get("error"):
            say(f"   {row['error']}\n")
        else:
            say(f"   {row['address']}: {human.duration(row['rtt_ns'])}\n")
    if all(row.get("error") for row in rows):
        raise Failure("no server could be reached", "`jetstream server -js` starts one")


async def _measure(url: str, iterations: int) -> dict[str, Any]:
    from jetstream.errors import JetStreamError

    try:
        nc = await open_connection(settings())
    except (JetStreamError, OSError) as error:
        return {"url": url, "error": str(error)}
    try:
        total = 0
        for _ in range(max(iterations, 1)):
            start = time.perf_counter_ns()
            await nc.flush()
            total += time.perf_counter_ns() - start
        return {"url": url, "address": nc.connected_url, "rtt_ns": total // max(iterations, 1)}
    finally:
        await nc.close()
