"""`jetstream kv put|get|watch …`: the values of a bucket."""

import base64
import sys
from typing import Any

import click

from jetstream.cli import human
from jetstream.cli.app import command, settings
from jetstream.cli.output import Table, print_json, say, screen, to_json, write_bytes
from jetstream.cli.picking import nearest_hint
from jetstream.cli.problems import Failure
from jetstream.cli.prompts import really
from jetstream.cli.session import Json, Session, connect
from jetstream.cli.stdin import bodies
from jetstream.cli.values import DURATION
from jetstream.schema.times import rfc3339

SHOWN_BYTES = 120
force_option = click.option("-f", "--force", is_flag=True, help="do not ask")


async def open_bucket(session: Session, bucket: str) -> Any:
    from jetstream.client.errors import BucketNotFoundError

    js = session.jetstream()
    try:
        return await js.key_value(bucket)
    except BucketNotFoundError as error:
        names = [name async for name in js.key_value_names()]
        raise Failure(
            f"bucket {bucket!r} does not exist", nearest_hint(bucket, names, "jetstream kv ls")
        ) from error


def _input(value: str | None) -> bytes:
    return value.encode() if value is not None else next(iter(bodies("eof")))


@command(
    "put",
    help="Set a key; without VALUE the standard input is stored.",
    examples="""
    jetstream kv put profiles sue.color blue
    cat config.json | jetstream kv put settings app
    """,
)
@click.argument("bucket")
@click.argument("key")
@click.argument("value", required=False)
async def put(bucket: str, key: str, value: str | None) -> None:
    data = _input(value)
    async with connect() as session:
        revision = await (await open_bucket(session, bucket)).put(key, data)
    _stored(bucket, key, revision, data)


def _stored(bucket: str, key: str, revision: int, data: bytes) -> None:
    if screen().json:
        print_json({"bucket": bucket, "key": key, "revision": revision})
    else:
        write_bytes(data)


@command(
    "create",
    help="Set a key only if it has no value.",
    examples="jetstream kv create locks job1 me --ttl 1m",
)
@click.argument("bucket")
@click.argument("key")
@click.argument("value", required=False)
@click.option("--ttl", type=DURATION, help="how long it lives")
async def create(bucket: str, key: str, value: str | None, ttl: int | None) -> None:
    from jetstream.client.errors import KeyExistsError

    data = _input(value)
    async with connect() as session:
        store = await open_bucket(session, bucket)
        try:
            revision = await store.create(key, data, ttl=ttl / 1e9 if ttl else None)
        except KeyExistsError as error:
            raise Failure(
                f"key {key!r} of bucket {bucket} has a value already",
                f"`jetstream kv get {bucket} {key}` shows it, `kv put` replaces it",
            ) from error
    _stored(bucket, key, revision, data)


@command(
    "update",
    help="Set a key only if its revision is still the given one.",
    examples="jetstream kv update profiles sue.color red 3",
)
@click.argument("bucket")
@click.argument("key")
@click.argument("value")
@click.argument("revision", type=int)
async def update(bucket: str, key: str, value: str, revision: int) -> None:
    from jetstream.client.errors import WrongLastRevisionError

    async with connect() as session:
        store = await open_bucket(session, bucket)
        try:
            made = await store.update(key, value.encode(), revision)
        except WrongLastRevisionError as error:
            raise Failure(
                f"key {key!r} was changed by somebody else: {error}",
                f"`jetstream kv get {bucket} {key}` shows the present revision",
            ) from error
    _stored(bucket, key, made, value.encode())


def shown(value: bytes) -> str:
    """A value for eyes: its first bytes, base64 when it is not text."""
    cut = value[:SHOWN_BYTES]
    more = "…" if len(value) > SHOWN_BYTES else ""
    try:
        text = cut.decode()
        if text.isprintable() or all(c.isprintable() or c in "\n\t\r" for c in text):
            return text + more
    except UnicodeDecodeError:
        pass
    return base64.b64encode(cut).decode() + more


def entry_json(entry: Any) -> Json:
    made: Json = {
        "bucket": entry.bucket,
        "key": entry.key,
        "revision": entry.revision,
        "created": rfc3339(entry.created_ns),
        "operation": entry.operation,
        "delta": entry.delta,
    }
    try:
        made["value"] = entry.value.decode()
    except UnicodeDecodeError:
        made["value_base64"] = base64.b64encode(entry.value).decode()
    return made


@command(
    "get",
    help="Show a key's value.",
    examples="""
    jetstream kv get profiles sue.color
    jetstream kv get profiles sue.color --raw --revision 3
    """,
)
@click.argument("bucket")
@click.argument("key")
@click.option("--revision", type=int, help="an older value")
@click.option("--raw", is_flag=True, help="only the value")
async def get(bucket: str, key: str, revision: int | None, raw: bool) -> None:
    async with connect() as session:
        entry = await _entry(await open_bucket(session, bucket), key, revision)
    if screen().json:
        print_json(entry_json(entry))
    elif raw or settings().quiet:
        write_bytes(entry.value, newline=sys.stdout.isatty())
    else:
        say(
            f"{bucket} > {key} revision: {entry.revision} "
            f"created @ {human.local_time(entry.created_ns)}\n\n{shown(entry.value)}"
        )


