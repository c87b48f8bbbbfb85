"""`jetstream dlq`: messages that consumers gave up on, kept with the story of their failure.

A consumer with `jsx.dead_letter.stream` in its metadata has its failures copied to that stream by
our server. They are ordinary messages with `Jsx-Dead-…` headers, so all of this works through the
ordinary API, on a backup restored elsewhere too.
"""

from typing import Any

import click
import msgspec

from jetstream.cli import human
from jetstream.cli.app import make_group
from jetstream.cli.output import Page, Table, note, print_json, say, screen, write_bytes
from jetstream.cli.picking import stream_info
from jetstream.cli.problems import Failure
from jetstream.cli.prompts import really
from jetstream.cli.session import Json, Session, connect, raise_refusal
from jetstream.cli.stream_messages import body_of, headers_of, read_messages, stored
from jetstream.cli.values import DURATION
from jetstream.subjects.match import matches

PREFIX = "Jsx-Dead-"
DEAD_SUBJECTS = "$JSX.DEAD.>"

group = make_group(
    "dlq",
    "Dead letters: messages that consumers gave up on.",
    """
    jetstream dlq ls
    jetstream dlq show DEAD 12
    jetstream dlq redrive DEAD --reason max_deliver
    """,
)
force_option = click.option("-f", "--force", is_flag=True, help="do not ask")


def letter_of(message: Json) -> Json:
    """A dead letter as facts: what, from where, why."""
    headers = headers_of(message)
    facts = {k.removeprefix(PREFIX).lower(): v for k, v in headers if k.startswith(PREFIX)}
    return {
        "seq": message["seq"],
        "reason": facts.get("reason", ""),
        "detail": facts.get("detail", ""),
        "stream": facts.get("stream", ""),
        "consumer": facts.get("consumer", ""),
        "stream_seq": int(facts.get("seq") or 0),
        "subject": facts.get("subject", ""),
        "time": facts.get("time", ""),
        "deliveries": int(facts.get("deliveries") or 0),
        "history": facts.get("history", ""),
        "dead_since": message["time"],
        "size": len(body_of(message)),
    }


def picked(letter: Json, wanted: Json, now_ns: int) -> bool:
    """Does a letter fit the conditions?"""
    if wanted.get("reason") and letter["reason"] != wanted["reason"]:
        return False
    if wanted.get("subject") and not matches(wanted["subject"], letter["subject"]):
        return False
    if wanted.get("consumer") and letter["consumer"] != wanted["consumer"]:
        return False
    since = wanted.get("since")
    return not since or now_ns - human.to_ns(letter["dead_since"]) <= since


def conditions(function: Any) -> Any:
    for decorate in (
        click.option("--since", type=DURATION, help="dead for at most this long"),
        click.option("--consumer", help="only of this consumer"),
        click.option("--subject", help="only of these subjects"),
        click.option("--reason", type=click.Choice(["max_deliver", "terminated"]), help="why"),
    ):
        function = decorate(function)
    return function


async def letters(session: Session, stream: str, wanted: Json) -> list[tuple[Json, Json]]:
    """Letters that fit, each with its stored message."""
    import time

    now = time.time_ns()
    info = await stream_info(session, stream)
    found = []
    async for message in read_messages(session, info):
        kept = stored(message)
        letter = letter_of(kept)
        if picked(letter, wanted, now):
            found.append((letter, kept))
    return found


@group.command(
    "ls",
    aliases=["list"],
    help="List dead-letter streams, or the letters in one.",
    examples="""
    jetstream dlq ls
    jetstream dlq ls DEAD --reason terminated --since 1d
    """,
)
@click.argument("stream", required=False)
@conditions
async def ls(stream: str | None, **wanted: Any) -> None:
    async with connect() as session:
        if stream is None:
            await _streams(session)
            return
        found = [letter for letter, _ in await letters(session, stream, wanted)]
    if screen().json:
        print_json(found)
        return
    if not found:
        say(f"No dead letters in {stream}")
        return
    table = Table(
        f"{len(found)} dead letters in {stream}",
        "Seq",
        "Reason",
        "Stream",
        "Consumer",
        "Original Seq",
        "Subject",
        "Tries",
        "Dead For",
        left=["Dead For", "Subject"],
    )
    for letter in found:
        table.add(
            letter["seq"],
            letter["reason"],
            letter["stream"],
            letter["consumer"],
            letter["stream_seq"],
            letter["subject"],
            letter["deliveries"],
            human.age(letter["dead_since"]),
        )
    table.print()


async def _streams(session: Session) -> None:
    infos = await session.streams(DEAD_SUBJECTS)
    if screen().json:
        print_json([info["config"]["name"] for info in infos])
        return
    if not infos:
        say("No dead-letter streams; --metadata jsx.dead_letter.stream=NAME gives a consumer one")
        return
    table = Table("Dead-letter Streams", "Stream", "Letters", "Size", "Last", left=["Size", "Last"])
    for info in infos:
        state = info["state"]
        table.add(
            info["config"]["name"],
            state["messages"],
            human.size(state["bytes"]),
            human.age(state.get("last_ts")),
        )
    table.print()


