"""`jetstream server info|ls|ping|request|passwd|mappings|config`."""

import statistics
from contextlib import AsyncExitStack
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import command, make_group
from jetstream.cli.output import Page, Table, print_json, say, screen
from jetstream.cli.picking import nearest_hint
from jetstream.cli.problems import Failure
from jetstream.cli.prompts import really
from jetstream.cli.server_data import ask_all, facts, gather
from jetstream.cli.session import Json, Session, connect

http_option = click.option("--http", help="ask the HTTP monitor at this address instead")

_KINDS = {
    "variables": "VARZ",
    "varz": "VARZ",
    "connections": "CONNZ",
    "connz": "CONNZ",
    "subscriptions": "SUBSZ",
    "subsz": "SUBSZ",
    "jetstream": "JSZ",
    "jsz": "JSZ",
    "accounts": "ACCOUNTZ",
    "accountz": "ACCOUNTZ",
    "routes": "ROUTEZ",
    "routez": "ROUTEZ",
    "gateways": "GATEWAYZ",
    "gatewayz": "GATEWAYZ",
    "leafnodes": "LEAFZ",
    "leafz": "LEAFZ",
    "jetstream-health": "HEALTHZ",
    "healthz": "HEALTHZ",
    "profile": "PROFILEZ",
}


async def _session(stack: AsyncExitStack, http: str | None) -> Session | None:
    return None if http else await stack.enter_async_context(connect())


@command(
    "info",
    aliases=["i"],
    help="Show one server in full.",
    examples="""
    jetstream server info --user admin --password …
    jetstream server info --http http://127.0.0.1:8222
    """,
)
@click.argument("name", required=False)
@http_option
async def info(name: str | None, http: str | None) -> None:
    async with AsyncExitStack() as stack:
        session = await _session(stack, http)
        answers = await facts(session, "VARZ", None, http)
        chosen = _choose(answers, name, session)
    if screen().json:
        print_json(chosen["data"])
    else:
        say(info_page(chosen["data"]))


def _choose(answers: list[Json], name: str | None, session: Session | None) -> Json:
    if name is None:
        own = session.nc.info.server_id if session else ""
        return next((a for a in answers if a["server"].get("id") == own), answers[0])
    for answer in answers:
        if name in (answer["server"].get("id"), answer["server"].get("name")):
            return answer
    known = [str(answer["server"].get("name")) for answer in answers]
    raise Failure(f"no server is called {name!r}", nearest_hint(name, known, "jetstream server ls"))


def info_page(varz: Json) -> str:
    page = Page(f"Server information for {varz.get('server_name')} ({varz.get('server_id')})")
    page.section("Process Details")
    page.row("Version", varz.get("version"))
    page.row("Git Commit", varz.get("git_commit", ""))
    page.row("Go Version", varz.get("go", ""))
    page.row("Start Time", human.local_time(varz.get("start")))
    page.row("Configuration Load Time", human.local_time(varz.get("config_load_time")))
    page.row("Uptime", varz.get("uptime", ""))
    page.section("Connection Details")
    page.row("Auth Required", varz.get("auth_required", False))
    page.row("TLS Required", varz.get("tls_required", False))
    page.row("Host", f"{varz.get('host')}:{varz.get('port')}")
    page.row("Client URLs", ", ".join(varz.get("connect_urls") or []))
    _jetstream_section(page, varz.get("jetstream") or {})
    page.section("Limits")
    page.row("Max Conn", varz.get("max_connections", 0))
    page.row("Max Subs", varz.get("max_subscriptions", 0) or "unlimited")
    page.row("Max Payload", human.size(varz.get("max_payload", 0)))
    page.row("TLS Timeout", f"{varz.get('tls_timeout', 0)}s")
    page.row("Write Deadline", human.duration(varz.get("write_deadline", 0)))
    page.section("Statistics")
    page.row("CPU Cores", f"{varz.get('cores', 0)} {varz.get('cpu', 0):.2f}%")
    page.row("Memory", human.size(varz.get("mem", 0)))
    page.row("Connections", varz.get("connections", 0))
    page.row("Subscriptions", varz.get("subscriptions", 0))
    page.row("Messages", f"{varz.get('in_msgs', 0):,} in {varz.get('out_msgs', 0):,} out")
    page.row(
        "Bytes",
        f"{human.size(varz.get('in_bytes', 0))} in {human.size(varz.get('out_bytes', 0))} out",
    )
    page.row("Slow Consumers", varz.get("slow_consumers", 0))
    cluster = varz.get("cluster") or {}
    if cluster.get("name"):
        page.section("Cluster")
        page.row("Name", cluster["name"])
        page.row("Host", f"{cluster.get('addr', '')}:{cluster.get('cluster_port', 0)}")
        page.row("URLs", ", ".join(cluster.get("urls") or []))
    return page.render()


