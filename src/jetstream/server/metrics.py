"""`/metrics`: the numbers of the server in Prometheus text format."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jetstream.server import facts

if TYPE_CHECKING:
    from jetstream.server.server import Server

Labels = dict[str, str]
Sample = tuple[Labels, float]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> str:
    """One metric with its help line; nothing at all if there is no sample."""
    lines = []
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
        shown = f"{{{inner}}}" if inner else ""
        lines.append(f"{name}{shown} {facts.number(value)}")
    if not lines:
        return ""
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n" + "\n".join(lines) + "\n"


def metrics(server: "Server") -> str:
    broker = server.broker
    now = server.clock.now()

    def one(value: float) -> list[Sample]:
        return [({}, value)]

    parts = [
        family(
            "nats_uptime_seconds",
            "gauge",
            "Time since the server started.",
            one((now - server.started_ns) / 1e9),
        ),
        family(
            "nats_memory_bytes",
            "gauge",
            "Resident memory of the process.",
            one(facts.memory_bytes()),
        ),
        family(
            "nats_connections", "gauge", "Open client connections.", one(len(server.connections))
        ),
        family(
            "nats_connections_total",
            "counter",
            "Client connections ever accepted.",
            one(server.total_connections),
        ),
        family(
            "nats_subscriptions",
            "gauge",
            "Subscriptions in all accounts.",
            one(facts.subscription_count(server)),
        ),
        family("nats_messages_in_total", "counter", "Messages received.", one(broker.in_msgs)),
        family(
            "nats_bytes_in_total", "counter", "Bytes of received messages.", one(broker.in_bytes)
        ),
        family("nats_messages_out_total", "counter", "Messages delivered.", one(broker.out_msgs)),
        family(
            "nats_bytes_out_total", "counter", "Bytes of delivered messages.", one(broker.out_bytes)
        ),
        family(
            "nats_slow_consumers_total",
            "counter",
            "Connections closed because they did not read.",
            one(server.slow_consumers),
        ),
        family(
            "nats_stale_connections_total",
            "counter",
            "Connections closed because they did not answer.",
            one(server.stale_connections),
        ),
        *_jetstream(server),
    ]
    return "".join(parts)


def _jetstream(server: "Server") -> list[str]:
    if server.engine is None:
        return []
    accounts = list(server.engine.accounts.values())
    streams = [
        ({"account": js.name, "stream": asset.name}, asset)
        for js in accounts
        for asset in js.streams.values()
    ]
    consumers = [
        ({**labels, "consumer": name}, consumer.consumer.info(server.clock.now()))
        for labels, asset in streams
        for name, consumer in asset.consumers.items()
    ]
    return [
        family(
            "jetstream_api_requests_total",
            "counter",
            "Requests to the JetStream API.",
            [({"account": js.name}, js.api_total) for js in accounts],
        ),
        family(
            "jetstream_api_errors_total",
            "counter",
            "Requests that were refused.",
            [({"account": js.name}, js.api_errors) for js in accounts],
        ),
        family(
            "jetstream_stream_messages",
            "gauge",
            "Messages in the stream.",
            [(labels, asset.store.msgs) for labels, asset in streams],
        ),
        family(
            "jetstream_stream_bytes",
            "gauge",
            "Bytes in the stream.",
            [(labels, asset.store.bytes) for labels, asset in streams],
        ),
        family(
            "jetstream_stream_first_seq",
            "gauge",
            "First sequence of the stream.",
            [(labels, asset.store.first_seq) for labels, asset in streams],
        ),
        family(
            "jetstream_stream_last_seq",
            "gauge",
            "Last sequence of the stream.",
            [(labels, asset.store.last_seq) for labels, asset in streams],
        ),
        family(
            "jetstream_stream_consumers",
            "gauge",
            "Consumers of the stream.",
            [(labels, len(asset.consumers)) for labels, asset in streams],
        ),
        family(
            "jetstream_consumer_pending",
            "gauge",
            "Messages not delivered yet.",
            [(labels, info.num_pending) for labels, info in consumers],
        ),
        family(
            "jetstream_consumer_ack_pending",
            "gauge",
            "Messages delivered and not acknowledged.",
            [(labels, info.num_ack_pending) for labels, info in consumers],
        ),
        family(
            "jetstream_consumer_redelivered",
            "gauge",
            "Messages that were delivered again.",
            [(labels, info.num_redelivered) for labels, info in consumers],
        ),
        family(
            "jetstream_consumer_waiting",
            "gauge",
            "Pull requests that wait.",
            [(labels, info.num_waiting) for labels, info in consumers],
        ),
    ]
