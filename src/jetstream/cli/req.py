"""`jetstream req` and `jetstream reply`: ask, and answer."""

import asyncio
import os
import random
import re
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import command, settings
from jetstream.cli.output import note, say, screen, to_json, write_bytes
from jetstream.cli.problems import Failure
from jetstream.cli.pub import Composer, Outgoing, _messages
from jetstream.cli.session import Session, connect
from jetstream.cli.stream_messages import translated
from jetstream.cli.templates import Template
from jetstream.cli.values import DURATION, HEADER


@command(
    "request",
    aliases=["req"],
    help="Send a request and show the answers. Without a body the standard input is sent.",
    examples="""
    jetstream req help.me 'what time is it'
    jetstream req '$JS.API.INFO' ''
    cat LOGS.json | jetstream req '$JS.API.STREAM.CREATE.LOGS'
    """,
)
@click.argument("subject")
@click.argument("body", required=False)
@click.option("-r", "--raw", is_flag=True, help="only the answers' bodies")
@click.option("-H", "--header", "headers", type=HEADER, multiple=True, help="Name:value")
@click.option("--count", type=int, default=1, help="how many requests")
@click.option("--sleep", type=DURATION, default=0, help="pause between requests")
@click.option("--replies", type=int, default=1, help="answers to wait for; 0: until the timeout")
@click.option("--reply-timeout", type=DURATION, default="300ms", help="wait for further answers")
@click.option("--wait-for-empty", is_flag=True, help="answers end with an empty one")
@click.option("--translate", help="show bodies through a command")
@click.option("--send-on", type=click.Choice(["eof", "newline"]), default="eof")
@click.option("--force-stdin", is_flag=True, help="read stdin in any case")
@click.option("--templates/--no-templates", default=True, help="understand {{…}}")
async def request(subject: str, body: str | None, **flags: Any) -> None:
    composer = Composer(subject, list(flags["headers"]), body, flags["templates"])
    async with connect() as session:
        for number, message in enumerate(_messages(composer, body, flags)):
            if number and flags["sleep"]:
                await asyncio.sleep(flags["sleep"] / 1e9)
            await _ask(session, message, flags)


async def _ask(session: Session, message: Outgoing, flags: dict[str, Any]) -> None:
    """Ask on an inbox of its own: JetStream answers some requests under other subjects."""
    from jetstream.client.errors import RequestTimeoutError

    quiet = flags["raw"] or settings().quiet or screen().json
    if not quiet:
        note(f'Sending request on "{message.subject}"')
    loop = asyncio.get_running_loop()
    inbox = session.nc.new_inbox()
    async with await session.nc.subscribe(inbox) as answers:
        await session.nc.flush()
        start = loop.time()
        await session.nc.publish(
            message.subject, message.body, reply=inbox, headers=message.headers
        )
        wanted, got, patience = flags["replies"], 0, session.timeout
        deadline = start + session.timeout
        while wanted == 0 or got < wanted or flags["wait_for_empty"]:
            left = min(patience, deadline - loop.time())
            try:
                answer = await answers.next(max(left, 0.001))
            except RequestTimeoutError:
                if got:
                    return
                raise
            if answer.status == 503 and not answer.data:
                raise Failure(f"No responders are available on {message.subject!r}", _hint(message))
            got += 1
            _show_answer(answer, loop.time() - start, flags, quiet)
            if flags["wait_for_empty"] and not answer.data:
                return
            if wanted != 1:
                patience = flags["reply_timeout"] / 1e9


def _hint(message: Outgoing) -> str | None:
    if message.subject.startswith("$JS."):
        return "JetStream is not enabled here, or the subject is not one of its API"
    if message.subject.startswith("$SYS."):
        return "the system subjects answer only users of the system account"
    return None


def _show_answer(answer: Any, seconds: float, flags: dict[str, Any], quiet: bool) -> None:
    body = translated(answer.data, flags["translate"])
    if screen().json:
        headers = dict(answer.headers.items()) if answer.headers else {}
        say(
            to_json(
                {
                    "subject": answer.subject,
                    "headers": headers,
                    "data": body.decode("utf-8", "replace"),
                }
            )
        )
        return
    if not quiet:
        note(f"Received with rtt {human.duration(int(seconds * 1e9))}")
        if answer.headers:
            for name, values in answer.headers.items():
                for value in values:
                    say(f"{name}: {value}")
            say()
    write_bytes(body)


@command(
    "reply",
    help="Answer requests with a text, a command's output, or their own body.",
    examples="""
    jetstream reply help.me 'it is {{Time}}'
    jetstream reply echo --echo
    jetstream reply 'weather.*' --command 'curl -s wttr.in/{{1}}?format=3'
    """,
)
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--echo", is_flag=True, help="send back what came")
@click.option("--command", "shell", help="the output of this command; {{0}} is a subject token")
@click.option("-q", "--queue", default="NATS-RPLY-22", help="queue group")
@click.option("--sleep", type=DURATION, default=0, help="answer after a random time up to this")
@click.option("-H", "--header", "headers", type=HEADER, multiple=True, help="Name:value")
@click.option("--count", type=int, default=0, help="stop after this many")
async def reply(subject: str, body: str | None, **flags: Any) -> None:
    answered = 0
    template = Template(body) if body is not None else None
    async with (
        connect() as session,
        await session.nc.subscribe(subject, queue=flags["queue"]) as requests,
    ):
        await session.nc.flush()
        note(f'Listening on "{subject}" in group "{flags["queue"]}"')
        try:
            async for message in requests:
                if not message.reply:
                    continue
                answered += 1
                note(f'[#{answered}] Received on "{message.subject}"')
                await _answer(message, template, answered, flags)
                if flags["count"] and answered >= flags["count"]:
                    break
            await session.nc.flush()
        finally:
            note(f"Answered {human.plural(answered, 'request')}")


async def _answer(
    message: Any, template: Template | None, count: int, flags: dict[str, Any]
) -> None:
    headers: dict[str, str | list[str]] = {}
    if flags["sleep"]:
        await asyncio.sleep(random.random() * flags["sleep"] / 1e9)
    if flags["shell"]:
        body = await _run(flags["shell"], message)
    elif flags["echo"] or template is None:
        body = message.data
        headers = dict(message.headers.items()) if message.headers else {}
        headers["NATS-Reply-Counter"] = str(count)
    else:
        body = template.render(count, message.data).encode()
    headers.update({name: Template(value).render(count) for name, value in flags["headers"]})
    await message.respond(body, headers=headers or None)


async def _run(shell: str, message: Any) -> bytes:
    """A command per request; its output is the answer if it succeeds."""
    tokens = message.subject.split(".")
    request = message.data.decode("utf-8", "replace")

    def insert(found: re.Match[str]) -> str:
        import shlex

        word = found[1]
        if word.isdigit():
            return shlex.quote(tokens[int(word)]) if int(word) < len(tokens) else ""
        return shlex.quote(request)

    line = re.sub(r"\{\{\s*\.?(\d+|Request)\s*\}\}", insert, shell)
    child = await asyncio.create_subprocess_shell(
        line,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "NATS_REQUEST_SUBJECT": message.subject,
            "NATS_REQUEST_BODY": request,
        },
    )
    output, complaint = await child.communicate()
    if child.returncode:
        note(f"command failed with exit code {child.returncode}: {complaint.decode().strip()}")
        return b""
    return output
