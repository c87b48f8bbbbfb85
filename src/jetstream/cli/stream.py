"""`jetstream stream`: streams made, changed, shown and removed."""

from typing import Any

import click

from jetstream.cli import configs, human
from jetstream.cli.app import (
    ALL_NAMES,
    ALL_SETTINGS,
    all_option,
    all_streams,
    make_group,
    settings,
)
from jetstream.cli.graph import stream_graph
from jetstream.cli.output import Table, print_json, say, screen, to_json, unified, warn
from jetstream.cli.picking import overlap_hint, pick_stream, stream_info
from jetstream.cli.problems import Failure, Quit
from jetstream.cli.prompts import ask, confirm, interactive, really
from jetstream.cli.session import Json, Session, connect, is_internal
from jetstream.cli.stream_backup import backup, restore
from jetstream.cli.stream_config import (
    REQUIRED_SIZE,
    apply_flags,
    ask_missing,
    config_options,
    defaults,
    finish,
)
from jetstream.cli.stream_messages import gaps, get, rmm, view
from jetstream.cli.stream_pages import info_page, state_page
from jetstream.cli.stream_report import find, report
from jetstream.errors import ApiError

SUBJECTS_OVERLAP = 10065
NAME_IN_USE = 10058

group = make_group(
    "stream",
    "Manage streams and what is in them.",
    """
    jetstream stream add ORDERS --subjects 'orders.*' --defaults
    jetstream stream ls
    jetstream stream info ORDERS
    """,
    params=[click.Option(list(ALL_NAMES), **ALL_SETTINGS)],
)
for _command in (rmm, get, view, gaps, report, find, backup, restore, stream_graph):
    group.add_command(_command)

stream_argument = click.argument("stream", required=False)
force_option = click.option("-f", "--force", is_flag=True, help="do not ask")


def bare(info: Json) -> Json:
    """An info as tools expect it: without the envelope's own fields."""
    return {k: v for k, v in info.items() if k not in ("type", "total", "offset", "limit")}


def show_info(info: Json, headline: str = "") -> None:
    if screen().json:
        print_json(bare(info))
        return
    if settings().quiet:
        say(info["config"]["name"])
        return
    if headline:
        say(headline + "\n")
    say(info_page(info))


@group.command(
    "add",
    aliases=["create", "new"],
    help="Make a stream; what the flags do not say is asked on a terminal.",
    examples="""
    jetstream stream add ORDERS --subjects 'orders.*' --defaults
    jetstream stream add LOGS --subjects 'logs.>' --max-age 1d --max-bytes 10GB
    jetstream stream add --config LOGS.json
    """,
)
@stream_argument
@config_options()
@click.option("--config", help="configuration file (JSON, YAML, TOML)")
@click.option("--validate", is_flag=True, help="check the configuration, create nothing")
@click.option("--output", "output_file", help="write the configuration instead of creating")
@click.option("--defaults", "take_defaults", is_flag=True, help="take defaults, ask nothing")
async def add(stream: str | None, **flags: Any) -> None:
    config = await _wanted(stream, flags)
    if flags["validate"]:
        _validate(config)
        say("Configuration is valid")
        return
    if flags["output_file"]:
        from pathlib import Path

        Path(flags["output_file"]).write_text(to_json(config) + "\n")
        say(f"Wrote the configuration of {config['name']} to {flags['output_file']}")
        return
    async with connect() as session:
        info = await create(session, config)
    show_info(info, f"Stream {config['name']} was created")


async def _wanted(stream: str | None, flags: Json) -> Json:
    """The configuration to create: file, flags, answers, defaults."""
    config = configs.stream_from_file(flags["config"]) if flags["config"] else defaults()
    if stream:
        config["name"] = stream
    config = apply_flags(config, flags)
    if not config.get("name"):
        config["name"] = await ask(
            "Stream Name",
            flag="the STREAM argument",
            help="One word without dots or blanks.",
            check=stream_name,
        )
    stream_name(config["name"])
    if flags["config"]:
        return config
    fed = config.get("subjects") or config.get("mirror") or config.get("sources")
    if interactive() and not flags["take_defaults"]:
        config = await ask_missing(config, flags)
    elif not fed:
        raise Failure(
            "the stream captures nothing: no subjects were given",
            "give --subjects, --mirror or --source",
            2,
        )
    return finish(config)


