"""What each benchmark does. A run gets a session and its share of the messages."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from jetstream.cli.app import settings
from jetstream.cli.problems import Failure
from jetstream.cli.progress import Progress
from jetstream.cli.session import Session, connect, open_connection
from jetstream.errors import ApiError

STEP = 1000


class Share(Struct):
    """One client's part: where it starts, how many, and what it measured."""

    client: int
    first: int
    msgs: int
    size: int
    flags: dict[str, Any]
    bar: Any
    latencies: list[float] = field(default_factory=list)
    done: int = 0

    def add(self, count: int = 1) -> None:
        self.done += count
        self.bar.add(count)


class Result(Struct):
    client: int
    msgs: int
    bytes: int
    start: float
    stop: float
    latencies: list[float]

    @property
    def seconds(self) -> float:
        return max(self.stop - self.start, 1e-9)


Run = Callable[[Session, Share], Awaitable[None]]


async def run_clients(work: Run, flags: dict[str, Any], bar: Progress) -> list[Result]:
    """Connect everybody, then let them go at the same moment."""
    clients, msgs = flags["clients"], flags["msgs"]
    chosen = settings()
    sessions = [Session(await open_connection(chosen), chosen) for _ in range(clients)]
    shares, first = [], 0
    for i in range(clients):
        count = msgs // clients + (i < msgs % clients)
        shares.append(Share(i + 1, first, count, flags["size"], flags, bar))
        first += count

    async def one(session: Session, share: Share) -> Result:
        start = time.perf_counter()
        await work(session, share)
        stop = time.perf_counter()
        return Result(
            share.client, share.done, share.done * share.size, start, stop, share.latencies
        )

    try:
        return list(await asyncio.gather(*map(one, sessions, shares)))
    finally:
        for session in sessions:
            await session.nc.close()


def payload(share: Share) -> bytes:
    if file := share.flags.get("payload_file"):
        return Path(file).read_bytes()
    return random.randbytes(share.size)


def subjects(subject: str, share: Share) -> Iterator[str]:
    """One subject per message."""
    most = share.flags.get("multisubjectmax", 0)
    for i in range(share.first, share.first + share.msgs):
        if not share.flags.get("multisubject"):
            yield subject
        elif share.flags.get("multisubjectrandomize"):
            yield f"{subject}.{random.randrange(most)}"
        else:
            yield f"{subject}.{i % most}"


class Pace:
    """Keeps to --sleep or --throughput."""

    def __init__(self, flags: dict[str, Any]) -> None:
        rate = flags.get("throughput") or 0
        self._step = (flags.get("sleep") or 0) / 1e9 or (1 / rate if rate else 0.0)
        self._due = time.perf_counter()

    @property
    def is_free(self) -> bool:
        return not self._step

    async def wait(self) -> None:
        if self._step:
            self._due += self._step
            left = self._due - time.perf_counter()
            if left > 0:
                await asyncio.sleep(left)


def headers(share: Share) -> dict[str, str] | None:
    return dict(share.flags.get("headers") or ()) or None


def core_pub(subject: str) -> Run:
    async def work(session: Session, share: Share) -> None:
        body, fields, pace, nc = payload(share), headers(share), Pace(share.flags), session.nc
        for i, to in enumerate(subjects(subject, share), 1):
            await nc.publish(to, body, headers=fields)
            if not pace.is_free:
                await pace.wait()
            if i % STEP == 0:
                share.add(STEP)
        share.add(share.msgs % STEP)
        await nc.flush(60.0)

    return work


def core_sub(subject: str) -> Run:
    async def work(session: Session, share: Share) -> None:
        wanted = subject + ".>" if share.flags.get("multisubject") else subject
        async with await session.nc.subscribe(
            wanted, pending_msgs=1 << 30, pending_bytes=1 << 32
        ) as messages:
            await session.nc.flush()
            async for _ in messages:
                share.add()
                if share.done >= share.msgs:
                    return

    return work


