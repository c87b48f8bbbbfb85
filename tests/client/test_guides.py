"""The guides run: every Python block of a guide, in order, against a real server."""

import ast
import asyncio
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from jetstream.testing.plugin import jetstream_server as jetstream_server
from tests.client.conftest import ServerProcess

GUIDES = Path(__file__).parent.parent.parent / "docs" / "guides"


def blocks(name: str) -> list[str]:
    text = (GUIDES / name).read_text()
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


@pytest.mark.parametrize("guide", ["client.md", "kv.md", "objects.md"])
def test_a_guide_runs(server: ServerProcess, guide: str, capsys: Any) -> None:
    asyncio.run(run_guide(guide, server.url))


async def run_guide(guide: str, url: str) -> None:
    space: dict[str, Any] = {}
    for block in blocks(guide):
        code = compile(
            textwrap.dedent(block).replace("nats://127.0.0.1:4222", url),
            guide,
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        )
        if code.co_flags & inspect.CO_COROUTINE:
            await asyncio.wait_for(eval(code, space), 60)
        else:
            await asyncio.to_thread(exec, code, space)
    import jetstream

    async with jetstream.connect(url) as nc:
        js = nc.jetstream()
        for name in [name async for name in js.stream_names()]:
            await js.delete_stream(name)


def test_the_examples_for_tests_pass(jetstream_server: Any) -> None:
    for block in blocks("testing.md"):
        space: dict[str, Any] = {"__name__": "guide"}
        exec(compile(block, "testing.md", "exec"), space)
        for name, test in space.items():
            if name.startswith("test_"):
                with jetstream_server.connect() as nc:
                    js = nc.jetstream()
                    test(js, jetstream_server)
                    for stream in list(js.stream_names()):
                        js.delete_stream(stream)
