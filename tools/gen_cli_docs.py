"""Writes docs/cli.md from the commands themselves: `python tools/gen_cli_docs.py [--check]`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from jetstream.cli.app import Group, Helpful, LazyGroup
from jetstream.cli.main import root
from jetstream.cli.problems import HINTS, Failure
from jetstream.cli.settings import GLOBAL_FLAGS

TARGET = Path(__file__).resolve().parent.parent / "docs" / "cli.md"


def pages(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    """A command and everything below it."""
    yield f"{'#' * min(depth, 6)} {context.command_path}\n"
    if command.help:
        yield f"{command.help}\n"
    if isinstance(command, Helpful) and command.aliases:
        yield f"Also called: {', '.join(f'`{alias}`' for alias in command.aliases)}.\n"
    if not isinstance(command, click.Group):
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```\n{context.command_path} {usage}\n```\n"
        yield from options(command)
    if isinstance(command, Helpful) and command.examples:
        lines = [line.strip() for line in command.examples.strip().splitlines()]
        yield "```sh\n" + "\n".join(lines) + "\n```\n"
    if isinstance(command, Group):
        yield from below(command, context, depth)


def below(group: Group, context: click.Context, depth: int) -> Iterator[str]:
    for name in group.list_commands(context):
        if isinstance(group, LazyGroup) and group.entries[name].hidden:
            continue
        try:
            command = group.get_command(context, name)
        except Failure:
            continue
        if command is not None and not command.hidden:
            yield from pages(command, click.Context(command, context, name), depth + 1)


def options(command: click.Command) -> Iterator[str]:
    rows = []
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden and param.expose_value:
            names = ", ".join(f"`{n}`" for n in (*param.opts, *param.secondary_opts))
            rows.append(f"| {names} | {(param.help or '').replace('|', '/')} |")
    if rows:
        yield "| flag | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def document() -> str:
    context = click.Context(root, info_name="jetstream")
    parts = [
        "# The `jetstream` command\n",
        "Written by `tools/gen_cli_docs.py` from the commands themselves; do not edit.\n",
        "Exit codes: 0 done, 1 failed (or differences found by `plan`, `diff` and `--dry-run`), "
        "2 wrong usage, 130 interrupted; `server check` uses 0 ok, 1 warning, 2 critical, "
        "3 unknown.\n",
        "## Global flags\n",
        "They work anywhere on the line. Flags win over the environment (`JETSTREAM_…`, then "
        "`NATS_…`), the environment over the context.\n",
        "| flag | environment | meaning |\n| --- | --- | --- |\n"
        + "\n".join(
            f"| {', '.join(f'`{n}`' for n in flag.names)} | "
            f"{f'`NATS_{flag.env}`' if flag.env else ''} | {flag.help} |"
            for flag in GLOBAL_FLAGS
        )
        + "\n",
        *below(root, context, 1),
        "## Hints\n",
        "| err_code | hint |\n| --- | --- |\n"
        + "\n".join(
            f"| {code} | {text.replace('|', '/')} |" for code, text in sorted(HINTS.items())
        ),
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    text = document()
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != text:
            print("docs/cli.md is old: run python tools/gen_cli_docs.py")
            return 1
        return 0
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text)
    print(f"wrote {TARGET.relative_to(TARGET.parent.parent)}: {text.count(chr(10)):,} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
