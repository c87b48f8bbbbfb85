"""`jetstream counter`: numbers that a stream adds up (streams with `--allow-counter`)."""

import re
from typing import Any

import click
import msgspec

from jetstream.cli import human
from jetstream.cli.app import make_group
from jetstream.cli.output import Page, Table, print_json, say, screen
from jetstream.cli.problems import Failure
from jetstream.cli.session import Json, Session, connect, raise_refusal
from jetstream.cli.stream_messages import body_of, headers_of

INCREMENT = "Nats-Incr"

group = make_group(
    "counter",
    "Numbers kept in a stream that allows counters.",
    """
    jetstream stream add HITS --subjects 'hits.>' --allow-counter --defaults
    jetstream counter incr hits.home 1
    jetstream counter get hits.home
    """,
)
stream_option = click.option("--stream", help="the stream, if several capture the subject")


async def _stream(session: Session, subject: str, stream: str | None) -> str:
    if stream:
        return stream
    names = await session.stream_names(subject)
    if not names:
        raise Failure(f"no stream captures {subject!r}", "give --stream, or make one")
    return names[0]


def value_of(message: Json) -> int:
    """The number a counter's message holds."""
    found = msgspec.json.decode(body_of(message) or b"{}")
    return int(found.get("val", 0))


async def _last(subject: str, stream: str | None) -> tuple[str, Json]:
    async with connect() as session:
        name = await _stream(session, subject, stream)
        return name, await session.get_message(name, last_for=subject)


@group.command("get", help="Print a counter.", examples="jetstream counter get hits.home")
@click.argument("subject")
@stream_option
async def get(subject: str, stream: str | None) -> None:
    _, message = await _last(subject, stream)
    if screen().json:
        print_json({"subject": subject, "value": value_of(message)})
    else:
        say(str(value_of(message)))


@group.command("view", help="Show a counter in full.", examples="jetstream counter view hits.home")
@click.argument("subject")
@stream_option
async def view(subject: str, stream: str | None) -> None:
    name, message = await _last(subject, stream)
    page = Page(f"Counter {subject}")
    page.row("Stream", name)
    page.row("Value", value_of(message))
    page.row("Sequence", message["seq"])
    page.row("Last Change", dict(headers_of(message)).get(INCREMENT, ""))
    page.row("Last Update", human.local_time(message["time"]))
    page.print()


async def _add(subject: str, amount: int, stream: str | None) -> None:
    async with connect() as session:
        headers = {INCREMENT: f"{amount:+d}"}
        if stream:
            headers["Nats-Expected-Stream"] = stream
        answer = await session.nc.request(subject, b"", headers=headers, timeout=session.timeout)
    ack: dict[str, Any] = msgspec.json.decode(answer.data)
    raise_refusal(ack)
    if screen().json:
        print_json(ack)
    else:
        say(str(ack.get("val", "")))


def _amount(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise Failure(f"{text!r} is not a whole number", None, 2)
    return int(text)


@group.command(
    "incr",
    aliases=["increment", "add"],
    help="Add to a counter and print it.",
    examples="jetstream counter incr hits.home 5",
)
@click.argument("subject")
@click.argument("amount", required=False, default="1")
@stream_option
async def incr(subject: str, amount: str, stream: str | None) -> None:
    await _add(subject, _amount(amount), stream)


@group.command(
    "decr",
    aliases=["decrement"],
    help="Take from a counter and print it.",
    examples="jetstream counter decr hits.home 2",
)
@click.argument("subject")
@click.argument("amount", required=False, default="1")
@stream_option
async def decr(subject: str, amount: str, stream: str | None) -> None:
    await _add(subject, -_amount(amount), stream)


@group.command("ls", aliases=["list"], help="List counters.", examples="jetstream counter ls HITS")
@click.argument("stream")
@click.argument("subject", required=False, default=">")
async def ls(stream: str, subject: str) -> None:
    async with connect() as session:
        info = await session.stream_info(stream, subjects=subject)
        rows = [
            (each, value_of(await session.get_message(stream, last_for=each)))
            for each in sorted(info["state"].get("subjects") or {})
        ]
    if screen().json:
        print_json(dict(rows))
        return
    table = Table(f"Counters in {stream}", "Subject", "Value", left=["Subject"])
    for row in rows:
        table.add(*row)
    table.print()
