"""The same client for code without an event loop: every name of the async client, no `await`.

A proxy stands for each object of the async client. Calling a method runs it in the background loop
(`portal.py`) and waits; what comes back is wrapped again if it lives on the loop. Messages are real
objects made by the kernel, with blocking `ack()` and friends, so a fetch of a thousand costs one
crossing. Iterating a flow crosses once per chunk of what has already arrived.

`sync.pyi` has the types; `tools/gen_sync_stub.py` makes it from the async sources.
"""

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from jetstream.client.errors import NotJetStreamMessageError
from jetstream.client.message import (
    ACK,
    IN_PROGRESS,
    BaseMessage,
    Delivery,
    HeadersLike,
    Payload,
    nak_body,
    term_body,
)
from jetstream.client.portal import Portal, portal

CHUNK = 1024


class Message(BaseMessage):
    """A received message."""

    __slots__ = ()

    def respond(self, data: Payload = b"", headers: HeadersLike | None = None) -> None:
        """Answer a request."""
        connection = self.connection
        portal().run(connection.publish(self.reply_bytes, data, headers=headers))


class JetStreamMessage(Delivery, Message):
    """A message a consumer delivered. Acknowledge it once, in one of the five ways."""

    __slots__ = ()

    def ack(self) -> None:
        """It is done; do not deliver it again."""
        self._post(ACK)

    def ack_sync(self, timeout: float | None = None) -> None:
        """As `ack`, and wait until the server has confirmed it."""
        if not self.reply_bytes:
            raise NotJetStreamMessageError("this message cannot be acknowledged")
        portal().run(self.connection.request(self.reply, ACK, timeout=timeout))

    def nak(self, delay: float | None = None) -> None:
        """It failed: deliver it again, now or after `delay` seconds."""
        self._post(nak_body(delay))

    def in_progress(self) -> None:
        """Still working on it: start the ack timer again."""
        self._post(IN_PROGRESS)

    def term(self, reason: str = "") -> None:
        """Give up on it: never deliver it again."""
        self._post(term_body(reason))

    def _post(self, body: bytes) -> None:
        if not self.reply_bytes:
            raise NotJetStreamMessageError("this message cannot be acknowledged")
        portal().post(lambda: self._answer(body))


class Proxy:
    """Stands for an object that lives on the background loop."""

    __slots__ = ("_portal", "_target")

    def __init__(self, target: Any, through: Portal) -> None:
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_portal", through)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._target, name)
        if not callable(value) or isinstance(value, type):
            return wrap(value, self._portal)
        return _method(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._target, name, value)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target) if not name.startswith("_")]

    def __enter__(self) -> Any:
        self._call("__aenter__")
        return self

    def __exit__(self, *error: Any) -> None:
        self._call("__aexit__", *error)

    def __repr__(self) -> str:
        return f"{self._target!r} (sync)"

    def _repr_html_(self) -> str | None:
        show = getattr(self._target, "_repr_html_", None)
        return show() if show is not None else None

    def _call(self, name: str, /, *args: Any, **options: Any) -> Any:
        args = tuple(_unwrap(value, self._portal) for value in args)
        options = {key: _unwrap(value, self._portal) for key, value in options.items()}
        return wrap(self._portal.run(_called(self._target, name, args, options)), self._portal)


