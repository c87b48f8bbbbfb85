"""`jetstream plan|apply|diff|export`: the server as files say it should be."""

from pathlib import Path
from typing import Any

import click

from jetstream.cli.app import all_option, all_streams, command
from jetstream.cli.configs import load_file, normal_config
from jetstream.cli.desired import Desired, Step, extras, read_desired
from jetstream.cli.desired import plan as make_plan
from jetstream.cli.output import print_json, say, screen, unified
from jetstream.cli.problems import Failure, Quit
from jetstream.cli.progress import Progress
from jetstream.cli.prompts import confirm
from jetstream.cli.session import Json, Session, connect, is_internal
from jetstream.cli.stream_config import own_metadata

ENDINGS = (".yaml", ".yml", ".json", ".toml")

files_argument = click.argument("files", nargs=-1)
file_option = click.option("-f", "--file", "more_files", multiple=True, help="file or directory")
prune_option = click.option("--prune", is_flag=True, help="remove what no file mentions")


def read_files(paths: tuple[str, ...]) -> Desired:
    """Every file named, and every configuration file in directories named."""
    if not paths:
        raise Failure("no file was given", "name files or directories: `jetstream apply -f DIR`", 2)
    made = Desired()
    for path in paths:
        for file in _expand(path):
            made.merge(_read(file), file)
    for stream, name in made.consumers:
        if stream not in made.streams and not stream:
            raise Failure(f"consumer {name} names no stream")
    return made


def _expand(path: str) -> list[str]:
    if path == "-" or not Path(path).is_dir():
        return [path]
    found = sorted(str(p) for p in Path(path).rglob("*") if p.suffix.lower() in ENDINGS)
    if not found:
        raise Failure(f"{path} holds no {', '.join(ENDINGS)} files")
    return found


def _read(file: str) -> Desired:
    if file.endswith((".yaml", ".yml")):
        import yaml

        made = Desired()
        try:
            documents = list(yaml.safe_load_all(Path(file).read_text()))
        except OSError as error:
            raise Failure(f"{file} cannot be read: {error.strerror}") from error
        except yaml.YAMLError as error:
            raise Failure(f"{file}: {' '.join(str(error).split())}") from error
        for document in documents:
            if document is not None:
                made.merge(read_desired(document, file), file)
        return made
    return read_desired(load_file(file), file)


async def present(session: Session) -> tuple[dict[str, Json], dict[tuple[str, str], Json]]:
    """Streams and durable consumers as they are."""
    infos = await session.streams()
    streams = {info["config"]["name"]: info["config"] for info in infos}
    consumers = {
        (name, each["name"]): each["config"]
        for name in streams
        for each in await session.consumers(name)
        if each["config"].get("durable_name")
    }
    return streams, consumers


async def _steps(session: Session, desired: Desired, prune: bool) -> tuple[list[Step], list[str]]:
    streams, consumers = await present(session)
    steps = make_plan(desired, streams, consumers, prune=prune)
    return steps, [] if prune else extras(desired, streams)


def _show(steps: list[Step], others: list[str], verbose: bool = True) -> None:
    if screen().json:
        print_json(
            [{"action": s.verb, "kind": s.kind, "stream": s.stream, "name": s.name} for s in steps]
        )
        return
    marks = {"create": "+", "update": "~", "delete": "-"}
    for step in steps:
        say(click.style(f"{marks[step.verb]} {step.title}", bold=True))
        if verbose:
            unified(step.lines)
    counts = {verb: sum(s.verb == verb for s in steps) for verb in marks}
    say(
        f"Plan: {counts['create']} to create, {counts['update']} to change, "
        f"{counts['delete']} to remove"
        if steps
        else "No changes: the server is as the files say"
    )
    if others:
        shown = ", ".join(others[:6]) + (" …" if len(others) > 6 else "")
        click.echo(f"not in the files (--prune removes them): {shown}", err=True)


@command(
    "plan",
    help="Show what `apply` would do. Exit code 1 when there is something to do.",
    examples="""
    jetstream plan -f streams/
    jetstream plan streams.yaml --prune
    """,
)
@files_argument
@file_option
@prune_option
async def plan(files: tuple[str, ...], more_files: tuple[str, ...], prune: bool) -> None:
    desired = read_files((*files, *more_files))
    async with connect() as session:
        steps, others = await _steps(session, desired, prune)
    _show(steps, others)
    if steps:
        raise Quit(1)