def stream_name(text: str) -> str:
    from jetstream.subjects.tokens import is_valid_name

    if not is_valid_name(text):
        raise Failure(
            f"invalid stream name {text!r}", "names have no dots, blanks, slashes, `*` or `>`", 2
        )
    return text


def _validate(config: Json) -> None:
    import msgspec

    from jetstream.schema.decoding import decode
    from jetstream.schema.stream import StreamConfig

    decode(msgspec.json.encode(config), StreamConfig)


async def create(session: Session, config: Json) -> Json:
    """Create, and say why if it is refused."""
    try:
        return await session.create_stream(config)
    except ApiError as error:
        if error.err_code == SUBJECTS_OVERLAP:
            error.hint = await overlap_hint(session, config.get("subjects", []), config["name"])
        elif error.err_code == NAME_IN_USE:
            existing = await session.stream_info(config["name"])
            if not screen().json:
                unified(configs.differences(existing["config"], config, "StreamConfig"))
        elif error.err_code == 10113 and config.get("max_bytes", -1) < 0:
            return await session.create_stream({**config, "max_bytes": REQUIRED_SIZE})
        raise


@group.command(
    "ls",
    aliases=["list", "l"],
    help="List streams, the biggest last.",
    examples="""
    jetstream stream ls
    jetstream stream ls --subject orders.us -n
    """,
)
@click.option("--subject", default="", help="only streams that capture this subject")
@click.option("-n", "--names", is_flag=True, help="only names")
@all_option
async def ls(subject: str, names: bool) -> None:
    async with connect() as session:
        if names or screen().json:
            found = [n for n in await session.stream_names(subject) if _visible(n)]
            if screen().json:
                print_json(found)
            else:
                for name in found:
                    say(name)
            return
        infos = await session.streams(subject)
    shown = [info for info in infos if _visible(info["config"]["name"])]
    if not shown:
        hidden = " (pass -a for the streams behind buckets)" if infos else ""
        say(f"No Streams defined{hidden}")
        return
    shown.sort(key=lambda info: (info["state"]["bytes"], info["config"]["name"]))
    table = Table(
        "Streams",
        "Name",
        "Description",
        "Created",
        "Messages",
        "Size",
        "Last Message",
        left=["Created", "Size", "Last Message"],
    )
    for info in shown:
        config, state = info["config"], info["state"]
        table.add(
            config["name"],
            config.get("description", ""),
            human.local_time(info["created"]),
            state["messages"],
            human.size(state["bytes"]),
            human.age(state.get("last_ts")),
        )
    table.print()


def _visible(name: str) -> bool:
    return all_streams() or not is_internal(name)


@group.command(
    "info",
    aliases=["nfo", "i"],
    help="Show a stream's configuration and state.",
    examples="""
    jetstream stream info ORDERS
    jetstream stream info ORDERS -j > ORDERS.json
    """,
)
@stream_argument
@click.option("--state", "only_state", is_flag=True, help="only the state")
@click.option("--no-select", is_flag=True, help="never offer a list")
@all_option
async def info(stream: str | None, only_state: bool, no_select: bool) -> None:
    async with connect() as session:
        name = await pick_stream(session, stream, all=all_streams(), select=not no_select)
        found = await stream_info(session, name)
    if only_state:
        _show_state(found)
    else:
        show_info(found)


@group.command(
    "state",
    help="Show how much is in a stream.",
    examples="jetstream stream state ORDERS",
)
@stream_argument
@all_option
async def state(stream: str | None) -> None:
    async with connect() as session:
        found = await stream_info(session, await pick_stream(session, stream, all=all_streams()))
    _show_state(found)


def _show_state(found: Json) -> None:
    if screen().json:
        print_json(found["state"])
    else:
        say(state_page(found))