def _jetstream_section(page: Page, jetstream: Json) -> None:
    config, stats = jetstream.get("config") or {}, jetstream.get("stats") or {}
    if not config:
        return
    page.section("JetStream")
    page.row("Domain", config.get("domain", ""))
    page.row("API Support Level", (stats.get("api") or {}).get("level", 0))
    page.row("Storage Directory", config.get("store_dir", ""))
    page.row(
        "Memory Used",
        f"{human.size(stats.get('memory', 0))} of {human.limit_size(config.get('max_memory', -1))}",
    )
    page.row(
        "Storage Used",
        f"{human.size(stats.get('storage', 0))} of "
        f"{human.limit_size(config.get('max_storage', -1))}",
    )
    api = stats.get("api") or {}
    page.row("API Requests", api.get("total", 0))
    page.row("API Errors", api.get("errors", 0))
    page.row("Always Sync Writes", config.get("sync_always", False))


_SORTS = {
    "name": lambda a: a["server"].get("name", ""),
    "cluster": lambda a: a["server"].get("cluster", ""),
    "conns": lambda a: a["statsz"].get("connections", 0),
    "subs": lambda a: a["statsz"].get("subscriptions", 0),
    "routes": lambda a: len(a["statsz"].get("routes") or []),
    "gws": lambda a: len(a["statsz"].get("gateways") or []),
    "mem": lambda a: a["statsz"].get("mem", 0),
    "cpu": lambda a: a["statsz"].get("cpu", 0),
    "slow": lambda a: a["statsz"].get("slow_consumers", 0),
    "uptime": lambda a: a["statsz"].get("start", ""),
    "rtt": lambda a: a["rtt_ns"],
}


@command(
    "ls",
    aliases=["list"],
    help="List the servers that answer.",
    examples="jetstream server ls --sort mem",
)
@click.argument("expect", type=int, required=False, default=0)
@click.option("--sort", type=click.Choice(list(_SORTS)), default="rtt", help="order")
@click.option("-R", "--reverse", is_flag=True, help="the other way round")
async def ls(expect: int, sort: str, reverse: bool) -> None:
    async with connect() as session:
        answers = await ask_all(session, "", expect=expect)
    answers.sort(key=_SORTS[sort], reverse=reverse)
    if screen().json:
        print_json([{k: v for k, v in a.items() if k != "rtt_ns"} for a in answers])
        return
    table = Table(
        "Server Overview",
        "Name",
        "Cluster",
        "Host",
        "Version",
        "JS",
        "Conns",
        "Subs",
        "Routes",
        "GWs",
        "Mem",
        "CPU %",
        "Cores",
        "Slow",
        "Uptime",
        "RTT",
        left=["Name", "Host", "Version", "Mem", "Uptime", "RTT"],
    )
    for answer in answers:
        server, stats = answer["server"], answer["statsz"]
        table.add(
            server.get("name"),
            server.get("cluster", ""),
            server.get("host"),
            server.get("ver"),
            "yes" if server.get("jetstream") else "no",
            stats.get("connections", 0),
            stats.get("subscriptions", 0),
            len(stats.get("routes") or []),
            len(stats.get("gateways") or []),
            human.size(stats.get("mem", 0)),
            f"{stats.get('cpu', 0):.1f}",
            stats.get("cores", 0),
            stats.get("slow_consumers", 0),
            human.age(stats.get("start")),
            human.duration(answer["rtt_ns"]),
        )
    table.print()


@command(
    "ping",
    help="Ask every server for a sign of life.",
    examples="jetstream server ping",
)
@click.argument("expect", type=int, required=False, default=0)
@click.option("--id", "show_id", is_flag=True, help="ids instead of names")
@click.option("--graph", is_flag=True, help="a bar per server")
async def ping(expect: int, show_id: bool, graph: bool) -> None:
    async with connect() as session:
        answers = await ask_all(session, "", expect=expect)
    if screen().json:
        print_json([{"server": a["server"], "rtt_ns": a["rtt_ns"]} for a in answers])
        return
    times = [answer["rtt_ns"] for answer in answers]
    for answer in answers:
        name = answer["server"].get("id" if show_id else "name", "")
        bar = " " + "█" * max(round(20 * answer["rtt_ns"] / max(times)), 1) if graph else ""
        say(f"{name:<57} rtt={human.duration(answer['rtt_ns'])}{bar}")
    say("\n---- ping statistics ----")
    say(
        f"{len(times)} replies max: {human.duration(max(times))} min: {human.duration(min(times))} "
        f"avg: {human.duration(int(statistics.fmean(times)))}"
    )
    if expect and len(times) < expect:
        raise Failure(f"{expect - len(times)} servers did not answer")


