"""`jetstream top`: a live screen of streams, consumers, connections and pipelines.

Keys: 1 2 3 4 choose a tab, / filters, o sorts connections, p pauses, space looks again, enter shows
a row in full, ? helps, q quits. Without a terminal, or with -o, it prints one look and ends.
"""

from pathlib import Path
from typing import Any

import click

from jetstream.cli.app import command as make_command
from jetstream.cli.app import settings
from jetstream.cli.output import Table, print_json, say, screen
from jetstream.cli.problems import missing_part
from jetstream.cli.prompts import interactive
from jetstream.cli.session import Session, connect
from jetstream.cli.top_data import Rates, Rows, look

TABS = ("streams", "consumers", "connections", "pipelines")
SORTS = [
    "cid",
    "start",
    "subs",
    "pending",
    "msgs_to",
    "msgs_from",
    "bytes_to",
    "bytes_from",
    "last",
    "idle",
    "uptime",
    "rtt",
]


@make_command(
    "top",
    help="A live screen of streams, consumers, connections and pipelines (keys: 1 2 3 4 / o p "
    "space enter q).",
    examples="""
    jetstream top
    jetstream top connections --sort bytes_to -d 2
    jetstream top -o snapshot.csv --delimiter ,
    """,
)
@click.argument("tab", required=False, default="streams")
@click.option("-d", "--delay", type=float, default=1.0, help="seconds between looks")
@click.option("-n", "--limit", type=int, default=1024, help="at most this many connections")
@click.option("--sort", type=click.Choice(SORTS), default="cid", help="order of connections")
@click.option("-o", "--snapshot", "file", help="write one look here and end")
@click.option("--delimiter", default="", help="between the columns of that file")
@click.option("-r", "--max-refresh", type=int, default=0, help="end after so many looks")
async def command(
    tab: str,
    delay: float,
    limit: int,
    sort: str,
    file: str | None,
    delimiter: str,
    max_refresh: int,
) -> None:
    chosen = tab if tab in TABS else "connections"
    async with connect() as session:
        if file or not interactive() or screen().json:
            await _once(session, chosen, sort, limit, file, delimiter)
            return
        try:
            from jetstream.cli.top_screen import Top
        except ModuleNotFoundError as error:
            raise missing_part("top", "textual", error) from error
        app: Any = Top(session, chosen, delay, sort, limit, max_refresh)
        await app.run_async()


async def _once(
    session: Session, tab: str, sort: str, limit: int, file: str | None, delimiter: str
) -> None:
    found = await look(session, tab, Rates(), sort, limit)
    if screen().json:
        print_json([dict(zip(found.columns, row, strict=True)) for row in found.rows])
        return
    if found.note:
        say(found.note)
        return
    if file:
        lines = [
            delimiter.join(row) if delimiter else "\t".join(row)
            for row in (found.columns, *found.rows)
        ]
        Path(file).write_text("\n".join(lines) + "\n")
        return
    as_table(tab, found).print()


def as_table(title: str, found: Rows) -> Table:
    table = Table(
        f"{title.capitalize()} at {settings().url}", *found.columns, left=found.columns[:1]
    )
    for row in found.rows:
        table.add(*row)
    return table
