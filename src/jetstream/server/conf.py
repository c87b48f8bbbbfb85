"""The configuration file format of NATS servers: text → a tree of values that know their place.

    key value | key: value | key = value      ended by a new line, "," or ";"
    map { … }   array [ … ]   # comment   // comment   include "other.conf"   $VARIABLE
    "text with \\t \\x41"   'raw text'   bare   ( block \\n of lines \\n )   1k 5MB 2.5 true off

One pass of recursive descent: every method reads one construct and leaves the cursor behind it.
The words of the errors are those of the reference server, because tools look for them.
"""

import datetime
import hashlib
import json
import os
from pathlib import Path

from jetstream.server.options import ConfigError

Value = "str | int | float | bool | datetime.datetime | list[Node] | dict[str, Node]"

_BLANKS = " \t\r"
_SPACES = " \t\r\n"
_SEPARATORS = ":="
_SIZES = {
    "k": 1000, "kb": 1024, "ki": 1024, "kib": 1024,
    "m": 1000**2, "mb": 1024**2, "mi": 1024**2, "mib": 1024**2,
    "g": 1000**3, "gb": 1024**3, "gi": 1024**3, "gib": 1024**3,
    "t": 1000**4, "tb": 1024**4, "ti": 1024**4, "tib": 1024**4,
    "p": 1000**5, "pb": 1024**5, "pi": 1024**5, "pib": 1024**5,
    "e": 1000**6, "eb": 1024**6, "ei": 1024**6, "eib": 1024**6,
}  # fmt: skip
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_BCRYPT = "2a$"
_DATE_SHAPE = "dddd-dd-ddTdd:dd:ddZ"
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
DEPTH_MAX = 60


