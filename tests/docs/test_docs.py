"""The documentation runs: Python and shell blocks of the README and the guides, in order.

A block that cannot run by itself (configuration, output, a long-running command) is not marked
`python` or `sh`. Spark blocks are run with the Spark tests.
"""

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jetstream.server.server import Server

HOUSE = Path(__file__).parent.parent.parent
PAGES = ["README.md", "docs/guides/streams.md", "docs/guides/operations.md"]
URL = "nats://127.0.0.1:4222"


def blocks(page: str) -> Iterator[tuple[str, str]]:
    text = (HOUSE / page).read_text()
    for kind, body in re.findall(r"^```(python|sh)\n(.*?)^```", text, flags=re.S | re.M):
        yield kind, textwrap.dedent(body)


def is_spark(body: str) -> bool:
    return "spark" in body


async def run_python(body: str, url: str, space: dict[str, Any]) -> None:
    code = compile(body.replace(URL, url), "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        await asyncio.wait_for(eval(code, space), 60)
    else:
        await asyncio.to_thread(exec, code, space)


async def run_shell(body: str, url: str, directory: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-euo", "pipefail", "-c", body],
        cwd=directory,
        env={**os.environ, "NATS_URL": url, "PATH": path, "HOME": str(directory)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"{body}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Server(port=0, store_dir=tmp_path / "store") as server:
            space: dict[str, Any] = {}
            for kind, body in blocks(page):
                if is_spark(body) or "make " in body:
                    continue
                if kind == "python":
                    await run_python(body, server.url, space)
                else:
                    await run_shell(body, server.url, tmp_path)

    asyncio.run(scenario())


def test_every_page_of_the_site_exists() -> None:
    text = (HOUSE / "mkdocs.yml").read_text()
    for page in re.findall(r":\s(\S+\.md)$", text, flags=re.M):
        assert (HOUSE / "docs" / page).exists(), page


def test_links_between_pages_lead_somewhere() -> None:
    for page in [HOUSE / "README.md", *(HOUSE / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+?)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