@group.command("show", help="Show one dead letter.", examples="jetstream dlq show DEAD 12")
@click.argument("stream")
@click.argument("seq", type=int)
@click.option("-r", "--raw", is_flag=True, help="only the body")
async def show(stream: str, seq: int, raw: bool) -> None:
    async with connect() as session:
        message = await session.get_message(stream, seq=seq)
    letter = letter_of(message)
    if screen().json:
        print_json(
            {**letter, "headers": dict(headers_of(message)), "data": message.get("data", "")}
        )
        return
    if raw:
        write_bytes(body_of(message))
        return
    page = Page(f"Dead letter {stream}#{seq}")
    page.row("Reason", letter["reason"])
    page.row("Detail", letter["detail"])
    page.row("Consumer", f"{letter['stream']} > {letter['consumer']}")
    page.row("Original Sequence", letter["stream_seq"])
    page.row("Original Subject", letter["subject"])
    page.row("Published", human.local_time(letter["time"]) if letter["time"] else "")
    page.row("Deliveries", letter["deliveries"])
    page.row("History", letter["history"])
    page.row("Dead Since", human.local_time(letter["dead_since"]))
    page.rows("Headers", [f"{k}: {v}" for k, v in headers_of(message) if not k.startswith(PREFIX)])
    page.print()
    say()
    write_bytes(body_of(message)) if body_of(message) else say("nil body")


@group.command(
    "redrive",
    help="Publish dead letters on their original subjects again, and drop them once stored.",
    examples="""
    jetstream dlq redrive DEAD 12
    jetstream dlq redrive DEAD --reason max_deliver --subject 'orders.eu.*' -f
    """,
)
@click.argument("stream")
@click.argument("sequences", type=int, nargs=-1, metavar="[SEQ]...")
@conditions
@click.option("--keep", is_flag=True, help="leave them in the dead-letter stream")
@force_option
async def redrive(
    stream: str, sequences: tuple[int, ...], keep: bool, force: bool, **wanted: Any
) -> None:
    async with connect() as session:
        found = await _chosen(session, stream, sequences, wanted)
        await really(f"publish {human.plural(len(found), 'dead letter')} again", force)
        sent = await _by_server(session, stream, found) if not keep else None
        if sent is None:
            sent = 0
            for letter, message in found:
                sent += await _redrive(session, stream, letter, message, keep)
    say(f"Redrove {sent} of {human.plural(len(found), 'dead letter')}")
    if sent < len(found):
        raise Failure(
            f"{len(found) - sent} were taken for duplicates and are still in {stream}",
            "their message ids are still in the stream's duplicate window: try again later",
        )


async def _by_server(session: Session, stream: str, found: list[tuple[Json, Json]]) -> int | None:
    """Our server moves letters in one commit; None where it is not ours."""
    seqs = [letter["seq"] for letter, _ in found]
    answer = await session.extension(f"DEAD.REDRIVE.{stream}", {"seqs": seqs})
    return None if answer is None else int(answer.get("count", 0))


async def _chosen(
    session: Session, stream: str, sequences: tuple[int, ...], wanted: Json
) -> list[tuple[Json, Json]]:
    if sequences:
        messages = [await session.get_message(stream, seq=seq) for seq in sequences]
        return [(letter_of(message), message) for message in messages]
    found = await letters(session, stream, wanted)
    if not found:
        raise Failure(f"no dead letter in {stream} fits")
    return found


async def _redrive(session: Session, stream: str, letter: Json, message: Json, keep: bool) -> bool:
    if not letter["subject"]:
        raise Failure(f"{stream}#{letter['seq']} is not a dead letter: it names no subject")
    headers: dict[str, list[str]] = {}
    for name, value in headers_of(message):
        if not name.startswith((PREFIX, "Nats-Expected-")):
            headers.setdefault(name, []).append(value)
    answer = await session.nc.request(
        letter["subject"], body_of(message), headers=headers or None, timeout=session.timeout
    )
    ack = msgspec.json.decode(answer.data)
    raise_refusal(ack)
    if ack.get("duplicate"):
        return False
    note(f"{stream}#{letter['seq']} is {ack['stream']}#{ack['seq']} now")
    if not keep:
        await session.api(f"STREAM.MSG.DELETE.{stream}", {"seq": letter["seq"], "no_erase": True})
    return True


@group.command(
    "drop",
    aliases=["rm"],
    help="Throw dead letters away.",
    examples="jetstream dlq drop DEAD 12 13 -f",
)
@click.argument("stream")
@click.argument("sequences", type=int, nargs=-1, metavar="[SEQ]...")
@conditions
@force_option
async def drop(stream: str, sequences: tuple[int, ...], force: bool, **wanted: Any) -> None:
    async with connect() as session:
        found = await _chosen(session, stream, sequences, wanted)
        await really(f"drop {human.plural(len(found), 'dead letter')}", force)
        for letter, _ in found:
            await session.api(
                f"STREAM.MSG.DELETE.{stream}", {"seq": letter["seq"], "no_erase": True}
            )
    say(f"Dropped {human.plural(len(found), 'dead letter')}")
