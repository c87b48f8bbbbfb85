"""`jetstream kv`: key-value buckets; `kv_values` has what is done with their keys."""

import base64
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import Decorator, make_group, options
from jetstream.cli.configs import load_file
from jetstream.cli.kv_values import (
    create,
    delete,
    entry_json,
    get,
    history,
    open_bucket,
    purge,
    put,
    revert,
    shown,
    update,
    watch,
)
from jetstream.cli.output import Page, Table, print_json, say, screen, to_json
from jetstream.cli.problems import Failure
from jetstream.cli.prompts import choose, interactive, really
from jetstream.cli.session import Json, Session, connect
from jetstream.cli.values import BYTES, DURATION, PAIR

group = make_group(
    "kv",
    "Key-value buckets.",
    """
    jetstream kv add profiles --history 5
    jetstream kv put profiles sue.color blue
    jetstream kv get profiles sue.color
    """,
)
for _command in (put, get, create, update, delete, purge, history, revert, watch):
    group.add_command(_command)
force_option = click.option("-f", "--force", is_flag=True, help="do not ask")


def bucket_options(edit: bool = False) -> Decorator:
    made: list[Decorator] = [
        click.option("--history", type=int, help="values kept per key (1 to 64)"),
        click.option("--ttl", type=DURATION, help="how long values live"),
        click.option("--marker-ttl", type=DURATION, help="allow TTL per key; life of markers"),
        click.option("--replicas", type=int, help="copies in a cluster"),
        click.option("--max-value-size", type=BYTES, help="largest value"),
        click.option("--max-bucket-size", type=BYTES, help="largest bucket"),
        click.option("--description", help="what the bucket is for"),
        click.option("--compress/--no-compress", default=None, help="compress the store"),
        click.option("--metadata", type=PAIR, multiple=True, help="key:value (repeat)"),
        click.option("--republish-source", help="keys to publish again"),
        click.option("--republish-destination", help="under which subject"),
        click.option("--republish-headers", is_flag=True, help="only their headers"),
        click.option("--tags", multiple=True, help="placement tags"),
        click.option("--cluster", help="placement cluster"),
    ]
    if not edit:
        made += [
            click.option("--storage", type=click.Choice(["file", "memory"]), help="store"),
            click.option("--mirror", help="mirror another bucket"),
            click.option("--mirror-domain", help="the domain it is in"),
            click.option("--source", multiple=True, help="take from other buckets"),
        ]
    else:
        made.append(click.option("--no-mirror", is_flag=True, help="stop mirroring"))
    return options(*made)


def bucket_fields(flags: Json) -> Json:
    """Flags as fields of the client's bucket configuration (durations in seconds)."""
    from jetstream.client.config import Placement, RePublish, StreamSource

    names = {
        "history": "history",
        "replicas": "num_replicas",
        "max_value_size": "max_value_size",
        "max_bucket_size": "max_bytes",
        "description": "description",
        "compress": "compression",
        "storage": "storage",
    }
    made: Json = {
        field: flags[flag] for flag, field in names.items() if flags.get(flag) is not None
    }
    for flag, field in (("ttl", "ttl"), ("marker_ttl", "limit_marker_ttl")):
        if flags.get(flag):
            made[field] = flags[flag] / 1e9
    if flags.get("metadata"):
        made["metadata"] = dict(flags["metadata"])
    if flags.get("republish_destination"):
        made["republish"] = RePublish(
            src=flags.get("republish_source") or ">",
            dest=flags["republish_destination"],
            headers_only=flags["republish_headers"],
        )
    if flags.get("tags") or flags.get("cluster"):
        made["placement"] = Placement(
            cluster=flags.get("cluster"), tags=list(flags.get("tags") or [])
        )
    if flags.get("mirror"):
        made["mirror"] = StreamSource(name=flags["mirror"], domain=flags.get("mirror_domain"))
    if flags.get("source"):
        made["sources"] = [StreamSource(name=name) for name in flags["source"]]
    return made


async def pick_bucket(session: Session, bucket: str | None) -> str:
    if bucket:
        return bucket
    names = [name async for name in session.jetstream().key_value_names()]
    if not names:
        raise Failure("there are no buckets", "`jetstream kv add NAME` makes one")
    if not interactive():
        raise Failure("no bucket was named", f"there are {', '.join(sorted(names))}", 2)
    return await choose("Select a Bucket", sorted(names), flag="the BUCKET argument")


