"""Consumers on a real server: counted, ended, remembered, released."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy

from jetstream.server.server import Server

Body = Callable[[Client, JetStreamContext, Server], Awaitable[None]]


def run(path: Path, *bodies: Body) -> None:
    """Each body on a server of its own, all on the same directory."""

    async def main() -> None:
        for body in bodies:
            async with Server(port=0, store_dir=str(path)) as server:
                client = await nats.connect(server.url)
                await body(client, client.jetstream(timeout=5), server)
                await client.close()

    asyncio.run(asyncio.wait_for(main(), 60))


async def api(client: Client, endpoint: str, body: Any = None) -> Any:
    payload = json.dumps(body).encode() if body is not None else b""
    answer = await client.request(f"$JS.API.{endpoint}", payload, timeout=5)
    return json.loads(answer.data)


async def wait_until(condition: Callable[[], Awaitable[bool]], seconds: float = 10) -> None:
    for _ in range(int(seconds / 0.05)):
        if await condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen")


def test_the_thousand_and_first_consumer_is_one_too_many(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        await js.add_stream(name="S", subjects=["s.>"], storage="memory")
        for number in range(1000):
            made = await api(
                client,
                f"CONSUMER.CREATE.S.c{number}",
                {"stream_name": "S", "config": {"durable_name": f"c{number}"}},
            )
            assert "error" not in made
        made = await api(
            client, "CONSUMER.CREATE.S.x", {"stream_name": "S", "config": {"durable_name": "x"}}
        )
        assert made["error"]["err_code"] == 10026
        names = await api(client, "CONSUMER.NAMES.S", {"offset": 990})
        assert (names["total"], names["limit"], len(names["consumers"])) == (1000, 1024, 10)
        page = await api(client, "CONSUMER.LIST.S", {"offset": 900})
        assert (page["limit"], len(page["consumers"])) == (256, 100)

    run(tmp_path, body)


def test_an_ephemeral_ends_with_an_advisory(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext, server: Server) -> None:
        await js.add_stream(name="S", subjects=["s.>"])
        gone = await client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.*")
        request = {"stream_name": "S", "config": {"inactive_threshold": 200_000_000}}
        made = await api(client, "CONSUMER.CREATE.S", request)
        assert len(made["name"]) == 8
        message = await gone.next_msg(timeout=5)
        assert json.loads(message.data)["consumer"] == made["name"]
        missing = await api(client, f"CONSUMER.INFO.S.{made['name']}")
        assert missing["error"]["err_code"] == 10014

    run(tmp_path, body)


def test_a_pause_and_a_description_survive_a_restart(tmp_path: Path) -> None:
    async def before(client: Client, js: JetStreamContext, server: Server) -> None:
        await js.add_stream(name="S", subjects=["s.>"])
        await js.add_consumer("S", ConsumerConfig(durable_name="c", description="one"))
        await js.add_consumer("S", ConsumerConfig(durable_name="c", description="two"))
        until = {"pause_until": "2099-01-01T00:00:00Z"}
        assert (await api(client, "CONSUMER.PAUSE.S.c", until))["paused"]

    async def after(client: Client, js: JetStreamContext, server: Server) -> None:
        info = await api(client, "CONSUMER.INFO.S.c")
        assert info["paused"]
        assert info["config"]["pause_until"] == "2099-01-01T00:00:00Z"
        assert info["config"]["description"] == "two"

    run(tmp_path, before, after)


def test_interest_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def before(client: Client, js: JetStreamContext, server: Server) -> None:
        await js.add_stream(name="I", subjects=["i.>"], retention=RetentionPolicy.INTEREST)
        for name in ("one", "two"):
            await js.add_consumer(
                "I", ConsumerConfig(durable_name=name, ack_policy=AckPolicy.EXPLICIT)
            )
        for _ in range(4):
            await js.publish("i.a", b"x")
        one = await js.pull_subscribe_bind("one", "I")
        for message in await one.fetch(3):
            await message.ack_sync()
        assert (await js.stream_info("I")).state.messages == 4

    async def after(client: Client, js: JetStreamContext, server: Server) -> None:
        two = await js.pull_subscribe_bind("two", "I")
        for message in await two.fetch(4):
            await message.ack_sync()

        async def one_is_left() -> bool:
            return (await js.stream_info("I")).state.messages == 1

        await wait_until(one_is_left)
        await js.delete_consumer("I", "one")

        async def none_is_left() -> bool:
            return (await js.stream_info("I")).state.messages == 0

        await wait_until(none_is_left)

    run(tmp_path, before, after)


def test_max_deliver_holds_across_restarts(tmp_path: Path) -> None:
    config = ConsumerConfig(durable_name="c", ack_wait=0.3, max_deliver=2)

    async def first(client: Client, js: JetStreamContext, server: Server) -> None:
        await js.add_stream(name="S", subjects=["s.>"])
        await js.publish("s.a", b"x")
        sub = await js.pull_subscribe("s.>", "c", config=config)
        (message,) = await sub.fetch(1)
        assert message.metadata.num_delivered == 1

    async def second(client: Client, js: JetStreamContext, server: Server) -> None:
        sub = await js.pull_subscribe_bind("c", "S")
        (message,) = await sub.fetch(1, timeout=3)
        assert message.metadata.num_delivered == 2

    async def third(client: Client, js: JetStreamContext, server: Server) -> None:
        async def given_up() -> bool:
            info = await js.consumer_info("S", "c")
            return bool(info.num_ack_pending == 0 and info.num_redelivered == 1)

        await wait_until(given_up)

    run(tmp_path, first, second, third)