@command(
    "request",
    aliases=["req"],
    help="Raw monitoring data: variables, connections, subscriptions, jetstream, accounts, routes, "
    "gateways, leafnodes, jetstream-health, profile; `kick ID CLIENT` disconnects a client.",
    examples="""
    jetstream server request jetstream
    jetstream server request connections --limit 10
    """,
)
@click.argument("kind")
@click.argument("words", nargs=-1)
@click.option("--name", "server_name", help="only this server")
@click.option("--host", help="only servers on this host")
@click.option("--cluster", help="only this cluster")
@click.option("--tags", multiple=True, help="only servers with these tags")
@click.option("--limit", type=int, help="at most this many")
@click.option("--offset", type=int, help="skip this many")
@click.option("--account", help="only this account")
@http_option
async def request(kind: str, words: tuple[str, ...], http: str | None, **flags: Any) -> None:
    if kind == "kick":
        await _kick(words)
        return
    if kind not in _KINDS:
        raise Failure(
            f"unknown request {kind!r}",
            nearest_hint(kind, _KINDS, "jetstream server request -h"),
            2,
        )
    body: Json = {}
    for flag in ("server_name", "host", "cluster", "limit", "offset", "account"):
        if flags[flag] is not None:
            body[flag] = flags[flag]
    if flags["tags"]:
        body["tags"] = list(flags["tags"])
    if _KINDS[kind] == "JSZ":
        body |= {"accounts": True, "streams": True, "consumer": True, "config": True}
    async with AsyncExitStack() as stack:
        session = await _session(stack, http)
        answers = await facts(session, _KINDS[kind], body, http)
    for answer in answers:
        print_json({k: v for k, v in answer.items() if k != "rtt_ns"})


async def _kick(words: tuple[str, ...]) -> None:
    if len(words) != 2 or not words[0].isdigit():
        raise Failure("kick needs a client and a server", "`server request kick CID SERVER_ID`", 2)
    async with connect() as session:
        answers = await gather(
            session, f"$SYS.REQ.SERVER.{words[1]}.KICK", {"cid": int(words[0])}, 1
        )
    print_json(answers[0].get("data") or answers[0])


@command(
    "passwd",
    aliases=["mkpasswd", "pass", "password"],
    help="Make a bcrypt hash for a configuration file.",
    examples="""
    jetstream server passwd
    jetstream server passwd -g
    """,
)
@click.option("-p", "--pass", "secret", envvar="PASSWORD", help="the password")
@click.option("-c", "--cost", type=click.IntRange(4, 31), default=11, help="bcrypt cost")
@click.option("-g", "--generate", is_flag=True, help="make up a password")
def passwd(secret: str | None, cost: int, generate: bool) -> None:
    import sys

    import bcrypt

    if generate:
        import secrets
        import string

        secret = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(22))
        say(f"Generated password: {secret}")
    elif secret is None:
        if not sys.stdin.isatty():
            raise Failure("no password was given", "give -p, PASSWORD in the environment, or -g", 2)
        secret = click.prompt("Enter password", hide_input=True, confirmation_prompt=True)
    if not generate and len(secret or "") < 22:
        raise Failure("the password is too short: 22 characters at least", "-g makes one")
    say(bcrypt.hashpw(str(secret).encode(), bcrypt.gensalt(cost, prefix=b"2a")).decode())


@command(
    "mappings",
    aliases=["mapping"],
    help="Try a subject transform.",
    examples="jetstream server mappings 'orders.*' 'eu.{{wildcard(1)}}' orders.42",
)
@click.argument("source")
@click.argument("target")
@click.argument("subject", required=False)
def mappings(source: str, target: str, subject: str | None) -> None:
    from jetstream.subjects.transform import SubjectTransform

    transform = SubjectTransform(source, target)
    if subject is None:
        say(f"{source} to {target} is a valid transform")
        return
    made = transform.transform(subject)
    if made is None:
        raise Failure(f"{subject} does not match {source}")
    say(made)


reload_config = make_group(
    "config", "Work with a running server's configuration.", "jetstream server config reload ID -f"
)


@reload_config.command(
    "reload",
    help="Tell a server to read its configuration file again.",
    examples="jetstream server config reload SERVER_ID -f",
)
@click.argument("server_id")
@click.option("-f", "--force", is_flag=True, help="do not ask")
async def _reload(server_id: str, force: bool) -> None:
    async with connect() as session:
        await really(f"reload the configuration of {server_id}", force)
        answers = await gather(session, f"$SYS.REQ.SERVER.{server_id}.RELOAD", None, 1)
    print_json({k: v for k, v in answers[0].items() if k != "rtt_ns"})
