"""`jetstream server`: start a server, and ask servers about themselves.

Without an admin word this is the server itself and its flags are those of nats-server; so `-s`
means syslog there, and the global flags belong in front of `server`.
"""

from typing import Any

import click

from jetstream.cli.app import Command, Group
from jetstream.cli.problems import Quit
from jetstream.cli.server_check import check
from jetstream.cli.server_info import info, ls, mappings, passwd, ping, reload_config, request
from jetstream.cli.server_report import report


class ServerGroup(Group):
    """Everything that is not an admin word goes to the server itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["start", *args]
        return super().parse_args(ctx, args)


class StartCommand(Command):
    """Hands its words over as they are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params = {"words": list(args)}
        return []


group = ServerGroup(
    "server",
    help="Start a server (`jetstream server -js`, flags as nats-server has them: "
    "`jetstream server start --help`), or ask running servers about themselves.",
    examples="""
    jetstream server -js                          # with JetStream, on port 4222
    jetstream server -c server.conf -p -1
    jetstream server ping --user admin --password …
    jetstream server check jetstream
    """,
)


def _start(words: list[str]) -> None:
    from jetstream.server.main import main

    raise Quit(main(words))


group.add_command(
    StartCommand(
        "start",
        callback=_start,
        help="Start a server; takes exactly nats-server's flags.",
        examples="jetstream server start -js -sd /var/lib/jetstream -m 8222",
        add_help_option=False,
    )
)
_commands: tuple[Any, ...] = (
    info,
    ls,
    ping,
    check,
    report,
    request,
    passwd,
    mappings,
    reload_config,
)
for _command in _commands:
    group.add_command(_command)
