"""`jetstream consumer next|sub|explain`: messages through a consumer, and why none come."""

import asyncio
import random
import time
from typing import Any

import click
import msgspec

from jetstream.cli import human
from jetstream.cli.app import command
from jetstream.cli.consumer_pages import why_nothing
from jetstream.cli.output import note, print_json, say, screen, to_json, write_bytes
from jetstream.cli.picking import consumer_info, pick_consumer, pick_stream, stream_info
from jetstream.cli.problems import Failure
from jetstream.cli.session import Json, Session, connect
from jetstream.cli.stream_messages import line_of
from jetstream.cli.values import DURATION

FETCH_EXPIRES = 30.0


def show(message: Any, raw: bool) -> None:
    """A delivered message with its place in stream and consumer."""
    if raw:
        write_bytes(message.data)
        return
    place = message.metadata
    say(
        f"[{time.strftime('%H:%M:%S')}] subj: {message.subject} / tries: {place.deliveries} / "
        f"cons seq: {place.consumer_seq} / str seq: {place.stream_seq} / pending: {place.pending}"
    )
    if message.headers:
        say("\nHeaders:\n")
        for name, values in message.headers.items():
            for value in values:
                say(f"  {name}: {value}")
        say("\nData:\n")
    else:
        say()
    write_bytes(message.data) if message.data else say("nil body")
    say()


async def settle(message: Any, how: str, raw: bool) -> None:
    """Acknowledge in the chosen way and say so."""
    if how == "none" or not message.reply:
        return
    if how == "nak":
        await message.nak()
        await message.connection.flush()
        said = "Negative acknowledged message"
    elif how == "term":
        await message.term()
        await message.connection.flush()
        said = "Terminated message"
    else:
        await message.ack_sync()
        said = "Acknowledged message"
    if not raw:
        say(said + "\n")


@command(
    "next",
    help="Fetch messages from a pull consumer and acknowledge them.",
    examples="""
    jetstream consumer next ORDERS work
    jetstream consumer next ORDERS work --count 10 --raw
    jetstream consumer next ORDERS work --nak
    """,
)
@click.argument("stream")
@click.argument("consumer")
@click.option("--count", type=int, default=1, help="how many messages")
@click.option("--ack/--no-ack", default=True, help="acknowledge them")
@click.option("--nak", is_flag=True, help="refuse them: they come again")
@click.option("--term", is_flag=True, help="refuse them for ever")
@click.option("-r", "--raw", is_flag=True, help="only bodies")
@click.option("--wait", type=DURATION, default=0, help="wait up to this long before acking")
async def next_(
    stream: str, consumer: str, count: int, ack: bool, nak: bool, term: bool, raw: bool, wait: int
) -> None:
    async with connect() as session:
        info = await consumer_info(session, stream, consumer)
        if info["config"].get("deliver_subject"):
            raise Failure(
                f"{stream} > {consumer} is a push consumer, messages cannot be fetched from it",
                f"it delivers to {info['config']['deliver_subject']}: "
                f"`jetstream consumer sub {stream} {consumer}`",
            )
        how = "nak" if nak else "term" if term else "ack" if ack else "none"
        if info["config"].get("ack_policy") == "none":
            how = "none"
        for _ in range(count):
            message = await fetch_one(session, stream, consumer)
            if screen().json:
                say(to_json(line_of(message), None))
            else:
                show(message, raw)
            if wait:
                await asyncio.sleep(random.random() * wait / 1e9)
            await settle(message, how, raw or screen().json)


async def fetch_one(session: Session, stream: str, consumer: str) -> Any:
    """One message, or why there is none."""
    from jetstream.client.errors import RequestTimeoutError
    from jetstream.client.message import JetStreamMessage

    body = msgspec.json.encode({"batch": 1, "expires": int(session.timeout * 1e9)})
    inbox = session.nc.new_inbox()
    why = f"`jetstream consumer explain {stream} {consumer}` says why"
    async with await session.nc.subscribe(inbox, message_type=JetStreamMessage) as answers:
        await session.nc.publish(
            f"{session.prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}", body, reply=inbox
        )
        try:
            answer = await answers.next(session.timeout + 1)
        except RequestTimeoutError:
            raise Failure("no message came in time", why) from None
    if not answer.status:
        return answer
    if answer.status in (404, 408):
        raise Failure("no message is available", why)
    text = answer.headers.description if answer.headers else ""
    raise Failure(f"the server answered {answer.status} {text}")


