"""`jetstream store`: look at a storage directory without a server."""

from pathlib import Path

import click

from jetstream.cli.app import make_group
from jetstream.cli.output import print_json, say, screen
from jetstream.cli.problems import Quit

group = make_group("store", "Check a storage directory.", "jetstream store verify data/jetstream")


@group.command(
    "verify",
    help="Read every record of a stopped server's directory and check it. Exit code 1 on damage.",
    examples="jetstream store verify data/jetstream",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
def verify(directory: Path) -> None:
    from jetstream.store.verify import verify as check

    report = check(directory)
    if screen().json:
        import msgspec

        print_json({"ok": report.ok, **msgspec.to_builtins(report)})
    else:
        for line in report.lines():
            say(line)
    if not report.ok:
        raise Quit(1)
