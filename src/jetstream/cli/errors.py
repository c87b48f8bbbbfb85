"""`jetstream errors`: the API's error codes, explained."""

import re
from typing import Any

import click

from jetstream.cli.app import make_group
from jetstream.cli.output import Page, Table, print_json, say, screen
from jetstream.cli.problems import HINTS, Failure
from jetstream.errors import Refusal

group = make_group("errors", "Explain API error codes.", "jetstream errors lookup 10059")


def refusals() -> list[Refusal]:
    """The whole catalogue, by number."""
    from jetstream.schema import api_errors

    found = [value for value in vars(api_errors).values() if isinstance(value, Refusal)]
    return sorted(set(found), key=lambda refusal: refusal.err_code)


def explanation(refusal: Refusal) -> str:
    """What it means for a person, where there is something to add."""
    from jetstream.client.hints import hint_for

    return HINTS.get(refusal.err_code) or hint_for(refusal.err_code, refusal.text) or ""


def record(refusal: Refusal) -> dict[str, Any]:
    return {
        "code": refusal.code,
        "err_code": refusal.err_code,
        "constant": refusal.name,
        "description": refusal.text,
        "help": explanation(refusal),
    }


@group.command(
    "ls",
    aliases=["list"],
    help="List error codes, all or those that match.",
    examples="""
    jetstream errors ls
    jetstream errors ls 'stream.*limit'
    """,
)
@click.argument("match", required=False, default="")
@click.argument("sort", type=click.Choice(["code", "name", "http"]), required=False, default="code")
def ls(match: str, sort: str) -> None:
    pattern = re.compile(match, re.IGNORECASE)
    found = [r for r in refusals() if pattern.search(f"{r.err_code} {r.name} {r.text}")]
    if sort == "name":
        found.sort(key=lambda r: r.name)
    elif sort == "http":
        found.sort(key=lambda r: (r.code, r.err_code))
    if screen().json:
        print_json([record(r) for r in found])
        return
    table = Table(
        "", "NATS Code", "HTTP Error Code", "Description", "Name", left=["Description", "Name"]
    )
    for refusal in found:
        table.add(str(refusal.err_code), str(refusal.code), refusal.text, refusal.name)
    table.print()


@group.command(
    "lookup",
    aliases=["find", "get", "l", "view", "show"],
    help="Explain one error code.",
    examples="jetstream errors lookup 10065",
)
@click.argument("code", type=int)
def lookup(code: int) -> None:
    for refusal in refusals():
        if refusal.err_code == code:
            break
    else:
        raise Failure(f"there is no error code {code}", "`jetstream errors ls` lists them")
    if screen().json:
        print_json(record(refusal))
        return
    page = Page(f"NATS Code {refusal.err_code}")
    page.row("Description", refusal.text)
    page.row("HTTP Code", str(refusal.code))
    page.row("Name", refusal.name)
    page.row("What to do", explanation(refusal))
    page.print()
    say()
