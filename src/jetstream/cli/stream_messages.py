"""`jetstream stream get|view|rmm|gaps`: single messages and pages of them."""

import base64
import time
from collections.abc import AsyncIterator
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import command
from jetstream.cli.output import Table, print_json, say, screen, to_json, write_bytes
from jetstream.cli.picking import pick_stream, stream_info
from jetstream.cli.problems import Failure
from jetstream.cli.progress import Progress
from jetstream.cli.prompts import ask, confirm, interactive, really, whole_number
from jetstream.cli.session import Json, Session, connect
from jetstream.cli.values import DURATION
from jetstream.errors import ApiError
from jetstream.schema.times import rfc3339
from jetstream.wire.headers import Headers

PAGE_MAX = 25
BATCH = 256
stream_argument = click.argument("stream", required=False)


def headers_of(message: Json) -> list[tuple[str, str]]:
    """The headers of a stored message, in order."""
    if not message.get("hdrs"):
        return []
    parsed = Headers.parse(base64.b64decode(message["hdrs"]))
    return [(name, value) for name, values in parsed.items() for value in values]


def body_of(message: Json) -> bytes:
    return base64.b64decode(message.get("data") or "")


def translated(body: bytes, translate: str | None) -> bytes:
    """The body through a user's command."""
    if not translate:
        return body
    import subprocess

    done = subprocess.run(translate, shell=True, input=body, capture_output=True, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise Failure(f"the translate command failed: {reason}")
    return done.stdout


def show_message(stream: str, message: Json, translate: str | None, raw: bool = False) -> None:
    body = translated(body_of(message), translate)
    if raw:
        write_bytes(body)
        return
    say(
        f"[{stream}#{message['seq']}] Subject: {message['subject']} "
        f"Received: {human.precise_time(message['time'])} ({human.age(message['time'])} ago)"
    )
    for name, value in headers_of(message):
        say(f"  {name}: {value}")
    say()
    write_bytes(body) if body else say("nil body")
    say()


@command(
    "get",
    help="Show one message of a stream.",
    examples="""
    jetstream stream get ORDERS 12
    jetstream stream get ORDERS -S orders.us
    """,
)
@stream_argument
@click.argument("seq", type=int, required=False)
@click.option("-S", "--last-for", default="", help="the last message of a subject")
@click.option("--translate", help="show the body through a command")
@click.option("-r", "--raw", is_flag=True, help="only the body")
async def get(
    stream: str | None, seq: int | None, last_for: str, translate: str | None, raw: bool
) -> None:
    async with connect() as session:
        name = await pick_stream(session, stream)
        if not seq and not last_for:
            seq = int(
                await ask("Message Sequence", flag="the SEQ argument or -S", check=whole_number)
            )
        try:
            message = await session.get_message(name, seq=seq or 0, last_for=last_for)
        except ApiError:
            await stream_info(session, name)
            raise
    if screen().json:
        print_json(message)
    else:
        show_message(name, message, translate, raw)


@command(
    "rmm",
    help="Erase one message: its bytes are overwritten.",
    examples="jetstream stream rmm ORDERS 12 -f",
)
@stream_argument
@click.argument("seq", type=int, required=False)
@click.option("-f", "--force", is_flag=True, help="do not ask")
async def rmm(stream: str | None, seq: int | None, force: bool) -> None:
    from jetstream.cli.stream import warn_bucket

    async with connect() as session:
        name = await pick_stream(session, stream)
        if not seq:
            seq = int(
                await ask("Message Sequence to remove", flag="the SEQ argument", check=whole_number)
            )
        await warn_bucket(name, force)
        await really(f"remove message {seq} from Stream {name}", force)
        await session.api(f"STREAM.MSG.DELETE.{name}", {"seq": seq})
    if not force:
        say(f"Removed message {seq} from Stream {name}")


async def read_messages(
    session: Session,
    info: Json,
    *,
    start: int = 0,
    since_ns: int = 0,
    subject: str = "",
    headers_only: bool = False,
) -> AsyncIterator[Any]:
    """Everything from a point to the present end, through an ephemeral pull consumer."""
    name, state = info["config"]["name"], info["state"]
    config: Json = {
        "ack_policy": "none",
        "deliver_policy": "all",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": 30_000_000_000,
        "headers_only": headers_only,
    }
    if subject:
        config["filter_subject"] = subject
    if start:
        config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": start}
    elif since_ns:
        config |= {"deliver_policy": "by_start_time", "opt_start_time": rfc3339(since_ns)}
    if not state["messages"]:
        return
    made = await session.create_consumer(name, config)
    left = made["num_pending"]
    try:
        while left > 0:
            got = 0
            async for message in pull(session, name, made["name"], min(left, BATCH)):
                got += 1
                left -= 1
                yield message
            if not got:
                return
    finally:
        try:
            await session.delete_consumer(name, made["name"])
        except Exception:
            pass


async def pull(session: Session, stream: str, consumer: str, batch: int) -> AsyncIterator[Any]:
    """One pull request's messages."""
    import msgspec

    from jetstream.client.message import JetStreamMessage

    inbox = session.nc.new_inbox()
    request = {"batch": batch, "expires": int(session.timeout * 1e9)}
    subscription = await session.nc.subscribe(inbox, message_type=JetStreamMessage)
    try:
        await session.nc.publish(
            f"{session.prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}",
            msgspec.json.encode(request),
            reply=inbox,
        )
        for _ in range(batch):
            message = await subscription.next(session.timeout + 1)
            if message.status:
                return
            yield message
    finally:
        await subscription.unsubscribe()


def line_of(message: Any) -> Json:
    """A delivered message as one JSON object."""
    made: Json = {
        "subject": message.subject,
        "seq": message.seq,
        "time": rfc3339(message.time_ns),
    }
    if message.headers:
        made["headers"] = dict(message.headers.items())
    try:
        made["data"] = message.data.decode()
    except UnicodeDecodeError:
        made["data_base64"] = base64.b64encode(message.data).decode()
    return made


def stored(message: Any) -> Json:
    """A delivered message in the shape MSG.GET answers with."""
    return {
        "subject": message.subject,
        "seq": message.seq,
        "time": rfc3339(message.time_ns),
        "hdrs": base64.b64encode(message.header_block).decode() if message.header_block else "",
        "data": base64.b64encode(message.data).decode(),
    }


@command(
    "view",
    help="Read a stream page by page; without a terminal everything at once.",
    examples="""
    jetstream stream view ORDERS 25
    jetstream stream view ORDERS --since 1h --subject 'orders.eu.*' -j
    """,
)
@stream_argument
@click.argument("page_size", type=int, required=False, default=10)
@click.option("--id", "start", type=int, default=0, help="start at this sequence")
@click.option("--since", type=DURATION, default=0, help="start this long ago")
@click.option("--subject", default="", help="only this subject")
@click.option("--raw", is_flag=True, help="only bodies")
@click.option("--translate", help="show bodies through a command")
@click.option("--no-pager", is_flag=True, help="do not stop after each page")
@click.option("--count", type=int, default=0, help="stop after this many")
async def view(
    stream: str | None,
    page_size: int,
    start: int,
    since: int,
    subject: str,
    raw: bool,
    translate: str | None,
    no_pager: bool,
    count: int,
) -> None:
    paged = interactive() and not no_pager and not screen().json
    page_size = max(1, min(page_size, PAGE_MAX))
    async with connect() as session:
        name = await pick_stream(session, stream)
        info = await stream_info(session, name)
        since_ns = time.time_ns() - since if since else 0
        seen = 0
        reading = read_messages(session, info, start=start, since_ns=since_ns, subject=subject)
        async for message in reading:
            if (
                paged
                and seen
                and seen % page_size == 0
                and not await confirm("Next Page", default=True)
            ):
                break
            seen += 1
            if screen().json:
                say(to_json(line_of(message), None))
            else:
                show_message(name, stored(message), translate, raw)
            if count and seen >= count:
                break
        await reading.aclose()  # type: ignore[attr-defined]
    if not screen().json and not raw:
        click.echo(f"{human.plural(seen, 'message')} shown", err=True)


async def copy_messages(session: Session, source: Json, target: Json, progress: bool) -> None:
    """Publish every message of one stream to another, on its subjects where they overlap."""
    from jetstream.subjects.match import matches

    subjects = target["config"].get("subjects") or []
    if not subjects:
        raise Failure("the new stream has no subjects to publish to", "give --subjects")
    total = source["state"]["messages"]
    with Progress("copy", total, enabled=progress) as bar:
        async for message in read_messages(session, source):
            subject = message.subject
            if not any(matches(pattern, subject) for pattern in subjects):
                subject = subjects[0].replace(">", subject).replace("*", subject.replace(".", "_"))
            await session.nc.request(
                subject, message.data, headers=message.headers, timeout=session.timeout
            )
            bar.add()


@command(
    "gaps",
    help="Find sequences that are missing inside a stream.",
    examples="jetstream stream gaps ORDERS",
)
@stream_argument
@click.option("-f", "--force", is_flag=True, help="do not ask")
@click.option("--progress/--no-progress", default=True)
async def gaps(stream: str | None, force: bool, progress: bool) -> None:
    async with connect() as session:
        name = await pick_stream(session, stream)
        info = await stream_info(session, name, deleted=True)
        found = ranges(info["state"].get("deleted") or [])
    if screen().json:
        print_json({"stream": name, "gaps": [list(pair) for pair in found]})
        return
    if not found:
        say(f"No gaps found in Stream {name}")
        return
    table = Table(f"{len(found):,} gaps found in Stream {name}", "First Message", "Last Message")
    for first, last in found:
        table.add(first, last)
    table.print()


def ranges(sequences: list[int]) -> list[tuple[int, int]]:
    """Single numbers as runs: 1 2 3 7 is (1,3) (7,7)."""
    found: list[tuple[int, int]] = []
    for sequence in sorted(sequences):
        if found and found[-1][1] == sequence - 1:
            found[-1] = (found[-1][0], sequence)
        else:
            found.append((sequence, sequence))
    return found
