"""`jetstream server check …`: exit code 0 fine, 1 warning, 2 critical, 3 unknown."""

import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import Decorator, make_group, options, settings
from jetstream.cli.checks import CODES, Check, Number, as_json, nagios, prometheus, text
from jetstream.cli.output import say, to_json
from jetstream.cli.problems import Failure, Quit, explain
from jetstream.cli.session import Json, Session, connect
from jetstream.cli.stream_messages import body_of
from jetstream.cli.values import DURATION

check = make_group(
    "check",
    "Health checks for monitoring systems; exit code 0 fine, 1 warning, 2 critical, 3 unknown.",
    """
    jetstream server check connection
    jetstream server check stream --stream ORDERS --msgs-warn 100000
    """,
)


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    made: list[Decorator] = [
        click.option(
            "--format",
            "form",
            type=click.Choice(["nagios", "json", "prometheus", "text"]),
            default="nagios",
            help="how to say it",
        ),
        click.option("--outfile", help="write it here"),
        click.option("--namespace", default="nats_server_check", help="prefix of metrics"),
    ]
    return options(*made)(function)


def thresholds(*names: str) -> Decorator:
    """`--NAME-warn` and `--NAME-critical` for each."""
    made: list[Decorator] = []
    for name in names:
        made.append(click.option(f"--{name}-warn", type=float, default=0.0))
        made.append(click.option(f"--{name}-critical", type=float, default=0.0))
    return options(*made)


async def carry_out(found: Check, flags: Json, work: Callable[[Session], Awaitable[None]]) -> None:
    """Connect, look, print, and end with the verdict as exit code."""
    code: int | None = None
    try:
        async with connect() as session:
            await work(session)
    except (Failure, Exception) as error:
        reason, _, _ = explain(error, settings())
        found.critical(reason)
    finish(found, flags, code)


def finish(found: Check, flags: Json, code: int | None = None) -> None:
    shown = {
        "nagios": lambda: nagios(found),
        "json": lambda: to_json(as_json(found)),
        "prometheus": lambda: prometheus(found, flags["namespace"]),
        "text": lambda: text(found),
    }[flags["form"]]()
    if flags["outfile"]:
        beside = Path(flags["outfile"] + ".new")
        beside.write_text(shown + "\n")
        beside.replace(flags["outfile"])
    else:
        say(shown)
    raise Quit(found.code if code is None else code)


@check.command(
    "connection",
    aliases=["conn"],
    help="Can we connect, how fast, does a request come back.",
    examples="jetstream server check connection --rtt-warn 100ms",
)
@click.option("--connect-warn", type=DURATION, default="500ms")
@click.option("--connect-critical", type=DURATION, default="1s")
@click.option("--rtt-warn", type=DURATION, default="500ms")
@click.option("--rtt-critical", type=DURATION, default="1s")
@click.option("--req-warn", type=DURATION, default="500ms")
@click.option("--req-critical", type=DURATION, default="1s")
@output_options
async def connection(**flags: Any) -> None:
    found = Check(name="Connection", kind="connection")
    started = time.perf_counter()

    async def work(session: Session) -> None:
        def took(name: str, flag: str, seconds: float, what: str) -> None:
            warn, critical = flags[f"{flag}_warn"] / 1e9, flags[f"{flag}_critical"] / 1e9
            number = Number(name=name, value=seconds, warn=warn, critical=critical, unit="s")
            found.above(number, f"{what} {human.duration(int(seconds * 1e9))}")

        took(
            "connect_time",
            "connect",
            time.perf_counter() - started,
            f"connected to {session.nc.connected_url} in",
        )
        took("rtt", "rtt", await session.nc.rtt(), "rtt time")
        inbox = session.nc.new_inbox()
        async with await session.nc.subscribe(inbox) as answers:
            start = time.perf_counter()
            await session.nc.publish(inbox, b"ping")
            await answers.next(session.timeout)
            took("request_time", "req", time.perf_counter() - start, "round trip took")

    await carry_out(found, flags, work)


@check.command(
    "stream",
    help="Messages, subjects, replication of a stream; thresholds may also be in its metadata.",
    examples="jetstream server check stream --stream ORDERS --msgs-critical 1000000",
)
@click.option("--stream", required=True)
@click.option("--lag-critical", type=int, default=0, help="messages a mirror or source is behind")
@click.option("--seen-critical", type=DURATION, default=0, help="since a source was last seen")
@click.option("--min-sources", type=int, default=0)
@click.option("--max-sources", type=int, default=0)
@click.option("--peer-expect", type=int, default=0, help="replicas that should be there")
@click.option("--peer-lag-critical", type=int, default=0)
@click.option("--peer-seen-critical", type=DURATION, default=0)
@thresholds("msgs", "subjects")
@output_options
async def stream(stream: str, **flags: Any) -> None:
    found = Check(name=stream, kind="stream")

    async def work(session: Session) -> None:
        info = await session.stream_info(stream)
        from_metadata(flags, info["config"].get("metadata") or {})
        check_stream(found, info, flags)

    await carry_out(found, flags, work)


