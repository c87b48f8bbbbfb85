"""On the wire, messages keep the order of the stream, however many requests share them."""

import asyncio
import json
import re

from jetstream.server.server import Server


async def _talk(server: Server, *lines: bytes, until: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
    for line in lines:
        writer.write(line)
    data = b""
    while not re.search(until, data):
        data += await asyncio.wait_for(reader.read(65536), 10)
    writer.close()
    return data


def _request(subject: str, body: object, reply: str) -> bytes:
    text = json.dumps(body).encode() if not isinstance(body, bytes) else body
    return f"PUB {subject} {reply} {len(text)}\r\n".encode() + text + b"\r\n"


def test_overlapping_pulls_are_served_in_stream_order(tmp_path: object) -> None:
    async def scenario() -> None:
        async with Server(port=0, store_dir=str(tmp_path)) as server:
            consumer = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "none"}}
            nexts = [
                _request("$JS.API.CONSUMER.MSG.NEXT.S.c", {"batch": n}, reply)
                for n, reply in ((5, "in.a"), (7, "in.b"), (3, "in.a"))
            ]
            data = await _talk(
                server,
                b"SUB in.> 1\r\n",
                _request("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]}, "x"),
                b"".join(b"PUB s 1\r\nx\r\n" for _ in range(15)),
                _request("$JS.API.CONSUMER.CREATE.S.c", consumer, "x"),
                *nexts,
                until=rb"\.15\.15\.\d+\.0 1\r\nx\r\n",
            )
            seqs = [int(seq) for seq in re.findall(rb"\$JS\.ACK\.S\.c\.1\.(\d+)\.", data)]
            assert seqs == list(range(1, 16))

    asyncio.run(scenario())
