"""Tracing shows what was said, and no secrets."""

import asyncio
import logging

import pytest

from jetstream.server.log import TRACE
from jetstream.server.options import Options
from jetstream.server.server import Server
from jetstream.server.trace import redacted


def test_secrets_are_blotted_out() -> None:
    text = b'{"user":"u","pass":"p\\"w","auth_token" : "t","sig":"s","jwt":"j","name":"pass"}'
    shown = redacted(text)
    assert shown == (
        '{"user":"u","pass":"[REDACTED]","auth_token" : "[REDACTED]","sig":"[REDACTED]",'
        '"jwt":"[REDACTED]","name":"pass"}'
    )


def test_lines_in_and_out(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        options = Options(host="127.0.0.1", port=-1, trace=True, max_traced_msg_len=3)
        log = logging.getLogger("jetstream.test.trace")
        log.setLevel(TRACE)
        with caplog.at_level(TRACE, log.name):
            async with Server(options, log=log) as server:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                await reader.readline()
                writer.write(
                    b'CONNECT {"verbose":false,"headers":true,"lang":"x","version":"1"}\r\n'
                    b"SUB foo 1\r\nSUB bar q 2\r\nPUB foo r 5\r\nhello\r\nUNSUB 1 9\r\n"
                    b"HPUB foo 12 13\r\nNATS/1.0\r\n\r\nx\r\nSUB a..b 3\r\nPING\r\n"
                )
                await asyncio.wait_for(reader.readuntil(b"PONG\r\n"), 5)
                writer.close()

    asyncio.run(run())
    lines = [r.getMessage().split(" - ", 2)[-1] for r in caplog.records if r.levelno == TRACE]
    shown = [line.rsplit(' - "v1:x" - ', 1)[-1] if '"v1:x"' in line else line for line in lines]
    text = "\n".join(shown)
    for expected in (
        "<<- [SUB foo 1]",
        "<<- [SUB bar q 2]",
        "<<- [PUB foo r 5]",
        '<<- MSG_PAYLOAD: ["hel..."]',
        "<<- [UNSUB 1 9]",
        "<<- [HPUB foo 12 13]",
        "->> [MSG foo 1 r 5]",
        "->> [HMSG foo 1 12 13]",
        "->> [-ERR Invalid Subject]",
        "<<- [PING]",
        "->> [PONG]",
    ):
        assert expected in text
