"""`jetstream stream backup|restore`: a stream as a directory that the `nats` tool reads as well.

DIR/backup.json      {"type": …, "time": …, "configuration": …, "state": …}
DIR/stream.tar.s2    the archive exactly as the server sent it
"""

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from jetstream.cli import human
from jetstream.cli.app import command
from jetstream.cli.output import print_json, say, screen, to_json
from jetstream.cli.picking import stream_info
from jetstream.cli.problems import Failure
from jetstream.cli.progress import Progress
from jetstream.cli.session import Json, Session, connect, raise_refusal
from jetstream.cli.values import BYTES

BACKUP_FILE = "backup.json"
DATA_FILE = "stream.tar.s2"
NEW_DATA_FILE = "stream.arc.s2"
CHUNK_BYTES = 128 << 10
CHUNK_WAIT = 15.0


@command(
    "backup",
    aliases=["snapshot"],
    help="Save a stream, its messages and consumers into a directory.",
    examples="jetstream stream backup ORDERS backups/orders",
)
@click.argument("stream")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--progress/--no-progress", default=True)
@click.option("--check", is_flag=True, help="let the server check the data first")
@click.option("--consumers/--no-consumers", default=True, help="save consumers too")
@click.option("--chunk-size", type=BYTES, default=CHUNK_BYTES, help="size of one message")
@click.option("--window-size", type=BYTES, default=8 << 20, help="most bytes on the way")
async def backup(
    stream: str,
    directory: Path,
    progress: bool,
    check: bool,
    consumers: bool,
    chunk_size: int,
    window_size: int,
) -> None:
    async with connect() as session:
        info = await stream_info(session, stream)
        done = await save(
            session,
            stream,
            directory,
            info,
            consumers=consumers,
            check=check,
            chunk_size=chunk_size,
            window_size=window_size,
            progress=progress,
        )
    if screen().json:
        print_json(done)
        return
    say(
        f"Received {human.size(done['bytes'])} compressed data in {done['chunks']:,} chunks for "
        f"stream {stream!r} in {human.duration(done['elapsed_ns'])}, "
        f"{human.size(done['stream_bytes'])} uncompressed"
    )


async def save(
    session: Session,
    stream: str,
    directory: Path,
    info: Json,
    *,
    consumers: bool = True,
    check: bool = False,
    chunk_size: int = CHUNK_BYTES,
    window_size: int = 8 << 20,
    progress: bool = True,
) -> Json:
    """Receive a snapshot into a directory; what was received, in numbers."""
    directory.mkdir(parents=True, exist_ok=True)
    inbox = session.nc.new_inbox()
    started = time.monotonic_ns()
    chunks = received = 0
    subscription = await session.nc.subscribe(inbox)
    part = directory / (DATA_FILE + ".part")
    try:
        answer = await _start_snapshot(
            session,
            stream,
            {
                "deliver_subject": inbox,
                "no_consumers": not consumers,
                "chunk_size": chunk_size,
                "window_size": window_size,
                "jsck": check,
            },
        )
        with (
            part.open("wb") as file,
            Progress(
                f"backup {stream}", answer["state"]["bytes"], unit="bytes", enabled=progress
            ) as bar,
        ):
            while True:
                message = await subscription.next(CHUNK_WAIT)
                if not message.data:
                    _check_end(message)
                    break
                file.write(message.data)
                chunks += 1
                received += len(message.data)
                bar.add(len(message.data))
                if message.reply:
                    await message.respond()
    finally:
        await subscription.unsubscribe()
    part.replace(directory / DATA_FILE)
    meta = {
        "type": "io.nats.jetstream.api.v1.stream_snapshot_response",
        "config": answer["config"],
        "state": answer["state"],
    }
    (directory / BACKUP_FILE).write_text(to_json(meta) + "\n")
    return {
        "stream": stream,
        "bytes": received,
        "chunks": chunks,
        "stream_bytes": answer["state"]["bytes"],
        "messages": answer["state"]["messages"],
        "elapsed_ns": time.monotonic_ns() - started,
    }


