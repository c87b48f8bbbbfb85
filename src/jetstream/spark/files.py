"""Sealed segments of a store directory that the worker can see, read without the server.

The server lists its segments; those that are sealed, unchanged since (`exact`) and visible here are
mapped and decoded, everything else (the growing end, segments with later deletes, files that are
not there) is read in bulk. So the rows are the same whether a path is visible or not.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from jetstream.client.columns import Taken
from jetstream.errors import StoreError
from jetstream.spark.bulk import read_bulk, segments, unpack
from jetstream.spark.control import Control
from jetstream.spark.readers import Reader, Wanted
from jetstream.spark.rows import subject_regex


def file_reader(store_dir: str) -> Reader:
    """A reader for workers that see the server's store directory at `store_dir`."""

    def read(control: Control, wanted: Wanted) -> Iterator[Taken]:
        return read_segments(control, wanted, store_dir)

    return read


def read_segments(control: Control, wanted: Wanted, store_dir: str) -> Iterator[Taken]:
    listing = segments(control, wanted.stream)
    at = wanted.lo
    for part in listing["segments"]:
        if part["last_seq"] < at or part["first_seq"] > wanted.hi or not part["exact"]:
            continue
        path = visible(part["path"], listing["store_dir"], store_dir)
        if path is None:
            continue
        if part["first_seq"] > at:
            yield from read_bulk(control, _piece(wanted, at, part["first_seq"] - 1))
        last = min(part["last_seq"], wanted.hi)
        first = max(part["first_seq"], at)
        try:
            taken = _decoded(path, first, last, wanted)
        except (OSError, StoreError, ImportError):
            # Compacted or damaged meanwhile, or no compiled code here: the server knows better.
            yield from read_bulk(control, _piece(wanted, first, last))
        else:
            yield from sliced(taken, wanted.rows)
        at = last + 1
    if at <= wanted.hi:
        yield from read_bulk(control, _piece(wanted, at, wanted.hi))


def visible(path: str, theirs: str, ours: str) -> str | None:
    """Where a segment file is for us; None when it cannot be seen from here."""
    here = Path(path)
    if ours and theirs and path.startswith(theirs):
        root = Path(ours)
        # `storeDir` may name the directory given to the server or the one below it.
        tail = path[len(theirs) :].lstrip("/")
        for candidate in (root / tail, root / "jetstream" / tail):
            if candidate.is_file():
                return str(candidate)
    return str(here) if here.is_file() else None


def _piece(wanted: Wanted, lo: int, hi: int) -> Wanted:
    return Wanted(
        wanted.stream, lo, hi, wanted.filters, wanted.headers, wanted.data, wanted.rows, wanted.lean
    )


def _decoded(path: str, lo: int, hi: int, wanted: Wanted) -> Taken:
    from jetstream.store.segments import read_file

    keep = _chooser(wanted.filters) if wanted.filters else None
    frame, damaged = read_file(path, lo, hi, keep, headers=wanted.headers, payloads=wanted.data)
    if damaged:
        raise StoreError(f"{path} has {damaged} damaged records")
    return unpack(frame)[0]


def _chooser(filters: tuple[str, ...]) -> Callable[[bytes], bool]:
    matches = re.compile(subject_regex(filters).encode()).match

    def chosen(subject: bytes) -> bool:
        return matches(subject) is not None

    return chosen


def sliced(taken: Taken, rows_max: int) -> Iterator[Taken]:
    """A large chunk in pieces of at most `rows_max` rows, without copying the data."""
    rows = taken[0]
    if rows <= rows_max:
        if rows:
            yield taken
        return
    ends = [memoryview(column).cast("B") for column in (taken[1], taken[3], taken[7])]
    fixed = [memoryview(column).cast("B") for column in (taken[5], taken[6])]
    for start in range(0, rows, rows_max):
        count = min(rows_max, rows - start)
        # Arrow takes offsets that do not begin with zero: the data stay where they are.
        subject_ends, payload_ends, header_ends = (
            e[start * 4 : (start + count + 1) * 4] if len(e) > 4 else e for e in ends
        )
        seqs, times = (f[start * 8 : (start + count) * 8] for f in fixed)
        yield (
            count,
            subject_ends,
            taken[2],
            payload_ends,
            taken[4],
            seqs,
            times,
            header_ends,
            taken[8],
        )