@group.command(
    "add",
    aliases=["new"],
    help="Make a bucket.",
    examples="jetstream kv add profiles --history 5 --ttl 30d",
)
@click.argument("bucket")
@bucket_options()
async def add(bucket: str, **flags: Any) -> None:
    async with connect() as session:
        store = await session.jetstream().create_key_value(bucket, **bucket_fields(flags))
        status = await store.status()
    _show_status(status)


@group.command(
    "edit",
    help="Change a bucket; what the flags do not say stays.",
    examples="jetstream kv edit profiles --history 10",
)
@click.argument("bucket")
@bucket_options(edit=True)
async def edit(bucket: str, **flags: Any) -> None:
    async with connect() as session:
        store = await open_bucket(session, bucket)
        old = (await store.status()).stream.raw["config"]
        new = dict(old)
        for flag, field in (
            ("history", "max_msgs_per_subject"),
            ("replicas", "num_replicas"),
            ("max_value_size", "max_msg_size"),
            ("max_bucket_size", "max_bytes"),
            ("description", "description"),
            ("ttl", "max_age"),
        ):
            if flags[flag] is not None:
                new[field] = flags[flag]
        if flags["marker_ttl"]:
            new |= {"allow_msg_ttl": True, "subject_delete_marker_ttl": flags["marker_ttl"]}
        if flags["compress"] is not None:
            new["compression"] = "s2" if flags["compress"] else "none"
        if flags["metadata"]:
            new["metadata"] = {**(old.get("metadata") or {}), **dict(flags["metadata"])}
        if flags["no_mirror"]:
            new.pop("mirror", None)
        await session.update_stream(new)
        status = await (await open_bucket(session, bucket)).status()
    _show_status(status)


@group.command(
    "info",
    aliases=["view", "status"],
    help="Show a bucket's settings and size.",
    examples="jetstream kv info profiles",
)
@click.argument("bucket", required=False)
async def info(bucket: str | None) -> None:
    async with connect() as session:
        name = await pick_bucket(session, bucket)
        status = await (await open_bucket(session, name)).status()
    _show_status(status)


def _show_status(status: Any) -> None:
    raw = status.stream.raw
    config, state = raw["config"], raw["state"]
    if screen().json:
        print_json({k: v for k, v in raw.items() if k not in ("type", "total", "offset", "limit")})
        return
    page = Page(
        f"Information for Key-Value Store Bucket {status.bucket} "
        f"created {human.local_time(raw.get('created'))}"
    )
    page.section("Configuration")
    page.row("Bucket Name", status.bucket)
    page.row("Description", config.get("description", ""))
    page.row("History Kept", config.get("max_msgs_per_subject", 1))
    page.row("Values Stored", state["messages"])
    page.row("Compressed", config.get("compression", "none") != "none")
    page.row("Per-Key TTL Supported", config.get("allow_msg_ttl", False))
    marker = config.get("subject_delete_marker_ttl", 0)
    page.row("Limit Markers", human.duration(marker), marker)
    page.row("Backing Store Kind", "JetStream")
    page.row("Bucket Size", human.size(state["bytes"]))
    page.row("Maximum Bucket Size", human.limit_size(config.get("max_bytes", -1)))
    page.row("Maximum Value Size", human.limit_size(config.get("max_msg_size", -1)))
    page.row("Maximum Age", human.limit_duration(config.get("max_age", 0)))
    page.row("JetStream Stream", config["name"])
    page.row("Storage", str(config.get("storage", "")).capitalize())
    page.row("Mirror", (config.get("mirror") or {}).get("name", ""))
    page.row("Sources", ", ".join(s["name"] for s in config.get("sources") or []))
    page.print()


