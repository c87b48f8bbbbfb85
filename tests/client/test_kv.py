"""Key-value buckets: every operation, watching, limits, mirrors."""

import asyncio
from typing import Any

import pytest

from jetstream.client.config import StreamSource
from jetstream.client.errors import (
    BucketExistsError,
    BucketNotFoundError,
    InvalidBucketError,
    InvalidKeyError,
    KeyDeletedError,
    KeyExistsError,
    KeyNotFoundError,
    WrongLastRevisionError,
)


async def test_put_and_get(js: Any) -> None:
    kv = await js.create_key_value("B")
    assert await kv.put("a.b", b"one") == 1
    assert await kv.put("a.b", "two") == 2
    entry = await kv.get("a.b")
    assert (entry.key, entry.value, entry.revision, entry.operation) == ("a.b", b"two", 2, "PUT")
    assert entry.text == "two"
    assert entry.created.year >= 2020
    with pytest.raises(KeyNotFoundError):
        await kv.get("none")
    assert await kv.get_value("none", b"-") == b"-"


async def test_an_old_revision_can_be_read(js: Any) -> None:
    kv = await js.create_key_value("B", history=3)
    first = await kv.put("k", b"1")
    await kv.put("k", b"2")
    other = await kv.put("other", b"3")
    assert (await kv.get("k", first)).value == b"1"
    with pytest.raises(KeyNotFoundError):
        await kv.get("k", other)
    with pytest.raises(KeyNotFoundError):
        await kv.get("k", 99)


async def test_create_only_when_there_is_nothing(js: Any) -> None:
    kv = await js.create_key_value("B", history=5)
    assert await kv.create("k", b"1") == 1
    with pytest.raises(KeyExistsError):
        await kv.create("k", b"2")
    await kv.delete("k")
    assert await kv.create("k", b"3") == 3
    await kv.purge("k")
    assert await kv.create("k", b"4") == 5


async def test_of_two_creators_one_wins(js: Any) -> None:
    kv = await js.create_key_value("B")
    results = await asyncio.gather(
        *(kv.create("k", b"%d" % n) for n in range(10)), return_exceptions=True
    )
    assert sum(isinstance(result, int) for result in results) == 1
    assert sum(isinstance(result, KeyExistsError) for result in results) == 9


async def test_update_compares_the_revision(js: Any) -> None:
    kv = await js.create_key_value("B")
    revision = await kv.put("k", b"1")
    revision = await kv.update("k", b"2", revision)
    with pytest.raises(WrongLastRevisionError) as caught:
        await kv.update("k", b"3", revision - 1)
    assert caught.value.revision == revision
    with pytest.raises(WrongLastRevisionError):
        await kv.delete("k", revision=revision - 1)
    await kv.delete("k", revision=revision)


async def test_a_deleted_key_keeps_its_history_a_purged_one_does_not(js: Any) -> None:
    kv = await js.create_key_value("B", history=10)
    for n in range(3):
        await kv.put("k", b"%d" % n)
    await kv.delete("k")
    with pytest.raises(KeyDeletedError) as caught:
        await kv.get("k")
    assert caught.value.entry.operation == "DEL"
    assert [e.operation for e in await kv.history("k")] == ["PUT", "PUT", "PUT", "DEL"]
    await kv.purge("k")
    assert [e.operation for e in await kv.history("k")] == ["PURGE"]
    with pytest.raises(KeyNotFoundError):
        await kv.history("none")


async def test_keys_are_filtered_by_the_server_and_leave_nothing_behind(js: Any) -> None:
    kv = await js.create_key_value("B")
    assert await kv.keys() == []
    for key in ("a.1", "a.2", "b.1", "c"):
        await kv.put(key, b"")
    await kv.delete("b.1")
    assert sorted(await kv.keys()) == ["a.1", "a.2", "c"]
    assert sorted(await kv.keys("a.*", "c")) == ["a.1", "a.2", "c"]
    assert [key async for key in kv.list_keys("a.2")] == ["a.2"]
    assert [name async for name in js.consumer_names("KV_B")] == []


async def watched(watcher: Any, n: int) -> list[Any]:
    got = []
    for _ in range(n):
        entry = await watcher.next(5)
        got.append(None if entry is None else (entry.key, entry.value, entry.operation))
    return got


async def test_a_watcher_gives_values_a_marker_and_changes(js: Any) -> None:
    kv = await js.create_key_value("B", history=5)
    await kv.put("a", b"1")
    await kv.put("a", b"2")
    await kv.put("b", b"1")
    async with await kv.watch_all() as watcher:
        assert await watched(watcher, 3) == [("a", b"2", "PUT"), ("b", b"1", "PUT"), None]
        assert watcher.is_initial_done
        await kv.delete("a")
        assert await watched(watcher, 1) == [("a", b"", "DEL")]
    assert [name async for name in js.consumer_names("KV_B")] == []


async def test_the_marker_comes_at_once_in_an_empty_bucket(js: Any) -> None:
    kv = await js.create_key_value("B")
    async with await kv.watch("k.*") as watcher:
        assert await watched(watcher, 1) == [None]
        await kv.put("k.1", b"x")
        assert await watched(watcher, 1) == [("k.1", b"x", "PUT")]


async def test_the_marker_comes_when_everything_is_deleted(js: Any) -> None:
    kv = await js.create_key_value("B")
    await kv.put("k", b"")
    await kv.delete("k")
    async with await kv.watch_all(ignore_deletes=True) as watcher:
        assert await watched(watcher, 1) == [None]


