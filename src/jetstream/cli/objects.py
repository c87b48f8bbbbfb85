"""`jetstream object`: object buckets."""

import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import Decorator, make_group, options
from jetstream.cli.output import Page, Table, print_json, say, screen, to_json
from jetstream.cli.picking import nearest_hint
from jetstream.cli.problems import Failure
from jetstream.cli.progress import Progress
from jetstream.cli.prompts import choose, interactive, really
from jetstream.cli.session import Json, Session, connect
from jetstream.cli.values import BYTES, DURATION, HEADER, PAIR

BAR_BYTES = 20 << 10

group = make_group(
    "object",
    "Object buckets: files of any size.",
    """
    jetstream object add files
    jetstream object put files report.pdf
    jetstream object get files report.pdf -O copy.pdf
    """,
)
force_option = click.option("-f", "--force", is_flag=True, help="do not ask")
progress_option = click.option("--progress/--no-progress", default=True)


def bucket_options(edit: bool = False) -> Decorator:
    made: list[Decorator] = [
        click.option("--ttl", type=DURATION, help="how long objects live"),
        click.option("--replicas", type=int, help="copies in a cluster"),
        click.option("--max-bucket-size", type=BYTES, help="largest bucket"),
        click.option("--description", help="what the bucket is for"),
        click.option("--metadata", type=PAIR, multiple=True, help="key:value (repeat)"),
        click.option("--compress/--no-compress", default=None, help="compress the store"),
        click.option("--tags", multiple=True, help="placement tags"),
        click.option("--cluster", help="placement cluster"),
    ]
    if not edit:
        made.append(click.option("--storage", type=click.Choice(["file", "memory"]), help="store"))
    return options(*made)


async def pick_bucket(session: Session, bucket: str | None) -> str:
    if bucket:
        return bucket
    names = sorted([name async for name in session.jetstream().object_store_names()])
    if not names:
        raise Failure("there are no object buckets", "`jetstream object add NAME` makes one")
    if not interactive():
        raise Failure("no bucket was named", f"there are {', '.join(names)}", 2)
    return await choose("Select a Bucket", names, flag="the BUCKET argument")


async def open_bucket(session: Session, bucket: str) -> Any:
    from jetstream.client.errors import BucketNotFoundError

    js = session.jetstream()
    try:
        return await js.object_store(bucket)
    except BucketNotFoundError as error:
        names = [name async for name in js.object_store_names()]
        raise Failure(
            f"bucket {bucket!r} does not exist", nearest_hint(bucket, names, "jetstream object ls")
        ) from error


def info_json(info: Any) -> Json:
    import msgspec

    return dict(msgspec.to_builtins(info))


@group.command("add", help="Make a bucket.", examples="jetstream object add files --ttl 30d")
@click.argument("bucket")
@bucket_options()
async def add(bucket: str, **flags: Any) -> None:
    from jetstream.client.config import Placement

    fields: Json = {}
    for flag, field in (
        ("replicas", "num_replicas"),
        ("max_bucket_size", "max_bytes"),
        ("description", "description"),
        ("compress", "compression"),
        ("storage", "storage"),
    ):
        if flags[flag] is not None:
            fields[field] = flags[flag]
    if flags["ttl"]:
        fields["ttl"] = flags["ttl"] / 1e9
    if flags["metadata"]:
        fields["metadata"] = dict(flags["metadata"])
    if flags["tags"] or flags["cluster"]:
        fields["placement"] = Placement(cluster=flags["cluster"], tags=list(flags["tags"]))
    async with connect() as session:
        store = await session.jetstream().create_object_store(bucket, **fields)
        status = await store.status()
    _show_status(status)


