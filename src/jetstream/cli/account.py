"""`jetstream account`: who we are, what we may use and what we use."""

from pathlib import Path
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import make_group
from jetstream.cli.output import Page, Table, print_json, say, screen
from jetstream.cli.problems import Failure
from jetstream.cli.prompts import really
from jetstream.cli.session import Json, Session, connect
from jetstream.errors import ApiError

NOT_ENABLED = (10039, 10076)

group = make_group(
    "account",
    "This account's limits and usage.",
    "jetstream account info",
)


@group.command(
    "info",
    aliases=["nfo"],
    help="Show the connection and the account's JetStream.",
    examples="jetstream account info",
)
async def info() -> None:
    async with connect() as session:
        usage = await _jetstream(session)
        if screen().json:
            print_json(usage if usage is not None else {})
            return
        user = await user_info(session)
        rtt = await session.nc.rtt()
        page = Page("Account Information")
        _connection(page, session, user, rtt)
    page.section("JetStream Account Information")
    if usage is None:
        page.row("JetStream", "JetStream is not supported in this account")
    else:
        _usage(page, usage)
    page.print()


async def _jetstream(session: Session) -> Json | None:
    from jetstream.client.errors import NoRespondersError

    try:
        answer = await session.account_info()
    except NoRespondersError:
        return None
    except ApiError as error:
        if error.err_code in NOT_ENABLED:
            return None
        raise
    return {k: v for k, v in answer.items() if k != "type"}


async def user_info(session: Session) -> Json:
    """What the server says about our user; nothing where it does not answer."""
    import msgspec

    try:
        raw = await session.request("$SYS.REQ.USER.INFO", timeout=2.0)
        return dict(msgspec.json.decode(raw).get("data") or {})
    except Exception:
        return {}


def _connection(page: Page, session: Session, user: Json, rtt: float) -> None:
    server = session.nc.info
    page.row("User", user.get("user", ""))
    page.row("Account", user.get("account", ""))
    expires = user.get("expires", 0)
    page.row("Expires", human.duration(expires) if expires else "never")
    page.row("Client ID", getattr(server, "client_id", 0))
    page.row("Client IP", getattr(server, "client_ip", ""))
    page.row("RTT", human.duration(int(rtt * 1e9)))
    page.row("Headers Supported", bool(getattr(server, "headers", False)))
    page.row("Maximum Payload", human.size(session.nc.max_payload))
    page.row("Connected URL", session.nc.connected_url)
    page.row("Connected Server ID", server.server_id)
    page.row("Connected Server Version", server.version)
    page.row("TLS Connection", bool(getattr(server, "tls_required", False)))


def of(used: int, limit: int, shown: Any = human.number) -> str:
    return f"{shown(used)} of {'Unlimited' if limit < 0 else shown(limit)}"


def _usage(page: Page, usage: Json) -> None:
    page.row("Domain", usage.get("domain", ""))
    page.section("Account Usage")
    page.row("Storage", human.size(usage.get("storage", 0)))
    page.row("Memory", human.size(usage.get("memory", 0)))
    page.row("Streams", usage.get("streams", 0))
    page.row("Consumers", usage.get("consumers", 0))
    api = usage.get("api") or {}
    page.row("API Requests", api.get("total", 0))
    page.row("API Errors", api.get("errors", 0))
    page.section("Account Limits")
    _limits(page, usage, usage.get("limits") or {})
    for name, tier in sorted((usage.get("tiers") or {}).items()):
        page.section(f"Tier {name}")
        _limits(page, tier, tier.get("limits") or {})


def _limits(page: Page, used: Json, limits: Json) -> None:
    page.row("Max Message Payload", "", False)
    page.row("Memory", of(used.get("memory", 0), limits.get("max_memory", -1), human.size))
    page.row("Storage", of(used.get("storage", 0), limits.get("max_storage", -1), human.size))
    page.row("Streams", of(used.get("streams", 0), limits.get("max_streams", -1)))
    page.row("Consumers", of(used.get("consumers", 0), limits.get("max_consumers", -1)))
    page.row("Max Ack Pending", human.limit(limits.get("max_ack_pending", -1)))


@group.command(
    "backup",
    help="Save all streams, a directory each.",
    examples="jetstream account backup backups/all",
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="let the server check the data first")
@click.option("--consumers/--no-consumers", default=True, help="save consumers too")
@click.option("-f", "--force", is_flag=True, help="into a directory that exists")
@click.option("-w", "--critical-warnings", is_flag=True, help="fail when one stream fails")
@click.option("--progress/--no-progress", default=True)
async def backup(
    directory: Path,
    check: bool,
    consumers: bool,
    force: bool,
    critical_warnings: bool,
    progress: bool,
) -> None:
    from jetstream.cli.stream_backup import save

    if directory.exists() and any(directory.iterdir()):
        await really(f"back up into {directory}, which is not empty", force)
    table = Table("Backup", "Stream", "Messages", "Size", "Result", left=["Size", "Result"])
    failed = 0
    async with connect() as session:
        for each in sorted(await session.streams(), key=lambda i: str(i["config"]["name"])):
            name = each["config"]["name"]
            try:
                done = await save(
                    session,
                    name,
                    directory / name,
                    each,
                    consumers=consumers,
                    check=check,
                    progress=progress,
                )
                table.add(name, done["messages"], human.size(done["bytes"]), "ok")
            except Exception as error:
                failed += 1
                table.add(name, each["state"]["messages"], "", str(error))
    table.print()
    if failed:
        raise Failure(f"{failed} of {len(table.rows)} streams could not be saved")


@group.command(
    "restore",
    help="Make all streams of a backup that do not exist.",
    examples="jetstream account restore backups/all",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--progress/--no-progress", default=True)
async def restore(directory: Path, progress: bool) -> None:
    from jetstream.cli.stream_backup import BACKUP_FILE, give_back, read_backup

    found = sorted(path.parent for path in directory.glob(f"*/{BACKUP_FILE}"))
    if not found:
        raise Failure(f"{directory} holds no backups")
    async with connect() as session:
        for each in found:
            config, state, data = read_backup(each)
            made = await give_back(session, config, state, data, progress)
            say(f"Restored {config['name']}: {made['state']['messages']:,} messages")


@group.command(
    "report",
    help="Connections of this account (needs the system account on most servers).",
    examples="jetstream account report",
)
@click.argument(
    "what",
    type=click.Choice(["connections", "conn", "statistics", "stats"]),
    required=False,
    default="connections",
)
async def report(what: str) -> None:
    from jetstream.cli.server_report import account_connections, account_statistics

    async with connect() as session:
        user = await user_info(session)
        account = str(user.get("account") or "$G")
        if what.startswith("conn"):
            await account_connections(session, account)
        else:
            await account_statistics(session)