async def _start_snapshot(session: Session, stream: str, request: Json) -> Json:
    try:
        return await session.api(f"STREAM.SNAPSHOT.{stream}", request, timeout=60.0)
    except Exception as error:
        # Servers before 2.14 do not know window_size and refuse unknown fields.
        if getattr(error, "err_code", 0) != 10025:
            raise
        request.pop("window_size")
        return await session.api(f"STREAM.SNAPSHOT.{stream}", request, timeout=60.0)


def _check_end(message: Any) -> None:
    if message.status in (408, 500):
        headers = message.headers
        reason = headers.description if headers is not None else ""
        raise Failure(f"the server ended the backup: {message.status} {reason}".rstrip())


def read_backup(directory: Path) -> tuple[Json, Json, Path]:
    """Configuration, state and archive of a backup made by us or by the `nats` tool."""
    meta_file, data = directory / BACKUP_FILE, directory / DATA_FILE
    if not data.is_file():
        data = directory / NEW_DATA_FILE
    if not meta_file.is_file() or not data.is_file():
        raise Failure(
            f"{directory} holds no backup", f"it should have {BACKUP_FILE} and {DATA_FILE}"
        )
    meta = msgspec.json.decode(meta_file.read_bytes())
    inner = meta if "config" in meta else meta.get("configuration") or {}
    config = inner.get("config") or inner
    return dict(config), dict(inner.get("state") or meta.get("state") or {}), data


@command(
    "restore",
    help="Make a stream from a backup.",
    examples="""
    jetstream stream restore backups/orders
    jetstream stream restore backups/orders --replicas 3
    """,
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--config", "config_file", help="restore with this configuration")
@click.option("--replicas", type=int, help="copies in a cluster")
@click.option("--tag", multiple=True, help="placement tags")
@click.option("--cluster", help="placement cluster")
@click.option("--progress/--no-progress", default=True)
async def restore(
    directory: Path,
    config_file: str | None,
    replicas: int | None,
    tag: tuple[str, ...],
    cluster: str | None,
    progress: bool,
) -> None:
    from jetstream.cli.configs import stream_from_file
    from jetstream.cli.stream import show_info
    from jetstream.cli.stream_config import apply_flags

    config, state, data = read_backup(directory)
    if config_file:
        wanted = stream_from_file(config_file)
        if wanted.get("name") != config.get("name"):
            raise Failure(f"{config_file} does not configure stream {config.get('name')}")
        config = wanted
    config = apply_flags(config, {"replicas": replicas, "tag": tag, "cluster": cluster})
    async with connect() as session:
        started = time.monotonic_ns()
        made = await give_back(session, config, state, data, progress)
        elapsed = time.monotonic_ns() - started
    size = data.stat().st_size
    show_info(
        made,
        f"Restored stream {config['name']!r} in {human.duration(elapsed)} ({human.size(size)})",
    )


async def give_back(
    session: Session, config: Json, state: Json, data: Path, progress: bool = True
) -> Json:
    """Upload an archive chunk by chunk; each chunk is answered before the next is sent."""
    name = config["name"]
    if name in await session.stream_names():
        raise Failure(
            f"stream {name} exists already, a backup cannot be restored over it",
            f"remove it first: `jetstream stream rm {name}`",
        )
    answer = await session.api(f"STREAM.RESTORE.{name}", {"config": config, "state": state})
    target = answer["deliver_subject"]
    chunk_bytes = min(CHUNK_BYTES, session.nc.max_payload)
    total = data.stat().st_size
    with (
        data.open("rb") as file,
        Progress(f"restore {name}", total, unit="bytes", enabled=progress) as bar,
    ):
        while chunk := file.read(chunk_bytes):
            reply = await session.nc.request(target, chunk, timeout=CHUNK_WAIT)
            if reply.data:
                raise_refusal(msgspec.json.decode(reply.data))
            bar.add(len(chunk))
        last = await session.nc.request(target, b"", timeout=120.0)
    made: Json = msgspec.json.decode(last.data)
    raise_refusal(made)
    return made
