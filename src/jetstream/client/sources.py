"""Anything that can be stored as an object, cut into chunks of one size.

Bytes and text are cut where they are; files and readers are read in a thread, so that a slow disk
does not stop the event loop; iterators give pieces of any size, which are joined or cut.
"""

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any


async def chunks_of(data: Any, size: int) -> AsyncIterator[bytes | memoryview]:
    """The data in pieces of `size` bytes, the last one possibly shorter; nothing if it is empty."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        view = memoryview(data)
        for start in range(0, len(view), size):
            yield view[start : start + size]
    elif hasattr(data, "read"):
        async for chunk in _from_reader(data, size):
            yield chunk
    elif isinstance(data, AsyncIterable):
        async for chunk in _evenly(data, size):
            yield chunk
    elif isinstance(data, Iterable):
        async for chunk in _evenly(_async(data), size):
            yield chunk
    else:
        raise TypeError(f"cannot store a {type(data).__name__}: give bytes, text, a file or chunks")


async def _from_reader(reader: Any, size: int) -> AsyncIterator[bytes]:
    is_async = inspect.iscoroutinefunction(reader.read)
    held = b""
    while True:
        wanted = size - len(held)
        if is_async:
            piece = await reader.read(wanted)
        else:
            piece = await asyncio.to_thread(reader.read, wanted)
        if isinstance(piece, str):
            piece = piece.encode()
        if not piece:
            break
        held += piece
        while len(held) >= size:
            yield held[:size]
            held = held[size:]
    if held:
        yield held


async def _evenly(pieces: AsyncIterable[Any], size: int) -> AsyncIterator[bytes]:
    held = bytearray()
    async for piece in pieces:
        held += piece.encode() if isinstance(piece, str) else piece
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)


async def _async(pieces: Iterable[Any]) -> AsyncIterator[Any]:
    for piece in pieces:
        yield piece