async def _called(target: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    result = getattr(target, name)(*args, **options)
    if inspect.isawaitable(result):
        result = await result
    if inspect.isasyncgen(result):
        # A list of streams, names, keys, …: finite, so it is fetched whole.
        return iter([item async for item in result])
    return result


def _method(owner: Proxy, name: str) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        return owner._call(name, *args, **options)

    call.__name__ = name
    call.__doc__ = getattr(getattr(owner._target, name), "__doc__", None)
    return call


def _unwrap(value: Any, through: Portal) -> Any:
    if isinstance(value, Proxy):
        return value._target
    if inspect.isfunction(value) or inspect.ismethod(value):
        return _in_user_thread(value, through)
    return value


def _in_user_thread(function: Callable[..., Any], through: Portal) -> Callable[..., Any]:
    """Callbacks of the user run outside the loop, where they may make blocking calls."""

    async def call(*args: Any) -> Any:
        wrapped = [wrap(value, through) for value in args]
        return await through.loop.run_in_executor(None, function, *wrapped)

    return call


class _Flow(Proxy):
    """Something to iterate: messages, a subscription, a watcher."""

    __slots__ = ("_here",)

    def __init__(self, target: Any, through: Portal) -> None:
        super().__init__(target, through)
        object.__setattr__(self, "_here", [])

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        here: list[Any] = self._here
        if not here:
            here.extend(reversed(self._portal.run(_take(self._target, CHUNK))))
            if not here:
                raise StopIteration
        return here.pop()

    def next(self, timeout: float | None = None) -> Any:
        """The next one; see the async client for what happens when none comes in time."""
        here: list[Any] = self._here
        return here.pop() if here else self._call("next", timeout)


async def _take(target: Any, most: int) -> list[Any]:
    take = getattr(target, "take", None)
    if take is not None:
        return list(await take(most))
    try:
        return [await target.__anext__()]
    except StopAsyncIteration:
        return []


class Connection(Proxy):
    """A live connection; see `jetstream.Connection`."""

    __slots__ = ()

    def subscribe(self, subject: str, *, callback: Any = None, **options: Any) -> Any:
        """Receive what is published on a subject; a callback runs in a thread of its own."""
        subscription = self._call("subscribe", subject, **options)
        if callback is not None:
            _call_back(subscription, callback, self)
        return subscription

    def events(self) -> Iterator[Any]:
        """Connection events from now on, until it is closed."""
        return _Flow(_AsyncIterator(self._target.events()), self._portal)


class _AsyncIterator:
    """An async generator with the face of a flow."""

    def __init__(self, source: Any) -> None:
        self._source = source

    async def __anext__(self) -> Any:
        return await self._source.__anext__()


class JetStream(Proxy):
    """The JetStream of one account; see `jetstream.JetStream`."""

    __slots__ = ()

    def publish_many(
        self,
        messages: Iterable[Any],
        *,
        subject: str | None = None,
        window: int | None = None,
        timeout: float = 30.0,
        stop_on_error: bool = False,
    ) -> Any:
        """Publish an iterable, pipelined. The iterable is read in this thread."""
        bulk = self._target.bulk(subject=subject, window=window, timeout=timeout)
        run = self._portal.run
        run(_soon(bulk.start))
        source = iter(messages)
        while chunk := list(islice(source, bulk.chunk_size)):
            run(bulk.send(chunk))
            if stop_on_error and bulk.has_failures:
                break
        return run(bulk.finish())

    def subscribe(self, subject: str, *, callback: Any = None, **options: Any) -> Any:
        """A push subscription; a callback runs in a thread of its own."""
        manual = options.get("manual_ack", False)
        if callback is not None:
            options["manual_ack"] = True
        subscription = self._call("subscribe", subject, **options)
        if callback is not None:
            _call_back(subscription, callback, self, ack=not manual)
        return subscription


async def _soon(work: Callable[[], Any]) -> Any:
    return work()


class Consumer(Proxy):
    """A pull consumer; see `jetstream.Consumer`."""

    __slots__ = ()

    def consume(self, callback: Callable[[Any], Any], **options: Any) -> "ConsumeContext":
        """Call `callback` with every message, in a thread of its own."""
        flow = self._call("messages", **options)
        return ConsumeContext(flow, _call_back(flow, callback, self))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._call("messages"))


class ConsumeContext:
    """A running `consume()`: stop it, drain it, or wait for its end."""

    def __init__(self, flow: Any, thread: threading.Thread) -> None:
        self._flow = flow
        self._thread = thread

    def stop(self) -> None:
        """No further callback; what was buffered will be redelivered."""
        self._flow._here.clear()
        self._flow._call("stop")
        self.closed(5.0)

    def drain(self, timeout: float | None = None) -> None:
        """Let the callback see what has arrived, then end."""
        self._flow._call("drain")
        self.closed(timeout)

    def closed(self, timeout: float | None = None) -> bool:
        """Wait until it has ended; tells whether it has."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> "ConsumeContext":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _call_back(
    flow: Any, callback: Callable[[Any], Any], owner: Proxy, ack: bool = False
) -> threading.Thread:
    connection = getattr(flow._target, "js", owner._target)
    report = getattr(connection, "connection", connection)

    def run() -> None:
        while True:
            try:
                message = next(flow)
            except StopIteration:
                return
            except Exception as error:
                owner._portal.post(lambda error=error: _report(report, error))
                return
            try:
                callback(message)
                if ack and message.reply_bytes:
                    message.ack()
            except Exception as error:
                owner._portal.post(lambda error=error: _report(report, error))

    thread = threading.Thread(target=run, name="jetstream-callback", daemon=True)
    thread.start()
    return thread


def _report(connection: Any, error: Exception) -> None:
    tell = getattr(connection, "report_error", None)
    if tell is not None:
        tell(error)


class MessageBatch(list[Any]):
    """The messages of one fetch."""

    error: Exception | None = None

    def ack(self) -> None:
        """Acknowledge every message of the batch, in one write."""
        if self:
            portal().run(_ack_all(list(self)))

    def ack_sync(self, timeout: float | None = None) -> None:
        """As `ack`, and wait until the server confirmed the last of them."""
        if self:
            portal().run(_ack_all(list(self[:-1])))
            self[-1].ack_sync(timeout)

    def to_arrow(self) -> Any:
        """A pyarrow table of the batch."""
        from jetstream.client.arrow import messages_to_arrow

        return messages_to_arrow(self)


async def _ack_all(messages: list[Any]) -> None:
    if messages:
        connection = messages[0].connection
        connection.out.acks(messages, ACK)
        connection.plan_flush()


class PubAckFuture(Proxy):
    """An acknowledgement on its way: `result(timeout)` waits for it."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> Any:
        return self._portal.run(_awaited(self._target, timeout))

    def done(self) -> bool:
        return bool(self._target.done())