_METADATA = {
    "io.nats.monitor.lag-critical": "lag_critical",
    "io.nats.monitor.min-sources": "min_sources",
    "io.nats.monitor.max-sources": "max_sources",
    "io.nats.monitor.peer-expect": "peer_expect",
    "io.nats.monitor.peer-lag-critical": "peer_lag_critical",
    "io.nats.monitor.msgs-warn": "msgs_warn",
    "io.nats.monitor.msgs-critical": "msgs_critical",
    "io.nats.monitor.subjects-warn": "subjects_warn",
    "io.nats.monitor.subjects-critical": "subjects_critical",
}


def from_metadata(flags: Json, metadata: dict[str, str]) -> None:
    """Thresholds kept with the stream, where the command line says nothing."""
    for key, flag in _METADATA.items():
        if key in metadata and not flags[flag]:
            flags[flag] = float(metadata[key])


def check_stream(found: Check, info: Json, flags: Json) -> None:
    state = info["state"]
    for name, value in (("msgs", state["messages"]), ("subjects", state.get("num_subjects", 0))):
        number = Number(
            name="messages" if name == "msgs" else name,
            value=value,
            warn=flags[f"{name}_warn"],
            critical=flags[f"{name}_critical"],
        )
        found.above(number, f"{value:,} {'messages' if name == 'msgs' else name}")
    sources = [*filter(None, [info.get("mirror")]), *(info.get("sources") or [])]
    if flags["min_sources"] and len(sources) < flags["min_sources"]:
        found.critical(f"{len(sources)} sources of at least {flags['min_sources']:g}")
    if flags["max_sources"] and len(sources) > flags["max_sources"]:
        found.critical(f"{len(sources)} sources of at most {flags['max_sources']:g}")
    for source in sources:
        if flags["lag_critical"] and source.get("lag", 0) >= flags["lag_critical"]:
            found.critical(f"{source['name']} is {source['lag']:,} messages behind")
        if flags["seen_critical"] and not 0 <= source.get("active", -1) < flags["seen_critical"]:
            found.critical(f"{source['name']} was not seen lately")
    peers = (info.get("cluster") or {}).get("replicas") or []
    if flags["peer_expect"] and len(peers) + 1 != flags["peer_expect"]:
        found.critical(f"{len(peers) + 1} replicas of expected {flags['peer_expect']:g}")
    for peer in peers:
        if flags["peer_lag_critical"] and peer.get("lag", 0) >= flags["peer_lag_critical"]:
            found.critical(f"replica {peer['name']} is {peer['lag']:,} operations behind")
        if flags["peer_seen_critical"] and peer.get("active", 0) >= flags["peer_seen_critical"]:
            found.critical(f"replica {peer['name']} was not seen lately")


@check.command(
    "consumer",
    help="What waits at a consumer.",
    examples="jetstream server check consumer --stream ORDERS --consumer work "
    "--unprocessed-critical 10000",
)
@click.option("--stream", required=True)
@click.option("--consumer", required=True)
@click.option("--outstanding-ack-critical", type=int, default=0)
@click.option("--waiting-critical", type=int, default=0)
@click.option("--unprocessed-critical", type=int, default=0)
@click.option("--last-delivery-critical", type=DURATION, default=0)
@click.option("--last-ack-critical", type=DURATION, default=0)
@click.option("--redelivery-critical", type=int, default=0)
@click.option("--pinned", is_flag=True, help="every group must have a pinned client")
@output_options
async def consumer(stream: str, consumer: str, **flags: Any) -> None:
    found = Check(name=f"{stream}_{consumer}", kind="consumer")

    async def work(session: Session) -> None:
        info = await session.consumer_info(stream, consumer)
        for flag, field, what in (
            ("outstanding_ack", "num_ack_pending", "outstanding acks"),
            ("waiting", "num_waiting", "waiting pulls"),
            ("unprocessed", "num_pending", "unprocessed messages"),
            ("redelivery", "num_redelivered", "redelivered messages"),
        ):
            value = info.get(field, 0)
            number = Number(name=field, value=value, critical=flags[f"{flag}_critical"])
            found.above(number, f"{value:,} {what}")
        now = time.time_ns()
        for flag, field in (("last_delivery", "delivered"), ("last_ack", "ack_floor")):
            limit = flags[f"{flag}_critical"]
            seen = human.to_ns((info.get(field) or {}).get("last_active"))
            if limit and (not seen or now - seen > limit):
                found.critical(f"{flag.replace('_', ' ')} was {human.age(seen)} ago")
        if flags["pinned"]:
            groups = info.get("priority_groups") or []
            if not groups or not all(each.get("pinned_client_id") for each in groups):
                found.critical("a group has no pinned client")

    await carry_out(found, flags, work)


