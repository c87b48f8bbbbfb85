"""The headers a stream understands, by name, and reading them as the reference does.

Names are case-sensitive, the first occurrence counts, leading blanks of the value are cut, and an
empty value is mostly the same as no header: look at values by their truth, not their presence.
"""

from typing import Final

from jetstream.wire.headers import VERSION, with_header

MSG_ID: Final = b"Nats-Msg-Id"
EXPECTED_STREAM: Final = b"Nats-Expected-Stream"
EXPECTED_LAST_SEQ: Final = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQ: Final = b"Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQ_SUBJECT: Final = b"Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MSG_ID: Final = b"Nats-Expected-Last-Msg-Id"
ROLLUP: Final = b"Nats-Rollup"
TTL: Final = b"Nats-TTL"
INCR: Final = b"Nats-Incr"
COUNTER_SOURCES: Final = b"Nats-Counter-Sources"
MARKER_REASON: Final = b"Nats-Marker-Reason"
KV_OPERATION: Final = b"KV-Operation"
STREAM_SOURCE: Final = b"Nats-Stream-Source"
REQUEST_INFO: Final = b"Nats-Request-Info"
BATCH_ID: Final = b"Nats-Batch-Id"
BATCH_SEQ: Final = b"Nats-Batch-Sequence"
BATCH_COMMIT: Final = b"Nats-Batch-Commit"
SCHEDULE: Final = b"Nats-Schedule"
SCHEDULE_TARGET: Final = b"Nats-Schedule-Target"
SCHEDULE_SOURCE: Final = b"Nats-Schedule-Source"
SCHEDULE_TTL: Final = b"Nats-Schedule-TTL"
SCHEDULE_ROLLUP: Final = b"Nats-Schedule-Rollup"
SCHEDULE_TIME_ZONE: Final = b"Nats-Schedule-Time-Zone"
SCHEDULER: Final = b"Nats-Scheduler"
SCHEDULE_NEXT: Final = b"Nats-Schedule-Next"

_END: Final = b"\r\n\r\n"


def policy_headers(block: bytes) -> dict[bytes, bytes]:
    """The headers of a block that could matter to a stream: the first value of each name."""
    found: dict[bytes, bytes] = {}
    if not block:
        return found
    for line in block.split(b"\r\n")[1:]:
        if line.startswith((b"Nats-", b"KV-")):
            name, colon, value = line.partition(b":")
            if colon and name not in found:
                found[name] = value.lstrip(b" \t")
    return found


def set_header(block: bytes, name: bytes, value: bytes) -> bytes:
    """The block with this header replaced in place, or added at its end."""
    needle = b"\r\n" + name + b":"
    at = block.find(needle)
    if at < 0:
        return with_header(block, name, value)
    end = block.find(b"\r\n", at + len(needle))
    return block[:at] + needle + b" " + value + block[end:]


def drop_headers(block: bytes, names: tuple[bytes, ...], prefixes: tuple[bytes, ...] = ()) -> bytes:
    """The block without these headers; empty when no header is left."""
    if not block:
        return block
    lines = block.split(b"\r\n")
    kept = [
        line
        for line in lines[1:]
        if line
        and line.partition(b":")[0] not in names
        and not (prefixes and line.startswith(prefixes))
    ]
    if not kept:
        return b""
    return b"\r\n".join([lines[0], *kept]) + _END


def make_block(*fields: tuple[bytes, bytes]) -> bytes:
    lines = [VERSION, *(name + b": " + value for name, value in fields)]
    return b"\r\n".join(lines) + _END
