"""A cluster of three real servers: replicas, discovery, and a node that dies in the middle."""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import jetstream
from jetstream import Entry
from tests.client.conftest import ServerProcess, free_port

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def cluster() -> Iterator[list[ServerProcess]]:
    directory = Path(tempfile.mkdtemp(prefix="client-cluster-"))
    routes = [free_port() for _ in range(3)]
    urls = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
    made = []
    for n, port in enumerate(routes):
        path = directory / f"{n}.conf"
        path.write_text(
            f'server_name: n{n}\ncluster {{ name: C, listen: "127.0.0.1:{port}", '
            f"routes: [{urls}] }}\n"
        )
        made.append(ServerProcess("reference", "-c", str(path)))
    for server in made:
        server.start()
    yield made
    for server in made:
        server.remove()
    shutil.rmtree(directory, ignore_errors=True)


async def ready(js: jetstream.JetStream) -> None:
    """Wait until the three have elected a leader."""
    for _ in range(300):
        try:
            await js.account_info()
            return
        except jetstream.JetStreamError:
            await asyncio.sleep(0.1)
    raise AssertionError("the cluster did not become ready")


async def made_stream(js: jetstream.JetStream, name: str) -> jetstream.Stream:
    for _ in range(100):
        try:
            return await js.create_stream(name=name, subjects=[f"{name}.>"], num_replicas=3)
        except (jetstream.ApiError, TimeoutError):
            await asyncio.sleep(0.2)
    raise AssertionError("the stream could not be created")


async def test_nothing_is_lost_when_a_node_dies(cluster: list[ServerProcess]) -> None:
    async with jetstream.connect(
        cluster[0].url, max_reconnects=-1, reconnect_wait=0.05, request_timeout=10
    ) as nc:
        js = nc.jetstream(timeout=10)
        await ready(js)
        stream = await made_stream(js, "S")
        for _ in range(100):
            if len(nc.discovered_servers) >= 2:
                break
            await asyncio.sleep(0.1)
        assert len(nc.discovered_servers) >= 2
        kv = await js.create_key_value("B", num_replicas=3)
        consumer = await stream.create_consumer(durable_name="c", max_ack_pending=-1)
        acked: list[int] = []
        seen: set[int] = set()

        async def publish() -> None:
            for n in range(2000):
                ack = await js.publish(
                    f"S.{n % 5}", b"%d" % n, msg_id=str(n), retry_attempts=200, timeout=10
                )
                acked.append(ack.seq)

        async def read() -> None:
            async with consumer.messages(max_messages=100, expires=5) as flow:
                while len(seen) < 2000:
                    message = await flow.next(30)
                    assert message is not None
                    seen.add(message.seq)
                    await message.ack()

        async def kill() -> None:
            while len(acked) < 700:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(cluster[0].stop, signal.SIGKILL)

        async with asyncio.timeout(90):
            await asyncio.gather(publish(), read(), kill())
        assert sorted(set(acked)) == list(range(1, 2001))
        assert seen == set(range(1, 2001))
        assert nc.stats().reconnects >= 1
        for _ in range(100):
            try:
                await kv.put("k", b"after")
                break
            except (jetstream.JetStreamError, TimeoutError):
                await asyncio.sleep(0.1)
        entry: Entry = await kv.get("k")
        assert entry.value == b"after"
        ordered = await (await nc.jetstream(timeout=5).stream("S")).ordered_consumer()
        order = []
        async with await ordered.messages() as flow:
            async for message in flow:
                order.append(message.seq)
                if len(order) == 2000:
                    break
        assert order == list(range(1, 2001))
        await asyncio.to_thread(cluster[0].start)


async def test_infos_show_the_replicas(cluster: list[ServerProcess]) -> None:
    urls = [server.url for server in cluster]
    async with jetstream.connect(urls, request_timeout=10) as nc:
        js = nc.jetstream(timeout=10)
        await ready(js)
        stream = await made_stream(js, "T")
        for _ in range(100):
            info = await stream.info()
            if info.cluster is not None and info.cluster.leader:
                break
            await asyncio.sleep(0.1)
        assert info.cluster is not None
        assert len(info.cluster.replicas) == 2
        assert {peer.name for peer in info.cluster.replicas} | {info.cluster.leader} == {
            "n0",
            "n1",
            "n2",
        }
        assert (await js.publish_many([b"x"] * 1000, subject="T.x")).ok