@group.command(
    "edit",
    help="Change a bucket; what the flags do not say stays.",
    examples="jetstream object edit files --max-bucket-size 10GB",
)
@click.argument("bucket")
@bucket_options(edit=True)
async def edit(bucket: str, **flags: Any) -> None:
    async with connect() as session:
        store = await open_bucket(session, bucket)
        new = dict((await store.status()).stream.raw["config"])
        for flag, field in (
            ("replicas", "num_replicas"),
            ("max_bucket_size", "max_bytes"),
            ("description", "description"),
            ("ttl", "max_age"),
        ):
            if flags[flag] is not None:
                new[field] = flags[flag]
        if flags["compress"] is not None:
            new["compression"] = "s2" if flags["compress"] else "none"
        if flags["metadata"]:
            new["metadata"] = {**(new.get("metadata") or {}), **dict(flags["metadata"])}
        await session.update_stream(new)
        status = await (await open_bucket(session, bucket)).status()
    _show_status(status)


@group.command(
    "put",
    help="Store a file, or the standard input under --name.",
    examples="""
    jetstream object put files report.pdf
    tar cz src | jetstream object put files --name src.tar.gz
    """,
)
@click.argument("bucket")
@click.argument("file", required=False)
@click.option("--name", help="name of the object")
@click.option("--description", default="", help="what it is")
@click.option("-H", "--header", "headers", type=HEADER, multiple=True, help="Name:value")
@click.option("--chunk-size", type=BYTES, default=128 << 10, help="size of the pieces")
@progress_option
@force_option
async def put(
    bucket: str,
    file: str | None,
    name: str | None,
    description: str,
    headers: tuple[tuple[str, str], ...],
    chunk_size: int,
    progress: bool,
    force: bool,
) -> None:
    if file is None and name is None:
        raise Failure("the standard input needs a name", "give --name or a FILE", 2)
    path = Path(file) if file else None
    if path is not None and not path.is_file():
        raise Failure(f"{file} is not a file")
    object_name = name or (path.name if path and path.is_absolute() else str(path))
    total = path.stat().st_size if path else 0
    fields: dict[str, list[str]] = {}
    for key, value in headers:
        fields.setdefault(key, []).append(value)
    async with connect() as session:
        store = await open_bucket(session, bucket)
        await _may_replace(store, bucket, object_name, force)
        with (
            path.open("rb") if path else sys.stdin.buffer as source,
            Progress("put", total, unit="bytes", enabled=progress and total > BAR_BYTES) as bar,
        ):
            info = await store.put(
                object_name,
                _watched(source, chunk_size, bar),
                description=description,
                headers=fields or None,
                chunk_size=chunk_size,
            )
    _show_object(bucket, info)


async def _watched(source: Any, size: int, bar: Progress) -> AsyncIterator[bytes]:
    while chunk := source.read(size):
        bar.add(len(chunk))
        yield chunk


async def _may_replace(store: Any, bucket: str, name: str, force: bool) -> None:
    from jetstream.client.errors import ObjectNotFoundError

    if force or not interactive():
        return
    try:
        old = await store.info(name)
    except ObjectNotFoundError:
        return
    await really(f"replace {bucket} > {name} of {human.size(old.size)}", False)


@group.command(
    "get",
    help="Write an object to a file, or with -O - to the standard output.",
    examples="""
    jetstream object get files report.pdf
    jetstream object get files src.tar.gz -O - | tar tz
    """,
)
@click.argument("bucket")
@click.argument("file")
@click.option("-O", "--output", "output_file", help="where to write; - is the standard output")
@progress_option
@force_option
async def get(bucket: str, file: str, output_file: str | None, progress: bool, force: bool) -> None:
    target = Path(output_file or Path(file).name)
    to_stdout = output_file == "-"
    if not to_stdout and target.exists():
        await really(f"replace the file {target}", force)
    started = time.monotonic()
    async with connect() as session:
        store = await open_bucket(session, bucket)
        reader = await _open_object(store, file)
        size = reader.info.size
        with Progress(
            "get", size, unit="bytes", enabled=progress and not to_stdout and size > BAR_BYTES
        ) as bar:
            if to_stdout:
                async for chunk in reader:
                    sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
                return
            part = target.with_name(target.name + ".part")
            with part.open("wb") as out:
                async for chunk in reader:
                    out.write(chunk)
                    bar.add(len(chunk))
            part.replace(target)
    seconds = max(time.monotonic() - started, 1e-9)
    say(
        f"Wrote: {human.size(size)} to {target} in {human.duration(int(seconds * 1e9))} "
        f"average {human.size(int(size / seconds))}/s"
    )


