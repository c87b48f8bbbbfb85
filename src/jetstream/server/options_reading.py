"""Taking typed values out of a parsed configuration, and collecting what is wrong with it.

A reader raises `Problem`; whoever walks a block catches it, notes it and goes on, so that a user
sees all mistakes of a file at once.
"""

import contextlib
import datetime
import re
from collections.abc import Iterator

from jetstream.schema.times import parse_go_duration
from jetstream.server.conf import Node
from jetstream.server.options import ConfigError

_GO_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "int64"),
    (float, "float64"),
    (str, "string"),
    (list, "[]interface {}"),
    (dict, "map[string]interface {}"),
    (datetime.datetime, "time.Time"),
)
Block = dict[str, Node]


class Problem(Exception):
    """One thing that is wrong, and where (None: the whole file)."""

    def __init__(self, text: str, node: Node | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.node = node


class Problems:
    """What was found wrong so far. Warnings refuse a file only when it is being checked."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def error(self, text: str, node: Node | None = None) -> None:
        self.errors.append(f"{node.place()}: {text}" if node is not None else text)

    def warn(self, text: str, node: Node) -> None:
        self.warnings.append(f"{node.place()}: {text}")

    @contextlib.contextmanager
    def noting(self, node: Node | None = None) -> Iterator[None]:
        """Note a Problem raised inside and go on."""
        try:
            yield
        except Problem as problem:
            self.error(problem.text, problem.node if problem.node is not None else node)

    def unknown(self, key: str, node: Node) -> None:
        """A key nobody knows; fine if it was only defined to be used as a variable."""
        if not node.is_variable:
            escaped = key.replace("\\", "\\\\").replace('"', '\\"')
            self.error(f'unknown field "{escaped}"', node)

    def refuse(self, *, pedantic: bool) -> None:
        """Raise ConfigError if the file cannot be used."""
        found = [*self.warnings, *self.errors] if pedantic else self.errors
        if found:
            raise ConfigError("\n".join(found) + "\n")


def go_type(value: object) -> str:
    return next((name for kind, name in _GO_TYPES if isinstance(value, kind)), "nil")


def go_text(node: Node) -> str:
    """A value as Go prints it with %v, for error texts."""
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = " ".join(f"{key}:{go_text(child)}" for key, child in sorted(value.items()))
        return f"map[{inner}]"
    if isinstance(value, list):
        return "[" + " ".join(go_text(child) for child in value) + "]"
    return str(value)


def _wrong(node: Node, wanted: str) -> Problem:
    found = go_type(node.value)
    return Problem(f"interface conversion: interface {{}} is {found}, not {wanted}", node)


def as_int(node: Node) -> int:
    if isinstance(node.value, bool) or not isinstance(node.value, int):
        raise _wrong(node, "int64")
    return node.value


def as_bool(node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise _wrong(node, "bool")
    return node.value


def as_text(node: Node) -> str:
    if not isinstance(node.value, str):
        raise _wrong(node, "string")
    return node.value


def as_block(node: Node) -> Block:
    if not isinstance(node.value, dict):
        raise _wrong(node, "map[string]interface {}")
    return node.value


def as_list(node: Node) -> list[Node]:
    if not isinstance(node.value, list):
        raise _wrong(node, "[]interface {}")
    return node.value


def texts(node: Node) -> list[str]:
    """A text, or a list of texts."""
    if isinstance(node.value, str):
        return [node.value]
    return [as_text(child) for child in as_list(node)]


def duration_of(text: str) -> int:
    """Nanoseconds; ValueError in Go's words."""
    try:
        return parse_go_duration(text)
    except ValueError:
        number = re.match(r"[+-]?(\d+\.?\d*|\.\d+)", text)
        if number is None:
            raise ValueError(f'time: invalid duration "{text}"') from None
        rest = re.match(r"[^\d.]*", text[number.end() :])
        unit = rest.group() if rest else ""
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"') from None
        raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"') from None


def as_duration(node: Node, field: str, problems: Problems) -> int:
    """A duration text; a bare number is taken as seconds, with a warning."""
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        problems.warn(
            f'invalid use of field "{field}": {field} should be converted to a duration', node
        )
        return node.value * 1_000_000_000
    if not isinstance(node.value, str):
        raise Problem(f"error parsing {field}: unsupported type {go_type(node.value)}", node)
    try:
        return duration_of(node.value)
    except ValueError as error:
        raise Problem(f"error parsing {field}: {error}", node) from None


def as_seconds(node: Node, what: str) -> int:
    """Seconds as a number, or a duration text; nanoseconds come out."""
    value = node.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value * 1_000_000_000)
    if isinstance(value, str):
        try:
            return duration_of(value)
        except ValueError as error:
            raise Problem(f"error parsing {what}, 'timeout' {error}", node) from None
    raise Problem(f"error parsing {what}, 'timeout' wrong type", node)


def as_listen(node: Node) -> tuple[str, int]:
    """`port`, `"host:port"` or `"[v6]:port"`; the host is empty when it is not given."""
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        return "", value
    if not isinstance(value, str):
        raise Problem(f"expected port or host:port, got {go_type(value)}", node)
    host, separator, port = value.rpartition(":")
    if not separator or (":" in host and not host.startswith("[")):
        raise Problem(f'could not parse address string "{value}"', node)
    try:
        return host.strip("[]"), int(port)
    except ValueError:
        raise Problem(f'could not parse port "{port}"', node) from None


def as_storage(node: Node, label: str) -> int:
    """Bytes as a number, or as text that ends in K, M, G or T (1024-based)."""
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise Problem(f"{label} must be int64 or string", node)
    if not value:
        return 0
    number, unit = value[:-1], value[-1]
    if not re.fullmatch(r"[+-]?\d+", number):
        raise Problem(f'{label} strconv.ParseInt: parsing "{number}": invalid syntax', node)
    power = "KMGT".find(unit)
    if power < 0:
        raise Problem(f"{label} sizes defined as strings must end in K, M, G, T", node)
    return int(number) << 10 * (power + 1)
