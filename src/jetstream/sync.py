"""JetStream without an event loop: `jetstream.sync.connect(…)` and every name of the async client.

    with jetstream.sync.connect() as nc:
        js = nc.jetstream()
        js.publish("orders.new", b"42")
        for msg in js.consumer("ORDERS", "billing").fetch(10):
            msg.ack()

Safe from several threads, in notebooks (where a loop is already running) and in forked workers.
"""

from jetstream.client.blocking import (
    Connection,
    ConsumeContext,
    Consumer,
    JetStream,
    JetStreamMessage,
    Message,
    MessageBatch,
    PubAckFuture,
    connect,
    embedded,
)

__all__ = [
    "Connection",
    "ConsumeContext",
    "Consumer",
    "JetStream",
    "JetStreamMessage",
    "Message",
    "MessageBatch",
    "PubAckFuture",
    "connect",
    "embedded",
]
