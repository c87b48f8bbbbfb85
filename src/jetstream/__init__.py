"""JetStream in Python: server, client, command line and a data pipeline on Apache Spark.

    async with jetstream.connect("nats://127.0.0.1:4222") as nc:
        js = nc.jetstream()
        await js.create_stream(name="ORDERS", subjects=["orders.>"])
        await js.publish("orders.new", b"42")

`jetstream.sync` is the same without `await`. Names are loaded when they are first used, so that
importing this package costs next to nothing.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "connect": "jetstream.client.connect",
    "Connection": "jetstream.client.connection",
    "Subscription": "jetstream.client.subscription",
    "Message": "jetstream.client.message",
    "JetStreamMessage": "jetstream.client.message",
    "Metadata": "jetstream.client.message",
    "to_jetstream": "jetstream.client.message",
    "Headers": "jetstream.wire.headers",
    "Event": "jetstream.client.events",
    "EventKind": "jetstream.client.events",
    "Status": "jetstream.client.events",
    "JetStreamError": "jetstream.errors",
    "ApiError": "jetstream.errors",
}
_MODULES = ("errors", "sync", "testing")

if TYPE_CHECKING:
    from jetstream.client.connect import connect as connect
    from jetstream.client.connection import Connection as Connection
    from jetstream.client.events import Event as Event
    from jetstream.client.events import EventKind as EventKind
    from jetstream.client.events import Status as Status
    from jetstream.client.message import JetStreamMessage as JetStreamMessage
    from jetstream.client.message import Message as Message
    from jetstream.client.message import Metadata as Metadata
    from jetstream.client.message import to_jetstream as to_jetstream
    from jetstream.client.subscription import Subscription as Subscription
    from jetstream.errors import ApiError as ApiError
    from jetstream.errors import JetStreamError as JetStreamError
    from jetstream.wire.headers import Headers as Headers


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _WHERE:
        value = getattr(import_module(_WHERE[name]), name)
    elif name in _MODULES:
        value = import_module(f"jetstream.{name}")
    else:
        raise AttributeError(f"module 'jetstream' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE, *_MODULES])
