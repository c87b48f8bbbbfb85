"""`jetstream stream report|find`: many streams at a glance, and those that fit a description."""

import time
from pathlib import Path
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import all_option, all_streams, command
from jetstream.cli.output import Table, print_json, say, screen
from jetstream.cli.session import Json, connect, is_internal
from jetstream.cli.values import DURATION

_SORTS = {
    "consumers": lambda info: info["state"].get("consumer_count", 0),
    "messages": lambda info: info["state"]["messages"],
    "name": lambda info: info["config"]["name"],
    "storage": lambda info: info["config"].get("storage", ""),
    "bytes": lambda info: info["state"]["bytes"],
}


@command(
    "report",
    help="All streams side by side, and how replication is doing.",
    examples="""
    jetstream stream report
    jetstream stream report -m --dot streams.dot
    """,
)
@click.option("--subject", default="", help="only streams that capture this subject")
@click.option("-o", "--by-consumers", "sort", flag_value="consumers", help="sort by consumers")
@click.option("-m", "--by-messages", "sort", flag_value="messages", help="sort by messages")
@click.option("-n", "--by-name", "sort", flag_value="name", help="sort by name")
@click.option("-t", "--by-storage", "sort", flag_value="storage", help="sort by storage")
@click.option("-r", "--raw", is_flag=True, help="exact numbers")
@click.option("-l", "--leaders", is_flag=True, help="count leaders per server")
@click.option("--dot", help="write a graph of mirrors and sources")
@all_option
async def report(subject: str, sort: str | None, raw: bool, leaders: bool, dot: str | None) -> None:
    async with connect() as session:
        infos = [
            info
            for info in await session.streams(subject)
            if all_streams() or not is_internal(info["config"]["name"])
        ]
    infos.sort(key=_SORTS[sort or "bytes"])
    if dot:
        Path(dot).write_text(graph(infos))
        say(f"Wrote the graph of {human.plural(len(infos), 'stream')} to {dot}")
        return
    if screen().json:
        print_json(infos)
        return
    if not infos:
        say("No Streams defined")
        return
    _streams_table(infos, raw).print()
    replicated = [info for info in infos if info.get("mirror") or info.get("sources")]
    if replicated:
        say()
        _replication_table(replicated).print()
    if leaders:
        say()
        _leaders_table(infos).print()


def _streams_table(infos: list[Json], raw: bool) -> Table:
    table = Table(
        "Stream Report",
        "Stream",
        "Storage",
        "Placement",
        "Consumers",
        "Messages",
        "Bytes",
        "Lost",
        "Deleted",
        "API Level",
        "Replicas",
        left=["Bytes", "Replicas"],
    )
    for info in infos:
        config, state = info["config"], info["state"]
        placement = config.get("placement") or {}
        lost = state.get("lost") or {}
        cluster = info.get("cluster") or {}
        table.add(
            config["name"],
            str(config.get("storage", "")).capitalize(),
            " ".join([placement.get("cluster", ""), *(placement.get("tags") or [])]).strip(),
            state.get("consumer_count", 0),
            state["messages"],
            f"{state['bytes']:,}" if raw else human.size(state["bytes"]),
            len(lost.get("msgs") or []),
            state.get("num_deleted", 0),
            (config.get("metadata") or {}).get("_nats.req.level", "0"),
            ", ".join(
                [cluster.get("leader", ""), *(p["name"] for p in cluster.get("replicas") or [])]
            )
            or config.get("num_replicas", 1),
        )
    return table


def _replication_table(infos: list[Json]) -> Table:
    table = Table(
        "Replication Report",
        "Stream",
        "Kind",
        "API Prefix",
        "Source Stream",
        "Filters and Transforms",
        "Active",
        "Lag",
        "Error",
        left=["Active"],
    )
    for info in infos:
        pairs = [("Mirror", info["mirror"])] if info.get("mirror") else []
        pairs += [("Source", source) for source in info.get("sources") or []]
        for kind, source in pairs:
            rewrites = [
                f"{t.get('src') or '>'} to {t.get('dest')}"
                for t in source.get("subject_transforms") or []
            ]
            active = source.get("active", -1)
            table.add(
                info["config"]["name"],
                kind,
                (source.get("external") or {}).get("api", ""),
                source.get("name"),
                ", ".join([*filter(None, [source.get("filter_subject", "")]), *rewrites]),
                "never" if active < 0 else human.duration(active),
                source.get("lag", 0),
                (source.get("error") or {}).get("description", ""),
            )
    return table


