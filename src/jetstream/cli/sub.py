"""`jetstream sub`: show messages as they come, from subjects or from a stream."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click
import msgspec

from jetstream.cli import human
from jetstream.cli.app import command as make_command
from jetstream.cli.graph import Sparkline
from jetstream.cli.output import Table, note, say, screen, to_json, write_bytes
from jetstream.cli.problems import Failure
from jetstream.cli.session import Json, Session, connect
from jetstream.cli.stream_messages import line_of, translated
from jetstream.cli.values import DURATION
from jetstream.schema.times import rfc3339
from jetstream.subjects.match import matches

_STREAM_FLAGS = (
    "stream",
    "durable",
    "all_messages",
    "new",
    "last",
    "last_per_subject",
    "since",
    "start_sequence",
    "direct",
)


@make_command(
    "subscribe",
    help="Show messages as they come; Ctrl-C ends it. With --stream, --all, --since and the like "
    "messages are read from a stream, through an ordered consumer or a --durable one.",
    examples="""
    jetstream sub 'orders.>'
    jetstream sub 'orders.>' --queue workers --count 10
    jetstream sub 'orders.*' --all --terminate-at-end
    jetstream sub --stream ORDERS --since 1h -j
    """,
)
@click.argument("subjects", nargs=-1)
@click.option("--queue", default="", help="share messages in this group")
@click.option("-r", "--raw", is_flag=True, help="only bodies")
@click.option("--count", type=int, default=0, help="stop after this many")
@click.option("--wait", type=DURATION, default=0, help="stop after this long without a message")
@click.option("--ack", is_flag=True, help="acknowledge JetStream messages")
@click.option("-i", "--inbox", is_flag=True, help="listen on a new inbox")
@click.option("--match-replies", is_flag=True, help="show answers beside their requests")
@click.option("--headers-only", is_flag=True, help="without bodies")
@click.option("--subjects-only", is_flag=True, help="only subjects")
@click.option("-I", "--ignore-subject", multiple=True, help="leave these out")
@click.option("-t", "--timestamp", is_flag=True, help="when it came")
@click.option("-d", "--delta-time", is_flag=True, help="time since the start")
@click.option("--translate", help="show bodies through a command")
@click.option("--dump", help="one JSON file per message in this directory, or - for stdout")
@click.option("--report-subjects", is_flag=True, help="count by subject")
@click.option("--report-subscriptions", is_flag=True, help="count by subscription")
@click.option("--graph", is_flag=True, help="draw the rate instead of the messages")
@click.option("--report-top", type=int, default=10, help="how many subjects to show")
@click.option("--stream", help="read this stream")
@click.option("--durable", help="read through this consumer")
@click.option("--all", "all_messages", is_flag=True, help="everything stored")
@click.option("--new", is_flag=True, help="only what is stored from now on")
@click.option("--last", is_flag=True, help="from the last message")
@click.option("--last-per-subject", is_flag=True, help="the last message of each subject")
@click.option("--since", type=DURATION, help="from this long ago")
@click.option("--start-sequence", type=int, help="from this sequence")
@click.option("-T", "--terminate-at-end", is_flag=True, help="stop at the present end")
@click.option("--direct", is_flag=True, help="read the stream without a consumer of your own")
@click.option("--format", "form", help="percent template: %s subject %v body %t time %h headers")
async def command(subjects: tuple[str, ...], **flags: Any) -> None:
    wants_stream = any(flags[name] for name in _STREAM_FLAGS)
    async with connect() as session:
        if flags["inbox"]:
            subjects = (*subjects, session.nc.new_inbox())
        if not subjects and not wants_stream:
            raise Failure("no subject was given", "`jetstream sub 'orders.>'`", 2)
        viewer = Viewer(flags)
        viewer.patterns = subjects
        source = (
            _from_stream(session, subjects, flags)
            if wants_stream
            else _from_subjects(session, subjects, flags)
        )
        try:
            await viewer.watch(source)
        finally:
            viewer.finish()


async def _from_subjects(
    session: Session, subjects: tuple[str, ...], flags: Json
) -> AsyncIterator[Any]:
    queue: asyncio.Queue[Any] = asyncio.Queue()
    wanted = list(subjects)
    if flags["match_replies"]:
        wanted.append("_INBOX.>")
    for subject in wanted:
        await session.nc.subscribe(subject, queue=flags["queue"], callback=queue.put_nowait)
        note(
            f"Subscribing on {subject}" + (f" in queue {flags['queue']}" if flags["queue"] else "")
        )
    await session.nc.flush()
    while True:
        yield await queue.get()


async def _from_stream(
    session: Session, subjects: tuple[str, ...], flags: Json
) -> AsyncIterator[Any]:
    js = session.jetstream()
    stream = flags["stream"] or await _stream_of(session, subjects)
    if flags["durable"]:
        consumer = await js.consumer(stream, flags["durable"])
        note(f"Subscribing to durable {flags['durable']} of Stream {stream}")
        pending = (await consumer.info()).num_pending
        source = consumer.messages()
    else:
        config = _start(flags)
        if subjects:
            config["filter_subjects"] = list(subjects)
        consumer = await js.ordered_consumer(stream, **config)
        info = await consumer.info()
        pending = info.num_pending
        note(f"Subscribing to Stream {stream}, {pending:,} messages are waiting")
        source = await consumer.messages()
    if flags["terminate_at_end"] and not pending:
        return
    async with source:
        async for message in source:
            yield message
            if flags["terminate_at_end"] and message.pending == 0:
                return


async def _stream_of(session: Session, subjects: tuple[str, ...]) -> str:
    names = await session.stream_names(subjects[0]) if subjects else []
    if not names:
        shown = f" capture {subjects[0]!r}" if subjects else " was named"
        raise Failure(f"no stream{shown}", "give --stream")
    return names[0]


def _start(flags: Json) -> Json:
    from datetime import UTC, datetime

    if flags["start_sequence"]:
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": flags["start_sequence"]}
    if flags["since"]:
        at = datetime.fromtimestamp(time.time() - flags["since"] / 1e9, UTC)
        return {"deliver_policy": "by_start_time", "opt_start_time": at}
    for flag in ("new", "last", "last_per_subject"):
        if flags[flag]:
            return {"deliver_policy": flag}
    return {"deliver_policy": "all"}


class Viewer:
    """Prints messages the way the flags want it."""

    def __init__(self, flags: Json) -> None:
        self.flags = flags
        self.seen = 0
        self.started = time.monotonic()
        self.by_subject: dict[str, list[int]] = {}
        self.patterns: tuple[str, ...] = ()
        self.rates = Sparkline()
        self.screen = screen()
        if flags["dump"] and flags["dump"] != "-":
            Path(flags["dump"]).mkdir(parents=True, exist_ok=True)

    async def watch(self, source: AsyncIterator[Any]) -> None:
        silence = self.flags["wait"] / 1e9 if self.flags["wait"] else None
        while True:
            try:
                async with asyncio.timeout(silence):
                    message = await anext(source)
            except (TimeoutError, StopAsyncIteration):
                return
            if self._ignored(message.subject):
                continue
            self.seen += 1
            self._count(message)
            self.show(message)
            if self.flags["ack"] and message.reply.startswith("$JS.ACK."):
                await message.connection.publish(message.reply, b"+ACK")
            if self.flags["count"] and self.seen >= self.flags["count"]:
                return

    def _ignored(self, subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in self.flags["ignore_subject"])

    def _count(self, message: Any) -> None:
        key = message.subject
        if self.flags["report_subscriptions"]:
            key = next((p for p in self.patterns if matches(p, message.subject)), key)
        counts = self.by_subject.setdefault(key, [0, 0])
        counts[0] += 1
        counts[1] += len(message.data)

    def show(self, message: Any) -> None:
        flags = self.flags
        if flags["report_subjects"] or flags["report_subscriptions"]:
            return
        if flags["graph"]:
            self.rates.count(time.monotonic())
            click.echo(f"\r\x1b[K{self.rates.text()}", nl=False, err=True)
            return
        if flags["dump"]:
            self._dump(message)
        elif self.screen.json:
            say(to_json(self._json(message), None))
        elif flags["subjects_only"]:
            say(message.subject)
        elif flags["form"]:
            say(formatted(flags["form"], message), nl=False)
        elif flags["raw"]:
            write_bytes(translated(message.data, flags["translate"]))
        else:
            self._full(message)

    def _json(self, message: Any) -> Json:
        made = line_of(message) if _place(message) else {"subject": message.subject}
        if "seq" not in made:
            made |= {k: v for k, v in _plain(message).items() if k != "subject"}
        if message.reply and not _place(message):
            made["reply"] = message.reply
        return made

    def _full(self, message: Any) -> None:
        place = _place(message)
        when = ""
        if self.flags["timestamp"]:
            when = f" @ {time.strftime('%H:%M:%S')}"
        if self.flags["delta_time"]:
            when = f" @ {human.duration(int((time.monotonic() - self.started) * 1e9))}"
        if place is not None:
            say(
                f"[#{self.seen}]{when} Received JetStream message: stream: {place.stream} "
                f"seq: {place.stream_seq} / pending: {place.pending} / "
                f"subject: {message.subject} / time: {human.precise_time(place.time_ns)}"
            )
        else:
            reply = f' with reply "{message.reply}"' if message.reply else ""
            say(f'[#{self.seen}]{when} Received on "{message.subject}"{reply}')
        if message.headers:
            for name, values in message.headers.items():
                for value in values:
                    say(f"{name}: {value}")
            say()
        if not self.flags["headers_only"]:
            body = translated(message.data, self.flags["translate"])
            write_bytes(body) if body else say("nil body")
        say()

    def _dump(self, message: Any) -> None:
        made = msgspec.json.encode(_plain(message))
        if self.flags["dump"] == "-":
            write_bytes(made + b"\0", newline=False)
        else:
            (Path(self.flags["dump"]) / f"{self.seen}.json").write_bytes(made)

    def finish(self) -> None:
        if self.flags["graph"]:
            click.echo("", err=True)
        if not self.flags["report_subjects"] and not self.flags["report_subscriptions"]:
            return
        table = Table(
            f"{len(self.by_subject)} subjects",
            "Subject",
            "Messages",
            "Bytes",
            left=["Subject", "Bytes"],
        )
        top = sorted(self.by_subject.items(), key=lambda row: -row[1][0])
        for subject, (count, size) in top[: self.flags["report_top"]]:
            table.add(subject, count, human.size(size))
        table.print()


def _place(message: Any) -> Any:
    """Where a delivered message stands in its stream, or None."""
    if not message.reply.startswith("$JS.ACK."):
        return None
    from jetstream.client.message import to_jetstream

    return to_jetstream(message).metadata


def _plain(message: Any) -> Json:
    import base64

    made: Json = {"subject": message.subject}
    if message.reply:
        made["reply"] = message.reply
    if message.headers:
        made["headers"] = dict(message.headers.items())
    try:
        made["data"] = message.data.decode()
    except UnicodeDecodeError:
        made["data_base64"] = base64.b64encode(message.data).decode()
    return made


def formatted(form: str, message: Any) -> str:
    """`%s` subject, `%v` body, `%t` time, `%h` headers, `%r` reply, `\\n` and `\\t`."""
    headers = message.headers
    pairs = [f"{k}={v}" for k, values in headers.items() for v in values] if headers else []
    parts = {
        "%s": message.subject,
        "%v": message.data.decode("utf-8", "replace"),
        "%t": rfc3339(time.time_ns()),
        "%h": ",".join(pairs),
        "%r": message.reply,
        "%%": "%",
        "\\n": "\n",
        "\\t": "\t",
    }
    return re.sub(r"%[svthr%]|\\[nt]", lambda found: parts[found[0]], form)