async def test_what_a_watcher_shows_can_be_chosen(js: Any) -> None:
    kv = await js.create_key_value("B", history=5)
    for n in range(3):
        await kv.put("k", b"%d" % n)
    async with await kv.watch("k", include_history=True) as watcher:
        values = [entry[1] for entry in await watched(watcher, 3)]
        assert values == [b"0", b"1", b"2"]
    async with await kv.watch("k", updates_only=True) as watcher:
        await kv.put("k", b"new")
        assert await watched(watcher, 1) == [("k", b"new", "PUT")]
    async with await kv.watch("k", meta_only=True) as watcher:
        assert await watched(watcher, 2) == [("k", b"", "PUT"), None]
    async with await kv.watch("k", resume_from_revision=3) as watcher:
        assert await watched(watcher, 3) == [("k", b"2", "PUT"), ("k", b"new", "PUT"), None]
    async with await kv.watch(["k", "other"]) as watcher:
        assert await watched(watcher, 2) == [("k", b"new", "PUT"), None]


async def test_a_watcher_survives_a_lost_connection(js: Any) -> None:
    kv = await js.create_key_value("B")
    async with await kv.watch_all() as watcher:
        assert await watched(watcher, 1) == [None]
        for n in range(5):
            js.connection._keeper.link.transport.abort()
            while js.connection.is_connected:
                await asyncio.sleep(0)
            await js.connection._keeper.wait_connected(5)
            await kv.put("k", b"%d" % n)
            assert await watched(watcher, 1) == [("k", b"%d" % n, "PUT")]


async def test_purging_deletes_by_age(js: Any) -> None:
    kv = await js.create_key_value("B", history=5)
    for key in ("a", "b", "c"):
        await kv.put(key, b"1")
    await kv.delete("a")
    await kv.purge("b")
    assert await kv.purge_deletes() == 2
    assert (await kv.status()).values == 3
    assert await kv.purge_deletes(older_than=-1) == 2
    assert (await kv.status()).values == 1
    assert await kv.keys() == ["c"]


async def test_the_status_of_a_bucket(js: Any) -> None:
    kv = await js.create_key_value(
        "B", history=7, ttl=3600, max_value_size=100, description="d", metadata={"a": "b"}
    )
    await kv.put("k", b"x")
    status = await kv.status()
    assert (status.bucket, status.values, status.history, status.ttl) == ("B", 1, 7, 3600)
    assert status.metadata["a"] == "b"
    assert not status.compressed


async def test_a_value_may_be_too_large(js: Any) -> None:
    from jetstream import ApiError

    kv = await js.create_key_value("B", max_value_size=10)
    with pytest.raises(ApiError) as caught:
        await kv.put("k", b"x" * 11)
    assert caught.value.err_code == 10054


async def test_buckets_are_made_changed_listed_and_removed(js: Any) -> None:
    await js.create_key_value("B", history=2)
    await js.create_key_value("B", history=2)
    with pytest.raises(BucketExistsError):
        await js.create_key_value("B", history=3)
    await js.update_key_value("B", history=3)
    await js.create_or_update_key_value("C", description="new")
    await js.create_or_update_key_value("C", description="newer")
    assert [name async for name in js.key_value_names()] == ["B", "C"]
    assert [(s.bucket, s.history) async for s in js.key_values()] == [("B", 3), ("C", 1)]
    await js.delete_key_value("B")
    for work in (js.key_value("B"), js.delete_key_value("B"), js.update_key_value("B")):
        with pytest.raises(BucketNotFoundError):
            await work


async def test_names_are_checked_here(js: Any) -> None:
    kv = await js.create_key_value("B")
    for key in ("", ".a", "a.", "a..b", "a b", "a*", "ü"):
        with pytest.raises(InvalidKeyError):
            await kv.put(key, b"")
    for bucket in ("", "a.b", "a b", "a>"):
        with pytest.raises(InvalidBucketError):
            await js.create_key_value(bucket)
    with pytest.raises(ValueError, match="history"):
        await js.create_key_value("X", history=65)


async def test_a_key_with_a_ttl_leaves_a_marker_for_watchers(js: Any) -> None:
    kv = await js.create_key_value("B", limit_marker_ttl=60)
    async with await kv.watch_all() as watcher:
        assert await watched(watcher, 1) == [None]
        await kv.create("k", b"x", ttl=1)
        assert await watched(watcher, 1) == [("k", b"x", "PUT")]
        assert await watched(watcher, 1) == [("k", b"", "PURGE")]
    with pytest.raises(KeyNotFoundError):
        await kv.get("k")


async def test_a_mirror_reads_here_and_writes_there(js: Any) -> None:
    origin = await js.create_key_value("ORIGIN")
    await origin.put("k", b"1")
    mirror = await js.create_key_value("MIRROR", mirror=StreamSource(name="ORIGIN"))
    for _ in range(100):
        if await mirror.get_value("k") == b"1":
            break
        await asyncio.sleep(0.05)
    await mirror.put("k", b"2")
    assert (await origin.get("k")).value == b"2"
    for _ in range(100):
        if await mirror.get_value("k") == b"2":
            break
        await asyncio.sleep(0.05)
    assert await mirror.keys() == ["k"]


async def test_a_bucket_can_gather_others(js: Any) -> None:
    for name in ("X", "Y"):
        await (await js.create_key_value(name)).put(f"from.{name}", name)
    both = await js.create_key_value(
        "BOTH", sources=[StreamSource(name="X"), StreamSource(name="Y")]
    )
    for _ in range(100):
        if len(await both.keys()) == 2:
            break
        await asyncio.sleep(0.05)
    assert sorted(await both.keys()) == ["from.X", "from.Y"]
