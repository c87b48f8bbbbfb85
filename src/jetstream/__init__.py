"""JetStream in Python: server, client, command line and a data pipeline on Apache Spark.

    async with jetstream.connect("nats://127.0.0.1:4222") as nc:
        js = nc.jetstream()
        await js.create_stream(name="ORDERS", subjects=["orders.>"])
        await js.publish("orders.new", b"42")

`jetstream.sync` is the same without `await`. Names are loaded when they are first used, so that
importing this package costs next to nothing.
"""

# `typing` alone would take most of the time of importing this package; type checkers know the name.
TYPE_CHECKING = False

__version__ = "0.1.0"

_ROOMS: dict[str, tuple[str, ...]] = {
    "client.connect": ("connect",),
    "embedding": ("embedded",),
    "client.connection": ("Connection",),
    "client.subscription": ("Subscription",),
    "client.message": ("Message", "JetStreamMessage", "Metadata", "to_jetstream"),
    "client.events": ("Event", "EventKind", "Status", "Statistics"),
    "client.jetstream": ("JetStream",),
    "client.stream": ("Stream",),
    "client.consumer": ("Consumer", "ConsumeContext", "Messages"),
    "client.ordered": ("OrderedConsumer",),
    "client.pull": ("MessageBatch",),
    "client.push": ("PushSubscription", "PullSubscription"),
    "client.acks": ("PubAck", "PubAckFuture", "PublishReport"),
    "client.batch": ("AtomicBatch",),
    "client.reading": ("StreamMessage",),
    "client.kv": ("KeyValue", "KeyValueConfig", "Entry", "BucketStatus"),
    "client.watch": ("KeyWatcher",),
    "client.objects": ("ObjectStore", "ObjectStoreConfig", "ObjectInfo", "ObjectReader"),
    "client.config": (
        "StreamConfig",
        "ConsumerConfig",
        "StreamSource",
        "ExternalStream",
        "SubjectTransform",
        "RePublish",
        "Placement",
        "ConsumerLimits",
    ),
    "client.info": ("StreamInfo", "StreamState", "ConsumerInfo", "AccountInfo"),
    "wire.headers": ("Headers",),
    "errors": ("JetStreamError", "ApiError"),
    "server.server": ("Server",),
}
_WHERE = {name: room for room, names in _ROOMS.items() for name in names}
_MODULES = ("errors", "sync", "testing")

if TYPE_CHECKING:
    from typing import Any

    from jetstream.client.acks import PubAck as PubAck
    from jetstream.client.acks import PubAckFuture as PubAckFuture
    from jetstream.client.acks import PublishReport as PublishReport
    from jetstream.client.batch import AtomicBatch as AtomicBatch
    from jetstream.client.config import ConsumerConfig as ConsumerConfig
    from jetstream.client.config import ConsumerLimits as ConsumerLimits
    from jetstream.client.config import ExternalStream as ExternalStream
    from jetstream.client.config import Placement as Placement
    from jetstream.client.config import RePublish as RePublish
    from jetstream.client.config import StreamConfig as StreamConfig
    from jetstream.client.config import StreamSource as StreamSource
    from jetstream.client.config import SubjectTransform as SubjectTransform
    from jetstream.client.connect import connect as connect
    from jetstream.client.connection import Connection as Connection
    from jetstream.client.consumer import ConsumeContext as ConsumeContext
    from jetstream.client.consumer import Consumer as Consumer
    from jetstream.client.consumer import Messages as Messages
    from jetstream.client.events import Event as Event
    from jetstream.client.events import EventKind as EventKind
    from jetstream.client.events import Statistics as Statistics
    from jetstream.client.events import Status as Status
    from jetstream.client.info import AccountInfo as AccountInfo
    from jetstream.client.info import ConsumerInfo as ConsumerInfo
    from jetstream.client.info import StreamInfo as StreamInfo
    from jetstream.client.info import StreamState as StreamState
    from jetstream.client.jetstream import JetStream as JetStream
    from jetstream.client.kv import BucketStatus as BucketStatus
    from jetstream.client.kv import Entry as Entry
    from jetstream.client.kv import KeyValue as KeyValue
    from jetstream.client.kv import KeyValueConfig as KeyValueConfig
    from jetstream.client.message import JetStreamMessage as JetStreamMessage
    from jetstream.client.message import Message as Message
    from jetstream.client.message import Metadata as Metadata
    from jetstream.client.message import to_jetstream as to_jetstream
    from jetstream.client.objects import ObjectInfo as ObjectInfo
    from jetstream.client.objects import ObjectReader as ObjectReader
    from jetstream.client.objects import ObjectStore as ObjectStore
    from jetstream.client.objects import ObjectStoreConfig as ObjectStoreConfig
    from jetstream.client.ordered import OrderedConsumer as OrderedConsumer
    from jetstream.client.pull import MessageBatch as MessageBatch
    from jetstream.client.push import PullSubscription as PullSubscription
    from jetstream.client.push import PushSubscription as PushSubscription
    from jetstream.client.reading import StreamMessage as StreamMessage
    from jetstream.client.stream import Stream as Stream
    from jetstream.client.subscription import Subscription as Subscription
    from jetstream.client.watch import KeyWatcher as KeyWatcher
    from jetstream.embedding import embedded as embedded
    from jetstream.errors import ApiError as ApiError
    from jetstream.errors import JetStreamError as JetStreamError
    from jetstream.server.server import Server as Server
    from jetstream.wire.headers import Headers as Headers


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _WHERE:
        value = getattr(import_module(f"jetstream.{_WHERE[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"jetstream.{name}")
    else:
        raise AttributeError(f"module 'jetstream' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE, *_MODULES])