def service_request(subject: str) -> Run:
    async def work(session: Session, share: Share) -> None:
        body, fields, pace = payload(share), headers(share), Pace(share.flags)
        for to in subjects(subject, share):
            start = time.perf_counter()
            await session.nc.request(to, body, headers=fields, timeout=session.timeout)
            share.latencies.append(time.perf_counter() - start)
            share.add()
            await pace.wait()

    return work


def service_serve(subject: str) -> Run:
    async def work(session: Session, share: Share) -> None:
        body = payload(share)
        async with await session.nc.subscribe(subject, queue="bench-service") as requests:
            async for request in requests:
                await request.respond(body)
                share.add()
                if share.done >= share.msgs:
                    break
            await session.nc.flush()

    return work


async def prepare_stream(subject: str, flags: dict[str, Any], **more: Any) -> None:
    """Make or empty the stream that is written to."""
    name = flags["stream"]
    async with connect() as session:
        if flags["create"]:
            wanted = f"{subject}.>" if flags["multisubject"] else subject
            config = {
                "name": name,
                "subjects": [wanted],
                "storage": flags["storage"],
                "num_replicas": flags["replicas"],
                "max_bytes": flags["maxbytes"],
                "duplicate_window": flags["dedupwindow"],
                "allow_direct": True,
                **more,
            }
            try:
                await session.create_stream(config)
            except ApiError as error:
                if error.err_code != 10058:
                    raise
                await session.update_stream(config)
        elif name not in await session.stream_names():
            raise Failure(f"there is no stream {name}", "--create makes one")
        if flags["purge"]:
            await session.purge(name)


def js_pub_sync(subject: str) -> Run:
    async def work(session: Session, share: Share) -> None:
        js, body, pace = session.jetstream(), payload(share), Pace(share.flags)
        fields = headers(share) or {}
        for i, to in enumerate(subjects(subject, share), share.first):
            start = time.perf_counter()
            extra = {"Nats-Msg-Id": _id(session, i)} if share.flags["dedup"] else {}
            await js.publish(to, body, headers={**fields, **extra} or None)
            share.latencies.append(time.perf_counter() - start)
            share.add()
            await pace.wait()

    return work


def _id(session: Session, number: int) -> str:
    return f"{session.nc.info.client_id}-{number}-{time.time_ns()}"


def js_pub_async(subject: str) -> Run:
    async def work(session: Session, share: Share) -> None:
        js, body, fields = session.jetstream(), payload(share), headers(share) or {}
        bulk = js.bulk(window=share.flags["batch"])
        bulk.start()
        chunk: list[Any] = []
        for i, to in enumerate(subjects(subject, share), share.first):
            if share.flags["dedup"]:
                chunk.append((to, body, {**fields, "Nats-Msg-Id": _id(session, i)}))
            else:
                chunk.append((to, body, fields) if fields else (to, body))
            if len(chunk) >= share.flags["batch"]:
                await bulk.send(chunk)
                share.add(len(chunk))
                chunk = []
        if chunk:
            await bulk.send(chunk)
            share.add(len(chunk))
        (await bulk.finish()).raise_first()

    return work


def js_pub_atomic(subject: str) -> Run:
    async def work(session: Session, share: Share) -> None:
        js, body = session.jetstream(), payload(share)
        todo = list(subjects(subject, share))
        size = min(share.flags["batch"], 1000)
        for at in range(0, len(todo), size):
            start = time.perf_counter()
            batch = js.batch()
            part = todo[at : at + size]
            for to in part:
                await batch.add(to, body)
            await batch.commit()
            share.latencies.append(time.perf_counter() - start)
            share.add(len(part))

    return work


