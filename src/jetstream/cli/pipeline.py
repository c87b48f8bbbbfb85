"""`jetstream pipeline`: declare, check, run and watch data pipelines."""

import signal
import time
from pathlib import Path
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import make_group
from jetstream.cli.output import Table, note, print_json, say, screen
from jetstream.cli.problems import Failure
from jetstream.cli.spark import connection_options

group = make_group(
    "pipeline",
    "Data pipelines on Spark: YAML or Python files that say sources, steps and sinks.",
    "jetstream pipeline run orders.yaml",
)
FILE = click.argument("file", type=click.Path(path_type=Path))


def _checked(file: Path) -> Any:
    from jetstream.spark.nodes import BadPipeline
    from jetstream.spark.spec import check

    try:
        return check(file)
    except BadPipeline as error:
        raise Failure(
            str(error), f"`jetstream pipeline init NEW.yaml` writes an example beside {file}"
        ) from error


def _control() -> Any:
    from jetstream.spark.control import Control
    from jetstream.spark.options import Options

    parsed = Options(connection_options(), "s")
    return Control(parsed.target("jetstream-cli"), parsed.api_prefix())


@group.command(
    "init", help="Write an example pipeline.", examples="jetstream pipeline init orders.yaml"
)
@FILE
def init(file: Path) -> None:
    from jetstream.spark.pipelines import TEMPLATE

    if file.exists():
        raise Failure(f"{file} exists already")
    file.write_text(TEMPLATE.format(name=file.stem.replace(".", "_"), file=file))
    say(f"{file} written; change it, then `jetstream pipeline check {file}`")


@group.command(
    "check",
    help="Find mistakes without starting Spark.",
    examples="jetstream pipeline check orders.yaml",
)
@FILE
@click.option("--offline", is_flag=True, help="do not ask the server for streams and buckets")
def check(file: Path, offline: bool) -> None:
    from jetstream.errors import JetStreamError
    from jetstream.spark.pipelines import check_server, control_of

    pipeline = _checked(file)
    if not offline:
        try:
            control = control_of(pipeline)
            control.timeout = 2.0
            missing = check_server(pipeline, control)
        except JetStreamError as error:
            raise Failure(
                f"{file} is fine, but the server did not answer: {error}",
                "--offline checks the file only",
            ) from error
        if missing:
            raise Failure("\n".join(f"{file}:{line}: {text}" for line, text in missing))
    parts = (
        f"{len(pipeline.sources)} sources",
        f"{len(pipeline.steps)} steps",
        f"{len(pipeline.sinks)} sinks",
    )
    say(f"{file} is fine: {', '.join(parts)}")


@group.command(
    "run",
    help="Run a pipeline until it is stopped; a restart goes on where it was.",
    examples="""
    jetstream pipeline run orders.yaml
    jetstream pipeline run orders.yaml --once --master spark://host:7077
    """,
)
@FILE
@click.option("--once", is_flag=True, help="everything there is now, then end")
@click.option("--master", metavar="URL", help="Spark master (all cores of this machine)")
@click.option("--remote", metavar="URL", help="Spark Connect server")
def run(file: Path, once: bool, master: str | None, remote: str | None) -> None:
    from jetstream.spark.pipelines import PipelineFailed, Runner, check_server
    from jetstream.spark.session import session

    pipeline = _checked(file)
    missing = check_server(pipeline, _control_of(pipeline))
    if missing:
        raise Failure("\n".join(f"{file}:{line}: {text}" for line, text in missing))
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.append(1))
    note("starting Spark")
    began = time.monotonic()
    spark = session(f"pipeline {pipeline.name}", master, remote=remote)
    for key, value in pipeline.settings.items():
        spark.conf.set(key, value)
    runner = Runner(pipeline, spark, once=once)
    runner.start()
    note(
        f"running since {time.monotonic() - began:.1f} s after start; Ctrl-C stops after the batch"
    )
    try:
        state = runner.watch(_show, lambda: bool(asked))
    except PipelineFailed as error:
        raise Failure(
            f"pipeline {pipeline.name} failed: {error}",
            "fix it and run again: it goes on where it was",
        ) from error
    total = sum(q.get("total", 0) for q in runner.record["queries"].values())
    say(f"{pipeline.name} {state}, {human.plural(total, 'row')} read")


def _control_of(pipeline: Any) -> Any:
    from jetstream.spark.pipelines import control_of

    return control_of(pipeline)


