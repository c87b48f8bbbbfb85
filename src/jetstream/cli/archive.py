"""`jetstream archive`: streams as Parquet, Delta or Iceberg tables."""

import signal
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import Group, settings
from jetstream.cli.output import print_json, say, screen
from jetstream.cli.problems import Failure
from jetstream.cli.progress import Progress
from jetstream.cli.spark import connection_options


class ArchiveGroup(Group):
    """`jetstream archive ORDERS --to …` is short for `jetstream archive write ORDERS --to …`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and "--to" in " ".join(args):
            args = ["write", *args]
        return super().resolve_command(ctx, args)


group = ArchiveGroup(
    "archive",
    help="Streams as lakehouse tables.",
    examples="jetstream archive ORDERS --to lake/orders",
    no_args_is_help=True,
)
FORMAT = click.option(
    "--format", "kind", type=click.Choice(["parquet", "delta", "iceberg"]), default="parquet"
)


def _archiver(stream: str, to: str, kind: str) -> Any:
    from jetstream.spark.archive import Archiver
    from jetstream.spark.options import Options
    from jetstream.spark.plan import Planner, source_config
    from jetstream.spark.source import reader_for

    config = source_config(Options(connection_options() | {"stream": stream}, "s"))
    mode = Planner(config).choose_mode()
    return Archiver(config.control(), stream, to, kind, reader_for(mode, config))


@group.command(
    "write",
    aliases=["run"],
    help="Copy what a stream holds into a table; again, and it goes on where it was.",
    examples="""
    jetstream archive ORDERS --to lake/orders
    jetstream archive write ORDERS --to lake/orders --format delta --follow --lag 30s
    """,
)
@click.argument("stream")
@click.option("--to", required=True, metavar="LOCATION", help="folder of the table")
@FORMAT
@click.option("--follow", is_flag=True, help="go on until stopped")
@click.option("--lag", default="30s", help="with --follow: how far behind the table may be")
@click.option("--rows-per-commit", type=int, default=1_000_000)
@click.option(
    "--allow-gap", is_flag=True, help="go on when messages left before they were archived"
)
def write(
    stream: str, to: str, kind: str, follow: bool, lag: str, rows_per_commit: int, allow_gap: bool
) -> None:
    from jetstream.errors import JetStreamError
    from jetstream.spark.options import parse_seconds

    try:
        archiver = _archiver(stream, to, kind)
        with Progress(f"archive {stream}", 0, unit="msgs") as progress:

            def show(done: int, whole: int) -> None:
                progress.total = whole
                progress.set(done)

            done = archiver.run(rows_per_commit, show, allow_gap)
        _tell(done)
        if follow:
            asked: list[int] = []
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: asked.append(1))
            archiver.follow(parse_seconds("lag", lag), lambda: bool(asked), _tell)
    except JetStreamError as error:
        raise Failure(str(error)) from error


def _tell(done: Any) -> None:
    if screen().json:
        import msgspec

        print_json(msgspec.to_builtins(done))
    elif done.rows:
        say(
            f"{done.stream}: sequences {done.first} to {done.last}, "
            f"{human.plural(done.rows, 'message')} "
            f"in {human.plural(done.files, 'file')}, {human.size(done.bytes)}"
        )
    else:
        say(f"{done.stream}: nothing new")


@group.command(
    "info",
    help="Show how far an archive has come.",
    examples="jetstream archive info ORDERS --at lake/orders",
)
@click.argument("stream")
@click.option("--at", required=True, metavar="LOCATION")
@FORMAT
def info(stream: str, at: str, kind: str) -> None:
    from jetstream.spark.archive import describe

    facts = describe(at, kind, stream)
    if screen().json:
        print_json(facts)
        return
    for name, value in facts.items():
        say(f"{name:>10}  {human.size(value) if name == 'bytes' else value}")


@group.command(
    "compact",
    help="Merge small files of an archive.",
    examples="jetstream archive compact lake/orders",
)
@click.argument("location")
@FORMAT
def compact(location: str, kind: str) -> None:
    from jetstream.errors import JetStreamError
    from jetstream.spark.archive import compact as merge

    try:
        before, after = merge(location, kind)
    except JetStreamError as error:
        raise Failure(str(error)) from error
    say(f"{human.plural(before, 'file')} became {after}" if not settings().quiet else str(after))