async def _open_object(store: Any, name: str) -> Any:
    from jetstream.client.errors import ObjectNotFoundError

    try:
        return await store.get(name)
    except ObjectNotFoundError as error:
        names = [info.name for info in await store.list()]
        raise Failure(
            f"bucket {store.bucket} has no object {name!r}",
            nearest_hint(name, names, f"jetstream object ls {store.bucket}"),
        ) from error


@group.command(
    "del",
    aliases=["rm"],
    help="Delete an object, or with no name the whole bucket.",
    examples="jetstream object del files report.pdf -f",
)
@click.argument("bucket")
@click.argument("file", required=False)
@force_option
async def delete(bucket: str, file: str | None, force: bool) -> None:
    async with connect() as session:
        store = await open_bucket(session, bucket)
        if file is None:
            await really(f"delete bucket {bucket} with everything in it", force)
            await session.jetstream().delete_object_store(bucket)
            return
        await _info(store, file)
        await really(f"delete {bucket} > {file}", force)
        await store.delete(file)
        status = await store.status()
    if not screen().json:
        say(f"Removed {bucket} > {file}\n")
    _show_status(status)


async def _info(store: Any, name: str) -> Any:
    from jetstream.client.errors import ObjectNotFoundError

    try:
        return await store.info(name)
    except ObjectNotFoundError as error:
        names = [info.name for info in await store.list()]
        raise Failure(
            f"bucket {store.bucket} has no object {name!r}",
            nearest_hint(name, names, f"jetstream object ls {store.bucket}"),
        ) from error


@group.command(
    "info",
    aliases=["show", "i"],
    help="Show a bucket, or an object in it.",
    examples="jetstream object info files report.pdf",
)
@click.argument("bucket", required=False)
@click.argument("file", required=False)
async def info(bucket: str | None, file: str | None) -> None:
    async with connect() as session:
        name = await pick_bucket(session, bucket)
        store = await open_bucket(session, name)
        if file is None:
            _show_status(await store.status())
        else:
            _show_object(name, await _info(store, file))


def _show_object(bucket: str, info: Any) -> None:
    if screen().json:
        print_json(info_json(info))
        return
    page = Page(f"Object information for {bucket} > {info.name}")
    page.row("Description", info.description)
    page.row("Size", human.size(info.size))
    page.row("Modification Time", human.local_time(info.mtime), not human.is_zero_time(info.mtime))
    page.row("Chunks", info.chunks)
    kind, _, digest = info.digest.partition("=")
    page.row("Digest", f"{kind} {digest}".strip())
    page.row("Deleted", "true", info.deleted)
    if info.link is not None:
        page.row("Link", f"{info.link.bucket} > {info.link.name}".rstrip(" >"))
    page.rows("Headers", [f"{k}: {v}" for k, values in info.headers.items() for v in values])
    page.rows("Metadata", [f"{k}: {v}" for k, v in info.metadata.items()])
    page.print()


