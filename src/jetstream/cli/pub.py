"""`jetstream pub`: send one message, many, or a message for ever."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import click
import msgspec

from jetstream.cli import human
from jetstream.cli.app import command as make_command
from jetstream.cli.app import settings
from jetstream.cli.output import note, print_json, say, screen, warn
from jetstream.cli.problems import Failure
from jetstream.cli.progress import Progress
from jetstream.cli.session import Session, connect, raise_refusal
from jetstream.cli.stdin import bodies, is_piped
from jetstream.cli.templates import Template
from jetstream.cli.values import DURATION, HEADER
from jetstream.errors import ApiError

MANY = 20
EXPECTATIONS = {
    "expect_last_seq": "Nats-Expected-Last-Sequence",
    "expect_last_subject_seq": "Nats-Expected-Last-Subject-Sequence",
    "expect_stream": "Nats-Expected-Stream",
    "expect_last_msg_id": "Nats-Expected-Last-Msg-Id",
}


class Outgoing(NamedTuple):
    """A message ready to be sent."""

    subject: str
    headers: dict[str, list[str]] | None
    body: bytes


class Composer:
    """Turns subject, headers and body templates into messages."""

    def __init__(
        self, subject: str, headers: list[tuple[str, str]], body: str | None, templates: bool
    ) -> None:
        self._templates = templates
        self._subject = self._compile(subject)
        self._headers = [(name, self._compile(value)) for name, value in headers]
        self._body = None if body is None else self._compile(body)
        self._plain_body: bytes | None = None
        if isinstance(self._body, str):
            self._plain_body = self._body.encode()
        elif self._body is not None and self._body.is_plain:
            self._plain_body = self._body.text.encode()

    def _compile(self, text: str) -> Template | str:
        if not self._templates or "{{" not in text:
            return text
        made = Template(text)
        for unknown in made.unknown:
            warn(f"{unknown} is not a template function, it is sent as it is")
        return made

    def compose(self, count: int, given: bytes | None = None) -> Outgoing:
        headers: dict[str, list[str]] = {}
        for name, value in self._headers:
            headers.setdefault(name, []).append(_render(value, count))
        if given is not None:
            body = given
            if self._templates and b"{{" in given:
                body = Template(given.decode("utf-8", "replace")).render(count).encode()
        elif self._plain_body is not None:
            body = self._plain_body
        else:
            body = _render(self._body or "", count).encode()
        return Outgoing(_render(self._subject, count), headers or None, body)


def _render(text: Template | str, count: int) -> str:
    return text if isinstance(text, str) else text.render(count)


@make_command(
    "publish",
    help="Send messages. Bodies, subjects and header values may hold {{Count}}, {{TimeStamp}}, "
    "{{Time}}, {{Unix}}, {{UnixNano}}, {{ID}}, {{Random MIN MAX}}, {{Int LO HI}}, {{Pick A B}}, "
    "{{JSON}}. Without a body the standard input is sent.",
    examples="""
    jetstream pub orders.us 'an order'
    jetstream pub orders.us --count=-1 --sleep=2s 'US Order # {{Count}} at {{TimeStamp}}'
    jetstream pub orders.us -J -H 'Nats-Msg-Id:{{ID}}' --count 100 '{{JSON}}'
    tail -f app.log | jetstream pub logs.app --send-on newline
    """,
)
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--count", type=int, default=1, help="how many; below 1: until Ctrl-C")
@click.option("--sleep", type=DURATION, default=0, help="pause between messages")
@click.option("--rate", type=float, help="messages per second")
@click.option("-H", "--header", "headers", type=HEADER, multiple=True, help="Name:value")
@click.option("--reply", help="reply subject")
@click.option("-J", "--jetstream", "stored", is_flag=True, help="wait until it is stored")
@click.option("--atomic", is_flag=True, help="all lines of stdin as one atomic batch")
@click.option("--send-on", type=click.Choice(["eof", "newline"]), default="eof")
@click.option("--force-stdin", is_flag=True, help="read stdin in any case")
@click.option("--templates/--no-templates", default=True, help="understand {{…}}")
@click.option("--progress/--no-progress", default=True)
@click.option("--msg-id", help="message id for de-duplication (a template)")
@click.option("--expect-last-seq", type=int, help="only if this is the stream's last sequence")
@click.option("--expect-last-subject-seq", type=int, help="… the subject's last sequence")
@click.option("--expect-stream", help="only if this stream stores it")
@click.option("--expect-last-msg-id", help="only if this was the last message id")
@click.option("--ttl", help="how long the message lives, for example 1h")
async def command(subject: str, body: str | None, **flags: Any) -> None:
    headers = list(flags["headers"]) + _policy_headers(flags)
    composer = Composer(subject, headers, body, flags["templates"])
    messages = _messages(composer, body, flags)
    pause = flags["sleep"] / 1e9 if flags["sleep"] else 1 / flags["rate"] if flags["rate"] else 0.0
    async with connect() as session:
        if flags["atomic"]:
            await _atomic(session, messages)
            return
        await Sender(session, flags).run(messages, pause)


def _policy_headers(flags: dict[str, Any]) -> list[tuple[str, str]]:
    made = [
        (header, str(flags[flag]))
        for flag, header in EXPECTATIONS.items()
        if flags[flag] is not None
    ]
    if flags["msg_id"]:
        made.append(("Nats-Msg-Id", flags["msg_id"]))
    if flags["ttl"]:
        made.append(("Nats-TTL", flags["ttl"]))
    return made


def _messages(composer: Composer, body: str | None, flags: dict[str, Any]) -> Iterator[Outgoing]:
    if body is None or flags["force_stdin"]:
        if not flags["force_stdin"] and not is_piped():
            note("Reading payload from STDIN")
        lines = enumerate(bodies(flags["send_on"]), 1)
        return (composer.compose(count, line) for count, line in lines)
    counts = itertools.count(1) if flags["count"] < 1 else range(1, flags["count"] + 1)
    return (composer.compose(count) for count in counts)


class Sender:
    """Sends messages one after the other and tells about it."""

    def __init__(self, session: Session, flags: dict[str, Any]) -> None:
        self.session = session
        self.stored = bool(flags["stored"])
        self.reply = flags["reply"]
        count = flags["count"]
        many = count > MANY or count < 1
        self.lines = not settings().quiet and (count <= MANY or count < 1)
        self.bar = Progress(
            "publish", max(count, 0), enabled=many and not self.lines and flags["progress"]
        )

    async def run(self, messages: Iterator[Outgoing], pause: float) -> None:
        sent = size = 0
        due = 0.0
        loop = asyncio.get_running_loop()
        try:
            with self.bar:
                for message in messages:
                    if sent and pause:
                        await asyncio.sleep(max(due - loop.time(), 0))
                    due = loop.time() + pause
                    await self._send(message)
                    sent += 1
                    size += len(message.body)
                    self.bar.add()
            await self.session.nc.flush()
        except asyncio.CancelledError:
            note(f"Published {human.plural(sent, 'message')}, {human.size(size)}")
            raise
        if not self.lines and not settings().quiet and not self.stored:
            note(f"Published {human.plural(sent, 'message')}, {human.size(size)}")

    async def _send(self, message: Outgoing) -> None:
        if self.stored:
            await self._send_stored(message)
            return
        await self.session.nc.publish(
            message.subject, message.body, reply=self.reply, headers=message.headers
        )
        if self.lines:
            note(f"Published {len(message.body)} bytes to {quoted(message.subject)}")

    async def _send_stored(self, message: Outgoing) -> None:
        from jetstream.client.errors import NoRespondersError

        try:
            answer = await self.session.nc.request(
                message.subject,
                message.body,
                headers=message.headers,
                timeout=self.session.timeout,
            )
        except NoRespondersError:
            raise await no_stream(self.session, message.subject) from None
        ack = msgspec.json.decode(answer.data)
        try:
            raise_refusal(ack)
        except ApiError as error:
            if error.err_code in (10071, 10164):
                error.hint = f"expected another sequence than the actual one: {error.description}"
            raise
        if screen().json:
            print_json(ack)
        elif self.lines:
            say(ack_text(ack))


def quoted(subject: str) -> str:
    return f'"{subject}"'


def ack_text(ack: dict[str, Any]) -> str:
    text = f"Stored in Stream: {ack.get('stream')} Sequence: {ack.get('seq')}"
    if ack.get("domain"):
        text += f" Domain: {ack['domain']}"
    if ack.get("duplicate"):
        text += " Duplicate: true"
    if ack.get("val"):
        text += f" Counter Value: {ack['val']}"
    return text


async def no_stream(session: Session, subject: str) -> Failure:
    """Nobody answered a publish: either no stream captures it, or there is no JetStream."""
    import difflib

    from jetstream.client.errors import NoRespondersError

    try:
        infos = await session.streams()
    except NoRespondersError as error:
        raise error from None
    subjects = {
        s: info["config"]["name"] for info in infos for s in info["config"].get("subjects", [])
    }
    close = difflib.get_close_matches(subject, list(subjects), n=2, cutoff=0.4)
    hint = f"`jetstream stream add NAME --subjects {subject!r}` makes one"
    if close:
        hint += "; the closest are " + ", ".join(f"{s} (stream {subjects[s]})" for s in close)
    return Failure(f"no stream captures the subject {subject!r}", hint)


async def _atomic(session: Session, messages: Iterator[Outgoing]) -> None:
    """All or nothing: the stream must allow atomic batches."""
    batch = session.jetstream().batch()
    count = 0
    for message in messages:
        count += 1
        await batch.add(message.subject, message.body, headers=message.headers)
    if not count:
        raise Failure("there is nothing to send")
    ack = await batch.commit()
    say(f"Stored in Stream: {ack.stream} Sequence: {ack.seq} Batch: {count} messages")
