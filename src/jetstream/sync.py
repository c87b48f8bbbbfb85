"""JetStream without an event loop: `jetstream.sync.connect(…)` and every name of the async client.

    with jetstream.sync.connect() as nc:
        js = nc.jetstream()
        js.publish("orders.new", b"42")
        for msg in js.consumer("ORDERS", "billing").fetch(10):
            msg.ack()

Safe from several threads, in notebooks (where a loop is already running) and in forked workers.
The types are in `sync.pyi`, which `tools/gen_sync_stub.py` makes from the async sources.
"""

from jetstream.client.blocking import (
    AtomicBatch,
    Connection,
    ConsumeContext,
    Consumer,
    Consumers,
    JetStream,
    JetStreamMessage,
    KeyValue,
    KeyWatcher,
    Message,
    MessageBatch,
    Messages,
    ObjectReader,
    ObjectStore,
    ObjectWatcher,
    OrderedConsumer,
    OrderedMessages,
    PubAckFuture,
    PullSubscription,
    PushSubscription,
    Stream,
    Streams,
    Subscription,
    connect,
    embedded,
)

__all__ = [
    "AtomicBatch",
    "Connection",
    "ConsumeContext",
    "Consumer",
    "Consumers",
    "JetStream",
    "JetStreamMessage",
    "KeyValue",
    "KeyWatcher",
    "Message",
    "MessageBatch",
    "Messages",
    "ObjectReader",
    "ObjectStore",
    "ObjectWatcher",
    "OrderedConsumer",
    "OrderedMessages",
    "PubAckFuture",
    "PullSubscription",
    "PushSubscription",
    "Stream",
    "Streams",
    "Subscription",
    "connect",
    "embedded",
]
