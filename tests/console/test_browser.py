"""The console in a real browser: every page, live updates, and what a hostile message can do."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import FilePayload

from jetstream.server.options import UserOptions
from tests.console.rig import Rig, filled, rig

pytestmark = pytest.mark.browser


def in_browser(scenario: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        async with rig() as found:
            await scenario(found)
            assert found.problems == []

    asyncio.run(run())


def test_every_page_opens_without_an_error() -> None:
    async def scenario(r: Rig) -> None:
        async with filled(r.server):
            page = await r.open()
            await page.wait_for_selector("#stored")
            await page.wait_for_selector("#stored b:text-is('21')")
            await r.picture("overview")
            for view, heading in (
                ("streams", "Streams"),
                ("streams/ORDERS", "ORDERS"),
                ("consumers", "Consumers"),
                ("consumers/ORDERS/slow", "ORDERS › slow"),
                ("kv", "Key-value buckets"),
                ("kv/cfg", "cfg"),
                ("objects", "Object stores"),
                ("objects/files", "files"),
                ("pipelines", "Pipelines"),
                ("publish", "Publish"),
                ("events", "Events and connections"),
            ):
                await r.open(view)
                await page.wait_for_selector(f"h1:text-is('{heading}')")
                await r.picture(view.replace("/", "-"))

    in_browser(scenario)


def test_a_published_message_appears_and_counts() -> None:
    async def scenario(r: Rig) -> None:
        async with filled(r.server):
            page = await r.open("publish")
            await page.fill("input[aria-label=subject]", "orders.eu")
            await page.fill("textarea[aria-label=data]", "from the page")
            await page.click("button:text-is('Publish')")
            await page.wait_for_selector('#ack >> text="seq": 21')
            await r.open("streams/ORDERS")
            await page.wait_for_selector("#messages >> text=from the page")
            await r.open()
            await page.wait_for_selector("#stored b:text-is('22')")

    in_browser(scenario)


def test_the_overview_is_live() -> None:
    async def scenario(r: Rig) -> None:
        async with filled(r.server) as js:
            page = await r.open()
            await page.wait_for_selector("#stored b:text-is('21')")
            for _ in range(5):
                await js.publish("orders.eu", b"more")
            await page.wait_for_selector("#stored b:text-is('26')")

    in_browser(scenario)


def test_live_messages_arrive_while_one_looks() -> None:
    async def scenario(r: Rig) -> None:
        async with filled(r.server) as js:
            page = await r.open("streams/ORDERS")
            await page.wait_for_selector("#messages .card")
            await page.select_option("select[aria-label=start]", "live")
            await page.click("button:text-is('Show')")
            await page.wait_for_selector("text=waiting for new messages")
            await asyncio.sleep(0.3)
            await js.publish("orders.eu", b"fresh from the wire")
            await page.wait_for_selector("#messages >> text=fresh from the wire")

    in_browser(scenario)


def test_a_purge_says_first_how_many_would_go() -> None:
    async def scenario(r: Rig) -> None:
        async with filled(r.server) as js:
            page = await r.open("streams/ORDERS")
            asked: list[str] = []

            async def accept(dialog: object) -> None:
                asked.append(dialog.message)  # type: ignore[attr-defined]
                await dialog.accept()  # type: ignore[attr-defined]

            page.on("dialog", accept)
            await page.fill("input[aria-label='purge filter']", "orders.eu")
            await page.click("button:text-is('Purge …')")
            await page.wait_for_selector("text=purged 10 messages")
            assert asked == ["Remove 10 messages from ORDERS?"]
            assert (await js.stream_info("ORDERS")).raw["state"]["messages"] == 10

    in_browser(scenario)


def test_a_key_is_edited_with_compare_and_set() -> None:
    async def scenario(r: Rig) -> None:
        async with filled(r.server) as js:
            page = await r.open("kv/cfg/colour")
            await page.wait_for_selector("text=revision 1")
            await page.fill("textarea[aria-label=value]", "green")
            await page.click("button:text-is('Save')")
            await page.wait_for_selector("text=saved as revision 2")
            bucket = await js.key_value("cfg")
            assert (await bucket.get("colour")).value == b"green"
            # Somebody else was faster: the page must not overwrite what it has not seen.
            await page.wait_for_selector("text=revision 2")
            await bucket.put("colour", b"red")
            await page.fill("textarea[aria-label=value]", "yellow")
            await page.click("button:text-is('Save')")
            await page.wait_for_selector(".toast.bad")
            assert (await bucket.get("colour")).value == b"red"
            r.problems.clear()  # the browser logs the refused request itself

    in_browser(scenario)


def test_hostile_payloads_are_only_text() -> None:
    evil = b"<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"

    async def scenario(r: Rig) -> None:
        async with filled(r.server) as js:
            await js.publish("orders.eu", evil, headers={"X-<b>": "<svg onload=alert(1)>"})
            bucket = await js.key_value("cfg")
            await bucket.put("evil", evil)
            page = await r.open("streams/ORDERS")
            await page.wait_for_selector("#messages >> text=onerror")
            await r.open("kv/cfg/evil")
            await page.wait_for_selector("h2:text-is('evil')")
            assert await page.locator("main img, main script, main svg").count() == 0
            assert "owned" not in await page.title()

    in_browser(scenario)


def test_a_file_is_uploaded_and_comes_back() -> None:
    async def scenario(r: Rig) -> None:
        async with filled(r.server) as js:
            page = await r.open("objects/files")
            await page.set_input_files(
                "input[type=file]",
                FilePayload(name="a b.txt", mimeType="text/plain", buffer=b"content" * 1000),
            )
            await page.click("button:text-is('Upload')")
            await page.wait_for_selector("td:text-is('a b.txt')")
            store = await js.object_store("files")
            assert await store.get_bytes("a b.txt") == b"content" * 1000

    in_browser(scenario)


def test_a_phone_can_read_it() -> None:
    async def scenario(r: Rig) -> None:
        async with filled(r.server):
            await r.page.set_viewport_size({"width": 390, "height": 800})
            page = await r.open()
            await page.wait_for_selector("#stored")
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390
            await r.picture("phone")

    in_browser(scenario)


def test_log_in_is_needed_when_the_server_asks_for_it() -> None:
    async def run() -> None:
        users = [UserOptions(user="ann", password="s3cret")]
        async with rig(needs_login=True, users=users) as r:
            page = await r.open()
            await page.wait_for_selector("h1:text-is('Log in')")
            await page.fill("input[name=user]", "ann")
            await page.fill("input[name=password]", "wrong")
            await page.click("button:text-is('Log in')")
            await page.wait_for_selector(".toast.bad")
            await page.fill("input[name=password]", "s3cret")
            await page.click("button:text-is('Log in')")
            await page.wait_for_selector("#stored")
            await page.wait_for_selector("#who >> text=ann")

    asyncio.run(run())
