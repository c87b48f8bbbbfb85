"""`jetstream consumer`: consumers made, changed, shown, paused and removed."""

import time
from typing import Any

import click

from jetstream.cli import configs, human
from jetstream.cli.app import ALL_NAMES, ALL_SETTINGS, all_streams, make_group, settings
from jetstream.cli.consumer_config import (
    apply_flags,
    ask_missing,
    check_name,
    config_options,
    finish,
)
from jetstream.cli.consumer_find import find, report
from jetstream.cli.consumer_pages import info_page, state_page
from jetstream.cli.consumer_read import explain, next_, sub
from jetstream.cli.graph import consumer_graph
from jetstream.cli.output import Table, print_json, say, screen, to_json, unified
from jetstream.cli.picking import consumer_info, pick_consumer, pick_stream, stream_info
from jetstream.cli.problems import Failure, Quit
from jetstream.cli.prompts import ask, interactive, really
from jetstream.cli.session import Json, Session, connect
from jetstream.cli.stream import in_editor
from jetstream.cli.values import parse_moment
from jetstream.errors import ApiError
from jetstream.schema.times import rfc3339

EXISTS = (10013, 10105, 10148)

group = make_group(
    "consumer",
    "Manage consumers and read with them.",
    """
    jetstream consumer add ORDERS work --pull --defaults
    jetstream consumer next ORDERS work --count 10
    jetstream consumer explain ORDERS work
    """,
    params=[click.Option(list(ALL_NAMES), **ALL_SETTINGS)],
)
for _command in (next_, sub, explain, report, find, consumer_graph):
    group.add_command(_command)

stream_argument = click.argument("stream", required=False)
consumer_argument = click.argument("consumer", required=False)
force_option = click.option("-f", "--force", is_flag=True, help="do not ask")


def bare(info: Json) -> Json:
    return {k: v for k, v in info.items() if k not in ("type", "total", "offset", "limit")}


def show_info(info: Json, headline: str = "") -> None:
    if screen().json:
        print_json(bare(info))
    elif settings().quiet:
        say(info["name"])
    else:
        say(f"{headline}\n\n{info_page(info)}" if headline else info_page(info))


async def both(session: Session, stream: str | None, consumer: str | None) -> tuple[str, str]:
    """Stream and consumer, chosen where they were not named."""
    name = await pick_stream(session, stream, all=all_streams())
    return name, await pick_consumer(session, name, consumer)


@group.command(
    "add",
    aliases=["create", "new"],
    help="Make a consumer; what the flags do not say is asked on a terminal.",
    examples="""
    jetstream consumer add ORDERS work --pull --defaults
    jetstream consumer add ORDERS tail --target out.orders --deliver new --ack none
    jetstream consumer add ORDERS work --config work.json
    """,
)
@stream_argument
@consumer_argument
@config_options()
@click.option("--config", help="configuration file (JSON, YAML, TOML)")
@click.option("--validate", is_flag=True, help="check the configuration, create nothing")
@click.option("--output", "output_file", help="write the configuration instead of creating")
@click.option("--defaults", "take_defaults", is_flag=True, help="take defaults, ask nothing")
async def add(stream: str | None, consumer: str | None, **flags: Any) -> None:
    config: Json = {}
    if flags["config"]:
        config, named = configs.consumer_from_file(flags["config"])
        if not consumer and stream and named and stream != named and not config.get("name"):
            stream, consumer = named, stream
        stream = stream or named or None
    if consumer:
        config["durable_name"] = consumer
    config = apply_flags(config, flags)
    if flags["pull"]:
        config.pop("deliver_subject", None)
    if flags["validate"]:
        _validate(finish(config, flags["ephemeral"]))
        say("Configuration is valid")
        return
    async with connect() as session:
        name = await pick_stream(session, stream, all=all_streams())
        config = await _wanted(config, flags)
        if flags["output_file"]:
            from pathlib import Path

            Path(flags["output_file"]).write_text(to_json(config) + "\n")
            say(f"Wrote the configuration to {flags['output_file']}")
            return
        info = await create(session, name, config)
    show_info(info)


async def _wanted(config: Json, flags: Json) -> Json:
    named = config.get("durable_name") or config.get("name")
    asking = interactive() and not flags["take_defaults"] and not flags["config"]
    if not named and not flags["ephemeral"]:
        if asking:
            config["durable_name"] = await ask(
                "Consumer name", flag="the CONSUMER argument", check=check_name
            )
        else:
            raise Failure(
                "the consumer has no name",
                "give the CONSUMER argument, or --ephemeral for one without",
                2,
            )
    if asking:
        config = await ask_missing(config, flags)
    return finish(config, flags["ephemeral"])


