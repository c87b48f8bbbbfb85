"""JetStream used from another account, through imports: the same outcome with both servers."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.conformance.servers import Ours, Reference, ServerProcess, reference_binary

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(reference_binary() is None, reason="no nats-server here"),
]

CONFIG = """
jetstream {{ store_dir: "{store}" }}
accounts {{
  J {{
    jetstream: enabled, users: [{{user: j, password: j}}]
    exports: [
      {{service: "$JS.API.>"}}, {{service: "orders.>"}}, {{service: "$JS.ACK.>"}}
      {{stream: "deliver.>"}}
    ]
  }}
  K {{
    users: [{{user: k, password: k}}]
    imports: [
      {{service: {{account: J, subject: "$JS.API.>"}}}}
      {{service: {{account: J, subject: "orders.>"}}}}
      {{service: {{account: J, subject: "$JS.ACK.>"}}}}
      {{stream: {{account: J, subject: "deliver.>"}}}}
    ]
  }}
  L {{
    jetstream: enabled, users: [{{user: l, password: l}}]
    imports: [{{service: {{account: J, subject: "$JS.API.>"}}, to: "JS.J.API.>"}}]
  }}
}}
"""


async def outcome(wanted: Awaitable[Any]) -> object:
    """What came of it, in words that do not name a time."""
    try:
        found = await wanted
    except Exception as problem:
        return type(problem).__name__
    return getattr(found, "seq", None) or getattr(found, "streams", None) or str(type(found))


async def conversation(port: int) -> list[object]:
    j, k, other = [
        await nats.connect(f"nats://{user}:{user}@127.0.0.1:{port}") for user in ("j", "k", "l")
    ]
    jj, jk, jl = j.jetstream(), k.jetstream(), other.jetstream()

    async def pull() -> object:
        sub = await jk.pull_subscribe("orders.*", durable="d")
        (message,) = await sub.fetch(1, timeout=5)
        await message.ack_sync(timeout=5)
        info = await sub.consumer_info()
        assert info.ack_floor is not None
        return Seen(
            (message.subject, message.data, info.num_ack_pending, info.ack_floor.stream_seq)
        )

    async def push() -> object:
        sub = await k.subscribe("deliver.x")
        await k.flush()
        await jj.add_consumer(
            "O", durable_name="push", deliver_subject="deliver.x", ack_policy="none"
        )
        message = await sub.next_msg(5)
        return Seen((message.subject, message.data))

    seen = [
        await outcome(step)
        for step in (
            jj.add_stream(name="O", subjects=["orders.*"]),
            jk.stream_info("O"),
            jk.publish("orders.1", b"x"),
            jj.publish("orders.2", b"y"),
            jk.add_stream(name="P", subjects=["p.*"]),
            jk.account_info(),
            other.jetstream(prefix="JS.J.API").stream_info("O"),
            jl.stream_info("O"),
            pull(),
            push(),
        )
    ]
    for client in (j, k, other):
        await client.close()
    return seen


class Seen:
    def __init__(self, seq: object) -> None:
        self.seq = seq


def test_jetstream_is_used_through_imports(tmp_path: Path) -> None:
    found = []
    for make in (Reference, Ours):
        server: ServerProcess = make(config=CONFIG.format(store=tmp_path / make.__name__))
        with server:
            found.append(asyncio.run(conversation(server.port)))
    assert found[0] == found[1]
    assert found[1][-1] == ("orders.1", b"x")