@group.command(
    "subjects",
    aliases=["subj"],
    help="Which subjects a stream holds, and how many messages of each.",
    examples="""
    jetstream stream subjects ORDERS
    jetstream stream subjects ORDERS 'orders.eu.*' --sort name
    """,
)
@stream_argument
@click.argument("filter", required=False, default=">")
@click.option("--sort", type=click.Choice(["name", "messages"]), default="messages")
@click.option("-R", "--reverse", is_flag=True, help="the other way round")
@click.option("--names", is_flag=True, help="only names")
async def subjects(stream: str | None, filter: str, sort: str, reverse: bool, names: bool) -> None:
    async with connect() as session:
        name = await pick_stream(session, stream)
        found = (await stream_info(session, name, subjects=filter))["state"].get("subjects") or {}
    if sort == "name":
        rows = sorted(found.items(), reverse=reverse)
    else:
        rows = sorted(found.items(), key=lambda row: (row[1], row[0]), reverse=reverse)
    if screen().json:
        print_json([row[0] for row in rows] if names else dict(rows))
    elif names:
        for subject, _ in rows:
            say(subject)
    elif not rows:
        say(f"No subjects in Stream {name} match {filter!r}")
    else:
        subjects_table(f"{len(rows):,} Subjects in Stream {name}", rows, screen().width).print()


