"""Dead letters, parked retries, lanes and explanations, through the real server and nats-py."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig

from jetstream.server.server import Server

Body = Callable[[Client, JetStreamContext], Awaitable[None]]


def run(path: Path, body: Body) -> None:
    async def main() -> None:
        async with Server(port=0, store_dir=str(path)) as server:
            client = await nats.connect(server.url)
            js = client.jetstream(timeout=3)
            await js.add_stream(name="S", subjects=["s.>"])
            await body(client, js)
            await client.close()

    asyncio.run(asyncio.wait_for(main(), 30))


async def ask(client: Client, endpoint: str, body: Any = None) -> Any:
    payload = json.dumps(body).encode() if body is not None else b""
    answer = await client.request(f"$JSX.API.{endpoint}", payload, timeout=3)
    return json.loads(answer.data)


def test_a_given_up_message_lies_among_the_dead_letters_and_can_be_redriven(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext) -> None:
        config = ConsumerConfig(
            ack_wait=0.2,
            max_deliver=1,
            metadata={"jsx.dead_letter.stream": "DEAD", "jsx.recorder": "100"},
        )
        sub = await js.pull_subscribe("s.>", "c", config=config)
        await js.publish("s.a", b"poison", headers={"Nats-Msg-Id": "one", "K": "v"})
        await js.publish("s.b", b"bad")
        _, second = await sub.fetch(2)
        await client.publish(second.reply, b"+TERM can not parse")
        for _ in range(50):
            listed = await ask(client, "DEAD.LIST.DEAD")
            if listed["total"] == 2:
                break
            await asyncio.sleep(0.05)
        by_reason = {letter["reason"]: letter for letter in listed["letters"]}
        dead = by_reason["max_deliver"]
        assert (dead["stream"], dead["consumer"], dead["stream_seq"]) == ("S", "c", 1)
        assert (dead["subject"], dead["deliveries"], dead["msg_id"]) == ("s.a", 1, "one")
        assert "delivered@" in dead["history"]
        assert by_reason["terminated"]["detail"] == "can not parse"
        shown = await ask(client, "DEAD.SHOW.DEAD", {"seq": dead["seq"]})
        assert base64.b64decode(shown["data"]) == b"poison"
        assert b"Nats-Msg-Id: one" in base64.b64decode(shown["hdrs"])
        done = await ask(client, "DEAD.REDRIVE.DEAD", {"reason": "max_deliver"})
        assert done["count"] == 1
        (again,) = await sub.fetch(1, timeout=2)
        assert (again.subject, again.data) == ("s.a", b"poison")
        assert again.headers == {"Nats-Msg-Id": "one", "K": "v"}
        assert (await ask(client, "DEAD.DROP.DEAD", {"subject": "s.b"}))["count"] == 1
        assert (await ask(client, "DLQ.LIST.S.c"))["total"] == 0

    run(tmp_path, body)


def test_parked_messages_do_not_block_others(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext) -> None:
        config = ConsumerConfig(
            max_ack_pending=1, metadata={"jsx.nak.park": "true", "jsx.nak.delay": "300ms"}
        )
        sub = await js.pull_subscribe("s.>", "c", config=config)
        for _ in range(2):
            await js.publish("s.a", b"x")
        (one,) = await sub.fetch(1)
        await one.nak()
        (two,) = await sub.fetch(1, timeout=1)
        assert two.metadata.sequence.stream == 2
        await two.ack_sync()
        (again,) = await sub.fetch(1, timeout=2)
        assert again.metadata.sequence.stream == 1

    run(tmp_path, body)


def test_lanes_let_other_keys_go_on(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext) -> None:
        config = ConsumerConfig(metadata={"jsx.lane.key": "2"})
        sub = await js.pull_subscribe("s.>", "c", config=config)
        for key in ("a", "a", "b", "a", "b"):
            await js.publish(f"s.{key}", b"x")
        got = await sub.fetch(2, timeout=1)
        assert [m.metadata.sequence.stream for m in got] == [1, 3]
        told = await ask(client, "CONSUMER.EXPLAIN.S.c")
        assert told["num_held"] >= 0
        await got[0].ack_sync()
        (next_a,) = await sub.fetch(1, timeout=1)
        assert next_a.metadata.sequence.stream == 2

    run(tmp_path, body)


def test_a_stuck_consumer_explains_itself(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext) -> None:
        config = ConsumerConfig(max_ack_pending=1, metadata={"jsx.recorder": "100"})
        sub = await js.pull_subscribe("s.>", "c", config=config)
        assert "empty" in (await ask(client, "CONSUMER.EXPLAIN.S.c"))["sentence"]
        await js.publish("s.a", b"x")
        await js.publish("s.a", b"x")
        assert "No pull request" in (await ask(client, "CONSUMER.EXPLAIN.S.c"))["sentence"]
        (message,) = await sub.fetch(1)
        waiting = asyncio.create_task(sub.fetch(1, timeout=1))
        await asyncio.sleep(0.1)
        told = await ask(client, "CONSUMER.EXPLAIN.S.c")
        assert told["sentence"].startswith("max_ack_pending is reached: 1 of 1")
        await message.nak()
        await asyncio.sleep(0.05)
        life = await ask(client, "CONSUMER.LIFE.S.c", {"seq": 1})
        assert [event["what"] for event in life["events"]][:3] == [
            "published",
            "delivered",
            "naked",
        ]
        assert life["subject"] == "s.a"
        await waiting
        missing = await ask(client, "CONSUMER.EXPLAIN.S.nosuch")
        assert missing["error"]["err_code"] == 10014

    run(tmp_path, body)


def test_nonsense_in_a_key_is_refused(tmp_path: Path) -> None:
    async def body(client: Client, js: JetStreamContext) -> None:
        for key, value in (("jsx.nak.delay", "soon"), ("jsx.bogus", "1"), ("jsx.lane.max", "0")):
            request = {"stream_name": "S", "config": {"name": "x", "metadata": {key: value}}}
            answer = await client.request(
                "$JS.API.CONSUMER.CREATE.S.x", json.dumps(request).encode(), timeout=2
            )
            error = json.loads(answer.data)["error"]
            assert error["err_code"] == 10012
            assert error["description"].startswith(f"metadata {key}: ")

    run(tmp_path, body)
