"""Backups of streams: taken chunk by chunk, given back chunk by chunk, with progress.

The file is one archive as the server sends it, in front of it one JSON line with the configuration
and state that a restore has to present. Full chunks are acknowledged as they are written, so a slow
disk slows the server down instead of filling memory.
"""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from jetstream.client.api import Api, raise_error
from jetstream.client.errors import ClientError, RequestTimeoutError, StatusError
from jetstream.client.pull import status_text

CHUNK_BYTES = 128 * 1024
CHUNK_WAIT = 10.0
MAGIC = b"JSBACKUP1 "

Progress = Callable[["SnapshotResult"], Any]


class SnapshotResult(Struct):
    """How far a backup or restore has come, or what it was in the end."""

    stream: str = ""
    bytes: int = 0
    chunks: int = 0
    messages: int = 0
    config: dict[str, Any] = {}
    state: dict[str, Any] = {}


async def take_snapshot(
    api: Api,
    stream: str,
    target: Any,
    consumers: bool,
    check: bool,
    chunk_size: int | None,
    progress: Progress | None,
    bare: bool = False,
) -> SnapshotResult:
    """Write a stream's backup to a path, a binary file, or a callable taking bytes.

    `bare` leaves our first line away: what remains is the archive other tools keep as
    `stream.tar.s2` beside a `backup.json`.
    """
    connection = api.connection
    inbox = connection.new_inbox()
    request: dict[str, Any] = {
        "deliver_subject": inbox,
        "no_consumers": not consumers,
        "jsck": check,
        "chunk_size": chunk_size or CHUNK_BYTES,
    }
    async with await connection.subscribe(inbox) as chunks:
        answer = await api.request(f"STREAM.SNAPSHOT.{stream}", request)
        result = SnapshotResult(
            stream=stream,
            messages=answer["state"].get("messages", 0),
            config=answer["config"],
            state=answer["state"],
        )
        head = msgspec.json.encode({"config": answer["config"], "state": answer["state"]})
        with ExitStack() as stack:
            write = _writer(target, stack)
            if not bare:
                await _maybe(write(MAGIC + head + b"\n"))
            await _receive(chunks, write, result, progress)
    return result


async def _receive(chunks: Any, write: Any, result: SnapshotResult, progress: Any) -> None:
    while True:
        chunk = await chunks.next(CHUNK_WAIT)
        if chunk.status and chunk.status != 204:
            raise StatusError(chunk.status, status_text(chunk))
        if not chunk.data:
            return
        await _maybe(write(chunk.data))
        result.bytes += len(chunk.data)
        result.chunks += 1
        if chunk.reply:
            await chunk.respond()
        if progress is not None:
            await _maybe(progress(result))


async def restore_snapshot(
    api: Api,
    source: Any,
    name: str | None,
    progress: Progress | None,
    config: Any = None,
    state: Any = None,
) -> SnapshotResult:
    """Make a stream from a backup, under its own or another name.

    With `config` and `state` (wire form) given, the source is a bare archive.
    """
    with ExitStack() as stack:
        read = _reader(source, stack)
        if state is not None:
            head, rest = {"config": {}, "state": state}, b""
        else:
            head, rest = await _head(read)
        wanted = dict(head["config"])
        if config:
            wanted.update(config)
        if name:
            wanted["name"] = name
        answer = await api.request(
            f"STREAM.RESTORE.{wanted['name']}", {"config": wanted, "state": head["state"]}
        )
        to = answer["deliver_subject"]
        result = SnapshotResult(
            stream=wanted["name"], messages=head["state"].get("messages", 0), config=wanted
        )
        async for chunk in _chunks(read, rest):
            reply = await api.connection.request(to, chunk, timeout=CHUNK_WAIT)
            if reply.data:
                raise_error(msgspec.json.decode(reply.data))
            result.bytes += len(chunk)
            result.chunks += 1
            if progress is not None:
                await _maybe(progress(result))
        last = await api.connection.request(to, b"", timeout=60.0)
    final = msgspec.json.decode(last.data)
    raise_error(final)
    result.state = final["state"]
    return result


async def _head(read: Any) -> tuple[dict[str, Any], bytes]:
    data = b""
    while b"\n" not in data:
        more = await _maybe(read(CHUNK_BYTES))
        if not more:
            raise ClientError("this is no stream backup: its first line is missing")
        data += more
    line, rest = data.split(b"\n", 1)
    if not line.startswith(MAGIC):
        raise ClientError("this is no stream backup")
    return msgspec.json.decode(line[len(MAGIC) :]), rest


async def _chunks(read: Any, rest: bytes) -> Any:
    while True:
        while len(rest) < CHUNK_BYTES:
            more = await _maybe(read(CHUNK_BYTES))
            if not more:
                break
            rest += more
        if not rest:
            return
        yield rest[:CHUNK_BYTES]
        rest = rest[CHUNK_BYTES:]


async def _maybe(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def _writer(target: Any, stack: ExitStack) -> Callable[[bytes], Any]:
    if isinstance(target, str | Path):
        file: BinaryIO = stack.enter_context(Path(target).open("wb"))  # noqa: SIM115
        return _in_thread(file.write)
    if hasattr(target, "write"):
        return target.write  # type: ignore[no-any-return]
    return target  # type: ignore[no-any-return]


def _reader(source: Any, stack: ExitStack) -> Callable[[int], Any]:
    if isinstance(source, bytes | bytearray):
        import io

        return io.BytesIO(source).read
    if isinstance(source, str | Path):
        file: BinaryIO = stack.enter_context(Path(source).open("rb"))  # noqa: SIM115
        return _in_thread(file.read)
    return source.read  # type: ignore[no-any-return]


def _in_thread(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The disk may take its time; the event loop must not."""

    async def run(argument: Any) -> Any:
        return await asyncio.to_thread(work, argument)

    return run


__all__ = ["RequestTimeoutError", "SnapshotResult", "restore_snapshot", "take_snapshot"]
