"""`jetstream bench`: how fast is it?

Every client has a connection of its own; they start together. A line per client says rate, bytes
per second and, where every message waits for its answer, latencies; then all of them together.
"""

from collections.abc import Callable
from typing import Any

import click

from jetstream.cli import bench_runs as runs
from jetstream.cli.app import Decorator, make_group, options
from jetstream.cli.bench_report import show
from jetstream.cli.problems import Failure
from jetstream.cli.progress import Progress
from jetstream.cli.values import BYTES, DURATION, HEADER

group = make_group(
    "bench",
    "Measure throughput and latency.",
    """
    jetstream bench pub test --msgs 1000000
    jetstream bench js pub async test --create --batch 500
    jetstream bench js fetch --batch 500
    """,
)
service = group.group(
    "service", help="Requests and answers.", examples="jetstream bench service serve test"
)(lambda: None)
js = group.group("js", help="JetStream.", examples="jetstream bench js fetch --batch 500")(
    lambda: None
)
js_pub = js.group(
    "pub", help="Publish and wait for acks.", examples="jetstream bench js pub async test"
)(lambda: None)
js_get = js.group("get", help="Direct reads.", examples="jetstream bench js get sync")(lambda: None)
kv = group.group("kv", help="Key-value.", examples="jetstream bench kv put --msgs 10000")(
    lambda: None
)


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    made: list[Decorator] = [
        click.option("--clients", type=int, default=1, help="connections"),
        click.option("--msgs", type=int, default=100_000, help="messages in all"),
        click.option("--size", type=BYTES, default="128B", help="size of a message"),
        click.option("--progress/--no-progress", default=True),
        click.option("--csv", "csv_file", help="append the result to this file"),
    ]
    return options(*made)(function)


def publisher(function: Callable[..., Any]) -> Callable[..., Any]:
    made: list[Decorator] = [
        click.option("--sleep", type=DURATION, default=0, help="pause between messages"),
        click.option("--throughput", type=int, default=0, help="messages per second and client"),
        click.option("--duration", type=DURATION, default=0, help="how long (with --throughput)"),
        click.option("--multisubject", is_flag=True, help="a number as last token"),
        click.option("--multisubjectmax", type=int, default=100_000, help="how many of them"),
        click.option("--multisubjectrandomize", is_flag=True, help="in random order"),
        click.option("--payload", "payload_file", help="send this file's content"),
        click.option("-H", "--header", "headers", type=HEADER, multiple=True, help="Name:value"),
    ]
    return options(*made)(function)


def stream_options(function: Callable[..., Any]) -> Callable[..., Any]:
    made: list[Decorator] = [
        click.option("--stream", default="benchstream", help="stream to use"),
        click.option("--create", is_flag=True, help="make it first"),
        click.option("--storage", type=click.Choice(["file", "memory"]), default="file"),
        click.option("--replicas", type=int, default=1),
        click.option("--maxbytes", type=BYTES, default="1GB", help="its limit"),
        click.option("--dedup", is_flag=True, help="with message ids"),
        click.option("--dedupwindow", type=DURATION, default="2m"),
        click.option("--purge", is_flag=True, help="empty it first"),
    ]
    return options(*made)(function)


def consumer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    made: list[Decorator] = [
        click.option("--stream", default="benchstream", help="stream to read"),
        click.option("--consumer", default="nats-bench", help="durable consumer to use"),
        click.option("--batch", type=int, default=500, help="messages per request"),
        click.option("--acks", type=click.Choice(["explicit", "none", "all"]), default="explicit"),
        click.option("--doubleack", is_flag=True, help="wait for each ack's confirmation"),
        click.option("--filter", "filter_subject", default="", help="only this subject"),
        click.option("--purge", is_flag=True, help="empty the stream afterwards"),
    ]
    return options(*made)(function)


async def measure(title: str, work: Any, flags: dict[str, Any]) -> None:
    """Run one kind of work with all clients and show what came out."""
    if flags.get("duration"):
        if not flags.get("throughput"):
            raise Failure("--duration needs --throughput", None, 2)
        flags["msgs"] = int(flags["throughput"] * flags["duration"] / 1e9) * flags["clients"]
    if flags["msgs"] < flags["clients"]:
        raise Failure("there are fewer messages than clients", None, 2)
    with Progress(title, flags["msgs"], enabled=flags["progress"]) as bar:
        results = await runs.run_clients(work, flags, bar)
    show(title, results, flags)


@group.command("pub", help="Publish.", examples="jetstream bench pub test --msgs 1000000")
@click.argument("subject")
@common
@publisher
async def pub(subject: str, **flags: Any) -> None:
    await measure("pub", runs.core_pub(subject), flags)