def _show(name: str, event: dict[str, Any]) -> None:
    if screen().json:
        print_json({"query": name} | event)
        return
    slowest = max(
        ((k, v) for k, v in event["phases"].items() if k != "triggerExecution"),
        key=lambda kv: kv[1],
        default=("", 0),
    )
    say(
        f"{time.strftime('%H:%M:%S')}  {name}  batch {event['batch']}  "
        f"{human.number(event['rows'])} rows  {human.number(int(event['rows_per_s']))}/s  "
        f"lag {human.number(event['lag'])}  {event['phases'].get('triggerExecution', 0)} ms "
        f"({slowest[0]} {slowest[1]})  {event['read_mode']}"
    )


@group.command(
    "ls",
    aliases=["list"],
    help="List pipelines that report to this server.",
    examples="jetstream pipeline ls",
)
def ls() -> None:
    from jetstream.spark.pipelines import status as found
    from jetstream.spark.progress import BUCKET

    records = found(_control(), BUCKET)
    if screen().json:
        print_json(records)
        return
    if not records:
        say("no pipelines")
        return
    table = Table(
        "Pipelines",
        "Name",
        "State",
        "Queries",
        "Rows",
        "Lag",
        "Rate",
        "Updated",
        left=["Name", "State"],
    )
    for record in records:
        queries = record["queries"].values()
        table.add(
            record["name"],
            record["state"],
            len(queries),
            human.number(sum(q.get("total", 0) for q in queries)),
            human.number(sum(q.get("lag", 0) for q in queries)),
            f"{sum(q.get('rows_per_s', 0) for q in queries):,.0f}/s",
            human.age(record["updated"]),
        )
    table.print()


@group.command(
    "status",
    help="Show one pipeline: lag, phases, last error.",
    examples="jetstream pipeline status orders",
)
@click.argument("name")
def status(name: str) -> None:
    from jetstream.spark.pipelines import status as found
    from jetstream.spark.progress import BUCKET

    records = found(_control(), BUCKET, Path(name).stem)
    if not records:
        raise Failure(
            f"no pipeline named {name} has reported to this server",
            "`jetstream pipeline ls` lists them",
        )
    record = records[0]
    if screen().json:
        print_json(record)
        return
    say(f"{record['name']}: {record['state']} on {record['host']} (pid {record['pid']})")
    say(
        f"  file     {record['file']}\n  started  {record['started']}\n"
        f"  updated  {record['updated']}"
    )
    for query, facts in record["queries"].items():
        say(
            f"  {query}: batch {facts.get('batch', '-')}, "
            f"{human.number(facts.get('total', 0))} rows, "
            f"lag {human.number(facts.get('lag', 0))}, reads by {facts.get('read_mode') or '-'}"
        )
        phases = ", ".join(f"{k} {v} ms" for k, v in facts.get("phases", {}).items())
        if phases:
            say(f"    {phases}")
        for word in ("lost", "error"):
            if facts.get(word):
                say(f"    {word}: {facts[word]}")


@group.command(
    "stop",
    help="Ask a running pipeline to stop after its batch.",
    examples="jetstream pipeline stop orders",
)
@click.argument("name")
@click.option("--wait", type=float, default=30.0, help="seconds to wait for it")
def stop(name: str, wait: float) -> None:
    from jetstream.spark.pipelines import order_stop
    from jetstream.spark.pipelines import status as found
    from jetstream.spark.progress import BUCKET

    name = Path(name).stem
    control = _control()
    records = found(control, BUCKET, name)
    if not records or records[0]["state"] not in ("running", "starting"):
        raise Failure(f"pipeline {name} is not running")
    order_stop(control, BUCKET, name)
    until = time.monotonic() + wait
    while time.monotonic() < until:
        state = found(control, BUCKET, name)[0]["state"]
        if state not in ("running", "starting"):
            say(f"{name} {state}")
            return
        time.sleep(0.3)
    raise Failure(f"{name} has not stopped within {wait:g} s")


@group.command(
    "reset",
    help="Forget checkpoints and progress; the next run starts from the beginning.",
    examples="jetstream pipeline reset orders.yaml --yes",
)
@FILE
def reset(file: Path) -> None:
    from jetstream.cli.app import settings
    from jetstream.errors import JetStreamError
    from jetstream.spark.pipelines import checkpoint_of
    from jetstream.spark.pipelines import reset as forget

    pipeline = _checked(file)
    if not settings().yes and not click.confirm(f"remove {checkpoint_of(pipeline)}?"):
        raise Failure("nothing was changed")
    try:
        path = forget(pipeline, _control_of(pipeline))
    except JetStreamError as error:
        raise Failure(str(error)) from error
    say(f"{path} removed")
