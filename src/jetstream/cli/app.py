"""How the commands hang together: lazy groups, aliases, global flags anywhere, "did you mean".

A group of the tree is a module that is imported when one of its commands is named, so that
`jetstream --help` costs what click costs. The global flags (`-s`, `--context`, `-j`, …) are added
to every command that does not use the letter itself; whatever is given where, ends up in one place.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from jetstream.cli.settings import FORMATS, GLOBAL_FLAGS, Flag, Settings, resolve

EXAMPLE_INDENT = "  "


class Entry(NamedTuple):
    """A command of the top level before it is loaded."""

    module: str
    help: str
    aliases: tuple[str, ...] = ()
    attribute: str = "group"
    section: str = "Commands"
    hidden: bool = False


class Given:
    """What was said on this command line, and what follows from it."""

    def __init__(self) -> None:
        self.flags: dict[str, Any] = {}
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = resolve(self.flags)
        return self._settings


def given() -> Given:
    """The command line being carried out."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Given()
    return context.find_root().ensure_object(Given)


def settings() -> Settings:
    return given().settings


def _remember(context: click.Context, param: click.Parameter, value: Any) -> Any:
    if value is not None and value is not False and value != ():
        if param.name == "output" and str(value).lower() not in FORMATS:
            raise click.BadParameter(
                f"unknown output format {value!r}, use one of {', '.join(FORMATS)}", context, param
            )
        context.find_root().ensure_object(Given).flags[str(param.name)] = value
    return value


def _option(flag: Flag, hidden: bool) -> click.Option:
    kind: dict[str, Any] = {"is_flag": True} if flag.switch else {"metavar": flag.metavar}
    return click.Option(
        [*flag.names, flag.name],
        help=flag.help,
        default=None,
        expose_value=False,
        hidden=hidden,
        callback=_remember,
        **kind,
    )


def _global_options(own: Iterable[click.Parameter], hidden: bool) -> list[click.Parameter]:
    """The global flags whose names the command has not taken for itself."""
    taken = {name for param in own for name in (*param.opts, *param.secondary_opts)}
    made: list[click.Parameter] = []
    for flag in GLOBAL_FLAGS:
        free = tuple(name for name in flag.names if name not in taken)
        if free:
            made.append(_option(flag._replace(names=free), hidden or flag.hidden))
    return made


class Helpful(click.Command):
    """What groups and commands share: global flags, examples, aliases."""

    examples: str = ""
    aliases: tuple[str, ...] = ()
    _all_params: list[click.Parameter] | None = None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if self._all_params is None:
            own = super().get_params(ctx)
            self._all_params = own + _global_options(own, hidden=ctx.parent is not None)
        return self._all_params

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.aliases:
            formatter.write_paragraph()
            formatter.write_text("Also called: " + ", ".join(self.aliases))
        if self.examples:
            formatter.write_paragraph()
            formatter.write("Examples:\n")
            for line in inspect.cleandoc(self.examples).splitlines():
                formatter.write(f"{EXAMPLE_INDENT}{line}\n")
        if ctx.parent is not None:
            formatter.write_paragraph()
            formatter.write("Global flags work here too: see `jetstream --help`.\n")


