"""nats-py, unmodified, against our server."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.conformance.servers import Ours, free_port
from tests.interop.keys import operator_mode, user_seed
from tests.server.conftest import Certificates

WAIT_S = 5.0


@pytest.fixture(scope="module")
def server() -> Iterator[Ours]:
    with Ours() as ours:
        yield ours


def talk(port: int, conversation: Callable[[Client], Awaitable[None]], **options: object) -> None:
    async def run() -> None:
        nc = await nats.connect(f"nats://127.0.0.1:{port}", **options)
        try:
            await asyncio.wait_for(conversation(nc), 30)
        finally:
            if not nc.is_closed:
                await nc.close()

    asyncio.run(run())


def test_publish_and_subscribe(server: Ours) -> None:
    async def conversation(nc: Client) -> None:
        sub = await nc.subscribe("greet.*")
        for i in range(100):
            await nc.publish(f"greet.{i}", str(i).encode())
        got = [await sub.next_msg(WAIT_S) for _ in range(100)]
        assert [m.data for m in got] == [str(i).encode() for i in range(100)]
        assert got[7].subject == "greet.7"

    talk(server.port, conversation)


def test_a_queue_group_shares_the_work(server: Ours) -> None:
    async def conversation(nc: Client) -> None:
        counts = [0, 0, 0]

        def counting(i: int) -> Callable[[Msg], Awaitable[None]]:
            async def count(_: Msg) -> None:
                counts[i] += 1

            return count

        for i in range(3):
            await nc.subscribe("work", "workers", cb=counting(i))
        for _ in range(300):
            await nc.publish("work", b"x")
        await nc.flush()
        while sum(counts) < 300:
            await asyncio.sleep(0.01)
        assert sum(counts) == 300
        assert all(count > 30 for count in counts)

    talk(server.port, conversation)


def test_headers_and_request_reply(server: Ours) -> None:
    async def conversation(nc: Client) -> None:
        async def answer(msg: Msg) -> None:
            assert msg.headers is not None
            await nc.publish(msg.reply, msg.data[::-1], headers={"echo": msg.headers["ask"]})

        await nc.subscribe("svc", cb=answer)
        reply = await nc.request("svc", b"abc", WAIT_S, headers={"ask": "me"})
        assert reply.data == b"cba"
        assert reply.headers == {"echo": "me"}

    talk(server.port, conversation)


def test_a_request_nobody_answers_fails_at_once(server: Ours) -> None:
    async def conversation(nc: Client) -> None:
        with pytest.raises(nats.errors.NoRespondersError):
            await nc.request("nobody", b"", WAIT_S)

    talk(server.port, conversation)


def test_a_drain_delivers_what_is_under_way(server: Ours) -> None:
    async def conversation(nc: Client) -> None:
        got = []

        async def slow(msg: Msg) -> None:
            await asyncio.sleep(0.001)
            got.append(msg.data)

        await nc.subscribe("drain", cb=slow)
        for i in range(100):
            await nc.publish("drain", b"%d" % i)
        await nc.drain()
        assert len(got) == 100

    talk(server.port, conversation)


def test_large_messages_and_the_limit(server: Ours) -> None:
    async def conversation(nc: Client) -> None:
        sub = await nc.subscribe("big")
        await nc.publish("big", b"x" * nc.max_payload)
        assert len((await sub.next_msg(WAIT_S)).data) == nc.max_payload
        with pytest.raises(nats.errors.MaxPayloadError):
            await nc.publish("big", b"x" * (nc.max_payload + 1))

    talk(server.port, conversation)


def test_unsubscribe_after_some_messages(server: Ours) -> None:
    async def conversation(nc: Client) -> None:
        sub = await nc.subscribe("few")
        await sub.unsubscribe(limit=3)
        for i in range(10):
            await nc.publish("few", b"%d" % i)
        await nc.flush()
        assert [(await sub.next_msg(WAIT_S)).data for _ in range(3)] == [b"0", b"1", b"2"]

    talk(server.port, conversation)


def test_a_client_comes_back_after_a_restart() -> None:
    port = free_port()
    first = Ours(port=port).start()

    async def conversation(nc: Client) -> None:
        sub = await nc.subscribe("still.here")
        await nc.flush()
        await asyncio.to_thread(first.stop)
        with Ours(port=port):
            while not nc.is_connected or nc.stats["reconnects"] < 1:
                await asyncio.sleep(0.02)
            await nc.publish("still.here", b"back")
            assert (await sub.next_msg(WAIT_S)).data == b"back"
            await nc.close()

    try:
        talk(port, conversation, reconnect_time_wait=0.05, max_reconnect_attempts=-1)
    finally:
        first.stop()


def test_tls(certificates: Certificates) -> None:
    files = certificates
    config = f'tls {{ cert_file: "{files.server}", key_file: "{files.server_key}" }}'
    with Ours(config=config) as server:
        context = ssl.create_default_context(cafile=files.ca)

        async def conversation(nc: Client) -> None:
            sub = await nc.subscribe("secret")
            await nc.publish("secret", b"x" * 100_000)
            assert len((await sub.next_msg(WAIT_S)).data) == 100_000

        talk(server.port, conversation, tls=context, tls_hostname="localhost")


def test_websocket() -> None:
    port = free_port()
    config = f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true, compression: true }}'
    with Ours(config=config):

        async def run() -> None:
            nc = await nats.connect(f"ws://127.0.0.1:{port}")
            sub = await nc.subscribe("web")
            await nc.publish("web", b"socket" * 1000)
            assert (await sub.next_msg(WAIT_S)).data == b"socket" * 1000
            await nc.close()

        asyncio.run(run())


def test_nkey_log_in(tmp_path: Path) -> None:
    seed, public = user_seed()
    file = tmp_path / "user.nk"
    file.write_text(seed)
    with Ours(config=f"authorization {{ users: [ {{ nkey: {public} }} ] }}") as server:

        async def conversation(nc: Client) -> None:
            await nc.flush()

        talk(server.port, conversation, nkeys_seed=str(file))
        with pytest.raises(Exception, match=r"(?i)authorization|nats"):
            talk(server.port, conversation, allow_reconnect=False, max_reconnect_attempts=0)


def test_creds_log_in(tmp_path: Path) -> None:
    config, creds = operator_mode()
    file = tmp_path / "user.creds"
    file.write_text(creds)
    with Ours(config=config) as server:

        async def conversation(nc: Client) -> None:
            sub = await nc.subscribe("in.account")
            await nc.publish("in.account", b"hi")
            assert (await sub.next_msg(WAIT_S)).data == b"hi"

        talk(server.port, conversation, user_credentials=str(file))