@check.command(
    "message",
    help="Age and content of a stream's last message.",
    examples="jetstream server check message --stream ORDERS --subject orders.us --age-critical 1h",
)
@click.option("--stream", required=True)
@click.option("--subject", default=">")
@click.option("--age-warn", type=DURATION, default=0)
@click.option("--age-critical", type=DURATION, default=0)
@click.option("--content", help="the body must match (regex)")
@click.option("--body-timestamp", is_flag=True, help="the body is a unix time")
@output_options
async def message(stream: str, subject: str, **flags: Any) -> None:
    found = Check(name="Stream Message", kind="message")

    async def work(session: Session) -> None:
        last = await session.get_message(stream, last_for=subject)
        body = body_of(last)
        when = human.to_ns(last["time"])
        if flags["body_timestamp"]:
            when = int(float(body) * 1e9)
        age = (time.time_ns() - when) / 1e9
        found.above(
            Number(
                name="age",
                value=age,
                warn=flags["age_warn"] / 1e9,
                critical=flags["age_critical"] / 1e9,
                unit="s",
            ),
            f"{human.duration(int(age * 1e9))} old",
        )
        found.numbers.append(Number(name="size", value=len(body), unit="B"))
        if flags["content"] and not re.search(flags["content"].encode(), body):
            found.critical(f"the body does not match {flags['content']}")

    await carry_out(found, flags, work)


@check.command(
    "jetstream",
    aliases=["js"],
    help="How much of the account's limits is used, in percent.",
    examples="jetstream server check jetstream --store-warn 60",
)
@click.option("--mem-warn", type=float, default=75.0)
@click.option("--mem-critical", type=float, default=90.0)
@click.option("--store-warn", type=float, default=75.0)
@click.option("--store-critical", type=float, default=90.0)
@thresholds("streams", "consumers")
@click.option("--replicas/--no-replicas", default=True, help="look at replicas too")
@click.option("--replica-seen-critical", type=DURATION, default="5s")
@click.option("--replica-lag-critical", type=int, default=200)
@output_options
async def jetstream(**flags: Any) -> None:
    found = Check(name="JetStream", kind="jetstream")

    async def work(session: Session) -> None:
        usage = await session.account_info()
        limits = usage.get("limits") or {}
        for flag, used, most in (
            ("mem", "memory", "max_memory"),
            ("store", "storage", "max_storage"),
            ("streams", "streams", "max_streams"),
            ("consumers", "consumers", "max_consumers"),
        ):
            limit = limits.get(most, -1)
            part = 100 * usage.get(used, 0) / limit if limit > 0 else 0.0
            found.numbers.append(Number(name=used, value=usage.get(used, 0)))
            number = Number(
                name=f"{used}_pct",
                value=part,
                warn=flags[f"{flag}_warn"],
                critical=flags[f"{flag}_critical"],
                unit="%",
            )
            found.above(number, f"{part:.0f}% {used}")
        if flags["replicas"]:
            _replicas(found, await session.streams(), flags)

    await carry_out(found, flags, work)


def _replicas(found: Check, infos: list[Json], flags: Json) -> None:
    for info in infos:
        for peer in (info.get("cluster") or {}).get("replicas") or []:
            name = f"{info['config']['name']} on {peer['name']}"
            if peer.get("offline"):
                found.critical(f"{name} is offline")
            elif peer.get("active", 0) > flags["replica_seen_critical"]:
                found.critical(f"{name} was not seen lately")
            elif peer.get("lag", 0) > flags["replica_lag_critical"]:
                found.critical(f"{name} is {peer['lag']:,} operations behind")


@check.command(
    "kv",
    help="Is a bucket there, how full is it, has it a key.",
    examples="jetstream server check kv --bucket profiles --key sue.color",
)
@click.option("--bucket", required=True)
@click.option("--key", help="must have a value")
@thresholds("values")
@output_options
async def kv(bucket: str, key: str | None, **flags: Any) -> None:
    found = Check(name=bucket, kind="kv")

    async def work(session: Session) -> None:
        store = await session.jetstream().key_value(bucket)
        status = await store.status()
        found.ok(f"bucket {bucket}")
        number = Number(
            name="values",
            value=status.values,
            warn=flags["values_warn"],
            critical=flags["values_critical"],
        )
        found.above(number, f"{status.values:,} values")
        if key:
            entry = await store.get(key)
            found.ok(f"key {key} has revision {entry.revision}")

    await carry_out(found, flags, work)


