"""What our consumers can do beyond the reference, switched on by `metadata` keys.

Every client can set metadata and sees it in the info, so nothing of this needs a special client:

    jsx.dead_letter.stream   copy given-up and terminated messages to this stream
    jsx.nak.delay            how long a -NAK without a delay waits ("5s")
    jsx.nak.jitter           spread of every delay, as a part of it (0.2: up to a fifth more)
    jsx.nak.park             "true": delayed messages do not count for max_ack_pending
    jsx.lane.key             "subject", or the number of a subject token (1 is the first)
    jsx.lane.max             how many of one lane may be out at a time (1)
    jsx.recorder             how many events the flight recorder keeps (0 to 10000)
"""

from typing import Final

from msgspec import Struct

from jetstream.errors import ApiError
from jetstream.schema.api_errors import CONSUMER_CREATE
from jetstream.schema.times import parse_go_duration
from jetstream.subjects.tokens import is_valid_name

PREFIX: Final = "jsx."
RECORDER_MAX: Final = 10_000
LANE_TOKEN_MAX: Final = 64


class Options(Struct, frozen=True):
    """The metadata keys, understood."""

    dead_letter_stream: str = ""
    nak_delay: int = 0
    nak_jitter: float = 0.0
    park: bool = False
    lane_token: int = -1
    """-1: no lanes; 0: the whole subject; n: its n-th token."""
    lane_max: int = 1
    recorder: int = 0


NONE: Final = Options()


def parse_options(metadata: dict[str, str]) -> Options:
    """Read the keys; a value we do not understand is refused, so nobody believes it works."""
    given = {key: value for key, value in metadata.items() if key.startswith(PREFIX)}
    if not given:
        return NONE
    values: dict[str, str | int | float | bool] = {}
    for key, value in given.items():
        try:
            name, parsed = _parse(key, value)
        except ValueError as error:
            raise ApiError(CONSUMER_CREATE, err=f"metadata {key}: {error}") from None
        values[name] = parsed
    return Options(**values)  # type: ignore[arg-type]


def _parse(key: str, value: str) -> tuple[str, str | int | float | bool]:
    if key == "jsx.dead_letter.stream":
        if not is_valid_name(value):
            raise ValueError("not a stream name")
        return "dead_letter_stream", value
    if key == "jsx.nak.delay":
        return "nak_delay", _between(parse_go_duration(value), 0, 2**62)
    if key == "jsx.nak.jitter":
        jitter = float(value)
        if not 0 <= jitter <= 1:
            raise ValueError("must be between 0 and 1")
        return "nak_jitter", jitter
    if key == "jsx.nak.park":
        if value not in ("true", "false"):
            raise ValueError("must be true or false")
        return "park", value == "true"
    if key == "jsx.lane.key":
        return "lane_token", 0 if value == "subject" else _between(int(value), 1, LANE_TOKEN_MAX)
    if key == "jsx.lane.max":
        return "lane_max", _between(int(value), 1, 1_000_000)
    if key == "jsx.recorder":
        return "recorder", _between(int(value), 0, RECORDER_MAX)
    raise ValueError("unknown key")


def _between(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(f"must be between {low} and {high}")
    return value