@group.command("sub", help="Subscribe and count.", examples="jetstream bench sub test --clients 4")
@click.argument("subject")
@common
async def sub(subject: str, **flags: Any) -> None:
    flags["msgs"] *= flags["clients"]  # everybody gets everything
    await measure("sub", runs.core_sub(subject), flags)


@service.command("request", help="Send requests.", examples="jetstream bench service request test")
@click.argument("subject")
@common
@publisher
async def service_request(subject: str, **flags: Any) -> None:
    await measure("request", runs.service_request(subject), flags)


@service.command("serve", help="Answer requests.", examples="jetstream bench service serve test")
@click.argument("subject")
@common
async def service_serve(subject: str, **flags: Any) -> None:
    await measure("serve", runs.service_serve(subject), flags)


@js_pub.command("sync", help="One at a time.", examples="jetstream bench js pub sync test --create")
@click.argument("subject")
@common
@publisher
@stream_options
async def js_pub_sync(subject: str, **flags: Any) -> None:
    await runs.prepare_stream(subject, flags)
    await measure("js pub sync", runs.js_pub_sync(subject), flags)


@js_pub.command(
    "async", help="Many on the way.", examples="jetstream bench js pub async test --create"
)
@click.argument("subject")
@common
@publisher
@stream_options
@click.option("--batch", type=int, default=500, help="unacknowledged messages at a time")
async def js_pub_async(subject: str, **flags: Any) -> None:
    await runs.prepare_stream(subject, flags)
    await measure("js pub async", runs.js_pub_async(subject), flags)


@js_pub.command(
    "fast",
    help="As async, with a large window.",
    examples="jetstream bench js pub fast test --create",
)
@click.argument("subject")
@common
@publisher
@stream_options
@click.option("--batch", type=int, default=8192, help="unacknowledged messages at a time")
async def js_pub_fast(subject: str, **flags: Any) -> None:
    await runs.prepare_stream(subject, flags)
    await measure("js pub fast", runs.js_pub_async(subject), flags)


@js_pub.command(
    "atomic", help="In atomic batches.", examples="jetstream bench js pub atomic test --create"
)
@click.argument("subject")
@common
@publisher
@stream_options
@click.option("--batch", type=int, default=500, help="messages per batch")
async def js_pub_atomic(subject: str, **flags: Any) -> None:
    await runs.prepare_stream(subject, flags, allow_atomic=True)
    await measure("js pub atomic", runs.js_pub_atomic(subject), flags)


@js.command("ordered", help="Read with ordered consumers.", examples="jetstream bench js ordered")
@common
@consumer_options
async def js_ordered(**flags: Any) -> None:
    flags["msgs"] *= flags["clients"]  # everybody reads everything
    await measure("js ordered", runs.js_ordered, flags)


@js.command(
    "consume", help="Read through a durable.", examples="jetstream bench js consume --clients 4"
)
@common
@consumer_options
async def js_consume(**flags: Any) -> None:
    await runs.prepare_consumer(flags)
    await measure("js consume", runs.js_consume, flags)


@js.command("fetch", help="Fetch batches.", examples="jetstream bench js fetch --batch 500")
@common
@consumer_options
async def js_fetch(**flags: Any) -> None:
    await runs.prepare_consumer(flags)
    await measure("js fetch", runs.js_fetch, flags)


@js_get.command("sync", help="One at a time.", examples="jetstream bench js get sync --msgs 10000")
@common
@consumer_options
async def js_get_sync(**flags: Any) -> None:
    await measure("js get sync", runs.js_get_sync, flags)


@js_get.command("batch", help="Many at once.", examples="jetstream bench js get batch")
@common
@consumer_options
async def js_get_batch(**flags: Any) -> None:
    await measure("js get batch", runs.js_get_batch, flags)


def bucket_options(function: Callable[..., Any]) -> Callable[..., Any]:
    made: list[Decorator] = [
        click.option("--bucket", default="benchbucket", help="bucket to use"),
        click.option("--history", type=int, default=1),
        click.option("--storage", type=click.Choice(["file", "memory"]), default="file"),
        click.option("--randomize", type=int, default=0, help="random keys out of so many"),
        click.option("--purge", is_flag=True, help="empty it first"),
    ]
    return options(*made)(function)


@kv.command("put", help="Put values.", examples="jetstream bench kv put --msgs 10000")
@common
@bucket_options
async def kv_put(**flags: Any) -> None:
    await runs.prepare_bucket(flags)
    await measure("kv put", runs.kv_put, flags)


@kv.command("get", help="Get values.", examples="jetstream bench kv get --msgs 10000")
@common
@bucket_options
async def kv_get(**flags: Any) -> None:
    await runs.prepare_bucket(flags)
    await measure("kv get", runs.kv_get, flags)
