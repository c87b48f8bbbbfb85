"""`jetstream`: which commands there are, and how every one of them ends."""

import os
import sys
from typing import Any, NoReturn

import click

from jetstream import __version__
from jetstream.cli.app import Entry, Given, LazyGroup
from jetstream.cli.problems import INTERRUPTED, USAGE, Failure, Quit, explain

_ASSETS = "Streams and messages"
_CORE = "Messages"
_SERVER = "Server and connection"
_DATA = "Pipelines and tools"


def _entry(module: str, help: str, aliases: str = "", section: str = _ASSETS, **more: Any) -> Entry:
    return Entry(f"jetstream.cli.{module}", help, tuple(aliases.split()), section=section, **more)


ENTRIES: dict[str, Entry] = {
    "stream": _entry("stream", "manage streams and what is in them", "str st ms s"),
    "consumer": _entry("consumer", "manage consumers and read with them", "con obs c consumers"),
    "kv": _entry("kv", "key-value buckets"),
    "object": _entry("objects", "object buckets", "obj"),
    "counter": _entry("counter", "numbers kept in a stream", "ctr"),
    "dlq": _entry("dlq", "messages consumers gave up on"),
    "apply": _entry("declare", "make the server look like a file", attribute="apply"),
    "plan": _entry("declare", "what `apply` would do", attribute="plan"),
    "diff": _entry("declare", "how file and server differ", attribute="diff"),
    "export": _entry("declare", "write the server's streams as a file", attribute="export"),
    "publish": _entry("pub", "send messages", "pub nats-pub", _CORE, attribute="command"),
    "subscribe": _entry(
        "sub", "show messages as they come", "sub nats-sub", _CORE, attribute="command"
    ),
    "request": _entry(
        "req", "send a request, show the answers", "req nats-req", _CORE, attribute="request"
    ),
    "reply": _entry("req", "answer requests", "", _CORE, attribute="reply"),
    "service": _entry("service", "micro services and how they do", "micro", _CORE),
    "bench": _entry("bench", "measure throughput and latency", "", _CORE),
    "server": _entry("server", "start a server; ask servers about themselves", "srv", _SERVER),
    "account": _entry("account", "this account's limits and usage", "a", _SERVER),
    "context": _entry("context", "saved connections", "ctx", _SERVER),
    "rtt": _entry("rtt", "time to the server and back", "", _SERVER, attribute="command"),
    "events": _entry(
        "events", "advisories as they happen", "event e", _SERVER, attribute="command"
    ),
    "top": _entry("top", "live screen of a server", "", _SERVER, attribute="command"),
    "errors": _entry("errors", "explain API error codes", "err error", _SERVER),
    "schema": _entry("schema", "JSON schemas of the API", "", _SERVER),
    "auth": _entry("auth", "keys for users and accounts", "", _SERVER),
    "store": _entry("store", "check a storage directory", "", _SERVER),
    "doctor": _entry("doctor", "check the installation", "", _SERVER, attribute="command"),
    "pipeline": _entry("pipeline", "data pipelines on Spark", "", _DATA),
    "archive": _entry("archive", "streams as lakehouse tables", "", _DATA),
    "spark": _entry("spark", "bulk jobs on Spark", "", _DATA),
    "demo": _entry("demo", "see everything work in a minute", "", _DATA, attribute="command"),
    "console": _entry("console", "the web console", "", _DATA, attribute="command"),
    "completion": _entry("completion", "shell completion", "", _DATA, attribute="command"),
    "cheat": _entry("cheat", "worked examples", "", _DATA, attribute="command"),
    "shell": _entry("shell", "many commands, one prompt", "", _DATA, attribute="command"),
    "jsm": _entry("jsm", "the words of the 2019 preview tool", "", _DATA),
    "add-obs": _entry("jsm", "", attribute="add_obs", hidden=True),
    "ls-obs": _entry("jsm", "", attribute="ls_obs", hidden=True),
    "rm-obs": _entry("jsm", "", attribute="rm_obs", hidden=True),
    "info-obs": _entry("jsm", "", attribute="info_obs", hidden=True),
    "rm-msg": _entry("jsm", "", attribute="rm_msg", hidden=True),
    "next": _entry("jsm", "", attribute="next_message", hidden=True),
}


def _version(context: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(f"jetstream {__version__}")
        context.exit()


root = LazyGroup(
    "jetstream",
    entries=ENTRIES,
    help="JetStream from the command line: streams, consumers, key-value and object buckets, "
    "messages, servers. Whoever knows `nats` knows this.",
    examples="""
    jetstream server -js                                   # a server
    jetstream stream add ORDERS --subjects 'orders.*' --defaults
    jetstream pub orders.us --count 10 'order {{Count}}'
    jetstream consumer add ORDERS work --pull --defaults
    jetstream consumer next ORDERS work --count 10
    jetstream cheat stream                                 # more of these
    """,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            help="print the version",
            callback=_version,
        )
    ],
)


def main(args: list[str] | None = None) -> NoReturn:
    """The entry point; ends the process with the documented exit codes."""
    code = run(sys.argv[1:] if args is None else args)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # `jetstream … | head` is not an error; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(args: list[str]) -> int:
    """Carry a command line out; the exit code."""
    given = Given()
    try:
        root.main(args, prog_name="jetstream", standalone_mode=False, obj=given)
    except click.exceptions.Exit as end:
        return end.exit_code
    except Quit as end:
        return end.code
    except (KeyboardInterrupt, click.Abort):
        click.echo("", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return USAGE
    except click.ClickException as error:
        _usage(error)
        return USAGE if isinstance(error, click.UsageError) else 1
    except Exception as error:
        return _failed(error, given)
    return 0


def _usage(error: click.ClickException) -> None:
    complain(error.format_message())
    hint = getattr(error, "hint", None)
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        hint = None  # click's own message names them
    if hint is None and context is not None:
        hint = f"`{context.command_path} --help` explains it"
    if hint:
        click.echo(f"hint: {hint}", err=True)


def _failed(error: Exception, given: Given) -> int:
    if os.environ.get("JETSTREAM_DEBUG"):
        raise error
    if isinstance(error, Failure):
        text, hint, code = str(error), error.hint, error.code
    else:
        text, hint, code = explain(error, given.settings)
    complain(text)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return code


def complain(text: str) -> None:
    click.echo(click.style("jetstream: error: ", fg="red") + text, err=True)


if __name__ == "__main__":
    main()
