"""`jetstream service`: micro services that answer `$SRV.…`, and what they tell."""

from typing import Any

import click
import msgspec

from jetstream.cli import human
from jetstream.cli.app import make_group
from jetstream.cli.output import Page, Table, print_json, say, screen
from jetstream.cli.problems import Failure
from jetstream.cli.session import Json, Session, connect

group = make_group(
    "service",
    "Micro services: who is there, and how they do.",
    """
    jetstream service ls
    jetstream service stats
    """,
)


async def ask(session: Session, verb: str, name: str = "", instance: str = "") -> list[Json]:
    """Answers of all services (of a name, of one instance)."""
    from jetstream.client.errors import NoRespondersError

    subject = ".".join(filter(None, ["$SRV", verb, name, instance]))
    found: list[Json] = []
    try:
        async for message in session.nc.request_many(subject, timeout=2.0, stall=0.3):
            if message.data:
                found.append(msgspec.json.decode(message.data))
    except NoRespondersError:
        pass
    if not found:
        which = f" {name}" if name else ""
        raise Failure(f"no service{which} answers", "is one running in this account?")
    return sorted(found, key=lambda each: (each["name"], each["id"]))


@group.command("ls", aliases=["list"], help="List services.", examples="jetstream service ls")
@click.argument("name", required=False, default="")
async def ls(name: str) -> None:
    async with connect() as session:
        found = await ask(session, "INFO", name)
    if screen().json:
        print_json(found)
        return
    table = Table("Services", "Name", "Version", "ID", "Description", left=["Version", "ID"])
    for each in found:
        table.add(each["name"], each["version"], each["id"], each.get("description", ""))
    table.print()


@group.command(
    "info",
    help="Show a service and its endpoints.",
    examples="jetstream service info adder",
)
@click.argument("name")
@click.argument("instance", required=False, default="")
async def info(name: str, instance: str) -> None:
    async with connect() as session:
        found = (await ask(session, "INFO", name, instance))[0]
    if screen().json:
        print_json(found)
        return
    page = Page(f"Service {found['name']} ({found['id']})")
    page.row("Description", found.get("description", ""))
    page.row("Version", found["version"])
    page.section("Endpoints")
    for each in found.get("endpoints") or []:
        page.row(each["name"], f"{each['subject']} (queue {each.get('queue_group', '')})")
    page.print()


@group.command("stats", help="How services do.", examples="jetstream service stats adder")
@click.argument("name", required=False, default="")
async def stats(name: str) -> None:
    async with connect() as session:
        found = await ask(session, "STATS", name)
    if screen().json:
        print_json(found)
        return
    table = Table(
        "Statistics",
        "Service",
        "ID",
        "Endpoint",
        "Requests",
        "Errors",
        "Average Time",
        left=["ID", "Average Time"],
    )
    for each in found:
        for endpoint in each.get("endpoints") or []:
            table.add(
                each["name"],
                each["id"],
                endpoint["name"],
                endpoint.get("num_requests", 0),
                endpoint.get("num_errors", 0),
                human.duration(endpoint.get("average_processing_time", 0)),
            )
    table.print()


@group.command("ping", help="Who answers.", examples="jetstream service ping")
@click.argument("name", required=False, default="")
async def ping(name: str) -> None:
    async with connect() as session:
        found = await ask(session, "PING", name)
    if screen().json:
        print_json(found)
        return
    for each in found:
        say(f"{each['name']} {each['version']} {each['id']}")


@group.command(
    "request",
    help="Call an endpoint of a service.",
    examples="jetstream service request echo echo hello",
)
@click.argument("name")
@click.argument("endpoint")
@click.argument("body", required=False, default="")
async def request(name: str, endpoint: str, body: str) -> None:
    async with connect() as session:
        found = (await ask(session, "INFO", name))[0]
        for each in found.get("endpoints") or []:
            if endpoint == each["name"]:
                answer = await session.nc.request(each["subject"], body.encode())
                break
        else:
            raise Failure(f"{name} has no endpoint {endpoint!r}")
    headers: Any = answer.headers
    if headers and headers.get("Nats-Service-Error"):
        raise Failure(
            f"{headers.get('Nats-Service-Error')} ({headers.get('Nats-Service-Error-Code')})"
        )
    say(answer.data.decode("utf-8", "replace"))
