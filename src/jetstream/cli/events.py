"""`jetstream events`: advisories and metrics as they happen."""

import re
from typing import Any

import click
import msgspec

from jetstream.cli import human
from jetstream.cli.app import command as make_command
from jetstream.cli.app import settings
from jetstream.cli.output import note, say, screen, to_json
from jetstream.cli.session import connect
from jetstream.cli.values import DURATION

Json = dict[str, Any]
_HIDDEN = frozenset({"type", "id", "timestamp", "client", "state"})
SERVER_SUBJECTS = (
    "$SYS.ACCOUNT.*.CONNECT",
    "$SYS.ACCOUNT.*.DISCONNECT",
    "$SYS.SERVER.*.CLIENT.AUTH.ERR",
)


@make_command(
    "events",
    help="Show advisories as they happen; Ctrl-C ends it.",
    examples="""
    jetstream events
    jetstream events --js-metric --short
    jetstream events -a -j | jq .type
    """,
)
@click.option("-a", "--all", "everything", is_flag=True, help="all kinds")
@click.option("--js-advisory/--no-js-advisory", default=True, help="JetStream advisories")
@click.option("--js-metric/--no-js-metric", default=False, help="JetStream metrics")
@click.option("--srv-advisory/--no-srv-advisory", default=True, help="connections, disconnections")
@click.option("--subjects", multiple=True, help="these subjects instead")
@click.option("--filter", "pattern", default="", help="only events whose JSON matches (regex)")
@click.option("--short", is_flag=True, help="one line each")
@click.option("--cloudevent", is_flag=True, help="as CloudEvents")
@click.option("--count", type=int, default=0, help="stop after this many")
@click.option("--stream", help="read stored events from this stream")
@click.option("--since", type=DURATION, help="… from this long ago")
async def command(**flags: Any) -> None:
    wanted = re.compile(flags["pattern"])
    seen = 0
    async with connect() as session:
        source = await _source(session, flags)
        async for message in source:
            if not wanted.search(message.data.decode("utf-8", "replace")):
                continue
            seen += 1
            _show(message, flags)
            if flags["count"] and seen >= flags["count"]:
                return


async def _source(session: Any, flags: Json) -> Any:
    import asyncio

    if flags["stream"]:
        from jetstream.cli.sub import _start

        start = {"start_sequence": None, "new": False, "last": False, "last_per_subject": False}
        consumer = await session.jetstream().ordered_consumer(
            flags["stream"], **_start({**start, "since": flags["since"]})
        )
        return await consumer.messages()
    queue: asyncio.Queue[Any] = asyncio.Queue()
    for subject in subjects(flags, settings().event_prefix):
        note(f"Listening on {subject}")
        await session.nc.subscribe(subject, callback=queue.put_nowait)
    await session.nc.flush()

    async def arrivals() -> Any:
        while True:
            yield await queue.get()

    return arrivals()


def subjects(flags: Json, prefix: str) -> list[str]:
    """Which subjects the flags mean."""
    if flags["subjects"]:
        return list(flags["subjects"])
    made = []
    if flags["everything"] or flags["js_advisory"]:
        made.append(f"{prefix}.ADVISORY.>")
    if flags["everything"] or flags["js_metric"]:
        made.append(f"{prefix}.METRIC.>")
    if flags["everything"] or flags["srv_advisory"]:
        made += SERVER_SUBJECTS
    return made


def _show(message: Any, flags: Json) -> None:
    if screen().json:
        write = message.data.decode("utf-8", "replace")
        say(write)
        return
    try:
        event: Json = msgspec.json.decode(message.data)
    except msgspec.DecodeError:
        event = {"type": message.subject, "data": message.data.decode("utf-8", "replace")}
    if flags["cloudevent"]:
        say(to_json(cloud_event(message.subject, event), None))
    elif flags["short"]:
        say(short_line(event))
    else:
        say(page(event))


def title(kind: str) -> str:
    """`io.nats.jetstream.advisory.v1.stream_action` as `Stream Action`."""
    return kind.rsplit(".", 1)[-1].replace("_", " ").title()


def short_line(event: Json) -> str:
    facts = ", ".join(
        f"{key}: {value}"
        for key, value in event.items()
        if key not in _HIDDEN and not isinstance(value, dict | list)
    )
    return f"{human.local_time(event.get('timestamp'))} [{title(event.get('type', ''))}] {facts}"


def page(event: Json) -> str:
    lines = [f"[{human.local_time(event.get('timestamp'))}] {title(event.get('type', ''))}", ""]
    facts = {k: v for k, v in event.items() if k not in _HIDDEN}
    width = max((len(key) for key in facts), default=0) + 2
    for key, value in facts.items():
        shown = to_json(value, None) if isinstance(value, dict | list) else value
        lines.append(f"{key.replace('_', ' ').title():>{width}}: {shown}")
    client = event.get("client")
    if isinstance(client, dict):
        who = client.get("user") or client.get("name") or client.get("id") or ""
        lines.append(f"{'Client':>{width}}: {who} {client.get('host', '')}".rstrip())
    return "\n".join([*lines, ""])


def cloud_event(subject: str, event: Json) -> Json:
    return {
        "specversion": "1.0",
        "id": event.get("id", ""),
        "type": event.get("type", ""),
        "source": "urn:nats:jetstream",
        "subject": subject,
        "time": event.get("timestamp", ""),
        "datacontenttype": "application/json",
        "data": event,
    }