@command(
    "sub",
    help="Show a consumer's messages as they come; Ctrl-C ends it.",
    examples="""
    jetstream consumer sub ORDERS work
    jetstream consumer sub ORDERS tail --raw
    """,
)
@click.argument("stream", required=False)
@click.argument("consumer", required=False)
@click.option("--ack/--no-ack", default=True, help="acknowledge them")
@click.option("-r", "--raw", is_flag=True, help="only bodies")
@click.option("--deliver-group", help="join this queue group")
@click.option("--count", type=int, default=0, help="stop after this many")
async def sub(
    stream: str | None,
    consumer: str | None,
    ack: bool,
    raw: bool,
    deliver_group: str | None,
    count: int,
) -> None:
    seen = 0
    async with connect() as session:
        name = await pick_stream(session, stream)
        which = await pick_consumer(session, name, consumer)
        info = await consumer_info(session, name, which)
        how = "ack" if ack and info["config"].get("ack_policy") != "none" else "none"
        try:
            async for message in _messages(session, name, which, info, deliver_group):
                seen += 1
                if screen().json:
                    say(to_json(line_of(message), None))
                else:
                    show(message, raw)
                await settle(message, how, raw or screen().json)
                if count and seen >= count:
                    break
        finally:
            if not raw:
                note(f"{human.plural(seen, 'message')} received")


async def _messages(
    session: Session, stream: str, consumer: str, info: Json, group: str | None
) -> Any:
    from jetstream.client.message import JetStreamMessage

    config = info["config"]
    if target := config.get("deliver_subject"):
        queue = group or config.get("deliver_group") or ""
        async with await session.nc.subscribe(
            target, queue=queue, message_type=JetStreamMessage
        ) as subscription:
            async for message in subscription:
                if not message.status:
                    yield message
                elif message.reply:
                    await message.respond()
        return
    inbox = session.nc.new_inbox()
    request = msgspec.json.encode({"batch": 1, "expires": int(FETCH_EXPIRES * 1e9)})
    subject = f"{session.prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
    async with await session.nc.subscribe(inbox, message_type=JetStreamMessage) as subscription:
        while True:
            await session.nc.publish(subject, request, reply=inbox)
            message = await subscription.next(FETCH_EXPIRES + 5)
            if not message.status:
                yield message
            elif message.status not in (100, 404, 408):
                text = message.headers.description if message.headers else ""
                raise Failure(f"the server answered {message.status} {text}")


@command(
    "explain",
    help="Why a consumer delivers nothing, and where one message went.",
    examples="""
    jetstream consumer explain ORDERS work
    jetstream consumer explain ORDERS work 42
    """,
)
@click.argument("stream", required=False)
@click.argument("consumer", required=False)
@click.argument("seq", type=int, required=False)
async def explain(stream: str | None, consumer: str | None, seq: int | None) -> None:
    async with connect() as session:
        name = await pick_stream(session, stream)
        which = await pick_consumer(session, name, consumer)
        info = await consumer_info(session, name, which)
        whole = await stream_info(session, name)
        # Our server keeps a record of deliveries; from others we read what their numbers say.
        told = await session.extension(f"CONSUMER.EXPLAIN.{name}.{which}")
        life = (
            await session.extension(f"CONSUMER.LIFE.{name}.{which}", {"seq": seq}) if seq else None
        )
    reasons = why_nothing(info, whole)
    if screen().json:
        print_json({**(told or {}), "reasons": reasons, **({"life": life} if life else {})})
        return
    if told is not None:
        say(f"{name} > {which}: {told['sentence']}")
    elif not reasons:
        say(f"{name} > {which} is delivering: {info.get('num_pending', 0):,} messages are left")
    else:
        for reason in reasons:
            say(f"{name} > {which} delivers nothing because {reason}")
    if life is not None:
        _show_life(life)
    elif seq:
        say(_where_is(seq, info))


def _show_life(life: Json) -> None:
    say(f"\nmessage {life['seq']} on {life.get('subject') or 'a removed subject'}: {life['state']}")
    for event in life.get("events") or []:
        more = " ".join(filter(None, [event.get("to", ""), event.get("detail", "")]))
        say(f"  {human.precise_time(event['time'])}  {event['what']}  {more}".rstrip())


def _where_is(seq: int, info: Json) -> str:
    floor = (info.get("ack_floor") or {}).get("stream_seq", 0)
    delivered = (info.get("delivered") or {}).get("stream_seq", 0)
    if seq <= floor:
        return f"message {seq} was delivered and acknowledged (the ack floor is {floor:,})"
    if seq <= delivered:
        return f"message {seq} was delivered and may be pending (the ack floor is {floor:,})"
    return f"message {seq} was not delivered yet (last delivered: {delivered:,})"
