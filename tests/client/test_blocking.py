"""The same client without await: threads, iteration, callbacks, forks."""

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import jetstream
from jetstream import sync
from jetstream.client.errors import ApiError, KeyNotFoundError, NoRespondersError
from jetstream.client.portal import portal
from tests.client.conftest import ServerProcess, gone


@pytest.fixture
def blocking(server: ServerProcess) -> Iterator[Any]:
    with sync.connect(server.url) as nc:
        yield nc.jetstream(timeout=10)
        js = nc.jetstream()
        for name in list(js.stream_names()):
            js.delete_stream(name)
    asyncio.run(gone(server))


def test_core_messaging(url: str) -> None:
    with sync.connect(url) as nc:
        sub = nc.subscribe("a.*")
        nc.publish("a.b", b"x", headers={"K": "v"})
        message = sub.next(2)
        assert (message.subject, message.headers["K"]) == ("a.b", "v")
        nc.subscribe("echo", callback=lambda m: m.respond(m.data + b"!"))
        assert nc.request("echo", b"hey").data == b"hey!"
        with pytest.raises(NoRespondersError):
            nc.request("nobody")
        assert nc.stats().out_msgs >= 3
    assert nc.is_closed


def test_streams_and_consumers(blocking: Any) -> None:
    js = blocking
    stream = js.create_stream(name="S", subjects=["s.>"])
    assert js.publish("s.1", b"one").seq == 1
    assert js.publish_many([b"x"] * 1000, subject="s.2").last_seq == 1001
    assert js.publish_async("s.3", b"").result(5).seq == 1002
    assert list(js.stream_names()) == ["S"]
    assert stream.info().state.messages == 1002
    consumer = stream.create_consumer(durable_name="c")
    batch = consumer.fetch(10, max_wait=2)
    batch[0].ack()
    batch[1].ack_sync()
    batch.ack_sync()
    assert consumer.info().num_ack_pending == 0
    assert consumer.next(1).seq == 11
    with pytest.raises(ApiError):
        js.stream("nope")
    with js.batch() as group, pytest.raises(ApiError):
        group.add("s.1")
        group.add("s.2")


def test_iterating_flows(blocking: Any) -> None:
    js = blocking
    stream = js.create_stream(name="S")
    js.publish_many((b"%d" % n for n in range(5000)), subject="S")
    with stream.ordered_consumer().messages() as flow:
        for n, message in enumerate(flow, 1):
            assert message.seq == n
            if n == 5000:
                break
    consumer = stream.create_consumer(durable_name="c", max_ack_pending=-1)
    got = 0
    with consumer.messages() as flow:
        for message in flow:
            message.ack()
            got += 1
            if got == 2000:
                break
    assert got == 2000


def test_callbacks_may_call_back(blocking: Any) -> None:
    js = blocking
    stream = js.create_stream(name="S", subjects=["s.>"])
    consumer = stream.create_consumer(durable_name="c", filter_subject="s.in")
    done = threading.Event()

    def work(message: Any) -> None:
        js.publish("s.out", message.data.upper())
        message.ack()
        done.set()

    with consumer.consume(work):
        js.publish("s.in", b"hello")
        assert done.wait(5)
    assert stream.get_last_msg("s.out").data == b"HELLO"
    seen: list[int] = []
    sub = js.subscribe("s.out", durable="p", callback=lambda m: seen.append(m.seq))
    deadline = time.monotonic() + 5
    while not seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert seen == [2]
    sub.destroy()


def test_buckets_and_objects(blocking: Any, tmp_path: Any) -> None:
    js = blocking
    kv = js.create_key_value("B", history=3)
    kv.put("k", b"1")
    assert kv.get("k").value == b"1"
    assert kv.keys() == ["k"]
    with pytest.raises(KeyNotFoundError):
        kv.get("none")
    with kv.watch_all() as watcher:
        assert watcher.next(2).key == "k"
        assert watcher.next(2) is None
        kv.put("k", b"2")
        assert watcher.next(2).value == b"2"
    assert [entry.value for entry in kv.history("k")] == [b"1", b"2"]
    store = js.create_object_store("O")
    store.put("o", b"x" * 300_000)
    assert store.get_bytes("o") == b"x" * 300_000
    with store.get("o") as reader:
        assert sum(len(chunk) for chunk in reader) == 300_000
    store.get_file("o", tmp_path / "f")
    assert [info.name for info in store.list()] == ["o"]


def test_several_threads_share_a_connection(blocking: Any) -> None:
    js = blocking
    js.create_stream(name="S")
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                js.publish("S", b"x")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors
    assert js.stream_info("S").state.messages == 400


async def test_it_works_where_a_loop_is_running(url: str) -> None:
    # As in a notebook: blocking calls while this thread has an event loop.
    with sync.connect(url) as nc:
        sub = nc.subscribe("a")
        nc.publish("a", b"1")
        assert sub.next(2).data == b"1"


def _in_a_child(url: str, answers: Any) -> None:
    with sync.connect(url) as nc:
        answers.put(nc.jetstream().publish("S", b"from the child").seq)


def test_a_forked_worker_connects_anew(blocking: Any, url: str) -> None:
    js = blocking
    js.create_stream(name="S")
    js.publish("S", b"from the parent")
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_a_child, args=(url, answers))
    child.start()
    assert answers.get(timeout=20) == 2
    child.join(10)
    js.publish("S", b"the parent goes on")


def test_a_blocking_call_inside_the_loop_is_refused(url: str) -> None:
    errors: list[str] = []
    with sync.connect(url) as nc:

        async def wrong() -> None:
            try:
                nc.publish("a", b"")
            except RuntimeError as error:
                errors.append(str(error))

        portal().run(wrong())
    assert errors == ["a blocking call cannot be made inside the client's own event loop"]


def test_arrow_tables(blocking: Any) -> None:
    pytest.importorskip("pyarrow")
    js = blocking
    stream = js.create_stream(name="S")
    js.publish_many([b"a", b"b"], subject="S")
    table = stream.create_consumer(durable_name="c").fetch_arrow(2, max_wait=2)
    assert table.column("data").to_pylist() == [b"a", b"b"]


def test_every_public_method_is_reachable(blocking: Any) -> None:
    stream = blocking.create_stream(name="S")
    consumer = stream.create_consumer(durable_name="c")
    for proxy, kind in (
        (blocking, jetstream.JetStream),
        (stream, jetstream.Stream),
        (consumer, jetstream.Consumer),
    ):
        for name in dir(kind):
            if not name.startswith("_"):
                getattr(proxy, name)
