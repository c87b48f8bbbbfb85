"""Reading a stream in bulk: which files hold what, ranges of equal weight, messages as columns.

Two ways lead to the same columns (`_frames.pyx` draws them): `read_frames` asks a running store,
`read_file` takes a sealed file as it lies on disk, without the server. A file may still hold
messages that were removed after it was sealed; `Part.exact` says that it does not.
"""

from collections.abc import Callable

from msgspec import Struct

from jetstream.errors import StoreError
from jetstream.store import _frames
from jetstream.store._log import LogBase
from jetstream.store._subjects import Filter
from jetstream.store.files import mapped
from jetstream.store.record import segment_seed
from jetstream.store.segment import (
    HEADER_SEARCH_BYTES,
    TRAILER_BYTES,
    unpack_footer,
    unpack_header,
    unpack_trailer,
)

FRAME_BYTES = 1 << 20


class Part(Struct, frozen=True):
    """One segment of a stream."""

    path: str
    first_seq: int
    last_seq: int
    messages: int
    bytes: int
    min_time: int
    max_time: int
    sealed: bool
    exact: bool
    """Sealed, and nothing it lists was removed since: the file alone tells the truth."""


def parts(store: LogBase) -> list[Part]:
    """The segments of a store, oldest first."""
    return [
        Part(
            segment.path or "",
            segment.first_seq,
            segment.last_seq,
            segment.live,
            segment.end - segment.start,
            segment.min_time,
            segment.max_time,
            segment.sealed,
            segment.sealed and segment.live == segment.listed,
        )
        for segment in store.segments
    ]


def split_range(
    store: LogBase, lo: int, hi: int, k: int, filter: Filter | None = None
) -> list[tuple[int, int]]:
    """At most k ranges, both ends included, that cover lo..hi with about as many messages each."""
    lo, hi = max(lo, store.first_seq, 1), min(hi, store.last_seq)
    if lo > hi or k < 1:
        return []
    behind = store.count_from(hi + 1, filter)
    total = store.count_from(lo, filter) - behind
    ranges, start = [], lo
    for i in range(1, min(k, total)):
        target = behind + total - total * i // min(k, total)
        cut = _seq_with(store, start, hi, target, filter)
        if cut > start:
            ranges.append((start, cut - 1))
            start = cut
    ranges.append((start, hi))
    return ranges


def _seq_with(store: LogBase, low: int, high: int, target: int, filter: Filter | None) -> int:
    """The highest sequence from which on at least `target` messages follow."""
    while low < high:
        middle = (low + high + 1) // 2
        if store.count_from(middle, filter) >= target:
            low = middle
        else:
            high = middle - 1
    return low


def read_frames(
    store: LogBase,
    lo: int,
    hi: int,
    filter: Filter | None = None,
    max_bytes: int = FRAME_BYTES,
    *,
    headers: bool = True,
    payloads: bool = True,
) -> bytearray:
    """One frame of columns from lo on; its `next` tells where to go on, 0 when hi is reached."""
    return _frames.read_frame(store, lo, hi, filter, max_bytes, headers, payloads)


def read_file(
    path: str,
    lo: int = 0,
    hi: int = (1 << 64) - 1,
    wanted: Callable[[bytes], bool] | None = None,
    *,
    headers: bool = True,
    payloads: bool = True,
) -> tuple[bytearray, int]:
    """The messages of a sealed segment file as one frame, and how many records were damaged."""
    with mapped(path) as view:
        found = unpack_header(bytes(view[:HEADER_SEARCH_BYTES]))
        place = unpack_trailer(bytes(view[-TRAILER_BYTES:]))
        footer = None
        if place is not None:
            footer = unpack_footer(bytes(view[place[0] : place[0] + place[1]]), place[2])
        if found is None or footer is None:
            raise StoreError(f"{path} is not a sealed segment")
        chosen = None if wanted is None else bytes(map(bool, map(wanted, footer.names)))
        seed = segment_seed(found[0].identity.uid, found[0].first_seq)
        return _frames.frame_of_records(
            view,
            footer.data_start,
            footer.data_end,
            seed,
            found[0].first_seq,
            footer.subjects,
            footer.subject_width,
            footer.lengths,
            footer.length_width,
            lo,
            hi,
            chosen,
            headers,
            payloads,
        )