async def _awaited(target: Any, timeout: float | None) -> Any:
    import asyncio

    async with asyncio.timeout(timeout):
        return await target


class Stream(Proxy):
    """A stream on the server; see `jetstream.Stream`."""

    __slots__ = ()


class OrderedConsumer(Consumer):
    """Reads a stream in order; see `jetstream.OrderedConsumer`."""

    __slots__ = ()


class PullSubscription(_Flow):
    """A durable to pull from; see `jetstream.PullSubscription`."""

    __slots__ = ()

    def next(self, timeout: float | None = 5.0) -> Any:
        """One message, asked for now, or None."""
        return self._call("next", timeout)


class Messages(_Flow):
    """A flow of messages to iterate."""

    __slots__ = ()


class OrderedMessages(_Flow):
    """The flow of an ordered consumer."""

    __slots__ = ()


class Subscription(_Flow):
    """Interest in a subject: iterate it or ask it for `next()`."""

    __slots__ = ()


class PushSubscription(_Flow):
    """A subscription on a push consumer."""

    __slots__ = ()


class AtomicBatch(Proxy):
    """Messages that are stored together or not at all."""

    __slots__ = ()


class KeyValue(Proxy):
    """A bucket of keys and values; see `jetstream.KeyValue`."""

    __slots__ = ()


class KeyWatcher(_Flow):
    """Follows keys of a bucket."""

    __slots__ = ()


class ObjectStore(Proxy):
    """A bucket of objects; see `jetstream.ObjectStore`."""

    __slots__ = ()


class ObjectReader(_Flow):
    """An object being read: iterate its chunks, or `read()` all of it."""

    __slots__ = ()


class ObjectWatcher(_Flow):
    """Follows the objects of a bucket."""

    __slots__ = ()


class Streams(Proxy):
    """`js.streams`, the older style."""

    __slots__ = ()


class Consumers(Proxy):
    """`js.consumers`, the older style."""

    __slots__ = ()


def wrap(value: Any, through: Portal) -> Any:
    """The blocking face of something that lives on the loop; plain values stay as they are."""
    kind = _FACES.get(type(value).__name__)
    if kind is None or not type(value).__module__.startswith("jetstream.client"):
        return value
    if kind is MessageBatch:
        batch = MessageBatch(value)
        batch.error = value.error
        return batch
    return kind(value, through)


_FACES: dict[str, Any] = {
    face.__name__: face
    for face in (
        Connection,
        JetStream,
        Stream,
        Consumer,
        OrderedConsumer,
        Messages,
        OrderedMessages,
        Subscription,
        PushSubscription,
        PullSubscription,
        MessageBatch,
        PubAckFuture,
        AtomicBatch,
        Streams,
        Consumers,
        KeyValue,
        KeyWatcher,
        ObjectStore,
        ObjectReader,
        ObjectWatcher,
    )
}


def connect(servers: str | list[str] = "nats://127.0.0.1:4222", **options: Any) -> Connection:
    """Connect and wait until it is done; options as in `jetstream.connect`."""
    through = portal()
    for name in ("on_event", "on_error", "on_disconnect", "on_reconnect", "on_close"):
        if options.get(name) is not None:
            options[name] = _in_user_thread(options[name], through)

    async def open_it() -> Any:
        from jetstream.client.connect import connect as connect_async

        connection = await connect_async(servers, **options)
        connection.message_type = Message  # type: ignore[assignment]
        connection.delivery_type = JetStreamMessage
        return connection

    return Connection(through.run(open_it()), through)


def embedded(store_dir: Any = None, **settings: Any) -> Connection:
    """A private server in this process, and a blocking client on it."""
    from jetstream.embedding import embedded as embedded_async

    through = portal()

    async def open_it() -> Any:
        connection = await embedded_async(store_dir, **settings)
        connection.message_type = Message  # type: ignore[assignment]
        connection.delivery_type = JetStreamMessage
        return connection

    return Connection(through.run(open_it()), through)
