"""`jetstream jsm`: the words, questions and answers of the 2019 preview tool.

A message set is a stream, an observable is a consumer.
"""

import re

import click

from jetstream.cli import human
from jetstream.cli.app import Group
from jetstream.cli.output import say, to_json
from jetstream.cli.problems import Failure
from jetstream.cli.session import Json, connect
from jetstream.cli.stream_config import defaults, finish
from jetstream.cli.values import parse_bytes, parse_duration, split_subjects

OK = 'Received response of "+OK"'


class JsmGroup(Group):
    """Takes `-creds FILE` and `-server URL` with one dash, as that tool did."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [f"-{word}" if re.match(r"-(creds|server)(=|$)", word) else word for word in args]
        return super().parse_args(ctx, words)


group = JsmGroup(
    "jsm",
    help="The words of the 2019 preview tool: message sets are streams, observables consumers.",
    examples="""
    jetstream jsm add
    jetstream jsm info derek
    jetstream jsm add-obs
    jetstream jsm next wc p1
    """,
    no_args_is_help=True,
)


def question(text: str, flag: str) -> str:
    """One line from whoever sits there; a script may feed lines as well."""
    try:
        return input(f"{text}: ").strip()
    except EOFError:
        raise Failure(f"{text} is missing", f"answer the question, or use {flag}", 2) from None


def limits(text: str) -> Json:
    """`msgs bytes age` on one line; empty means the most the account allows."""
    parts = re.split(r"[,\s]+", text.strip()) if text.strip() else []
    if len(parts) > 3:
        raise Failure("limits are messages, bytes and age", "for example: -1 -1 1m", 2)
    made: Json = {}
    try:
        if parts:
            made["max_msgs"] = int(parts[0])
        if len(parts) > 1:
            made["max_bytes"] = parse_bytes(parts[1])
        if len(parts) > 2:
            made["max_age"] = max(parse_duration(parts[2]), 0)
    except ValueError as error:
        raise Failure(str(error), "for example: -1 -1 1m", 2) from error
    return made


@group.command("add", help="Make a message set.", examples="jetstream jsm add")
async def add() -> None:
    say("Enter the following information")
    name = question("Name", "jetstream stream add")
    subjects = split_subjects(question("Subjects", "--subjects")) or [name]
    wanted = limits(question("Limits (msgs, bytes, age)", "--max-msgs"))
    storage = question("Storage", "--storage") or "file"
    config = {**defaults(), "name": name, "subjects": subjects, **wanted}
    config["storage"] = "memory" if storage.lower().startswith("m") else "file"
    async with connect() as session:
        await session.create_stream(finish(config))
    say(OK)


@group.command(
    "info",
    help="The account, or a message set.",
    examples="""
    jetstream jsm info
    jetstream jsm info derek
    """,
)
@click.argument("stream", required=False, metavar="[MSET]")
async def info(stream: str | None) -> None:
    async with connect() as session:
        if stream is None:
            usage = await session.account_info()
            say(account_text(usage))
            return
        state = (await session.stream_info(stream))["state"]
    say(
        f"\nMessages: {state['messages']:,}\nBytes:    {human.size(state['bytes'], 1000)}\n"
        f"FirstSeq: {state['first_seq']:,}\nLastSeq:  {state['last_seq']:,}\n"
    )


def account_text(usage: Json) -> str:
    limit = usage.get("limits") or {}

    def of(used: str, most: str) -> str:
        top = limit.get(most, -1)
        shown = "Unlimited" if top < 0 else human.size(top, 1000)
        return f"{human.size(usage.get(used, 0), 1000)} of {shown}"

    sets = limit.get("max_streams", -1)
    return (
        f"\nMemory:  {of('memory', 'max_memory')}\nStorage: {of('storage', 'max_storage')}\n"
        f"MsgSets: {usage.get('streams', 0)} of {'Unlimited' if sets < 0 else sets}\n"
    )


@group.command("ls", help="List message sets.", examples="jetstream jsm ls")
async def ls() -> None:
    async with connect() as session:
        names = await session.stream_names()
    say("\n" + "\n".join(f"{i}) {name}" for i, name in enumerate(names, 1)) + "\n")


@group.command("rm", help="Remove a message set.", examples="jetstream jsm rm derek")
@click.argument("stream", metavar="MSET")
async def rm(stream: str) -> None:
    async with connect() as session:
        await session.delete_stream(stream)
    say(OK)


@group.command("purge", help="Empty a message set.", examples="jetstream jsm purge derek")
@click.argument("stream", metavar="MSET")
async def purge(stream: str) -> None:
    async with connect() as session:
        await session.purge(stream)
    say(OK)


@group.command("rm-msg", help="Erase one message.", examples="jetstream jsm rm-msg derek 22")
@click.argument("stream", metavar="MSET")
@click.argument("seq", type=int)
async def rm_msg(stream: str, seq: int) -> None:
    async with connect() as session:
        await session.api(f"STREAM.MSG.DELETE.{stream}", {"seq": seq})
    say(OK)


@group.command("add-obs", help="Make an observable.", examples="jetstream jsm add-obs")
async def add_obs() -> None:
    say("Enter the following information")
    stream = question("Message Set Name", "jetstream consumer add")
    name = question("Durable Name", "the CONSUMER argument")
    push = question("Push or Pull", "--pull or --target").lower().startswith("pus")
    config: Json = {"durable_name": name, "name": name, "ack_policy": "explicit"}
    if push:
        config["deliver_subject"] = question("Delivery Subject", "--target")
    deliver_all = not question("Deliver All? (Y|n)", "--deliver").lower().startswith("n")
    config["deliver_policy"] = "all" if deliver_all else "last"
    if push:
        config["ack_policy"] = question("AckPolicy (None|all|explicit)", "--ack").lower() or "none"
    replay = question("Replay Policy (Instant|original)", "--replay").lower()
    config["replay_policy"] = "original" if replay.startswith("o") else "instant"
    async with connect() as session:
        await session.create_consumer(stream, config, "create")
    say(OK)


@group.command("ls-obs", help="List observables.", examples="jetstream jsm ls-obs wc")
@click.argument("stream", metavar="MSET")
async def ls_obs(stream: str) -> None:
    async with connect() as session:
        names = await session.consumer_names(stream)
    say("\n" + "\n".join(f"{i}) {name}" for i, name in enumerate(names, 1)) + "\n")


@group.command("rm-obs", help="Remove an observable.", examples="jetstream jsm rm-obs wc p1")
@click.argument("stream", metavar="MSET")
@click.argument("consumer", metavar="OBS")
async def rm_obs(stream: str, consumer: str) -> None:
    async with connect() as session:
        await session.delete_consumer(stream, consumer)
    say(OK)


@group.command("info-obs", help="State of an observable.", examples="jetstream jsm info-obs wc p1")
@click.argument("stream", metavar="MSET")
@click.argument("consumer", metavar="OBS")
async def info_obs(stream: str, consumer: str) -> None:
    async with connect() as session:
        found = await session.consumer_info(stream, consumer)
    say(f"Received response of {to_json(observable_state(found))}")


def observable_state(info: Json) -> Json:
    """As 2019 showed it: sequences of what comes next, numbers for what is out."""
    delivered, floor = info.get("delivered") or {}, info.get("ack_floor") or {}
    return {
        "Delivered": {
            "ObsSeq": delivered.get("consumer_seq", 0) + 1,
            "SetSeq": delivered.get("stream_seq", 0) + 1,
        },
        "AckFloor": {
            "ObsSeq": floor.get("consumer_seq", 0),
            "SetSeq": floor.get("stream_seq", 0),
        },
        "Pending": info.get("num_ack_pending") or None,
        "Redelivery": info.get("num_redelivered") or None,
    }


@group.command("next", help="Fetch one message.", examples="jetstream jsm next wc p1")
@click.argument("stream", metavar="MSET")
@click.argument("consumer", metavar="OBS")
async def next_message(stream: str, consumer: str) -> None:
    from jetstream.cli.consumer_read import fetch_one

    async with connect() as session:
        message = await fetch_one(session, stream, consumer)
        say(f"Received response of {message.data.decode('utf-8', 'replace')}")
        say(f"Reply: {message.reply}")
        if wants_ack():
            await message.ack_sync()


def wants_ack() -> bool:
    """Yes unless somebody says no; a script that answers nothing acknowledges."""
    try:
        answer = input("Ack? (Y|n) ")
    except EOFError:
        return True
    return not answer.strip().lower().startswith("n")
