"""A server, its console and a real browser for one test."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright

import jetstream
from jetstream.console.serve import ConsoleServer
from jetstream.server.server import Server

ARTIFACTS = Path(os.environ.get("JETSTREAM_ARTIFACTS", "artifacts"))
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Rig:
    """What a test has in hand."""

    def __init__(
        self, server: Server, console: ConsoleServer, browser: Browser, page: Page
    ) -> None:
        self.server = server
        self.console = console
        self.browser = browser
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on(
            "console",
            lambda line: self.problems.append(line.text) if line.type == "error" else None,
        )

    async def open(self, view: str = "") -> Page:
        await self.page.goto(f"{self.console.url}#/{view}")
        return self.page

    async def picture(self, name: str) -> None:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=str(ARTIFACTS / f"{name}.png"))


@contextlib.asynccontextmanager
async def rig(needs_login: bool = False, **settings: Any) -> AsyncIterator[Rig]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.fail("chromium is not installed (make setup)")
    with tempfile.TemporaryDirectory() as directory:
        async with Server(port=0, store_dir=directory, **settings) as server:
            console = ConsoleServer(server.url, port=0, needs_login=needs_login)
            await console.start()
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
                page = await browser.new_page(viewport={"width": 1280, "height": 900})
                page.set_default_timeout(15_000)
                try:
                    yield Rig(server, console, browser, page)
                finally:
                    await browser.close()
                    await console.stop()


@contextlib.asynccontextmanager
async def filled(server: Server) -> AsyncIterator[Any]:
    """A client on a server with something to look at."""
    async with jetstream.connect(server.url) as nc:
        js = nc.jetstream()
        await js.create_stream(name="ORDERS", subjects=["orders.>"])
        for i in range(20):
            await js.publish(f"orders.{'eu' if i % 2 else 'us'}", b'{"id": %d}' % i)
        await js.create_consumer("ORDERS", durable_name="slow", ack_policy="explicit")
        bucket = await js.create_key_value("cfg", history=5)
        await bucket.put("colour", b"blue")
        await js.create_object_store("files")
        yield js
