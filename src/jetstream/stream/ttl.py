"""How long a single message stays: `Nats-TTL`, and the markers left when a subject dies of age."""

from typing import Final

from jetstream.errors import ApiError
from jetstream.schema.api_errors import MESSAGE_TTL_INVALID
from jetstream.schema.stream import StreamConfig
from jetstream.schema.times import go_duration, parse_go_duration
from jetstream.store.base import NEVER
from jetstream.stream import headers as h

SECOND: Final = 1_000_000_000


def parse_ttl(value: bytes) -> int:
    """Nanoseconds (whole seconds), NEVER, or 0 for an empty value; ApiError otherwise."""
    if not value:
        return 0
    if value.isdigit():
        duration = int(value) * SECOND
    elif value.lower() == b"never":
        return NEVER
    else:
        try:
            duration = parse_go_duration(value.decode("utf-8", "replace"))
        except ValueError:
            raise ApiError(MESSAGE_TTL_INVALID) from None
    if duration < SECOND:
        raise ApiError(MESSAGE_TTL_INVALID)
    return duration // SECOND * SECOND


def apply_ttl(config: StreamConfig, block: bytes, value: bytes, now: int) -> tuple[bytes, int]:
    """The headers to store and when the message expires (0: by max_age only, NEVER: not at all)."""
    ttl = parse_ttl(value)
    if ttl in (0, NEVER):
        return block, ttl
    marker = config.subject_delete_marker_ttl
    if marker > ttl and config.max_msgs_per_subject != 1:
        # A message must not die before the marker that would announce its death.
        ttl = marker
        block = h.set_header(block, h.TTL, str(ttl // SECOND).encode())
    return block, min(now + ttl, NEVER - 1)


def leaves_marker(block: bytes) -> bool:
    """Markers are not followed by markers."""
    found = h.policy_headers(block)
    return not found.get(h.MARKER_REASON) and found.get(h.KV_OPERATION) != b"PURGE"


def marker_headers(config: StreamConfig) -> bytes:
    return h.make_block(
        (h.MARKER_REASON, b"MaxAge"),
        (h.TTL, go_duration(config.subject_delete_marker_ttl).encode()),
        (h.ROLLUP, b"sub"),
    )