async def _entry(store: Any, key: str, revision: int | None = None) -> Any:
    from jetstream.client.errors import KeyNotFoundError

    try:
        return await store.get(key, revision)
    except KeyNotFoundError as error:
        which = f" revision {revision}" if revision else ""
        keys = await store.keys()
        raise Failure(
            f"key {key!r}{which} of bucket {store.bucket} has no value",
            nearest_hint(key, keys, f"jetstream kv ls {store.bucket}"),
        ) from error


@command(
    "del",
    aliases=["rm"],
    help="Delete a key, or with no key the whole bucket.",
    examples="""
    jetstream kv del profiles sue.color -f
    jetstream kv del profiles -f
    """,
)
@click.argument("bucket")
@click.argument("key", required=False)
@force_option
async def delete(bucket: str, key: str | None, force: bool) -> None:
    async with connect() as session:
        store = await open_bucket(session, bucket)
        if key is None:
            await really(f"delete bucket {bucket} with everything in it", force)
            await session.jetstream().delete_key_value(bucket)
        else:
            await really(f"delete key {bucket} > {key}", force)
            await store.delete(key)


@command(
    "purge",
    help="Delete a key and its history.",
    examples="jetstream kv purge profiles sue.color -f",
)
@click.argument("bucket")
@click.argument("key")
@click.option("--ttl", type=DURATION, help="how long the marker lives")
@force_option
async def purge(bucket: str, key: str, ttl: int | None, force: bool) -> None:
    async with connect() as session:
        store = await open_bucket(session, bucket)
        await really(f"purge key {bucket} > {key}", force)
        await store.purge(key, ttl=ttl / 1e9 if ttl else None)


@command(
    "history",
    help="Every kept value of a key.",
    examples="jetstream kv history profiles sue.color",
)
@click.argument("bucket")
@click.argument("key")
async def history(bucket: str, key: str) -> None:
    async with connect() as session:
        entries = await (await open_bucket(session, bucket)).history(key)
    if screen().json:
        print_json([entry_json(entry) for entry in entries])
        return
    if not entries:
        raise Failure(f"key {key!r} of bucket {bucket} has no history")
    table = Table(
        f"History for {bucket} > {key}",
        "Key",
        "Revision",
        "Op",
        "Created",
        "Length",
        "Value",
        left=["Key", "Created", "Value"],
    )
    for entry in entries:
        table.add(
            entry.key,
            entry.revision,
            entry.operation,
            human.local_time(entry.created_ns),
            len(entry.value),
            shown(entry.value),
        )
    table.print()


@command(
    "revert",
    help="Make an older value the present one again.",
    examples="jetstream kv revert profiles sue.color 3 -f",
)
@click.argument("bucket")
@click.argument("key")
@click.argument("revision", type=int)
@force_option
async def revert(bucket: str, key: str, revision: int, force: bool) -> None:
    async with connect() as session:
        store = await open_bucket(session, bucket)
        now, old = await _entry(store, key), await _entry(store, key, revision)
        if not screen().json:
            say(f"Revision: {old.revision}\n\n{shown(old.value)}\n")
        await really(f"revert {bucket} > {key} to revision {revision}", force)
        made = await store.update(key, old.value, now.revision)
    _stored(bucket, key, made, old.value)


@command(
    "watch",
    help="Show changes as they happen; Ctrl-C ends it.",
    examples="""
    jetstream kv watch profiles
    jetstream kv watch profiles 'sue.*' --updates
    """,
)
@click.argument("bucket")
@click.argument("key", required=False, default=">")
@click.option("--history", "with_history", is_flag=True, help="older values first")
@click.option("--no-deletes", is_flag=True, help="leave deletions out")
@click.option("--updates", is_flag=True, help="only what changes from now on")
@click.option("--revision", type=int, help="start at this revision")
@click.option("--count", type=int, default=0, help="stop after this many")
async def watch(
    bucket: str,
    key: str,
    with_history: bool,
    no_deletes: bool,
    updates: bool,
    revision: int | None,
    count: int,
) -> None:
    seen = 0
    async with connect() as session:
        store = await open_bucket(session, bucket)
        watcher = await store.watch(
            key,
            include_history=with_history,
            ignore_deletes=no_deletes,
            updates_only=updates,
            resume_from_revision=revision,
        )
        async with watcher:
            async for entry in watcher:
                if entry is None:
                    continue
                seen += 1
                if screen().json:
                    say(to_json(entry_json(entry), None))
                else:
                    say(_change(bucket, entry))
                if count and seen >= count:
                    return


def _change(bucket: str, entry: Any) -> str:
    when = human.local_time(entry.created_ns)
    if entry.is_deleted:
        return click.style(f"[{when}] {entry.operation} {bucket} > {entry.key}", fg="red")
    return f"[{when}] PUT {bucket} > {entry.key}: {shown(entry.value)}"