def _leaders_table(infos: list[Json]) -> Table:
    counts: dict[str, int] = {}
    for info in infos:
        leader = (info.get("cluster") or {}).get("leader") or "this server"
        counts[leader] = counts.get(leader, 0) + 1
    table = Table("Leaders", "Server", "Streams")
    for leader, count in sorted(counts.items()):
        table.add(leader, count)
    return table


def graph(infos: list[Json]) -> str:
    """Mirrors and sources in Graphviz's language."""
    lines = ["digraph streams {", "  rankdir=LR;", "  node [shape=box];"]
    for info in infos:
        config = info["config"]
        lines.append(f'  "{config["name"]}";')
        if config.get("mirror"):
            lines.append(f'  "{config["mirror"]["name"]}" -> "{config["name"]}" [label="mirror"];')
        for source in config.get("sources") or []:
            lines.append(f'  "{source["name"]}" -> "{config["name"]}" [label="source"];')
    return "\n".join([*lines, "}"]) + "\n"


@command(
    "find",
    aliases=["query"],
    help="Streams that fit all of the given conditions.",
    examples="""
    jetstream stream find --empty --created 7d
    jetstream stream find --expression 'state.messages > 1000 and config.storage == "memory"'
    """,
)
@click.option("--empty", is_flag=True, help="without messages")
@click.option("--idle", type=DURATION, help="nothing written or read for this long")
@click.option("--created", type=DURATION, help="older than this")
@click.option("--consumers", type=int, help="at most this many consumers")
@click.option("--subject", default="", help="captures this subject")
@click.option("--replicas", type=int, help="at most this many replicas")
@click.option("--sourced", is_flag=True, help="takes from other streams")
@click.option("--mirrored", is_flag=True, help="is a mirror")
@click.option("--leader", help="led by this server")
@click.option("--cluster", "in_cluster", help="in this cluster")
@click.option("--api-level", type=int, help="needs at least this API level")
@click.option("--expression", help="a condition over config, state, info")
@click.option("--invert", is_flag=True, help="those that do not fit")
@click.option("-n", "--names", is_flag=True, help="only names")
@all_option
async def find(subject: str, invert: bool, names: bool, **wanted: Any) -> None:
    async with connect() as session:
        infos = await session.streams(subject)
    now = time.time_ns()
    found = [
        info
        for info in infos
        if (all_streams() or not is_internal(info["config"]["name"]))
        and fits(info, wanted, now) != invert
    ]
    found.sort(key=lambda info: str(info["config"]["name"]))
    if screen().json:
        print_json([info["config"]["name"] for info in found] if names else found)
    elif names:
        for info in found:
            say(info["config"]["name"])
    elif not found:
        say("No Streams match")
    else:
        _streams_table(found, False).print()


def fits(info: Json, wanted: Json, now_ns: int) -> bool:
    """All conditions that were given hold."""
    config, state, cluster = info["config"], info["state"], info.get("cluster") or {}
    checks: list[bool] = []
    if wanted.get("empty"):
        checks.append(state["messages"] == 0)
    if wanted.get("idle") is not None:
        last = human.to_ns(state.get("last_ts")) or human.to_ns(info.get("created"))
        checks.append(now_ns - last >= wanted["idle"])
    if wanted.get("created") is not None:
        checks.append(now_ns - human.to_ns(info.get("created")) >= wanted["created"])
    if wanted.get("consumers") is not None:
        checks.append(state.get("consumer_count", 0) <= wanted["consumers"])
    if wanted.get("replicas") is not None:
        checks.append(config.get("num_replicas", 1) <= wanted["replicas"])
    if wanted.get("sourced"):
        checks.append(bool(config.get("sources")))
    if wanted.get("mirrored"):
        checks.append(bool(config.get("mirror")))
    if wanted.get("leader"):
        checks.append(cluster.get("leader") == wanted["leader"])
    if wanted.get("in_cluster"):
        checks.append(cluster.get("name") == wanted["in_cluster"])
    if wanted.get("api_level") is not None:
        level = int((config.get("metadata") or {}).get("_nats.req.level", "0"))
        checks.append(level >= wanted["api_level"])
    if wanted.get("expression"):
        from jetstream.cli.expressions import evaluate

        checks.append(
            bool(evaluate(wanted["expression"], {"config": config, "state": state, "info": info}))
        )
    return all(checks)