class Command(Helpful):
    """A command whose function may be async."""

    def __init__(
        self, *args: Any, examples: str = "", aliases: Sequence[str] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.aliases = tuple(aliases)
        for param in self.params:
            if isinstance(param, click.Argument) and param.name in COMPLETED:
                # Names of streams, buckets and the like are completed from the server.
                param._custom_shell_complete = _complete_names

    def invoke(self, ctx: click.Context) -> Any:
        result = super().invoke(ctx)
        if inspect.iscoroutine(result):
            return run(result, fast=" bench " in ctx.command_path)
        return result


COMPLETED = frozenset(
    ("stream", "consumer", "bucket", "key", "file", "source_stream", "source_consumer", "name")
)


def _complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from jetstream.cli.completion import names

    return names(ctx, param, incomplete)


def run(work: Coroutine[Any, Any, Any], fast: bool = False) -> Any:
    """Carry an async command out on a loop of its own; the fast one takes longer to load."""
    import asyncio

    if fast:
        try:
            import uvloop
        except ImportError:
            pass
        else:
            return uvloop.run(work)
    return asyncio.run(work)


class Group(Helpful, click.Group):
    """A group with aliases that names the nearest word when it does not know one."""

    command_class = Command
    group_class = type  # groups made with @group.group() are of our kind as well

    def __init__(
        self, *args: Any, examples: str = "", aliases: Sequence[str] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.aliases = tuple(aliases)
        self._alias_of: dict[str, str] = {}

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(cmd, name)
        for alias in getattr(cmd, "aliases", ()):
            self._alias_of[alias] = name or cmd.name or ""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self._alias_of.get(cmd_name, cmd_name))

    def words(self, ctx: click.Context) -> list[str]:
        return [*self.list_commands(ctx), *self._alias_of]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        command = self.get_command(ctx, word)
        if command is None and not ctx.resilient_parsing:
            raise UnknownCommand(word, ctx.command_path, self.nearest(ctx, word), ctx)
        return (command.name if command else None), command, args[1:]

    def nearest(self, ctx: click.Context, word: str) -> list[str]:
        import difflib

        known = [w for w in self.words(ctx) if not w.startswith("_")]
        close = difflib.get_close_matches(word, known, n=3, cutoff=0.55)
        return close or [w for w in known if w.startswith(word)][:3]


class UnknownCommand(click.UsageError):
    def __init__(self, word: str, where: str, nearest: list[str], ctx: click.Context) -> None:
        super().__init__(f"{where} has no command {word!r}", ctx)
        self.hint = (
            "did you mean " + " or ".join(f"`{where} {near}`" for near in nearest) + "?"
            if nearest
            else f"`{where} --help` lists them"
        )


class LazyGroup(Group):
    """The top of the tree: knows its commands by a line each, loads what is asked for."""

    def __init__(self, *args: Any, entries: dict[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries
        for name, entry in entries.items():
            for alias in entry.aliases:
                self._alias_of[alias] = name

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = self._alias_of.get(cmd_name, cmd_name)
        entry = self.entries.get(name)
        if entry is None:
            return None
        try:
            module = import_module(entry.module)
        except ModuleNotFoundError as error:
            from jetstream.cli.problems import missing_part

            raise missing_part(name, entry.module, error) from error
        command: click.Command = getattr(module, entry.attribute)
        if isinstance(command, Helpful) and not command.aliases:
            command.aliases = entry.aliases
        command.name = name
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in self.entries.items()
            if name.startswith(incomplete) and not entry.hidden
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            if not entry.hidden:
                shown = f"{name}, {entry.aliases[0]}" if entry.aliases else name
                sections.setdefault(entry.section, []).append((shown, entry.help))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def make_group(name: str, help: str, examples: str = "", **kwargs: Any) -> Group:
    """A group of the tree."""
    return Group(name, help=help, examples=examples, no_args_is_help=True, **kwargs)


def command(
    name: str, *, help: str, examples: str, aliases: Sequence[str] = (), **kwargs: Any
) -> Callable[[Callable[..., Any]], Command]:
    """A command of its own, to be added to a group."""
    return click.command(name, cls=Command, help=help, examples=examples, aliases=aliases, **kwargs)


def all_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`-a`: include the streams behind buckets; also accepted right after the group's name."""
    return click.option(*ALL_NAMES, **ALL_SETTINGS)(function)


ALL_NAMES = ("-a", "--all", "all_streams")
ALL_SETTINGS: dict[str, Any] = {
    "is_flag": True,
    "default": None,
    "expose_value": False,
    "callback": _remember,
    "help": "include internal streams",
}


def all_streams() -> bool:
    return bool(given().flags.get("all_streams"))


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def options(*decorators: Decorator) -> Decorator:
    """Several click options as one decorator, shown in the order given."""

    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorate in reversed(decorators):
            function = decorate(function)
        return function

    return apply
