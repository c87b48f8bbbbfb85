"""nats.js and this client on the same streams, buckets and objects, in both directions.

Names stay ASCII here: nats.js encodes the characters of an object name as Latin-1, Go, Python and
this client its UTF-8 bytes, so other names do not meet.
"""

import asyncio
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jetstream.client.errors import KeyDeletedError, ObjectNotFoundError
from tests.client.conftest import ServerProcess

HERE = Path(__file__).parent
PACKAGES = HERE.parent / "interop"

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(
        shutil.which("node") is None or not (PACKAGES / "node_modules").exists(),
        reason="no Node.js or nats.js here (make setup)",
    ),
]


async def nats_js(server: ServerProcess, step: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        "node",
        str(HERE / "js" / "exchange.mjs"),
        str(server.port),
        step,
        cwd=PACKAGES,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await asyncio.wait_for(process.communicate(), 40)
    assert process.returncode == 0, complained.decode()
    return json.loads(said)


async def test_what_nats_js_wrote_we_can_read(js: Any, server: ServerProcess) -> None:
    told = await nats_js(server, "write")
    consumer = await js.consumer("JS", "theirs")
    message = await consumer.next(2)
    assert (message.subject, message.text) == ("js.a", "from js")
    assert message.headers.get_all("Key") == ["1", "2"]
    await message.ack_sync()
    assert (await js.publish("js.a", b"", msg_id="m1")).duplicate
    kv = await js.key_value("JSKV")
    assert (await kv.get("a.b")).text == "two"
    assert [entry.text for entry in await kv.history("a.b")] == ["one", "two"]
    assert await kv.keys() == ["a.b"]
    with pytest.raises(KeyDeletedError):
        await kv.get("gone")
    assert [entry.operation for entry in await kv.history("purged")] == ["PURGE"]
    assert await kv.create("gone", b"again")
    store = await js.object_store("JSOBJ")
    expected = bytes(i % 251 for i in range(300_000))
    assert await store.get_bytes("blob/x y") == expected
    assert await store.get_bytes("link") == expected
    assert (await store.info("blob/x y")).digest == told["digest"]
    assert await store.get_bytes("empty") == b""
    with pytest.raises(ObjectNotFoundError):
        await store.info("dead")
    assert sorted(info.name for info in await store.list()) == ["blob/x y", "empty", "link"]


async def test_what_we_wrote_nats_js_can_read(js: Any, server: ServerProcess) -> None:
    stream = await js.create_stream(name="PY", subjects=["py.>"])
    await js.publish("py.a", b"from python", headers={"Key": "v"})
    await stream.create_consumer(durable_name="ours")
    kv = await js.create_key_value("PYKV", history=5)
    revision = await kv.put("k.1", b"one")
    await kv.put("h", b"1")
    await kv.put("h", b"2")
    await kv.delete("h")
    store = await js.create_object_store("PYOBJ")
    data = bytes(i % 253 for i in range(400_000))
    info = await store.put("blob 1>*", data, metadata={"a": "b"})
    await store.add_link("link", info)
    await store.put("dead", b"")
    await store.delete("dead")
    told = await nats_js(server, "read")
    assert told["message"] == ["py.a", "from python", "v", 1]
    assert told["entry"] == ["one", revision]
    assert told["keys"] == ["k.1"]
    assert told["history"] == ["PUT", "PUT", "DEL"]
    assert told["sha"] == hashlib.sha256(data).hexdigest()
    assert told["info"] == {"a": "b"}
    assert told["names"] == ["blob 1>*", "link"]
    assert told["link"] == 400_000
    entry = await kv.get("k.1")
    assert (entry.text, entry.revision) == ("from js", told["revision"])
