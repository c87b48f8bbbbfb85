"""`jetstream context`: saved connections, shared with natscli."""

from typing import Any

import click

from jetstream.cli.app import given, make_group, run
from jetstream.cli.contexts import Context, ContextError, ContextStore
from jetstream.cli.output import Page, Table, print_json, say, screen, to_json
from jetstream.cli.picking import nearest_hint
from jetstream.cli.problems import Failure, Quit
from jetstream.cli.prompts import choose, interactive, really
from jetstream.cli.session import open_connection
from jetstream.cli.settings import GLOBAL_FLAGS, resolve

group = make_group(
    "context",
    "Saved connections; the files are those of the nats tool.",
    """
    jetstream context add prod -s nats://prod:4222 --creds prod.creds --select
    jetstream context ls
    jetstream context select -
    """,
)


def store() -> ContextStore:
    return ContextStore.default()


def _load(name: str) -> Context:
    try:
        return store().load(name)
    except ContextError as error:
        error.hint = nearest_hint(name, store().names(), "jetstream context ls")
        raise


def _given_fields() -> dict[str, Any]:
    """The global flags of this line as context keys."""
    flags = given().flags
    return {
        flag.context_key: flags[flag.name]
        for flag in GLOBAL_FLAGS
        if flag.context_key and flag.name in flags
    }


@group.command(
    "add",
    aliases=["create", "save"],
    help="Save the given global flags under a name.",
    examples="jetstream context add local -s nats://127.0.0.1:4222 --description 'my machine'",
)
@click.argument("name")
@click.option("--description", help="what it is for")
@click.option("--select", is_flag=True, help="use it from now on")
@click.option("--embed", is_flag=True, help="store the content of credential files")
def add(name: str, description: str | None, select: bool, embed: bool) -> None:
    contexts = store()
    fields = contexts.load(name).fields if contexts.exists(name) else {}
    fields = {"description": "", "url": "nats://127.0.0.1:4222", **fields, **_given_fields()}
    if description is not None:
        fields["description"] = description
    if embed:
        import base64
        from pathlib import Path

        for key in ("creds", "nkey", "cert", "key", "ca"):
            if fields.get(key):
                raw = Path(fields[key]).expanduser().read_bytes()
                fields[key] = "data:;base64," + base64.b64encode(raw).decode()
    contexts.save(name, fields)
    if select:
        contexts.select(name)
    _show(contexts.load(name))


@group.command(
    "ls",
    aliases=["list", "l"],
    help="List contexts; the selected one has a star.",
    examples="jetstream context ls",
)
@click.option("-n", "--names", is_flag=True, help="only names")
def ls(names: bool) -> None:
    contexts = store()
    found = contexts.names()
    selected = contexts.selected_name()
    if screen().json:
        print_json(
            found
            if names
            else [
                {"name": n, "description": contexts.load(n).description, "selected": n == selected}
                for n in found
            ]
        )
    elif names:
        for name in found:
            say(name)
    elif not found:
        say("No contexts saved")
    else:
        table = Table("Known Contexts", "Name", "Description", left=["Name"])
        for name in found:
            mark = "*" if name == selected else ""
            table.add(f"{name}{mark}", contexts.load(name).description)
        table.print()


@group.command(
    "select",
    aliases=["switch", "set"],
    help="Use a context from now on; `-` is the one before.",
    examples="jetstream context select prod",
)
@click.argument("name", required=False)
async def select(name: str | None) -> None:
    contexts = store()
    if name == "-":
        name = contexts.previous_name()
        if not name:
            raise Failure("there was no context before")
    if name is None:
        if not contexts.names():
            raise Failure("no contexts are saved", "`jetstream context add NAME` saves one")
        if not interactive():
            raise Failure("no context was named", f"there are {', '.join(contexts.names())}", 2)
        name = await choose("Select a Context", contexts.names(), flag="the NAME argument")
    _load(name)
    contexts.select(name)
    _show(contexts.load(name))


@group.command(
    "previous",
    aliases=["-"],
    help="Go back to the context before.",
    examples="jetstream context previous",
)
def previous() -> None:
    contexts = store()
    name = contexts.previous_name()
    if not name:
        raise Failure("there was no context before")
    contexts.select(name)
    _show(contexts.load(name))


@group.command("unselect", help="Use none.", examples="jetstream context unselect")
def unselect() -> None:
    store().unselect()


@group.command(
    "info",
    aliases=["show", "view", "v"],
    help="Show a context, secrets starred.",
    examples="jetstream context info prod",
)
@click.argument("name", required=False)
def info(name: str | None) -> None:
    name = name or store().selected_name()
    if not name:
        raise Failure("no context is selected", "name one, or `jetstream context select`")
    _show(_load(name))


def _show(context: Context) -> None:
    if screen().json:
        print_json({"name": context.name, **context.redacted()})
        return
    page = Page(f"NATS Configuration Context {context.name!r}")
    for key, value in context.redacted().items():
        label = {"url": "Server URLs", "ca": "CA", "nkey": "NKey"}.get(
            key, key.replace("_", " ").title()
        )
        page.row(label, value, value)
    page.row("Path", str(store().path(context.name)))
    page.print()


@group.command(
    "copy", aliases=["cp"], help="Copy a context.", examples="jetstream context copy a b"
)
@click.argument("source")
@click.argument("target")
@click.option("--description", help="what it is for")
@click.option("--select", is_flag=True, help="use it from now on")
def copy(source: str, target: str, description: str | None, select: bool) -> None:
    contexts = store()
    fields = {**_load(source).fields, **_given_fields()}
    if contexts.exists(target):
        raise Failure(f"context {target!r} exists already")
    if description is not None:
        fields["description"] = description
    contexts.save(target, fields)
    if select:
        contexts.select(target)
    _show(contexts.load(target))


@group.command(
    "rm",
    aliases=["delete", "del"],
    help="Remove a context.",
    examples="jetstream context rm old -f",
)
@click.argument("name")
@click.option("-f", "--force", is_flag=True, help="do not ask")
async def rm(name: str, force: bool) -> None:
    contexts = store()
    _load(name)
    if contexts.selected_name() == name and len(contexts.names()) > 1:
        raise Failure(f"{name!r} is selected", "select another one first, or `context unselect`")
    await really(f"delete context {name!r}", force)
    if contexts.selected_name() == name:
        contexts.unselect()
    contexts.remove(name)


@group.command(
    "edit",
    aliases=["vi"],
    help="Open a context in $EDITOR.",
    examples="jetstream context edit prod",
)
@click.argument("name")
def edit(name: str) -> None:
    import json

    context = _load(name)
    text = click.edit(to_json(context.fields), extension=".json")
    if text is None:
        raise Failure("nothing was changed")
    store().save(name, json.loads(text))
    _show(store().load(name))


@group.command(
    "validate",
    help="Check that contexts can be read; with --connect that they work.",
    examples="jetstream context validate --connect",
)
@click.argument("name", required=False)
@click.option("--connect", "try_it", is_flag=True, help="connect with each")
def validate(name: str | None, try_it: bool) -> None:
    failed = 0
    for each in [name] if name else store().names():
        problem = _problem(each, try_it)
        failed += problem is not None
        say(f"{each}: {problem or 'ok'}")
    if failed:
        raise Quit(1)


def _problem(name: str, try_it: bool) -> str | None:
    try:
        _load(name)
        if try_it:
            run(_try(name))
    except Exception as error:
        return str(error)
    return None


async def _try(name: str) -> None:
    nc = await open_connection(resolve({"context": name}))
    await nc.close()
