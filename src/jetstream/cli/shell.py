"""`jetstream shell`: many commands at one prompt, with history and completion."""

import shlex
import sys
from collections.abc import Iterator

import click

from jetstream.cli.app import command as make_command
from jetstream.cli.app import given, settings

GREETING = "jetstream shell: commands without the word jetstream; `exit` or Ctrl-D leaves."


@make_command(
    "shell",
    help="Many commands at one prompt; the global flags given here hold for all of them.",
    examples="""
    jetstream shell --context prod
    echo 'stream ls' | jetstream shell
    """,
)
def command() -> None:
    from jetstream.cli.main import run

    flags = list(_given_words())
    if sys.stdin.isatty():
        _complete()
        click.echo(GREETING)
    while True:
        try:
            line = input(f"{settings().url}> " if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            click.echo("")
            return
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            click.echo(f"jetstream: error: {error}", err=True)
            continue
        if words[:1] in (["exit"], ["quit"]):
            return
        if words and words[0] != "shell":
            run([*flags, *words[words[0] == "jetstream" :]])


def _given_words() -> Iterator[str]:
    """The global flags of this line, to be repeated in front of every command."""
    from jetstream.cli.settings import GLOBAL_FLAGS

    for flag in GLOBAL_FLAGS:
        if flag.name in given().flags:
            yield flag.names[-1]
            if not flag.switch:
                yield str(given().flags[flag.name])


def _complete() -> None:
    """Command words with the tab key, where Python has readline."""
    try:
        import readline
    except ImportError:
        return
    readline.parse_and_bind("tab: complete")
    readline.set_completer(lambda text, state: _candidate(readline.get_line_buffer(), text, state))


def _candidate(line: str, text: str, state: int) -> str | None:
    from jetstream.cli.app import Group
    from jetstream.cli.main import root

    context = click.Context(root, info_name="jetstream")
    group: click.Command | None = root
    for word in line[: len(line) - len(text)].split():
        group = group.get_command(context, word) if isinstance(group, Group) else None
    found = group.list_commands(context) if isinstance(group, Group) else []
    matching = [f"{name} " for name in found if name.startswith(text)]
    return matching[state] if state < len(matching) else None