def _show_status(status: Any) -> None:
    raw = status.stream.raw
    config = raw["config"]
    if screen().json:
        print_json({k: v for k, v in raw.items() if k not in ("type", "total", "offset", "limit")})
        return
    page = Page(
        f"Information for Object Store Bucket {status.bucket} "
        f"created {human.local_time(raw.get('created'))}"
    )
    page.section("Configuration")
    page.row("Bucket Name", status.bucket)
    page.row("Description", config.get("description", ""))
    page.row("Replicas", config.get("num_replicas", 1))
    page.row("TTL", human.limit_duration(config.get("max_age", 0)))
    page.row("Sealed", status.sealed)
    page.row("Size", human.size(raw["state"]["bytes"]))
    page.row("Maximum Bucket Size", human.limit_size(config.get("max_bytes", -1)))
    page.row("Compressed", config.get("compression", "none") != "none")
    page.row("Backing Store Kind", "JetStream")
    page.row("JetStream Stream", config["name"])
    page.row("Storage", str(config.get("storage", "")).capitalize())
    page.print()


@group.command(
    "ls",
    aliases=["list"],
    help="List buckets, or the objects of one.",
    examples="jetstream object ls files",
)
@click.argument("bucket", required=False)
@click.option("-n", "--names", is_flag=True, help="only names")
async def ls(bucket: str | None, names: bool) -> None:
    async with connect() as session:
        if bucket is None:
            await _buckets(session, names)
            return
        objects = sorted(
            await (await open_bucket(session, bucket)).list(), key=lambda o: str(o.name)
        )
    if screen().json:
        print_json([o.name for o in objects] if names else [info_json(o) for o in objects])
    elif names:
        for each in objects:
            say(each.name)
    elif not objects:
        say(f"No objects in bucket {bucket}")
    else:
        table = Table(
            f"Bucket Contents of {bucket}", "Name", "Size", "Time", left=["Name", "Size", "Time"]
        )
        for each in objects:
            table.add(each.name, human.size(each.size), human.local_time(each.mtime))
        table.print()


async def _buckets(session: Session, names: bool) -> None:
    infos = [i for i in await session.streams("$O.*.C.>") if i["config"]["name"].startswith("OBJ_")]
    infos.sort(key=lambda info: info["state"]["bytes"])
    found = [info["config"]["name"].removeprefix("OBJ_") for info in infos]
    if screen().json:
        print_json(found)
    elif names:
        for name in found:
            say(name)
    elif not found:
        say("No Object Store buckets found")
    else:
        table = Table(
            "Object Store Buckets",
            "Bucket",
            "Description",
            "Created",
            "Size",
            "Last Update",
            left=["Bucket", "Created", "Size", "Last Update"],
        )
        for name, each in zip(found, infos, strict=True):
            table.add(
                name,
                each["config"].get("description", ""),
                human.local_time(each["created"]),
                human.size(each["state"]["bytes"]),
                human.age(each["state"].get("last_ts")),
            )
        table.print()


@group.command(
    "seal",
    help="Close a bucket for ever.",
    examples="jetstream object seal files -f",
)
@click.argument("bucket")
@force_option
async def seal(bucket: str, force: bool) -> None:
    async with connect() as session:
        store = await open_bucket(session, bucket)
        await really(f"seal bucket {bucket}, it cannot be opened again", force)
        await store.seal()
        status = await store.status()
    _show_status(status)


@group.command(
    "watch",
    help="Show changes as they happen; Ctrl-C ends it.",
    examples="jetstream object watch files",
)
@click.argument("bucket")
@click.option("--count", type=int, default=0, help="stop after this many")
async def watch(bucket: str, count: int) -> None:
    seen = 0
    async with connect() as session:
        store = await open_bucket(session, bucket)
        async with await store.watch() as watcher:
            async for info in watcher:
                if info is None:
                    continue
                seen += 1
                when = human.local_time(info.mtime)
                if screen().json:
                    say(to_json(info_json(info), None))
                elif info.deleted:
                    say(click.style(f"[{when}] DEL {bucket} > {info.name}", fg="red"))
                else:
                    say(
                        f"[{when}] PUT {bucket} > {info.name}: {info.size:,} bytes "
                        f"in {info.chunks:,} chunks"
                    )
                if count and seen >= count:
                    return
