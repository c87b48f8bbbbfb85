"""Chunks of columns from a server made into the record batches Spark expects.

A `Layout` knows which columns a query wants (the schema it was given, or the default one), tells
the reader what it has to fetch for them, and builds exactly matching Arrow batches. Spark checks
only the first batch of a task, so every batch is built from the same field types.
"""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetstream.client.columns import Taken
from jetstream.spark.options import BadOption

# Every column we can make: its Spark type and what it is.
COLUMNS = {
    "subject": "string",
    "data": "binary",
    "seq": "bigint",
    "time": "timestamp",
    "headers": "map<string,array<string>>",
    "raw_headers": "binary",
    "stream": "string",
    "time_ns": "bigint",
    "msgid": "string",
    "size": "int",
    "tokens": "array<string>",
}
DEFAULT = ("subject", "data", "seq", "time")
NEEDS_HEADERS = {"headers", "raw_headers", "msgid"}
NEEDS_DATA = {"data", "size"}


def default_ddl(names: tuple[str, ...], headers: bool, decoded: str = "") -> str:
    """The schema when the user gives none, as Spark writes it."""
    for name in names:
        if name not in COLUMNS:
            raise BadOption(f"option columns: no column {name!r}; there are {', '.join(COLUMNS)}")
    wanted = list(names or DEFAULT)
    if headers and "headers" not in wanted:
        wanted.append("headers")
    if decoded == "text":
        return "value string, " + ", ".join(f"_{n} {COLUMNS[n]}" for n in wanted if n != "data")
    if decoded:
        raise BadOption(f"format={decoded} needs .schema(…) with the fields of the payload")
    return ", ".join(f"{name} {COLUMNS[name]}" for name in wanted)


class Layout:
    """Which columns, in which order and types."""

    def __init__(self, schema: pa.Schema, marked: bool = False) -> None:
        """`marked`: our columns are called `_subject`, `_seq`, …; all others are the payload's."""
        self.schema = schema
        prefix = "_" if marked else ""
        self.ours: dict[str, str] = {
            field.name: field.name.removeprefix(prefix)
            for field in schema
            if field.name.startswith(prefix) and field.name.removeprefix(prefix) in COLUMNS
        }
        unknown = [n for n in schema.names if n not in self.ours]
        if unknown and not marked:
            raise BadOption(
                f"no column named {unknown[0]!r}; there are {', '.join(COLUMNS)} "
                "(fields of the payload need .option('format', 'json'), then ours begin with _)"
            )
        self.payload_fields = unknown
        kinds = set(self.ours.values())
        self.needs_headers = bool(kinds & NEEDS_HEADERS)
        self.needs_data = bool(kinds & NEEDS_DATA) or bool(self.payload_fields)

    def columns(self, taken: Taken, stream: str) -> dict[str, pa.Array]:
        """Our own columns of a chunk, by the name they have in the schema."""
        made: dict[str, pa.Array] = {}
        for name, kind in self.ours.items():
            wanted = self.schema.field(name).type
            column = MAKERS[kind](taken, stream, wanted)
            made[name] = column if column.type.equals(wanted) else _cast(column, wanted, name)
        return made

    def batch(self, taken: Taken, stream: str) -> pa.RecordBatch:
        made = self.columns(taken, stream)
        if not made:
            return _only_rows(self.schema, taken[0])
        return pa.RecordBatch.from_arrays([made[n] for n in self.schema.names], schema=self.schema)


def payloads(taken: Taken) -> pa.BinaryArray:
    """The payloads of a chunk as one binary array."""
    return _binary(taken[0], taken[3], taken[4])


def text_of(column: pa.Array) -> pa.Array:
    """Bytes as text; what is not UTF-8 is replaced, as Spark's own cast does."""
    text = pa.Array.from_buffers(pa.string(), len(column), column.buffers(), offset=column.offset)
    try:
        text.validate(full=True)
        return text
    except pa.ArrowInvalid:
        decoded = [None if v is None else v.decode("utf-8", "replace") for v in column.to_pylist()]
        return pa.array(decoded, pa.string())


def _binary(rows: int, ends: Any, data: Any) -> pa.BinaryArray:
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _int64(rows: int, values: Any) -> pa.Int64Array:
    return pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(values)])


def _cast(column: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    if pa.types.is_binary(column.type) and pa.types.is_string(wanted):
        return text_of(column)
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadOption(f"column {name} cannot be read as {wanted}: {error}") from error


def _only_rows(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows, f.type) for f in schema], schema=schema)


def _subject(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    return text_of(_binary(taken[0], taken[1], taken[2]))


def _data(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    return payloads(taken)


def _seq(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    return _int64(taken[0], taken[5])


def _time(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    micros = pc.divide(_int64(taken[0], taken[6]), 1000)
    return micros.view(pa.timestamp("us", tz="UTC"))


def _time_ns(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    return _int64(taken[0], taken[6])


def _stream(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    return pa.repeat(stream, taken[0])


def _size(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    return pc.binary_length(payloads(taken))


def _tokens(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    return pc.split_pattern(_subject(taken, stream, wanted), ".").cast(wanted)


def _blocks(taken: Taken) -> list[bytes]:
    blocks: list[bytes] = _binary(taken[0], taken[7], taken[8]).to_pylist()
    return blocks


def _raw_headers(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    return _binary(taken[0], taken[7], taken[8])


def _headers(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    return pa.array([list(parse_headers(b).items()) for b in _blocks(taken)], wanted)


_MSGID = re.compile(rb"\r\nNats-Msg-Id:[ ]*([^\r]*)\r\n")


def _msgid(taken: Taken, stream: str, wanted: pa.DataType) -> pa.Array:
    found = (_MSGID.search(block) for block in _blocks(taken))
    return pa.array([m[1].decode("utf-8", "replace") if m else None for m in found], pa.string())


def parse_headers(block: bytes) -> dict[str, list[str]]:
    """A header block as names and lists of values, in the order they stand there."""
    parsed: dict[str, list[str]] = {}
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            text = value.strip().decode("utf-8", "replace")
            parsed.setdefault(name.decode("utf-8", "replace"), []).append(text)
    return parsed


MAKERS = {
    "subject": _subject,
    "data": _data,
    "seq": _seq,
    "time": _time,
    "time_ns": _time_ns,
    "stream": _stream,
    "size": _size,
    "tokens": _tokens,
    "raw_headers": _raw_headers,
    "headers": _headers,
    "msgid": _msgid,
}


def subject_regex(filters: tuple[str, ...]) -> str:
    """Subject patterns as one regular expression: Arrow can match that without a loop, and it needs
    no compiled code, which a zip-shipped package does not have."""
    tokens = {"*": "[^.]+", ">": ".+"}
    patterns = (
        r"\.".join(tokens.get(token) or re.escape(token) for token in pattern.split("."))
        for pattern in filters
    )
    return f"^(?:{'|'.join(patterns)})$"
