"""`jetstream consumer report|find`: the consumers of a stream side by side."""

import time
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import all_option, all_streams, command
from jetstream.cli.output import Table, print_json, say, screen
from jetstream.cli.picking import pick_stream, stream_info
from jetstream.cli.session import Json, connect
from jetstream.cli.values import DURATION


@command(
    "report",
    help="All consumers of a stream, how far they are and what waits.",
    examples="jetstream consumer report ORDERS",
)
@click.argument("stream", required=False)
@click.option("-r", "--raw", is_flag=True, help="exact numbers")
@click.option("-l", "--leaders", is_flag=True, help="count leaders per server")
@all_option
async def report(stream: str | None, raw: bool, leaders: bool) -> None:
    async with connect() as session:
        name = await pick_stream(session, stream, all=all_streams())
        whole = await stream_info(session, name)
        infos = await session.consumers(name)
    if screen().json:
        print_json(infos)
        return
    if not infos:
        say("No Consumers defined")
        return
    _table(f"Consumer Report for {name} with {len(infos)} consumers", infos, whole).print()
    if leaders:
        counts: dict[str, int] = {}
        for info in infos:
            leader = (info.get("cluster") or {}).get("leader") or "this server"
            counts[leader] = counts.get(leader, 0) + 1
        table = Table("Leaders", "Server", "Consumers")
        for leader, count in sorted(counts.items()):
            table.add(leader, count)
        table.print()


def _table(title: str, infos: list[Json], whole: Json | None) -> Table:
    table = Table(
        title,
        "Consumer",
        "Mode",
        "Ack Policy",
        "Ack Wait",
        "Ack Pending",
        "Redelivered",
        "Unprocessed",
        "Ack Floor",
        "API Level",
        "Cluster",
        left=["Ack Wait", "Unprocessed"],
    )
    total = whole["state"]["messages"] if whole else 0
    for info in sorted(infos, key=lambda info: str(info["name"])):
        config = info["config"]
        pending = info.get("num_pending", 0)
        part = f" / {pending / total:.0%}" if total and pending else ""
        table.add(
            info["name"] if whole else f"{info['stream_name']} > {info['name']}",
            "Push" if config.get("deliver_subject") else "Pull",
            str(config.get("ack_policy", "none")).capitalize(),
            human.duration(config.get("ack_wait", 0)) if config.get("ack_wait") else "",
            info.get("num_ack_pending", 0),
            f"{info.get('num_redelivered', 0):,}",
            f"{pending:,}{part}",
            (info.get("ack_floor") or {}).get("stream_seq", 0),
            (config.get("metadata") or {}).get("_nats.req.level", "0"),
            (info.get("cluster") or {}).get("leader", ""),
        )
    return table


@command(
    "find",
    aliases=["query"],
    help="Consumers that fit all of the given conditions.",
    examples="""
    jetstream consumer find ORDERS --pull --ack-pending 1
    jetstream consumer find ORDERS --expression 'info.num_pending > 1000'
    """,
)
@click.argument("stream", required=False)
@click.option("--pull", is_flag=True, help="pull consumers")
@click.option("--push", is_flag=True, help="push consumers")
@click.option("--bound", is_flag=True, help="push consumers somebody listens to")
@click.option("--waiting", type=int, help="at least this many waiting pulls")
@click.option("--ack-pending", type=int, help="at least this many unacknowledged")
@click.option("--pending", type=int, help="at least this many unprocessed")
@click.option("--idle", type=DURATION, help="nothing delivered for this long")
@click.option("--created", type=DURATION, help="older than this")
@click.option("--replicas", type=int, help="at most this many replicas")
@click.option("--leader", help="led by this server")
@click.option("--pinned", is_flag=True, help="with a pinned client")
@click.option("--api-level", type=int, help="needs at least this API level")
@click.option("--expression", help="a condition over config, info")
@click.option("--invert", is_flag=True, help="those that do not fit")
@click.option("-n", "--names", is_flag=True, help="only names")
@all_option
async def find(stream: str | None, invert: bool, names: bool, **wanted: Any) -> None:
    async with connect() as session:
        streams = [stream] if stream else await session.stream_names()
        infos = [info for name in streams for info in await session.consumers(name)]
    now = time.time_ns()
    found = [info for info in infos if fits(info, wanted, now) != invert]
    if screen().json:
        print_json([info["name"] for info in found] if names else found)
    elif names:
        for info in found:
            say(info["name"] if stream else f"{info['stream_name']} > {info['name']}")
    elif not found:
        say("No Consumers match")
    else:
        _table("Consumers", found, None).print()


def fits(info: Json, wanted: Json, now_ns: int) -> bool:
    """All conditions that were given hold."""
    config = info["config"]
    push = bool(config.get("deliver_subject"))
    checks: list[bool] = []
    if wanted.get("pull"):
        checks.append(not push)
    if wanted.get("push"):
        checks.append(push)
    if wanted.get("bound"):
        checks.append(bool(info.get("push_bound")))
    for flag, field in (
        ("waiting", "num_waiting"),
        ("ack_pending", "num_ack_pending"),
        ("pending", "num_pending"),
    ):
        if wanted.get(flag) is not None:
            checks.append(info.get(field, 0) >= wanted[flag])
    if wanted.get("idle") is not None:
        active = human.to_ns((info.get("delivered") or {}).get("last_active"))
        checks.append(now_ns - (active or human.to_ns(info["created"])) >= wanted["idle"])
    if wanted.get("created") is not None:
        checks.append(now_ns - human.to_ns(info["created"]) >= wanted["created"])
    if wanted.get("replicas") is not None:
        checks.append(config.get("num_replicas", 0) <= wanted["replicas"])
    if wanted.get("leader"):
        checks.append((info.get("cluster") or {}).get("leader") == wanted["leader"])
    if wanted.get("pinned"):
        groups = info.get("priority_groups") or []
        checks.append(any(each.get("pinned_client_id") for each in groups))
    if wanted.get("api_level") is not None:
        level = int((config.get("metadata") or {}).get("_nats.req.level", "0"))
        checks.append(level >= wanted["api_level"])
    if wanted.get("expression"):
        from jetstream.cli.expressions import evaluate

        checks.append(bool(evaluate(wanted["expression"], {"config": config, "info": info})))
    return all(checks)