@check.command(
    "request",
    help="Does somebody answer a request, and what.",
    examples="jetstream server check request --subject help.me --payload hi --match '^ok'",
)
@click.option("--subject", required=True)
@click.option("--payload", default="")
@click.option("--match", "pattern", default=".*", help="the answer must match (regex)")
@click.option("--response-warn", type=DURATION, default=0)
@click.option("--response-critical", type=DURATION, default=0)
@output_options
async def request(subject: str, payload: str, pattern: str, **flags: Any) -> None:
    found = Check(name="Request", kind="request")

    async def work(session: Session) -> None:
        start = time.perf_counter()
        answer = await session.request(subject, payload.encode())
        seconds = time.perf_counter() - start
        number = Number(
            name="time",
            value=seconds,
            warn=flags["response_warn"] / 1e9,
            critical=flags["response_critical"] / 1e9,
            unit="s",
        )
        found.above(number, f"answered in {human.duration(int(seconds * 1e9))}")
        if not re.search(pattern.encode(), answer, re.DOTALL):
            found.critical(f"the answer does not match {pattern}")

    await carry_out(found, flags, work)


@check.command(
    "server",
    help="CPU, memory, connections and uptime of a server (system account).",
    examples="jetstream server check server --name s1 --mem-critical 4000000000",
)
@click.option("--name", help="server name")
@thresholds("cpu", "mem", "conn", "subs")
@click.option("--uptime-warn", type=DURATION, default=0)
@click.option("--uptime-critical", type=DURATION, default=0)
@click.option("--js-required", is_flag=True, help="JetStream must be on")
@output_options
async def server(name: str | None, **flags: Any) -> None:
    from jetstream.cli.server_data import ask_all
    from jetstream.cli.server_info import _choose

    found = Check(name=name or "Server", kind="server")

    async def work(session: Session) -> None:
        varz = _choose(await ask_all(session, "VARZ"), name, session)["data"]
        for flag, field in (
            ("cpu", "cpu"),
            ("mem", "mem"),
            ("conn", "connections"),
            ("subs", "subscriptions"),
        ):
            value = varz.get(field, 0)
            number = Number(
                name=field,
                value=value,
                warn=flags[f"{flag}_warn"],
                critical=flags[f"{flag}_critical"],
            )
            found.above(number, f"{field} {human.size(value) if field == 'mem' else value}")
        up = time.time_ns() - human.to_ns(varz.get("start"))
        found.numbers.append(Number(name="uptime", value=up / 1e9, unit="s"))
        if flags["uptime_critical"] and up < flags["uptime_critical"]:
            found.critical(f"up for {human.duration(up)} only")
        elif flags["uptime_warn"] and up < flags["uptime_warn"]:
            found.warn(f"up for {human.duration(up)} only")
        if flags["js_required"] and not (varz.get("jetstream") or {}).get("config"):
            found.critical("JetStream is not enabled")

    await carry_out(found, flags, work)


@check.command(
    "credential",
    help="Is a credentials file readable, and until when is it valid.",
    examples="jetstream server check credential --credential user.creds",
)
@click.option("--credential", required=True, help="the file")
@click.option("--validity-warn", type=DURATION, default=0)
@click.option("--validity-critical", type=DURATION, default=0)
@output_options
def credential(credential: str, **flags: Any) -> None:
    found = Check(name="Credential", kind="credential")
    try:
        expires = _expiry(Path(credential).read_text())
    except (OSError, ValueError) as error:
        found.critical(str(error))
        finish(found, flags, CODES["CRITICAL"])
        return
    if not expires:
        found.ok("never expires")
    else:
        left = expires - time.time()
        found.numbers.append(Number(name="expiry", value=left, unit="s"))
        shown = human.duration(int(left * 1e9))
        if left < 0:
            found.critical(f"expired {shown.lstrip('-')} ago")
        elif flags["validity_critical"] and left * 1e9 < flags["validity_critical"]:
            found.critical(f"expires in {shown}")
        elif flags["validity_warn"] and left * 1e9 < flags["validity_warn"]:
            found.warn(f"expires in {shown}")
        else:
            found.ok(f"expires in {shown}")
    finish(found, flags)


def _expiry(creds_text: str) -> int:
    """When the JWT in a credentials file ends, unix seconds; 0: never."""
    import base64
    import json

    from jetstream.security.creds import parse_creds

    payload = parse_creds(creds_text).jwt.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return int(claims.get("exp", 0))