def _validate(config: Json) -> None:
    import msgspec

    from jetstream.schema.consumer import ConsumerConfig
    from jetstream.schema.decoding import decode

    decode(msgspec.json.encode(config), ConsumerConfig)


async def create(session: Session, stream: str, config: Json) -> Json:
    """Create, and say why if it is refused."""
    try:
        return await session.create_consumer(stream, config, "create")
    except ApiError as error:
        name = config.get("durable_name") or config.get("name") or ""
        if error.err_code in EXISTS and name:
            existing = await session.consumer_info(stream, name)
            if not screen().json:
                unified(configs.differences(existing["config"], config, "ConsumerConfig"))
        elif error.err_code == 10059:
            await stream_info(session, stream)
        raise


@group.command(
    "ls",
    aliases=["list"],
    help="List the consumers of a stream.",
    examples="jetstream consumer ls ORDERS",
)
@stream_argument
@click.option("-n", "--names", is_flag=True, help="only names")
@click.option("--no-select", is_flag=True, help="never offer a list of streams")
async def ls(stream: str | None, names: bool, no_select: bool) -> None:
    async with connect() as session:
        name = await pick_stream(session, stream, all=all_streams(), select=not no_select)
        await stream_info(session, name)
        if names or screen().json:
            found = await session.consumer_names(name)
            if screen().json:
                print_json(found)
            else:
                for each in found:
                    say(each)
            return
        infos = await session.consumers(name)
    if not infos:
        say("No Consumers defined")
        return
    table = Table(
        f"Consumers of Stream {name}",
        "Name",
        "Description",
        "Created",
        "Ack Pending",
        "Unprocessed",
        "Last Delivery",
        left=["Created", "Last Delivery"],
    )
    for info in sorted(infos, key=lambda info: str(info["name"])):
        table.add(
            info["name"],
            info["config"].get("description", ""),
            human.local_time(info["created"]),
            info.get("num_ack_pending", 0),
            info.get("num_pending", 0),
            human.age((info.get("delivered") or {}).get("last_active")),
        )
    table.print()


@group.command(
    "info",
    aliases=["nfo"],
    help="Show a consumer's configuration and state.",
    examples="jetstream consumer info ORDERS work",
)
@stream_argument
@consumer_argument
async def info(stream: str | None, consumer: str | None) -> None:
    async with connect() as session:
        found = await consumer_info(session, *await both(session, stream, consumer))
    show_info(found)


@group.command(
    "state",
    help="Show how far a consumer has come.",
    examples="jetstream consumer state ORDERS work",
)
@stream_argument
@consumer_argument
async def state(stream: str | None, consumer: str | None) -> None:
    async with connect() as session:
        found = await consumer_info(session, *await both(session, stream, consumer))
    if screen().json:
        print_json({k: v for k, v in bare(found).items() if k != "config"})
    else:
        say(state_page(found))


@group.command(
    "edit",
    aliases=["update"],
    help="Change a durable consumer: shows the difference, then asks.",
    examples="""
    jetstream consumer edit ORDERS work --max-deliver 5
    jetstream consumer edit ORDERS work --config work.json --dry-run
    """,
)
@stream_argument
@consumer_argument
@config_options(edit=True)
@click.option("--config", help="configuration file (JSON, YAML, TOML)")
@force_option
@click.option("-i", "--interactive", "editor", is_flag=True, help="edit as YAML in $EDITOR")
@click.option("--dry-run", is_flag=True, help="only the difference; exit 1 if there is one")
async def edit(stream: str | None, consumer: str | None, **flags: Any) -> None:
    async with connect() as session:
        name, which = await both(session, stream, consumer)
        old = (await consumer_info(session, name, which))["config"]
        if not old.get("durable_name"):
            raise Failure(f"{which} is not durable, only durable consumers can be changed")
        new = _edited(which, old, flags)
        if configs.same(old, new):
            if screen().json:
                print_json(old)
            else:
                say("No difference in configuration")
            return
        lines = configs.differences(old, new, "ConsumerConfig")
        if flags["dry_run"]:
            unified(lines)
            raise Quit(1)
        if not screen().json:
            unified(lines)
        await really(f"edit Consumer {name} > {which}", flags["force"])
        updated = await session.create_consumer(name, new, "update")
    show_info(updated, f"Consumer {name} > {which} was updated")


def _edited(which: str, old: Json, flags: Json) -> Json:
    if flags["config"]:
        new, _ = configs.consumer_from_file(flags["config"])
        new["durable_name"] = new["name"] = which
        return apply_flags(new, flags)
    if flags["editor"]:
        return in_editor(old)
    if flags["wait"] is not None and old.get("backoff") and flags["backoff"] != "none":
        raise Failure("the ack wait cannot change while a backoff exists", "add --backoff none", 2)
    return apply_flags(old, flags)


