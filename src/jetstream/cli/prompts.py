"""Questions, asked only when somebody sits at a terminal.

Each question shows its default, explains itself when answered with `?`, and names the flag that
would have answered it. Without a terminal a missing value is an error that names that flag.
questionary draws the prompts where it is installed; plain lines do otherwise.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from jetstream.cli.app import settings
from jetstream.cli.problems import Failure

Check = Callable[[str], Any]


def interactive() -> bool:
    """May we ask?"""
    return sys.stdin.isatty() and sys.stdout.isatty() and not settings().no_input


def missing(what: str, flag: str) -> Failure:
    """A value nobody can be asked for."""
    return Failure(
        f"{what} is missing and there is no terminal to ask on",
        f"give {flag}; --defaults takes the defaults, --yes confirms",
        2,
    )


async def ask(
    question: str, *, flag: str, default: str = "", help: str = "", check: Check | None = None
) -> Any:
    """A line of text, checked; what `check` returns is the answer."""
    if not interactive():
        raise missing(question, flag)
    while True:
        answer = (await _text(question, default)).strip()
        if answer == "?":
            _explain(help, flag)
            continue
        if check is None:
            return answer
        try:
            return check(answer)
        except (ValueError, Failure) as error:
            click.echo(f"  {error}", err=True)


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


async def choose(
    question: str, choices: Sequence[str], *, flag: str, default: str = "", help: str = ""
) -> str:
    """One of a few."""
    if not interactive():
        raise missing(question, flag)
    questionary = _questionary()
    if questionary is not None:
        asked = questionary.select(
            question,
            choices=list(choices),
            default=default or None,
            instruction=f"({flag}; arrows, then enter)" if flag else None,
        )
        return str(await asked.unsafe_ask_async())
    click.echo(f"? {question}")
    for i, choice in enumerate(choices, 1):
        click.echo(f"  {i}) {choice}")
    while True:
        shown = f" [{default}]" if default else ""
        answer = input(f"Number or name{shown}: ").strip() or default
        if answer == "?":
            _explain(help, flag)
        elif answer in choices:
            return answer
        elif answer.isdigit() and 0 < int(answer) <= len(choices):
            return choices[int(answer) - 1]


async def confirm(question: str, *, default: bool = False, flag: str = "--yes") -> bool:
    """Yes or no; `--yes` says yes to everything."""
    if settings().yes:
        return True
    if not interactive():
        raise Failure(
            f"{question}? needs a confirmation and there is no terminal to ask on",
            f"confirm with {flag}",
            2,
        )
    questionary = _questionary()
    if questionary is not None:
        return bool(await questionary.confirm(question, default=default).unsafe_ask_async())
    answer = input(f"? {question} ({'Y/n' if default else 'y/N'}) ").strip().lower()
    return default if not answer else answer.startswith("y")


async def really(question: str, force: bool) -> None:
    """The question before something that cannot be undone; No ends the command."""
    if force:
        return
    if not await confirm(f"Really {question}", flag="-f/--force or --yes"):
        raise Failure("nothing was changed", None)


async def _text(question: str, default: str) -> str:
    questionary = _questionary()
    if questionary is not None:
        # Shown rather than typed in beforehand, so that an answer replaces it and `?` is just `?`.
        shown = f"({default}) " if default else None
        answer = await questionary.text(question, instruction=shown).unsafe_ask_async()
        return str(answer) or default
    shown = f" ({default})" if default else ""
    return input(f"? {question}{shown} ") or default


def _explain(help: str, flag: str) -> None:
    if help:
        click.echo(f"  {help}", err=True)
    if flag:
        click.echo(f"  The flag for this is {flag}.", err=True)


def _questionary() -> Any:
    try:
        import questionary
    except ImportError:
        return None
    return questionary