def subjects_table(title: str, rows: list[tuple[str, int]], width: int) -> Table:
    """One to three pairs of columns, as many as fit; few subjects stay in one pair."""
    widest = max(len(subject) for subject, _ in rows) + 16
    pairs = max(1, min(3, width // widest)) if len(rows) > 10 and screen().terminal else 1
    columns = [f"{word}{' ' * i}" for i in range(pairs) for word in ("Subject", "Count")]
    table = Table(title, *columns, left=columns[::2])
    height = -(-len(rows) // pairs)
    for line in range(height):
        cells = [rows[i] for i in range(line, len(rows), height)]
        cells += [("", "")] * (pairs - len(cells))  # type: ignore[list-item]
        table.add(*(cell for pair in cells for cell in pair))
    return table


@group.command(
    "edit",
    aliases=["update"],
    help="Change a stream: shows the difference, then asks.",
    examples="""
    jetstream stream edit ORDERS --max-age 7d
    jetstream stream edit LOGS --config LOGS.json --dry-run
    """,
)
@stream_argument
@config_options(edit=True)
@click.option("--config", help="configuration file (JSON, YAML, TOML)")
@force_option
@click.option("-i", "--interactive", "in_editor", is_flag=True, help="edit as YAML in $EDITOR")
@click.option("--dry-run", is_flag=True, help="only the difference; exit 1 if there is one")
async def edit(stream: str | None, **flags: Any) -> None:
    async with connect() as session:
        name = await pick_stream(session, stream)
        old = (await stream_info(session, name))["config"]
        new = _edited(name, old, flags)
        if configs.same(old, new):
            if screen().json:
                print_json(old)
            else:
                say("No difference in configuration")
            return
        lines = configs.differences(old, new, "StreamConfig")
        if flags["dry_run"]:
            unified(lines)
            raise Quit(1)
        if not screen().json:
            unified(lines)
        await warn_bucket(name, flags["force"])
        await really(f"edit Stream {name}", flags["force"])
        try:
            updated = await session.update_stream(new)
        except ApiError as error:
            if error.err_code == SUBJECTS_OVERLAP:
                error.hint = await overlap_hint(session, new.get("subjects", []), name)
            raise
    show_info(updated, f"Stream {name} was updated")


def _edited(name: str, old: Json, flags: Json) -> Json:
    if flags["config"]:
        new = configs.stream_from_file(flags["config"])
        new.setdefault("name", name)
        if new["name"] != name:
            raise Failure(
                f"{flags['config']} configures stream {new['name']}, not {name}",
                "streams cannot be renamed; `jetstream stream copy` makes another one",
            )
        return apply_flags(new, flags)
    if flags["in_editor"]:
        return in_editor(old)
    return apply_flags(old, flags)


def in_editor(old: Json) -> Json:
    """A configuration as YAML in the user's editor."""
    import yaml

    text = click.edit(yaml.safe_dump(old, sort_keys=False), extension=".yaml")
    if text is None:
        raise Failure("nothing was changed")
    made = yaml.safe_load(text)
    if not isinstance(made, dict):
        raise Failure("the edited text does not hold a configuration")
    return configs.normal_config(made, "the edited text")


async def warn_bucket(name: str, force: bool) -> None:
    """Streams behind buckets are better changed through the bucket."""
    if is_internal(name) and not force and not settings().yes:
        kind = "kv" if name.startswith("KV_") else "object"
        warn(f"{name} holds a bucket; `jetstream {kind}` is the safer way to change it")
        if not await confirm(f"Really operate on the {kind} stream {name}"):
            raise Failure("nothing was changed")


@group.command(
    "rm",
    aliases=["delete", "del"],
    help="Remove a stream and everything in it.",
    examples="""
    jetstream stream rm ORDERS
    jetstream stream rm ORDERS -f
    """,
)
@stream_argument
@force_option
@all_option
async def rm(stream: str | None, force: bool) -> None:
    if force and not stream:
        raise Failure("-f needs the name of the stream", None, 2)
    async with connect() as session:
        name = await pick_stream(session, stream, all=all_streams())
        await really(f"delete Stream {name}", force)
        try:
            await session.delete_stream(name)
        except ApiError:
            await stream_info(session, name)  # an unknown name is answered with the nearest ones
            raise


@group.command(
    "purge",
    help="Remove messages and keep the stream.",
    examples="""
    jetstream stream purge ORDERS --keep 100
    jetstream stream purge ORDERS --subject orders.us -f
    """,
)
@stream_argument
@click.option("--subject", default="", help="only messages of this subject")
@click.option("--seq", type=int, default=0, help="everything below this sequence")
@click.option("--keep", type=int, default=0, help="all but the newest N")
@force_option
async def purge(stream: str | None, subject: str, seq: int, keep: int, force: bool) -> None:
    if seq and keep:
        raise Failure("--seq and --keep cannot be combined", None, 2)
    async with connect() as session:
        name = await pick_stream(session, stream)
        before = await stream_info(session, name)
        await warn_bucket(name, force)
        await really(f"purge Stream {name}", force)
        answer = await session.purge(name, subject=subject, seq=seq, keep=keep)
        after = await session.stream_info(name)
    if screen().json:
        print_json(bare(answer))
        return
    purged = answer.get("purged", before["state"]["messages"] - after["state"]["messages"])
    say(f"Purged {human.plural(purged, 'message')} from Stream {name}\n")
    say(state_page(after))


@group.command(
    "copy",
    aliases=["cp"],
    help="Make a stream with another one's configuration; flags override it.",
    examples="""
    jetstream stream copy ORDERS ORDERS_TEST --subjects 'test.orders.*'
    jetstream stream copy ORDERS ARCHIVE --subjects 'archive.>' --data
    """,
)
@click.argument("source_stream", metavar="SOURCE")
@click.argument("target_stream", metavar="DESTINATION")
@config_options()
@click.option("--data", is_flag=True, help="copy the messages too")
@click.option("--progress/--no-progress", default=True)
async def copy(
    source_stream: str, target_stream: str, data: bool, progress: bool, **flags: Any
) -> None:
    async with connect() as session:
        source = await stream_info(session, source_stream)
        config = apply_flags({**source["config"], "name": target_stream}, flags)
        config.pop("sealed", None)
        made = await create(session, finish(config))
        if data:
            from jetstream.cli.stream_messages import copy_messages

            await copy_messages(session, source, made, progress)
            made = await session.stream_info(target_stream)
    show_info(made, f"Stream {target_stream} was created")


@group.command(
    "seal",
    help="Close a stream for ever: nothing can be added, removed or changed.",
    examples="jetstream stream seal ORDERS -f",
)
@click.argument("stream")
@force_option
async def seal(stream: str, force: bool) -> None:
    async with connect() as session:
        found = await stream_info(session, stream)
        await really(f"seal Stream {stream}, it cannot be opened again", force)
        sealed = await session.update_stream({**found["config"], "sealed": True})
    show_info(sealed, f"Stream {stream} was sealed")