async def prepare_consumer(flags: dict[str, Any]) -> None:
    """A fresh durable, so that every run reads the whole stream."""
    stream, name = flags["stream"], flags["consumer"]
    async with connect() as session:
        info = await session.stream_info(stream)
        flags["msgs"] = min(flags["msgs"], info["state"]["messages"])
        if not flags["msgs"]:
            raise Failure(f"stream {stream} is empty", "`jetstream bench js pub async` fills it")
        if name in await session.consumer_names(stream):
            await session.delete_consumer(stream, name)
        config: dict[str, Any] = {
            "durable_name": name,
            "name": name,
            "ack_policy": flags["acks"],
            "deliver_policy": "all",
            "max_ack_pending": max(flags["batch"] * flags["clients"] * 2, 1000),
        }
        if flags["filter_subject"]:
            config["filter_subject"] = flags["filter_subject"]
        await session.create_consumer(stream, config, "create")


async def js_fetch(session: Session, share: Share) -> None:
    consumer = await session.jetstream().consumer(share.flags["stream"], share.flags["consumer"])
    while share.done < share.msgs:
        batch = await consumer.fetch(min(share.flags["batch"], share.msgs - share.done), max_wait=5)
        if not len(batch):
            return
        if share.flags["acks"] != "none":
            await (batch.ack_sync() if share.flags["doubleack"] else batch.ack())
        share.add(len(batch))
    await session.nc.flush()


async def js_consume(session: Session, share: Share) -> None:
    consumer = await session.jetstream().consumer(share.flags["stream"], share.flags["consumer"])
    acks, double = share.flags["acks"] != "none", share.flags["doubleack"]
    async with consumer.messages(max_messages=share.flags["batch"]) as messages:
        async for message in messages:
            if acks:
                await (message.ack_sync() if double else message.ack())
            share.add()
            if share.done >= share.msgs:
                break
    await session.nc.flush()


async def js_ordered(session: Session, share: Share) -> None:
    stream = share.flags["stream"]
    config = (
        {"filter_subjects": [share.flags["filter_subject"]]}
        if share.flags["filter_subject"]
        else {}
    )
    consumer = await session.jetstream().ordered_consumer(stream, **config)
    wanted = min(share.msgs, (await consumer.info()).num_pending)
    if not wanted:
        return
    async with await consumer.messages() as messages:
        async for _ in messages:
            share.add()
            if share.done >= wanted:
                return


async def _sequences(session: Session, share: Share) -> tuple[Any, int, int]:
    stream = await session.jetstream().stream(share.flags["stream"])
    state = stream.cached_info.state
    return stream, state.first_seq, max(state.last_seq, state.first_seq)


async def js_get_sync(session: Session, share: Share) -> None:
    stream, first, last = await _sequences(session, share)
    for i in range(share.msgs):
        start = time.perf_counter()
        await stream.get_msg(first + (share.first + i) % (last - first + 1))
        share.latencies.append(time.perf_counter() - start)
        share.add()


async def js_get_batch(session: Session, share: Share) -> None:
    stream, at, last = await _sequences(session, share)
    while share.done < share.msgs and at <= last:
        got = 0
        found: AsyncIterator[Any] = stream.get_batch(share.flags["batch"], seq=at)
        async for message in found:
            got += 1
            at = message.seq + 1
        share.add(got)
        if not got:
            return


async def prepare_bucket(flags: dict[str, Any]) -> None:
    async with connect() as session:
        js = session.jetstream()
        await js.create_or_update_key_value(
            flags["bucket"], history=flags["history"], storage=flags["storage"]
        )
        if flags["purge"]:
            await session.purge(f"KV_{flags['bucket']}")


def _key(share: Share, number: int) -> str:
    most = share.flags["randomize"]
    return str(random.randrange(most) if most else share.first + number)


async def kv_put(session: Session, share: Share) -> None:
    bucket = await session.jetstream().key_value(share.flags["bucket"])
    body = payload(share)
    for i in range(share.msgs):
        start = time.perf_counter()
        await bucket.put(_key(share, i), body)
        share.latencies.append(time.perf_counter() - start)
        share.add()


async def kv_get(session: Session, share: Share) -> None:
    bucket = await session.jetstream().key_value(share.flags["bucket"])
    for i in range(share.msgs):
        start = time.perf_counter()
        await bucket.get(_key(share, i))
        share.latencies.append(time.perf_counter() - start)
        share.add()
