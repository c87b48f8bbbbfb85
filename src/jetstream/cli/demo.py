"""`jetstream demo`: the whole product in one minute."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jetstream.cli.app import command as make_command
from jetstream.cli.output import note, print_json, say, screen
from jetstream.cli.problems import Quit

if TYPE_CHECKING:
    from jetstream.demo.run import Summary


@make_command(
    "demo",
    help="Server, console, producer, consumers and a Spark pipeline that is killed on the way; "
    "ends with the proof that each order arrived exactly once.",
    examples="""
    jetstream demo
    jetstream demo --seconds 30 --no-browser --json
    jetstream demo --keep ./demo
    """,
)
@click.option("--seconds", default=60.0, show_default=True, help="how long orders are produced")
@click.option("--no-browser", is_flag=True, help="do not open the console in a browser")
@click.option(
    "--keep", type=click.Path(path_type=Path), help="keep store, archive and pipeline here"
)
@click.option("--rate", default=200.0, show_default=True, help="orders per second")
@click.option("--port", default=0, help="port of the console (a free one)")
async def command(
    seconds: float, no_browser: bool, keep: Path | None, rate: float, port: int
) -> None:
    from jetstream.demo.run import Demo

    live = sys.stderr.isatty()

    def status(text: str) -> None:
        if live:
            sys.stderr.write("\r\x1b[2K" + text)
            sys.stderr.flush()

    def tell(text: str) -> None:
        if live:
            sys.stderr.write("\r\x1b[2K")
        note(text)

    opens = not no_browser and live and not screen().json
    demo = Demo(seconds, tell, status, keep=keep, browser=opens, rate=rate, console_port=port)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, demo.enough.set)
    summary = await demo.perform()
    status("")
    if screen().json:
        print_json(summary.facts())
    else:
        show(summary)
    if not summary.holds:
        raise Quit(1)


def show(summary: "Summary") -> None:
    """The end of the story for people."""
    say("")
    say(
        f"{summary.messages_stored:,} messages stored, {summary.batches:,} Spark batches, "
        f"{summary.rows_archived:,} rows archived, {summary.seconds:.0f} s"
    )
    if summary.latency_p50_ms is not None:
        p50, p99 = summary.latency_p50_ms, summary.latency_p99_ms
        say(
            f"order to end of pipeline: p50 {p50:,.0f} ms, p99 {p99:,.0f} ms (the restart included)"
        )
    say("")
    for sentence in summary.proof.sentences():
        say("  " + sentence)
    say("")
    if summary.holds:
        starts = summary.spark_starts
        say(f"exactly once: every order arrived once, although Spark was started {starts} times")
    else:
        say("NOT exactly once: the two ends differ")
        for text in summary.trouble:
            say(text)
    if summary.directory:
        say(f"kept in {summary.directory}; try: jetstream server -js -sd {summary.directory}/store")
