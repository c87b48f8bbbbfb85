"""A bad network between any client and any server: cut, stall, delay, or lose single messages.

    async with FaultyProxy(server.url) as proxy:
        nc = await jetstream.connect(proxy.url)
        proxy.lose_acks(1)                  # the stream has it, the publisher never hears of it
        proxy.cut()                         # every connection is gone

It understands what servers send, so it can pick out single messages; what clients send is passed on
as it is.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import urlsplit

from msgspec import Struct

from jetstream.wire._parser import Parser
from jetstream.wire.operations import Kind, Role


class Passing(Struct, frozen=True):
    """A message on its way from the server to a client."""

    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes

    @property
    def is_publish_ack(self) -> bool:
        return self.payload.startswith((b'{"stream":', b'{"error":')) and not self.reply


class FaultyProxy:
    """Stands between clients and a server on the loopback interface."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._host = parts.hostname or "127.0.0.1"
        self._target_port = parts.port or 4222
        self.port = 0
        self.lost: list[Passing] = []
        self.delay = 0.0
        self._listener: asyncio.Server | None = None
        self._pipes: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._refuse = False
        self._rules: list[list[Any]] = []

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        self.resume()
        if self._listener is not None:
            self._listener.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- faults

    def cut(self) -> int:
        """Break every connection; returns how many there were."""
        pipes = list(self._pipes)
        for writers in pipes:
            for writer in writers:
                writer.transport.abort()
        return len(pipes)

    def refuse(self, refused: bool = True) -> None:
        """Let nobody in until told otherwise."""
        self._refuse = refused

    def pause(self) -> None:
        """Pass nothing on, in either direction."""
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    def lose(self, which: Callable[[Passing], bool], count: int = 1) -> None:
        """Drop the next `count` messages to clients for which `which` is true."""
        self._rules.append([which, count])

    def lose_acks(self, count: int = 1) -> None:
        """Drop the next publish acknowledgements."""
        self.lose(lambda message: message.is_publish_ack, count)

    # --- passing on

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self._refuse:
                return
            far_reader, far_writer = await asyncio.open_connection(self._host, self._target_port)
            pipe = (writer, far_writer)
            self._pipes.add(pipe)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._to_server(reader, pipe))
                    group.create_task(self._to_client(far_reader, pipe))
            finally:
                self._pipes.discard(pipe)
                far_writer.close()
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _to_server(self, reader: asyncio.StreamReader, pipe: Any) -> None:
        while data := await reader.read(65536):
            await self._open.wait()
            pipe[1].write(data)
            await pipe[1].drain()
        pipe[1].transport.abort()

    async def _to_client(self, reader: asyncio.StreamReader, pipe: Any) -> None:
        parser = Parser(Role.CLIENT)
        while data := await reader.read(65536):
            await self._open.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            parser.feed(data)
            out: list[bytes] = []
            while (batch := parser.next_batch()) is not None:
                out += [self._passed(batch, i) for i in range(len(batch))]
                Parser.done(batch)
            pipe[0].write(b"".join(out))
            await pipe[0].drain()
        pipe[0].transport.abort()

    def _passed(self, batch: Any, i: int) -> bytes:
        kind = batch.kind(i)
        if kind not in (Kind.MSG, Kind.HMSG):
            word = {Kind.INFO: b"INFO", Kind.ERR: b"-ERR", Kind.OK: b"+OK"}.get(kind)
            if word is None:
                return b"PING\r\n" if kind == Kind.PING else b"PONG\r\n"
            text: bytes = batch.payload(i)
            return word + b" " + text + b"\r\n"
        message = Passing(batch.subject(i), batch.reply(i), batch.headers(i), batch.payload(i))
        if self._is_lost(message):
            return b""
        head = b"%b %d " % (message.subject, batch.sid(i))
        if message.reply:
            head += message.reply + b" "
        size = len(message.headers) + len(message.payload)
        if kind == Kind.HMSG:
            line = b"HMSG %b%d %d\r\n" % (head, len(message.headers), size)
        else:
            line = b"MSG %b%d\r\n" % (head, size)
        return line + message.headers + message.payload + b"\r\n"

    def _is_lost(self, message: Passing) -> bool:
        for rule in self._rules:
            if rule[0](message):
                rule[1] -= 1
                if rule[1] <= 0:
                    self._rules.remove(rule)
                self.lost.append(message)
                return True
        return False