@group.command(
    "rm",
    aliases=["delete", "del"],
    help="Remove a consumer.",
    examples="jetstream consumer rm ORDERS work -f",
)
@stream_argument
@consumer_argument
@force_option
async def rm(stream: str | None, consumer: str | None, force: bool) -> None:
    async with connect() as session:
        name, which = await both(session, stream, consumer)
        await really(f"delete Consumer {name} > {which}", force)
        try:
            await session.delete_consumer(name, which)
        except ApiError:
            await consumer_info(session, name, which)
            raise


@group.command(
    "copy",
    aliases=["cp"],
    help="Make a consumer with another one's configuration; flags override it.",
    examples="jetstream consumer copy ORDERS work work2 --filter orders.eu",
)
@click.argument("stream")
@click.argument("source_consumer", metavar="SOURCE")
@click.argument("target_consumer", metavar="DESTINATION")
@config_options()
async def copy(stream: str, source_consumer: str, target_consumer: str, **flags: Any) -> None:
    async with connect() as session:
        source = (await consumer_info(session, stream, source_consumer))["config"]
        config = apply_flags(source, flags)
        config.pop("pause_until", None)
        config["durable_name"] = config["name"] = target_consumer
        made = await create(session, stream, finish(config, flags["ephemeral"]))
    show_info(made)


@group.command(
    "pause",
    help="Stop deliveries until a time, or for a while.",
    examples="""
    jetstream consumer pause ORDERS work 30m
    jetstream consumer pause ORDERS work '2026-12-24 18:00:00' -f
    """,
)
@stream_argument
@consumer_argument
@click.argument("until", required=False, default="1h")
@force_option
async def pause(stream: str | None, consumer: str | None, until: str, force: bool) -> None:
    try:
        deadline = parse_moment(until, time.time_ns())
    except ValueError as error:
        raise Failure(str(error), None, 2) from error
    async with connect() as session:
        name, which = await both(session, stream, consumer)
        await consumer_info(session, name, which)
        await really(f"pause Consumer {name} > {which} until {human.local_time(deadline)}", force)
        answer = await session.api(
            f"CONSUMER.PAUSE.{name}.{which}", {"pause_until": rfc3339(deadline)}
        )
    if screen().json:
        print_json(bare(answer))
        return
    left = human.duration(answer.get("pause_remaining", 0))
    if answer.get("paused"):
        say(f"Paused {name} > {which} until {human.local_time(answer['pause_until'])} ({left})")
    else:
        say(f"{name} > {which} is not paused: the time is already over")


@group.command(
    "resume",
    help="Let a paused consumer deliver again.",
    examples="jetstream consumer resume ORDERS work -f",
)
@stream_argument
@consumer_argument
@force_option
async def resume(stream: str | None, consumer: str | None, force: bool) -> None:
    async with connect() as session:
        name, which = await both(session, stream, consumer)
        found = await consumer_info(session, name, which)
        if not found.get("paused"):
            raise Failure(f"Consumer {name} > {which} is not paused")
        await really(f"resume Consumer {name} > {which}", force)
        answer = await session.api(f"CONSUMER.PAUSE.{name}.{which}", {})
    if screen().json:
        print_json(bare(answer))
    else:
        say(f"Resumed {name} > {which}")


@group.command(
    "reset",
    help="Let a consumer start again, at its start or at a sequence.",
    examples="jetstream consumer reset ORDERS work --sequence 100 -f",
)
@stream_argument
@consumer_argument
@click.option("--sequence", type=int, default=0, help="continue at this sequence")
@force_option
async def reset(stream: str | None, consumer: str | None, sequence: int, force: bool) -> None:
    async with connect() as session:
        name, which = await both(session, stream, consumer)
        await consumer_info(session, name, which)
        await really(f"reset Consumer {name} > {which}", force)
        body = {"seq": sequence} if sequence else None
        answer = await session.api(f"CONSUMER.RESET.{name}.{which}", body)
        found = await session.consumer_info(name, which)
    if screen().json:
        print_json(bare(answer))
    else:
        say(f"Consumer {name} > {which} was reset\n\n{state_page(found)}")


@group.command(
    "unpin",
    help="Take the pin of a priority group away from its client.",
    examples="jetstream consumer unpin ORDERS work group1 -f",
)
@click.argument("stream")
@click.argument("consumer")
@click.argument("priority_group", metavar="GROUP")
@force_option
async def unpin(stream: str, consumer: str, priority_group: str, force: bool) -> None:
    async with connect() as session:
        await consumer_info(session, stream, consumer)
        await really(f"unpin group {priority_group} of {stream} > {consumer}", force)
        await session.api(f"CONSUMER.UNPIN.{stream}.{consumer}", {"group": priority_group})
    say(f"Unpinned group {priority_group} of {stream} > {consumer}")
