"""Object stores: every kind of data, links, names, damage."""

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jetstream.client.errors import (
    ApiError,
    BucketNotFoundError,
    DigestMismatchError,
    LinkError,
    ObjectExistsError,
    ObjectNotFoundError,
)


async def test_every_kind_of_data_can_be_stored(js: Any, tmp_path: Path) -> None:
    store = await js.create_object_store("O")
    data = os.urandom(300_000)
    path = tmp_path / "file"
    path.write_bytes(data)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 7000):
            yield data[start : start + 7000]

    class Reader:
        def __init__(self) -> None:
            self._file = io.BytesIO(data)

        async def read(self, n: int) -> bytes:
            return self._file.read(n)

    await store.put("bytes", data)
    await store.put("view", memoryview(data))
    await store.put_file("file", path)
    await store.put("open", io.BytesIO(data))
    await store.put("pieces", pieces())
    await store.put("reader", Reader())
    await store.put("list", [data[:100], data[100:]])
    await store.put("text", "grüß gott")
    digests = {info.name: info.digest for info in await store.list() if info.name != "text"}
    assert len(set(digests.values())) == 1
    assert await store.get_bytes("pieces") == data
    assert await store.get_str("text") == "grüß gott"
    info = await store.get_file("reader", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data
    assert (info.size, info.chunks) == (300_000, 3)
    with pytest.raises(TypeError):
        await store.put("number", 5)


async def test_an_object_is_read_chunk_by_chunk(js: Any) -> None:
    store = await js.create_object_store("O")
    data = os.urandom(1_000_000)
    info = await store.put("o", data, chunk_size=50_000, description="d", metadata={"k": "v"})
    assert info.chunks == 20
    async with await store.get("o") as reader:
        chunks = [chunk async for chunk in reader]
    assert len(chunks) == 20
    assert b"".join(chunks) == data
    assert reader.info.description == "d"
    assert reader.info.metadata == {"k": "v"}
    async with await store.get("o") as reader:
        assert await reader.__anext__() == data[:50_000]
    assert [name async for name in js.consumer_names("OBJ_O")] == []


async def test_an_empty_object(js: Any) -> None:
    store = await js.create_object_store("O")
    info = await store.put("empty", b"")
    assert (info.size, info.chunks) == (0, 0)
    assert await store.get_bytes("empty") == b""


async def test_a_large_object_goes_in_and_out(js: Any) -> None:
    store = await js.create_object_store("O")
    block = os.urandom(1 << 20)
    hasher = hashlib.sha256()

    async def blocks() -> AsyncIterator[bytes]:
        for _ in range(48):
            hasher.update(block)
            yield block

    info = await store.put("large", blocks())
    assert info.size == 48 << 20
    back = hashlib.sha256()
    async with await store.get("large") as reader:
        async for chunk in reader:
            back.update(chunk)
    assert back.digest() == hasher.digest()


@pytest.mark.long
async def test_a_gigabyte_passes_with_bounded_memory(js: Any) -> None:
    import resource

    store = await js.create_object_store("O")
    block = os.urandom(1 << 20)

    async def blocks() -> AsyncIterator[bytes]:
        for _ in range(1024):
            yield block

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    info = await store.put("huge", blocks())
    size = 0
    async with await store.get("huge") as reader:
        async for chunk in reader:
            size += len(chunk)
    assert size == info.size == 1 << 30
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200 * 1024, f"{grown // 1024} MiB more"


@pytest.mark.parametrize("name", ["a/b c", "ü>*.$", ".", " "])
async def test_any_name_will_do(js: Any, name: str) -> None:
    store = await js.create_object_store("O")
    await store.put(name, b"x")
    assert (await store.info(name)).name == name
    assert await store.get_bytes(name) == b"x"
    with pytest.raises(ValueError, match="name"):
        await store.put("", b"")


async def test_overwriting_removes_the_old_chunks(js: Any) -> None:
    store = await js.create_object_store("O")
    await store.put("o", b"x" * 500_000)
    await store.put("o", b"y")
    assert (await js.stream_info("OBJ_O")).state.messages == 2
    assert await store.get_bytes("o") == b"y"


async def test_deleting(js: Any) -> None:
    store = await js.create_object_store("O")
    await store.put("o", b"x" * 500_000)
    await store.delete("o")
    assert (await js.stream_info("OBJ_O")).state.messages == 1
    assert (await store.info("o", show_deleted=True)).deleted
    assert await store.list() == []
    assert len(await store.list(show_deleted=True)) == 1
    for work in (store.info("o"), store.get("o"), store.delete("o"), store.update_meta("o")):
        with pytest.raises(ObjectNotFoundError):
            await work
    await store.put("o", b"back")
    assert await store.get_bytes("o") == b"back"


async def test_renaming_and_describing(js: Any) -> None:
    store = await js.create_object_store("O")
    await store.put("a", b"1")
    await store.put("b", b"2")
    info = await store.update_meta("a", new_name="c", description="d", headers={"H": ["1"]})
    assert (info.name, info.description) == ("c", "d")
    assert await store.get_bytes("c") == b"1"
    with pytest.raises(ObjectNotFoundError):
        await store.info("a")
    with pytest.raises(ObjectExistsError):
        await store.update_meta("c", new_name="b")


async def test_links(js: Any) -> None:
    store = await js.create_object_store("O")
    other = await js.create_object_store("P")
    target = await other.put("target", b"there")
    link = await store.add_link("link", target)
    assert link.is_link
    assert await store.get_bytes("link") == b"there"
    with pytest.raises(LinkError):
        await store.add_link("chain", link)
    await store.add_bucket_link("whole", other)
    with pytest.raises(LinkError):
        await store.get("whole")
    await store.put("taken", b"")
    with pytest.raises(ObjectExistsError):
        await store.add_link("taken", target)
    with pytest.raises(LinkError):
        await store.add_link("dead", await other.delete("target"))


async def test_watching(js: Any) -> None:
    store = await js.create_object_store("O")
    await store.put("a", b"1")
    async with await store.watch() as watcher:
        assert (await watcher.next(5)).name == "a"
        assert await watcher.next(5) is None
        await store.put("b", b"2")
        assert (await watcher.next(5)).name == "b"
        await store.delete("a")
        assert (await watcher.next(5)).deleted
    async with await store.watch(updates_only=True, ignore_deletes=True) as watcher:
        await store.delete("b")
        await store.put("c", b"3")
        assert (await watcher.next(5)).name == "c"


async def test_a_missing_chunk_is_noticed(js: Any, tmp_path: Path) -> None:
    store = await js.create_object_store("O")
    await store.put("o", os.urandom(500_000))
    stream = await js.stream("OBJ_O")
    await stream.delete_msg(2)
    with pytest.raises(DigestMismatchError):
        await asyncio.wait_for(store.get_bytes("o"), 10)
    with pytest.raises(DigestMismatchError):
        await store.get_file("o", tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
    await stream.purge(subject="$O.O.C.>")
    with pytest.raises(DigestMismatchError):
        await store.get_bytes("o")


async def test_an_interrupted_put_leaves_nothing(js: Any) -> None:
    store = await js.create_object_store("O")

    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 300_000
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await store.put("o", broken())
    assert (await js.stream_info("OBJ_O")).state.messages == 0
    assert await store.list() == []


async def test_a_full_bucket_refuses_and_cleans_up(js: Any) -> None:
    store = await js.create_object_store("O", max_bytes=1_000_000)
    with pytest.raises(ApiError) as caught:
        await store.put("o", os.urandom(3_000_000))
    assert caught.value.err_code == 10077
    assert (await js.stream_info("OBJ_O")).state.messages == 0


async def test_a_sealed_bucket_can_only_be_read(js: Any) -> None:
    store = await js.create_object_store("O")
    await store.put("o", b"x")
    await store.seal()
    assert (await store.status()).sealed
    assert await store.get_bytes("o") == b"x"
    with pytest.raises(ApiError):
        await store.put("p", b"y")


async def test_buckets_are_made_listed_and_removed(js: Any) -> None:
    await js.create_object_store("O", description="d", ttl=60)
    await js.create_or_update_object_store("O", description="e", ttl=60)
    await js.create_or_update_object_store("P")
    status = await (await js.object_store("O")).status()
    assert (status.description, status.ttl) == ("e", 60)
    assert [name async for name in js.object_store_names()] == ["O", "P"]
    assert [s.bucket async for s in js.object_stores()] == ["O", "P"]
    await js.delete_object_store("O")
    with pytest.raises(BucketNotFoundError):
        await js.object_store("O")
