"""`jetstream server report`: connections, accounts, JetStream, CPU, memory, health as tables."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import make_group
from jetstream.cli.output import Table, print_json, say, screen
from jetstream.cli.server_data import ask_all, facts, gather
from jetstream.cli.session import Json, Session, connect

report = make_group(
    "report",
    "What servers are busy with.",
    """
    jetstream server report connections --sort in-msgs
    jetstream server report jetstream
    """,
)
http_option = click.option("--http", help="ask the HTTP monitor at this address instead")
reverse_option = click.option("-R", "--reverse", is_flag=True, help="the other way round")

_CONNECTION_SORTS = {
    "in-bytes": "in_bytes",
    "out-bytes": "out_bytes",
    "in-msgs": "in_msgs",
    "out-msgs": "out_msgs",
    "uptime": "start",
    "cid": "cid",
    "subs": "subscriptions",
}


@report.command(
    "connections",
    aliases=["conn", "connz", "conns"],
    help="Who is connected.",
    examples="""
    jetstream server report connections --sort out-bytes --top 10
    jetstream server report connections --filter 'in_msgs > 1000'
    """,
)
@click.option("--sort", type=click.Choice(list(_CONNECTION_SORTS)), default="subs", help="order")
@click.option("--top", type=int, default=1000, help="at most this many")
@click.option("--subject", help="only subscribers of this subject")
@click.option("--username", help="only this user")
@click.option("--account", help="only this account")
@click.option("--state", type=click.Choice(["open", "closed", "all"]), default="open")
@click.option("--filter", "expression", help="a condition over the fields of a connection")
@click.option("--watch", type=int, default=0, help="again every so many seconds")
@reverse_option
@http_option
async def connections(http: str | None, watch: int, **flags: Any) -> None:
    async with AsyncExitStack() as stack:
        session = None if http else await stack.enter_async_context(connect())
        while True:
            rows = await _connection_rows(session, http, flags)
            if watch:
                click.clear()
            _show_connections(rows, flags)
            if not watch:
                return
            await asyncio.sleep(watch)


async def _connection_rows(session: Session | None, http: str | None, flags: Json) -> list[Json]:
    states = {"open": 0, "closed": 1, "all": 2}
    body: Json = {
        "state": flags["state"] if http else states[flags["state"]],
        "limit": max(flags["top"], 1024),
        "auth": True,
    }
    if flags["subject"]:
        body |= {"filter_subject": flags["subject"], "subscriptions": True}
    if flags["username"]:
        body["user"] = flags["username"]
    if flags["account"]:
        body["acc"] = flags["account"]
    rows = []
    for answer in await facts(session, "CONNZ", body, http):
        for each in answer["data"].get("connections") or []:
            rows.append({**each, "server": answer["server"].get("name", "")})
    if flags["expression"]:
        from jetstream.cli.expressions import evaluate

        rows = [row for row in rows if evaluate(flags["expression"], {"conn": row, **row})]
    rows.sort(
        key=lambda row: row.get(_CONNECTION_SORTS[flags["sort"]], 0), reverse=flags["reverse"]
    )
    return rows[-flags["top"] :]


def _show_connections(rows: list[Json], flags: Json) -> None:
    if screen().json:
        print_json(rows)
        return
    table = Table(
        f"{len(rows)} connections",
        "CID",
        "Name",
        "Server",
        "IP",
        "Account",
        "User",
        "Uptime",
        "In Msgs",
        "Out Msgs",
        "In Bytes",
        "Out Bytes",
        "Subs",
        left=["Name", "Server", "IP", "Uptime", "In Bytes", "Out Bytes"],
    )
    for row in rows:
        table.add(
            row.get("cid"),
            row.get("name", ""),
            row["server"],
            f"{row.get('ip')}:{row.get('port')}",
            row.get("account", ""),
            row.get("authorized_user", ""),
            row.get("uptime", ""),
            row.get("in_msgs", 0),
            row.get("out_msgs", 0),
            human.size(row.get("in_bytes", 0)),
            human.size(row.get("out_bytes", 0)),
            row.get("subscriptions", 0),
        )
    table.print()


@report.command(
    "accounts",
    aliases=["acct"],
    help="Traffic by account.",
    examples="jetstream server report accounts",
)
@click.option(
    "--sort",
    type=click.Choice(["in-bytes", "out-bytes", "in-msgs", "out-msgs", "subs"]),
    default="subs",
    help="order",
)
@reverse_option
async def accounts(sort: str, reverse: bool) -> None:
    async with connect() as session:
        answers = await gather(session, "$SYS.REQ.ACCOUNT.PING.STATZ", {"include_unused": True})
    _show_accounts(answers, sort, reverse)


def account_rows(answers: list[Json]) -> list[list[Any]]:
    """Per account: name, connections, messages in and out, bytes in and out, subscriptions."""
    rows: dict[str, list[Any]] = {}
    for answer in answers:
        for stat in (answer.get("data") or {}).get("account_statz") or []:
            name = stat.get("acc", "")
            row = rows.setdefault(name, [name, 0, 0, 0, 0, 0, 0])
            received, sent = stat.get("received") or {}, stat.get("sent") or {}
            for i, value in enumerate(
                (
                    stat.get("conns", 0),
                    received.get("msgs", 0),
                    sent.get("msgs", 0),
                    received.get("bytes", 0),
                    sent.get("bytes", 0),
                    stat.get("num_subscriptions", 0),
                ),
                1,
            ):
                row[i] += value
    return list(rows.values())


def _show_accounts(answers: list[Json], sort: str = "subs", reverse: bool = False) -> None:
    if screen().json:
        print_json([answer.get("data") for answer in answers])
        return
    order = ["name", "conns", "in-msgs", "out-msgs", "in-bytes", "out-bytes", "subs"].index(sort)
    columns = ("Account", "Connections", "In Msgs", "Out Msgs", "In Bytes", "Out Bytes", "Subs")
    table = Table("Accounts", *columns, left=["Account", "In Bytes", "Out Bytes"])
    for row in sorted(account_rows(answers), key=lambda row: row[order], reverse=reverse):
        table.add(*row[:4], human.size(row[4]), human.size(row[5]), row[6])
    table.print()


@report.command(
    "jetstream",
    aliases=["jsz", "js"],
    help="JetStream by server.",
    examples="jetstream server report jetstream --account APP",
)
@click.option("--account", help="only this account")
@click.option(
    "--sort",
    type=click.Choice(
        ["name", "streams", "consumers", "msgs", "bytes", "mem", "file", "api", "err"]
    ),
    default="name",
)
@click.option("-l", "--leaders", is_flag=True, help="only assets this server leads")
@reverse_option
@http_option
async def jetstream(
    account: str | None, sort: str, leaders: bool, reverse: bool, http: str | None
) -> None:
    body: Json = {"account": account} if account else {}
    if leaders:
        body["leader_only"] = True
    async with AsyncExitStack() as stack:
        session = None if http else await stack.enter_async_context(connect())
        answers = await facts(session, "JSZ", body, http)
    if screen().json:
        print_json([{k: v for k, v in a.items() if k != "rtt_ns"} for a in answers])
        return
    rows = [_jetstream_row(answer) for answer in answers]
    keys = ["name", "streams", "consumers", "msgs", "bytes", "mem", "file", "api", "err"]
    rows.sort(key=lambda row: row[keys.index(sort)], reverse=reverse)
    table = Table(
        "JetStream Summary",
        "Server",
        "Streams",
        "Consumers",
        "Messages",
        "Bytes",
        "Memory",
        "File",
        "API Req",
        "API Err",
        left=["Server", "Bytes", "Memory", "File"],
    )
    for row in rows:
        table.add(*row[:4], *(human.size(size) for size in row[4:7]), *row[7:])
    table.print()


def _jetstream_row(answer: Json) -> list[Any]:
    data = answer["data"]
    api = data.get("api") or {}
    return [
        answer["server"].get("name", ""),
        data.get("streams", 0),
        data.get("consumers", 0),
        data.get("messages", 0),
        data.get("bytes", 0),
        data.get("memory", 0),
        data.get("storage", 0),
        api.get("total", 0),
        api.get("errors", 0),
    ]


async def _usage(what: str, field: str, shown: Any) -> None:
    async with connect() as session:
        answers = await ask_all(session, "")
    rows = [(a["server"].get("name", ""), a["statsz"].get(field, 0)) for a in answers]
    if screen().json:
        print_json(dict(rows))
        return
    table = Table(f"{what} by server", "Server", what, left=["Server", what])
    for name, value in sorted(rows, key=lambda row: float(row[1])):
        table.add(name, shown(value))
    table.print()


@report.command("cpu", help="CPU by server.", examples="jetstream server report cpu")
async def cpu() -> None:
    await _usage("CPU", "cpu", lambda value: f"{value:.1f}%")


@report.command("mem", help="Memory by server.", examples="jetstream server report mem")
async def mem() -> None:
    await _usage("Memory", "mem", human.size)


@report.command("health", help="Health by server.", examples="jetstream server report health")
@http_option
async def health(http: str | None) -> None:
    async with AsyncExitStack() as stack:
        session = None if http else await stack.enter_async_context(connect())
        answers = await facts(session, "HEALTHZ", None, http)
    if screen().json:
        print_json([{k: v for k, v in a.items() if k != "rtt_ns"} for a in answers])
        return
    table = Table("Health", "Server", "Status", "Error", left=["Server"])
    for answer in answers:
        data = answer["data"]
        table.add(answer["server"].get("name", ""), data.get("status", ""), data.get("error", ""))
    table.print()


async def account_connections(session: Session, account: str) -> None:
    """The connections of one's own account; ordinary users may ask for that."""
    answers = await gather(session, "$SYS.REQ.ACCOUNT.PING.CONNZ", {"auth": True})
    rows = [
        {**each, "server": answer["server"].get("name", "")}
        for answer in answers
        for each in (answer.get("data") or {}).get("connections") or []
    ]
    if not screen().json:
        say(f"Account {account}")
    _show_connections(rows, {})


async def account_statistics(session: Session) -> None:
    _show_accounts(await gather(session, "$SYS.REQ.ACCOUNT.PING.STATZ"))
