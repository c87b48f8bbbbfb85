"""nats-py and this client on the same streams, buckets and objects, in both directions."""

import os
from typing import Any

import nats
import pytest
from nats.js.api import ObjectMeta


async def other(url: str) -> Any:
    return await nats.connect(url)


async def test_messages_cross_both_ways(js: Any, url: str) -> None:
    theirs = await other(url)
    their_js = theirs.jetstream()
    await their_js.add_stream(name="S", subjects=["s.>"])
    await their_js.publish("s.theirs", b"1", headers={"A": "b"})
    await js.publish("s.ours", b"2", headers={"C": "d"})
    stream = await js.stream("S")
    consumer = await stream.create_consumer(durable_name="ours")
    first, second = await consumer.fetch(2, max_wait=2)
    assert (first.data, first.headers["A"]) == (b"1", "b")
    await first.ack_sync()
    psub = await their_js.pull_subscribe("s.>", durable="theirs", stream="S")
    got = await psub.fetch(2, timeout=2)
    assert [(m.data, m.headers) for m in got] == [(b"1", {"A": "b"}), (b"2", {"C": "d"})]
    for message in got:
        await message.ack_sync()
    assert (await js.consumer_info("S", "theirs")).num_ack_pending == 0
    assert (await their_js.consumer_info("S", "ours")).num_ack_pending == 1
    assert second.seq == 2
    await theirs.close()


async def test_our_consumer_is_theirs_too(js: Any, url: str) -> None:
    theirs = await other(url)
    their_js = theirs.jetstream()
    stream = await js.create_stream(name="S", subjects=["s"])
    await stream.create_consumer(durable_name="c", ack_wait=10)
    await js.publish("s", b"x")
    psub = await their_js.pull_subscribe_bind("c", "S")
    (message,) = await psub.fetch(1, timeout=2)
    await message.nak()
    consumer = await stream.consumer("c")
    again = await consumer.next(2)
    assert again.deliveries == 2
    await again.ack_sync()
    await theirs.close()


async def test_key_value_both_ways(js: Any, url: str) -> None:
    theirs = await other(url)
    their_js = theirs.jetstream()
    their_kv = await their_js.create_key_value(bucket="B", history=5)
    kv = await js.key_value("B")
    await their_kv.put("from.them", b"1")
    assert (await kv.get("from.them")).value == b"1"
    revision = await kv.put("from.us", b"2")
    entry = await their_kv.get("from.us")
    assert (entry.value, entry.revision) == (b"2", revision)
    await kv.delete("from.us")
    with pytest.raises(nats.js.errors.KeyNotFoundError):
        await their_kv.get("from.us")
    await their_kv.delete("from.them")
    assert await kv.keys() == []
    await kv.create("from.them", b"3")
    assert await their_kv.keys() == ["from.them"]
    await their_kv.purge("from.them")
    assert [e.operation for e in await kv.history("from.them")] == ["PURGE"]
    watcher = await their_kv.watchall()
    seen = [await watcher.updates(timeout=2) for _ in range(3)]
    assert seen[-1] is None
    await kv.put("live", b"!")
    assert (await watcher.updates(timeout=2)).value == b"!"
    await watcher.stop()
    ours = await js.create_key_value("OURS", history=3, ttl=60)
    await ours.put("k", b"v")
    assert (await (await their_js.key_value("OURS")).get("k")).value == b"v"
    assert (await their_js.create_key_value(bucket="B", history=5)) is not None
    await theirs.close()


async def test_objects_both_ways(js: Any, url: str) -> None:
    theirs = await other(url)
    their_js = theirs.jetstream()
    their_store = await their_js.create_object_store("O")
    store = await js.object_store("O")
    data = os.urandom(400_000)
    meta = ObjectMeta(name="from them/ü", description="d")
    await their_store.put("from them/ü", data, meta=meta)
    assert await store.get_bytes("from them/ü") == data
    assert (await store.info("from them/ü")).description == "d"
    await store.put("from us", data, metadata={"k": "v"})
    result = await their_store.get("from us")
    assert result.data == data
    assert result.info.digest == (await store.info("from us")).digest
    await store.delete("from them/ü")
    assert [info.name for info in await their_store.list(ignore_deletes=True)] == ["from us"]
    await their_store.delete("from us")
    assert await store.list() == []
    await theirs.close()


async def test_push_delivery_to_a_plain_subscriber_of_theirs(js: Any, url: str) -> None:
    theirs = await other(url)
    await js.create_stream(name="S")
    await js.publish("S", b"x")
    sub = await theirs.subscribe("deliver")
    await js.make_consumer("S", {"durable_name": "p", "deliver_subject": "deliver"})
    message = await sub.next_msg(timeout=2)
    await message.ack_sync()
    assert message.metadata.sequence.stream == 1
    await theirs.close()


async def test_requests_both_ways(nc: Any, url: str) -> None:
    theirs = await other(url)

    async def answer(message: Any) -> None:
        await message.respond(message.data + b"!")

    await theirs.subscribe("theirs", cb=answer)
    await theirs.flush()

    async def ours(message: Any) -> None:
        await message.respond(message.data + b"?")

    await nc.subscribe("ours", callback=ours)
    await nc.flush()
    assert (await nc.request("theirs", b"a")).data == b"a!"
    assert (await theirs.request("ours", b"b")).data == b"b?"
    await theirs.close()