@command(
    "diff",
    help="Show how the server differs from the files. Exit code 1 when it does.",
    examples="jetstream diff -f streams/",
)
@files_argument
@file_option
@prune_option
async def diff(files: tuple[str, ...], more_files: tuple[str, ...], prune: bool) -> None:
    desired = read_files((*files, *more_files))
    async with connect() as session:
        steps, _ = await _steps(session, desired, prune)
    if screen().json:
        _show(steps, [])
    for step in steps if not screen().json else []:
        name = step.stream if step.kind == "stream" else f"{step.stream} > {step.name}"
        say(f"{step.kind} {name}:")
        unified(step.lines or [f"-     {step.verb}"])
    if steps:
        raise Quit(1)


@command(
    "apply",
    help="Make streams, consumers and buckets as the files say; running it again changes nothing.",
    examples="""
    jetstream apply -f streams/
    jetstream apply streams.yaml --prune --yes
    """,
)
@files_argument
@file_option
@prune_option
@click.option("--dry-run", is_flag=True, help="only show the plan; exit 1 when there is one")
@click.option("--progress/--no-progress", default=True)
async def apply(
    files: tuple[str, ...],
    more_files: tuple[str, ...],
    prune: bool,
    dry_run: bool,
    progress: bool,
) -> None:
    desired = read_files((*files, *more_files))
    async with connect() as session:
        steps, others = await _steps(session, desired, prune)
        _show(steps, others)
        if not steps:
            return
        if dry_run:
            raise Quit(1)
        dangerous = any(step.verb == "delete" for step in steps)
        from jetstream.cli.prompts import interactive

        if (dangerous or interactive()) and not await confirm("Apply these changes"):
            raise Failure("nothing was changed")
        with Progress("apply", len(steps), unit="steps", enabled=progress) as bar:
            for step in steps:
                await _carry_out(session, step)
                bar.add()
    if not screen().json:
        say(f"Applied {len(steps)} change{'s' if len(steps) > 1 else ''}")


async def _carry_out(session: Session, step: Step) -> None:
    try:
        if step.kind == "stream":
            if step.verb == "create":
                await session.create_stream(step.config)
            elif step.verb == "update":
                await session.update_stream(step.config)
            else:
                await session.delete_stream(step.name)
        elif step.verb == "delete":
            await session.delete_consumer(step.stream, step.name)
        else:
            await session.create_consumer(step.stream, step.config, step.verb)
    except Exception as error:
        hint = getattr(error, "hint", None)
        raise Failure(
            f"could not {step.title}: {error}",
            hint or "what came before it was applied; correct the file and apply again",
        ) from error


@command(
    "export",
    help="Write the present streams and consumers in the form `apply` reads.",
    examples="""
    jetstream export > streams.yaml
    jetstream export ORDERS -j
    """,
)
@click.argument("streams", nargs=-1)
@all_option
async def export(streams: tuple[str, ...]) -> None:
    async with connect() as session:
        found, consumers = await present(session)
    made: list[Json] = []
    for name, config in sorted(found.items()):
        if (streams and name not in streams) or (
            not streams and is_internal(name) and not all_streams()
        ):
            continue
        entry = tidy(config)
        own = [tidy(c) for (stream, _), c in sorted(consumers.items()) if stream == name]
        if own:
            entry["consumers"] = own
        made.append(entry)
    missing = set(streams) - set(found)
    if missing:
        raise Failure(f"there is no stream {', '.join(sorted(missing))}")
    content = {"streams": made}
    if screen().json:
        print_json(content)
        return
    import yaml

    say(yaml.safe_dump(content, sort_keys=False, allow_unicode=True).rstrip())


def tidy(config: Json) -> Json:
    """Without what is empty or the server's own; durations as people write them."""
    from jetstream.cli.configs import DURATION_FIELDS
    from jetstream.schema.times import go_duration

    made: dict[str, Any] = {}
    for key, value in normal_config(config).items():
        if key == "metadata":
            value = own_metadata(value)
        if value in (None, "", [], {}, False, 0, -1):
            continue
        if key in DURATION_FIELDS:
            value = go_duration(value)
        if key == "backoff":
            value = [go_duration(each) for each in value]
        made[key] = value
    if made.get("name") == made.get("durable_name") and "name" in made:
        made.pop("durable_name")
    return made
