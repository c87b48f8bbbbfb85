"""`jetstream completion`: shell completion, with names from the server.

The scripts ask `jetstream` itself with an environment variable set, as click does it. Names of
streams, consumers, buckets and keys come from the server within 300 ms, or not at all.
"""

import asyncio
from pathlib import Path
from typing import Any

import click

from jetstream.cli.app import Given
from jetstream.cli.app import command as make_command
from jetstream.cli.output import say

WAIT_SECONDS = 0.3
VARIABLE = "_JETSTREAM_COMPLETE"


@make_command(
    "completion",
    help="Print the completion script of a shell, or install it.",
    examples="""
    jetstream completion bash --install
    eval "$(jetstream completion zsh)"
    """,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--install", is_flag=True, help="write it where the shell looks for it")
def command(shell: str, install: bool) -> None:
    text = script(shell)
    if not install:
        say(text)
        return
    path = target(shell, Path.home())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    say(f"Wrote {path}; it works in shells started from now on")
    if shell == "zsh":
        say("zsh looks there if ~/.zshrc has: fpath+=~/.zfunc; autoload -Uz compinit; compinit")


def target(shell: str, home: Path) -> Path:
    return {
        "bash": home / ".local/share/bash-completion/completions/jetstream",
        "zsh": home / ".zfunc/_jetstream",
        "fish": home / ".config/fish/completions/jetstream.fish",
    }[shell]


def script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    from jetstream.cli.main import root

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(root, {}, "jetstream", VARIABLE)
    # click asks bash for its version here; printing the script must work without bash.
    return str(made.source_template % made.source_vars()).strip()


def names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Candidates for an argument; silence when the server does not answer at once."""
    from click.shell_completion import CompletionItem

    kind, group = str(param.name), _group(ctx)
    if kind == "name" and group != "context":
        return []
    if kind == "file" and group != "object":
        return [CompletionItem(incomplete, type="file")]
    # Loading the client counts as start-up, not as waiting for the server.
    import jetstream.client.jetstream  # noqa: F401

    try:
        found = asyncio.run(asyncio.wait_for(_ask(ctx, kind, group), WAIT_SECONDS))
    except BaseException:
        return []
    return [CompletionItem(name) for name in sorted(found) if name.startswith(incomplete)]


def _group(ctx: click.Context) -> str:
    return str(ctx.parent.command.name) if ctx.parent is not None else ""


async def _ask(ctx: click.Context, kind: str, group: str) -> list[str]:
    from jetstream.cli.contexts import ContextStore
    from jetstream.cli.session import Session, is_internal, open_connection

    if group == "context":
        return ContextStore.default().names()
    chosen = ctx.find_root().ensure_object(Given).settings
    nc = await open_connection(chosen, connect_timeout=WAIT_SECONDS, reconnect=False)
    try:
        session = Session(nc, chosen)
        js = session.jetstream()
        bucket = ctx.params.get("bucket")
        if kind in ("stream", "source_stream"):
            return [name for name in await session.stream_names() if not is_internal(name)]
        if kind in ("consumer", "source_consumer"):
            return await session.consumer_names(str(ctx.params.get("stream")))
        if kind == "bucket":
            streams = js.key_value_names() if group == "kv" else js.object_store_names()
            return [name async for name in streams]
        if kind == "key" and bucket:
            return list(await (await js.key_value(bucket)).keys())
        if kind == "file" and bucket:
            return [info.name for info in await (await js.object_store(bucket)).list()]
        return []
    finally:
        await nc.close()