class Node:
    """A value and where it stands. `line` counts from 1, `column` as the reference counts."""

    __slots__ = ("column", "is_variable", "line", "path", "value")

    def __init__(
        self,
        value: object,
        line: int = 0,
        column: int = 0,
        path: str = "",
        *,
        is_variable: bool = False,
    ) -> None:
        self.value = value
        self.line = line
        self.column = column
        self.path = path
        self.is_variable = is_variable

    def place(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"

    def __repr__(self) -> str:
        return f"Node({self.value!r}, {self.line}:{self.column})"


class ParseError(ConfigError):
    """The grammar is broken at a line."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"Parse error on line {line}: '{why}'")


def parse_file(path: str) -> dict[str, Node]:
    """Read and parse a file; raises ConfigError."""
    try:
        text = Path(path).read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise ConfigError(f"open {path}: {_go_os_error(error)}") from error
    return parse_text(text, path)


def parse_text(text: str, path: str = "") -> dict[str, Node]:
    """Parse a configuration's text; `path` is where includes are looked for and errors point to."""
    tree = _Reader(text, path, []).top()
    if not tree and text.strip() and not _only_comments(text):
        raise ConfigError(f"{path}: config has no values or is empty\n")
    return tree


def plain(node: object) -> object:
    """The tree without places: dicts, lists and scalars."""
    value = node.value if isinstance(node, Node) else node
    if isinstance(value, dict):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [plain(child) for child in value]
    return value


def digest(tree: dict[str, Node]) -> str:
    """`sha256:…` over the parsed configuration: equal for equal settings, however written."""

    def default(value: object) -> str:
        assert isinstance(value, datetime.datetime)
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")

    text = json.dumps(
        plain(tree), sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=default
    )
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return "sha256:" + hashlib.sha256((text + "\n").encode("utf-8", "surrogateescape")).hexdigest()


def _only_comments(text: str) -> bool:
    return all(not s or s.startswith(("#", "//")) for s in map(str.strip, text.splitlines()))


def _go_os_error(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else str(error)).lower()


class _Reader:
    """A cursor over one file. `scopes` are the enclosing maps, for variables."""

    def __init__(self, text: str, path: str, scopes: list[dict[str, Node]]) -> None:
        self.text = text
        self.path = path
        self.at = 0
        self.scopes = scopes
        self.depth = 0

    # --- the cursor ---

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def line(self, at: int | None = None) -> int:
        return self.text.count("\n", 0, self.at if at is None else at) + 1

    def column(self, at: int) -> int:
        start = self.text.rfind("\n", 0, at)
        return at - start if start >= 0 else at

    def fail(self, why: str, *, after: int = 0) -> ParseError:
        return ParseError(self.line(min(self.at + after, len(self.text))), why)

    def got(self) -> str:
        """The next character as errors quote it; the end of the file is a NUL."""
        return {"": "\0", "\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(self.peek(), self.peek())

    def skip(self, characters: str) -> None:
        while self.at < len(self.text) and self.text[self.at] in characters:
            self.at += 1

    def at_comment(self) -> bool:
        return self.peek() == "#" or self.text.startswith("//", self.at)

    def skip_comment(self) -> bool:
        if not self.at_comment():
            return False
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end
        return True

    def node(self, value: object, at: int, *, is_variable: bool = False) -> Node:
        return Node(value, self.line(at), self.column(at), self.path, is_variable=is_variable)

    # --- maps ---

    def top(self) -> dict[str, Node]:
        tree: dict[str, Node] = {}
        self.scopes.append(tree)
        while True:
            self.skip(_SPACES + "{};,")
            if self.skip_comment():
                continue
            if not self.peek():
                break
            if not self.entry(tree, closing=""):
                break
            self.end_of_top_value()
        self.scopes.pop()
        return tree

    def end_of_top_value(self) -> None:
        self.skip(_BLANKS)
        if not self.skip_comment() and self.peek() not in ("", "\n", ";", ",", "}"):
            raise self.fail(
                "Expected a top-level value to end with a new line, comment or EOF, "
                f"but got '{self.got()}' instead."
            )

    def map(self) -> dict[str, Node]:
        """Behind the `{`, up to and with the `}`."""
        tree: dict[str, Node] = {}
        self.scopes.append(tree)
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.fail("Configuration is nested too deep.")
        while True:
            self.skip(_SPACES + ",;")
            if self.skip_comment():
                continue
            character = self.peek()
            if character == "":
                raise self.fail("Unexpected EOF processing map.")
            if character == "}":
                self.at += 1
                break
            if character == "]":
                raise self.fail("Unexpected array end ']' processing map.")
            self.entry(tree, closing="}")
            self.skip(_BLANKS)
            if self.skip_comment():
                continue
            if self.peek() not in (",", ";", "\n", "}") or not self.peek():
                raise self.fail(
                    'Expected a map value terminator "," or a map terminator "}", '
                    f"but got '{self.got()}' instead."
                )
        self.depth -= 1
        self.scopes.pop()
        return tree

    def entry(self, tree: dict[str, Node], closing: str) -> bool:
        """One `key value`, or an include, put into `tree`."""
        dot = "." if closing else ""
        if self.peek() in _SEPARATORS:
            raise self.fail(f"Unexpected key separator '{self.peek()}'{dot}")
        key, at, quoted = self.key()
        if not quoted and key.lower() == "include" and self.peek() not in _SEPARATORS:
            self.include(tree)
            return True
        self.skip(_SPACES)
        if not self.peek() and not closing:
            line, column = self.line(), self.column(self.at)
            raise ConfigError(f"config is invalid ({self.path}:{line}:{column or 1})")
        if self.peek() and self.peek() in _SEPARATORS:
            self.at += 1
            self.skip(_BLANKS)
        if closing and self.peek() in (",", ";") and self.peek():
            raise self.fail(f'Unexpected map value terminator "{self.peek()}".')
        value = self.value(key)
        value.line, value.column = self.line(at), self.column(at)
        # A variable may be redefined under its own name; what it replaces counts as used.
        tree[key] = value
        return True

    def key(self) -> tuple[str, int, bool]:
        quote = self.peek()
        if quote in ("'", '"'):
            start = self.at + 1
            end = self.text.find(quote, start)
            if end < 0:
                self.at = len(self.text)
                raise self.fail("Unexpected EOF.")
            self.at = end + 1
            return self.text[start:end], start, True
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _SPACES + _SEPARATORS:
            self.at += 1
        return self.text[start : self.at], start, False

    def include(self, tree: dict[str, Node]) -> None:
        self.skip(_BLANKS)
        node = self.value("include")
        name = str(node.value)
        path = Path(self.path).parent / name
        try:
            text = path.read_bytes().decode("utf-8", "surrogateescape")
            reader = _Reader(text, str(path), list(self.scopes))
            reader.depth = self.depth + 1
            if reader.depth > DEPTH_MAX:
                raise self.fail("Configuration is nested too deep.")
            tree.update(reader.top())
        except OSError as error:
            why = f"open {path}: {_go_os_error(error)}"
            raise ConfigError(f"error parsing include file '{name}', {why}") from error
        except ConfigError as error:
            raise ConfigError(f"error parsing include file '{name}', {error}") from error

    # --- values ---

    def value(self, key: str) -> Node:
        self.skip(_BLANKS)
        at, character = self.at, self.peek()
        match character:
            case "{":
                self.at += 1
                return self.node(self.map(), at)
            case "[":
                self.at += 1
                return self.node(self.array(key), at)
            case "'":
                self.at += 1
                return self.node(self.raw_text(), at)
            case '"':
                self.at += 1
                return self.node(self.quoted_text(), at)
            case "(":
                self.at += 1
                return self.node(self.block(), at)
            case "-":
                return self.node(self.negative(), at)
            case ".":
                raise self.fail("Floats must start with a digit")
            case "\n":
                raise self.fail("Expected value but found new line", after=1)
        if character.isdigit() and character.isascii():
            return self.node(self.number(), at)
        return self.bare(key)

    def array(self, key: str) -> list[Node]:
        """Behind the `[`, up to and with the `]`."""
        items: list[Node] = []
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.fail("Configuration is nested too deep.")
        while True:
            self.skip(_SPACES)
            if self.skip_comment():
                continue
            if self.peek() == ",":
                raise self.fail("Unexpected array value terminator ','.")
            if self.peek() == "]":
                self.at += 1
                break
            items.append(self.value(key))
            self.skip(_BLANKS)
            if self.at_comment():
                continue
            if self.peek() in (",", "\n") and self.peek():
                self.at += 1
            elif self.peek() != "]":
                raise self.fail(
                    'Expected an array value terminator "," or an array terminator "]", '
                    f"but got '{self.got()}' instead."
                )
        self.depth -= 1
        return items

    def raw_text(self) -> str:
        start = self.at
        end = self.text.find("'", start)
        if end < 0:
            self.at = len(self.text)
            raise self.fail("Unexpected EOF.")
        self.at = end + 1
        return self.text[start:end]

    def quoted_text(self) -> str:
        parts: list[str] = []
        while True:
            character = self.peek()
            self.at += 1
            if character == "":
                self.at = len(self.text)
                raise self.fail("Unexpected EOF.")
            if character == '"':
                return "".join(parts)
            parts.append(self.escape() if character == "\\" else character)

    def escape(self) -> str:
        character = self.peek()
        self.at += 1
        if character == "x":
            digits = self.text[self.at : self.at + 2]
            try:
                code = bytes.fromhex(digits)
            except ValueError:
                code = b""
            if len(code) != 1:
                raise self.fail(f"Expected two hexadecimal digits after '\\x', but got '{digits}'")
            self.at += 2
            return chr(code[0])
        plain_text = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}.get(character)
        if plain_text is None:
            raise self.fail(
                f"Invalid escape character '{character}'. Only the following escape characters "
                'are allowed: \\xXX, \\t, \\n, \\r, \\", \\\\.'
            )
        return plain_text

    def block(self) -> str:
        """Lines up to one that holds only `)`."""
        start = self.at
        at = start
        while (end := self.text.find(")", at)) >= 0:
            before = self.text[self.text.rfind("\n", 0, end) + 1 : end]
            after = self.text[end + 1 : end + 2]
            if (
                not before.strip()
                and self.text.rfind("\n", start, end) >= 0
                and after in ("", "\n", "\r")
            ):
                self.at = end + 1
                return self.text[start:end]
            at = end + 1
        self.at = len(self.text)
        raise self.fail("Unexpected EOF processing block.")

    def negative(self) -> int | float:
        start = self.at
        self.at += 1
        if not self.peek().isdigit():
            newline = 1 if self.peek() == "\n" else 0
            raise self.fail(f"Expected a digit but got '{self.got()}'.", after=newline)
        value = self.number()
        if isinstance(value, str | datetime.datetime):
            raise self.fail(f"Expected a number but got '{self.text[start : self.at]}'.")
        return -value

    def number(self) -> str | int | float | datetime.datetime:
        """Integer with unit, float, address, date, or a word that begins with a digit."""
        start = self.at
        self.skip("0123456789")
        character = self.peek()
        if character == "-":
            if self.at - start != 4:
                raise self.fail("All ISO8601 dates must be in full Zulu form.")
            return self.date(start)
        if character == ".":
            return self.fraction(start)
        if character and character.lower() in "kmgtpe":
            self.at += 1
            self.skip("bBiI")
        if self.peek() in ("", "\n", "}", "]", ";", ",", " ", "\t", "\r"):
            return self.integer(self.text[start : self.at])
        return self.word(start)

    def integer(self, text: str) -> int | str:
        digits = text.rstrip("kKmMgGtTpPeEbBiI")
        unit = text[len(digits) :].lower()
        if unit and unit not in _SIZES:
            return text
        value = int(digits) * _SIZES.get(unit, 1)
        if not _INT_MIN <= int(digits) <= _INT_MAX:
            raise ConfigError(f"integer '{digits}' is out of the range")
        return value

    def fraction(self, start: int) -> float | str:
        self.at += 1
        if not self.peek().isdigit():
            newline = 1 if self.peek() == "\n" else 0
            raise self.fail(
                f"Floats must have a digit after the '.', but got '{self.got()}' instead.",
                after=newline,
            )
        self.skip("0123456789")
        if self.peek() in (".", ":") and self.peek():
            self.skip("0123456789.:-")
            return self.text[start : self.at]
        return float(self.text[start : self.at])

    def date(self, start: int) -> datetime.datetime:
        for offset, wanted in enumerate(_DATE_SHAPE):
            self.at = start + offset
            character = self.peek()
            if wanted == "d" and not character.isdigit():
                raise self.fail(
                    f"Expected digit in ISO8601 datetime, but found '{self.got()}' instead."
                )
            if wanted != "d" and character != wanted:
                newline = 1 if character == "\n" else 0
                raise self.fail(
                    f"Expected '{wanted}' in ISO8601 datetime, but found '{self.got()}' instead.",
                    after=newline,
                )
        self.at += 1
        text = self.text[start : self.at]
        try:
            found = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
        except ValueError as error:
            raise ConfigError(f"expected Zulu formatted DateTime, but got '{text}'") from error
        return found.replace(tzinfo=datetime.UTC)

    def word(self, start: int) -> str:
        """Bare text up to a terminator; a backslash escapes."""
        parts = [self.text[start : self.at]]
        while (character := self.peek()) and character not in " \t\r\n;,]}":
            self.at += 1
            parts.append(self.escape() if character == "\\" else character)
        return "".join(parts)

    def bare(self, key: str) -> Node:
        at = self.at
        text = self.word(at)
        if text.startswith("$"):
            return self.variable(text[1:], key, at)
        found = _WORDS.get(text.lower())
        return self.node(text if found is None else found, at)

    def variable(self, name: str, key: str, at: int) -> Node:
        if name.startswith(_BCRYPT):
            return self.node("$" + name, at)
        for scope in reversed(self.scopes):
            found = scope.get(name)
            if found is not None:
                found.is_variable = True
                return self.node(found.value, at)
        if name in os.environ:
            reader = _Reader(f"{key}={os.environ[name]}", "", [])
            reader.depth = self.depth + 1
            if reader.depth > DEPTH_MAX:
                raise ConfigError(f"variable reference cycle for '{name}'")
            try:
                inner = reader.top()
            except ConfigError as error:
                line = self.line(at)
                raise ConfigError(
                    f"variable reference for '{name}' on line {line} could not be parsed: {error}"
                ) from error
            node = inner.get(key)
            return self.node(node.value if node is not None else "", at)
        raise ConfigError(
            f"variable reference for '{name}' on line {self.line(at)} can not be found"
        )
