"""The NATS/1.0 header block: a status line, then `Name: value` lines, then an empty line.

    NATS/1.0 503 No Responders\\r\\n
    Nats-Subject: orders.new\\r\\n
    \\r\\n

Names are compared case-sensitively, as the server does; `Headers.get_any_case` is for applications.
"""

from collections.abc import Iterable, Iterator, Mapping

VERSION = b"NATS/1.0"
_END = b"\r\n\r\n"


def encode_headers(
    fields: Mapping[str, str | Iterable[str]] | Iterable[tuple[str, str]] | None = None,
    status: int | None = None,
    description: str | None = None,
) -> bytes:
    """A whole block, ready for HPUB or HMSG."""
    first = VERSION.decode()
    if status is not None:
        first += f" {status}"
        if description:
            first += f" {description}"
    lines = [first]
    lines += [f"{name}: {value}" for name, value in _pairs(fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _pairs(
    fields: Mapping[str, str | Iterable[str]] | Iterable[tuple[str, str]] | None,
) -> Iterator[tuple[str, str]]:
    if fields is None:
        return
    if not isinstance(fields, Mapping):
        yield from fields
        return
    for name, values in fields.items():
        if isinstance(values, str):
            yield name, values
        else:
            for value in values:
                yield name, value


def get_header(block: bytes, name: bytes) -> bytes | None:
    """The first value of a header, found as the server finds it: exact case, leading blanks cut."""
    needle = b"\r\n" + name + b":"
    at = block.find(needle)
    if at < 0:
        return None
    start = at + len(needle)
    end = block.find(b"\r\n", start)
    if end < 0:
        return None
    return block[start:end].lstrip(b" \t")


def with_header(block: bytes, name: bytes, value: bytes) -> bytes:
    """The block with one more header at its end; an empty block gets its first line."""
    if not block:
        return VERSION + b"\r\n" + name + b": " + value + _END
    return block[:-2] + name + b": " + value + _END


def without_headers(block: bytes, *prefixes: bytes) -> bytes:
    """The block without the headers whose names start so; empty when none is left."""
    if not block:
        return block
    lines = block.split(b"\r\n")
    kept = [line for line in lines[1:] if line and not line.startswith(prefixes)]
    if not kept and lines[0] == VERSION:
        return b""
    return b"\r\n".join([lines[0], *kept]) + _END


class Headers:
    """A parsed block: ordered, several values per name, with the status line taken apart."""

    __slots__ = ("_fields", "description", "status")

    def __init__(self, fields: Mapping[str, str | Iterable[str]] | None = None) -> None:
        self._fields: dict[str, list[str]] = {}
        self.status: int | None = None
        self.description = ""
        for name, value in _pairs(fields):
            self.add(name, value)

    @classmethod
    def parse(cls, block: bytes) -> "Headers":
        """Read a block; anything that is not `name: value` is passed over."""
        self = cls()
        lines = block.split(b"\r\n")
        first = lines[0][len(VERSION) :].strip()
        if first[:3].isdigit():
            self.status = int(first[:3])
            self.description = first[3:].strip().decode("utf-8", "replace")
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if colon:
                self.add(name.decode("utf-8", "replace"), value.strip().decode("utf-8", "replace"))
        return self

    def add(self, name: str, value: str) -> None:
        self._fields.setdefault(name, []).append(value)

    def set(self, name: str, value: str) -> None:
        self._fields[name] = [value]

    def remove(self, name: str) -> None:
        self._fields.pop(name, None)

    def get(self, name: str, default: str | None = None) -> str | None:
        values = self._fields.get(name)
        return values[0] if values else default

    def get_any_case(self, name: str) -> str | None:
        wanted = name.lower()
        for key, values in self._fields.items():
            if key.lower() == wanted:
                return values[0]
        return None

    def get_all(self, name: str) -> list[str]:
        return list(self._fields.get(name, ()))

    def encode(self) -> bytes:
        return encode_headers(self._fields, self.status, self.description)

    def items(self) -> Iterator[tuple[str, list[str]]]:
        yield from self._fields.items()

    def __getitem__(self, name: str) -> str:
        return self._fields[name][0]

    def __setitem__(self, name: str, value: str) -> None:
        self.set(name, value)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Headers):
            return self._fields == other._fields and self.status == other.status
        if isinstance(other, Mapping):
            return self._fields == Headers(other)._fields
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Headers({self._fields!r}, status={self.status})"