@group.command(
    "ls",
    aliases=["list"],
    help="List buckets, or the keys of one.",
    examples="""
    jetstream kv ls
    jetstream kv ls profiles -v
    """,
)
@click.argument("bucket", required=False)
@click.argument("key", required=False, default=">")
@click.option("-n", "--names", is_flag=True, help="only names")
@click.option("-v", "--verbose", is_flag=True, help="revision and time of each key")
@click.option("--display-value", is_flag=True, help="values too")
async def ls(bucket: str | None, key: str, names: bool, verbose: bool, display_value: bool) -> None:
    async with connect() as session:
        if bucket is None:
            await _buckets(session, names)
            return
        store = await open_bucket(session, bucket)
        if not verbose and not display_value:
            keys = sorted(await store.keys(key))
            if screen().json:
                print_json(keys)
            elif not keys:
                click.echo("No keys found in bucket", err=True)
            for each in keys if not screen().json else ():
                say(each)
            return
        watcher = await store.watch(key, ignore_deletes=True, meta_only=not display_value)
        async with watcher:
            entries = []
            async for entry in watcher:
                if entry is None:
                    break
                entries.append(entry)
    if screen().json:
        print_json([entry_json(entry) for entry in entries])
        return
    columns = ["Key", "Created", "Delta", "Revision", *(["Value"] if display_value else [])]
    table = Table(f"Contents of bucket {bucket}", *columns, left=["Key", "Created", "Value"])
    for entry in sorted(entries, key=lambda entry: str(entry.key)):
        row = [entry.key, human.local_time(entry.created_ns), entry.delta, entry.revision]
        table.add(*row, *([shown(entry.value)] if display_value else []))
    table.print()


async def _buckets(session: Session, names: bool) -> None:
    infos = [
        info
        for info in await session.streams("$KV.*.>")
        if info["config"]["name"].startswith("KV_")
    ]
    infos.sort(key=lambda info: info["state"]["bytes"])
    found = [info["config"]["name"].removeprefix("KV_") for info in infos]
    if screen().json:
        print_json(found)
    elif names:
        for name in found:
            say(name)
    elif not found:
        say("No Key-Value buckets found")
    else:
        table = Table(
            "Key-Value Buckets",
            "Bucket",
            "Description",
            "Created",
            "Size",
            "Values",
            "Last Update",
            left=["Bucket", "Created", "Size", "Last Update"],
        )
        for name, info in zip(found, infos, strict=True):
            config, state = info["config"], info["state"]
            table.add(
                name,
                config.get("description", ""),
                human.local_time(info["created"]),
                human.size(state["bytes"]),
                state["messages"],
                human.age(state.get("last_ts")),
            )
        table.print()


@group.command(
    "compact",
    help="Drop the markers of deleted keys.",
    examples="jetstream kv compact profiles -f",
)
@click.argument("bucket")
@force_option
async def compact(bucket: str, force: bool) -> None:
    async with connect() as session:
        store = await open_bucket(session, bucket)
        await really(f"remove the markers of deleted keys from {bucket}", force)
        removed = await store.purge_deletes(-1)
    say(f"Removed {human.plural(removed or 0, 'marker')}")


@group.command(
    "dump",
    help="Write all present values as JSON.",
    examples="jetstream kv dump profiles profiles.json",
)
@click.argument("bucket")
@click.argument("file", required=False, default="-")
async def dump(bucket: str, file: str) -> None:
    from pathlib import Path

    async with connect() as session:
        store = await open_bucket(session, bucket)
        made: Json = {}
        async with await store.watch(">", ignore_deletes=True) as watcher:
            async for entry in watcher:
                if entry is None:
                    break
                made[entry.key] = base64.b64encode(entry.value).decode()
    text = to_json({"bucket": bucket, "encoding": "base64", "values": dict(sorted(made.items()))})
    if file == "-":
        say(text)
    else:
        Path(file).write_text(text + "\n")
        say(f"Wrote {human.plural(len(made), 'value')} to {file}")


@group.command(
    "load",
    help="Put the values of a dump, or of any JSON object, into a bucket.",
    examples="jetstream kv load profiles profiles.json",
)
@click.argument("bucket")
@click.argument("file")
async def load(bucket: str, file: str) -> None:
    content = load_file(file)
    if not isinstance(content, dict):
        raise Failure(f"{file} does not hold an object")
    encoded = content.get("encoding") == "base64"
    values = content["values"] if encoded else content
    async with connect() as session:
        store = await open_bucket(session, bucket)
        for key, value in values.items():
            text = value if isinstance(value, str) else to_json(value, None)
            await store.put(key, base64.b64decode(value) if encoded else text.encode())
    say(f"Loaded {human.plural(len(values), 'value')} into {bucket}")
