"""A subject rewritten into another: mappings, stream transforms, sources and republish share it.

The source has numbered wildcards (`*`, from 1) and may end in `>`. A destination token is a word,
`$1`, or a function in double braces such as `{{partition(10,1)}}`. Every destination token is
compiled once into a small callable over the wildcard values; the `>` tail is copied.
"""

import random
import re
from collections.abc import Callable
from typing import Final, NoReturn

from jetstream.subjects.tokens import is_valid_subject

_FUNCTION: Final = re.compile(r"\{\{\s*(\w+)\s*\((.*)\)\s*\}\}")
_DOLLAR: Final = re.compile(r"\$(\d+)")

Values = list[str]
Piece = Callable[[str, Values], str]


class BadTransform(ValueError):
    """The destination cannot be made from the source; the text is the server's own."""


def _bad(reason: str, token: str, extra: str = "") -> NoReturn:
    raise BadTransform(f"invalid mapping destination: {reason} in {token}{extra}")


class SubjectTransform:
    """`SubjectTransform("a.*", "b.$1").transform("a.x")` is `b.x`; None when it does not match."""

    __slots__ = ("_pieces", "_source", "_tail", "dest", "src")

    def __init__(self, src: str, dest: str) -> None:
        self.src = src or ">"
        self.dest = dest
        if not is_valid_subject(self.src):
            raise BadTransform("invalid subject")
        self._source = self.src.split(".")
        tokens = dest.split(".")
        # An empty destination leaves every subject as it is.
        if dest and not all(tokens):
            raise BadTransform("invalid mapping destination: invalid transform")
        wildcards = self._source.count("*")
        if "*" in tokens or ">" in tokens[:-1]:
            raise BadTransform("invalid subject")
        self._pieces: list[str | Piece] = [
            _compile(token, wildcards) for token in tokens if dest and token != ">"
        ]
        self._tail = self._source[-1] == ">"
        if dest and self._tail != (tokens[-1] == ">"):
            raise BadTransform("invalid subject")

    def transform(self, subject: str) -> str | None:
        """The new subject, or None when the source does not take this one in."""
        if self.src == ">" and not self._pieces:
            return subject
        tokens = subject.split(".")
        values: Values = []
        source = self._source
        fixed = len(source) - self._tail
        if len(tokens) < len(source) or (len(tokens) != fixed and not self._tail):
            return None
        for want, have in zip(source[:fixed], tokens, strict=False):
            if want == "*":
                values.append(have)
            elif want != have:
                return None
        if not self.dest:
            return subject
        made = [
            piece if isinstance(piece, str) else piece(subject, values) for piece in self._pieces
        ]
        if self._tail:
            made += tokens[fixed:]
        return ".".join(made)


def check_mapping(src: str, dest: str) -> None:
    """Raise BadTransform if the pair does not make a transform."""
    SubjectTransform(src, dest)


def _compile(token: str, wildcards: int) -> str | Piece:
    dollar = _DOLLAR.fullmatch(token)
    if dollar:
        index = int(dollar[1])
        if index > wildcards:
            _bad("wildcard index out of range", token, f": [{index}]" if wildcards else "")
        if index == 0:
            return token
        return lambda _, values: values[index - 1]
    call = _FUNCTION.fullmatch(token)
    if call is None:
        return token
    name = call[1].lower()
    args = [arg.strip() for arg in call[2].split(",")]
    if name == "partition":
        return _partition(token, args, wildcards)
    if name == "random":
        limit = _number(args[0], token)
        if len(args) > 1:
            _bad("too many arguments passed to the function", token)
        return lambda *_: str(random.randrange(limit)) if limit > 0 else "0"
    if name == "wildcard":
        if not args[0]:
            _bad("not enough arguments passed to the function", token)
        if len(args) > 1:
            _bad("too many arguments passed to the function", token)
        at = _index(args[0], token, wildcards)
        return lambda _, values: values[at]
    return _two_arguments(name, token, args, wildcards)


def _two_arguments(name: str, token: str, args: list[str], wildcards: int) -> Piece:
    known = name == "split" or name in _CUTS
    if not known:
        _bad("unknown function", token)
    if len(args) < 2:
        _bad("not enough arguments passed to the function", token)
    if len(args) > 2:
        _bad("too many arguments passed to the function", token)
    at = _index(args[0], token, wildcards)
    if name == "split":
        mark = args[1]
        if not mark or " " in mark or "." in mark:
            _bad("function argument is invalid or in the wrong format", token)
        return lambda _, values: ".".join(part for part in values[at].split(mark) if part)
    size = _number(args[1], token)
    cut = _CUTS[name]
    return lambda _, values: cut(values[at], size)


def _partition(token: str, args: list[str], wildcards: int) -> Piece:
    count = _number(args[0], token)
    chosen = [_index(arg, token, wildcards) for arg in args[1:]]

    def piece(subject: str, values: Values) -> str:
        key = "".join(values[i] for i in chosen) if chosen else subject
        return str(fnv1a_32(key.encode()) % count) if count else "0"

    return piece


def _number(text: str, token: str) -> int:
    if not re.fullmatch(r"-?\d+", text) or not -(2**31) <= int(text) < 2**31:
        _bad("function argument is invalid or in the wrong format", token)
    return int(text)


def _index(text: str, token: str, wildcards: int) -> int:
    index = _number(text, token)
    if not 1 <= index <= wildcards:
        _bad("wildcard index out of range", token, f": [{index}]")
    return index - 1


def fnv1a_32(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def _slices(text: str, size: int, first: int) -> str:
    parts = [text[:first]] if first else []
    parts += [text[i : i + size] for i in range(first, len(text), size)]
    return ".".join(parts)


_CUTS: Final[dict[str, Callable[[str, int], str]]] = {
    "splitfromleft": lambda t, n: f"{t[:n]}.{t[n:]}" if 0 < n < len(t) else t,
    "splitfromright": lambda t, n: f"{t[:-n]}.{t[-n:]}" if 0 < n < len(t) else t,
    "slicefromleft": lambda t, n: _slices(t, n, 0) if 0 < n < len(t) else t,
    "slicefromright": lambda t, n: _slices(t, n, len(t) % n) if 0 < n < len(t) else t,
    "left": lambda t, n: t[:n] if 0 < n < len(t) else t,
    "right": lambda t, n: t[-n:] if 0 < n < len(t) else t,
}
