"""The header-only messages a consumer sends, with their exact texts."""

from typing import Final

_END: Final = b"\r\n\r\n"


def status(code: int, text: str, extra: bytes = b"") -> bytes:
    """A header block with nothing but a status; `extra` are whole header lines."""
    return b"NATS/1.0 %d %b\r\n%b\r\n" % (code, text.encode(), extra)


NO_MESSAGES: Final = status(404, "No Messages")
REQUESTS_PENDING: Final = status(408, "Requests Pending")
EXCEEDED_MAX_WAITING: Final = status(409, "Exceeded MaxWaiting")
CONSUMER_DELETED: Final = status(409, "Consumer Deleted")
PUSH_BASED: Final = status(409, "Consumer is push based")
REQUIRED_API_LEVEL: Final = status(412, "Required Api Level")
PIN_MISMATCH: Final = status(423, "Nats-Pin-Id mismatch")
FLOW_CONTROL: Final = status(100, "FlowControl Request")


def bad_request(text: str) -> bytes:
    return status(400, f"Bad Request - {text}")


def exceeded(limit: str, value: object) -> bytes:
    """`409 Exceeded MaxRequestBatch of 10` and its relatives."""
    return status(409, f"Exceeded {limit} of {value}")


def with_pending(code: int, text: str, messages: int, size: int) -> bytes:
    """A request ended before it was filled: this is what remains of it."""
    lines = b"Nats-Pending-Messages: %d\r\nNats-Pending-Bytes: %d\r\n" % (messages, size)
    return status(code, text, lines)


def idle_heartbeat(consumer_seq: int, stream_seq: int, stalled: bytes = b"") -> bytes:
    """Nothing to say, still here; `stalled` is the flow-control subject we wait for."""
    lines = b"Nats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n" % (consumer_seq, stream_seq)
    if stalled:
        lines += b"Nats-Consumer-Stalled: %b\r\n" % stalled
    return status(100, "Idle Heartbeat", lines)
