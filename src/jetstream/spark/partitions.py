"""Ranges of sequences cut into partitions, purely by numbers.

A partition is `[lo, hi]` of one stream. Dense streams are cut evenly by sequence; where sequences
are sparse (many deletes, a narrow filter) the cuts are placed so that each part holds about as many
*messages*, with a question to the server per probe. Cuts are computed once, when a batch is
planned, and travel in the offset from then on.
"""

from collections.abc import Callable

from msgspec import Struct

ROWS_PER_PART_MIN = 50_000
SPARSE_SHARE = 0.25
PROBES_PER_CUT = 12


class Range(Struct, frozen=True):
    """Sequences lo to hi of one stream, both included."""

    stream: str
    lo: int
    hi: int


def part_count(rows: int, cores: int, least: int = 0, rows_max: int = 0) -> int:
    """How many partitions `rows` deserve."""
    if rows <= 0:
        return 1
    wanted = least or min(cores, -(-rows // ROWS_PER_PART_MIN))
    if rows_max:
        wanted = max(wanted, -(-rows // rows_max))
    return max(1, min(wanted, rows))


def even_cuts(lo: int, hi: int, parts: int) -> tuple[int, ...]:
    """The last sequence of every part but the last."""
    size = hi - lo + 1
    parts = max(1, min(parts, size))
    return tuple(lo + size * i // parts - 1 for i in range(1, parts))


def ranges(stream: str, lo: int, hi: int, parts: int, cuts: tuple[int, ...] = ()) -> list[Range]:
    """The partitions of lo..hi: at `cuts` where given, else evenly."""
    if hi < lo:
        return []
    ends = [c for c in (cuts or even_cuts(lo, hi, parts)) if lo <= c < hi]
    starts = [lo, *(c + 1 for c in ends)]
    return [Range(stream, a, b) for a, b in zip(starts, [*ends, hi], strict=True)]


def is_sparse(messages: int, lo: int, hi: int) -> bool:
    """Would cutting by sequence give parts of very different weight?"""
    span = hi - lo + 1
    return span > 0 and messages < span * (1 - SPARSE_SHARE)


def balanced_cuts(
    lo: int, hi: int, parts: int, count_from: Callable[[int], int]
) -> tuple[int, ...]:
    """Cuts with about the same number of messages each.

    `count_from(seq)` tells how many messages there are from `seq` on; it never rises with seq.
    """
    total = count_from(lo) - count_from(hi + 1)
    if total <= 0 or parts <= 1:
        return ()
    beyond = count_from(hi + 1)
    cuts: list[int] = []
    low = lo
    for part in range(1, parts):
        wanted = beyond + total - total * part // parts
        tolerance = max(1, total // (parts * 20))
        left, right = low, hi
        for _ in range(PROBES_PER_CUT):
            if left >= right:
                break
            middle = (left + right) // 2
            have = count_from(middle + 1)
            if abs(have - wanted) <= tolerance:
                left = right = middle
            elif have > wanted:
                left = middle + 1
            else:
                right = middle
        if lo <= left < hi and (not cuts or left > cuts[-1]):
            cuts.append(left)
            low = left + 1
    return tuple(cuts)
