"""`{{Count}}`, `{{TimeStamp}}` and friends in bodies, subjects and header values.

A text is compiled once and rendered per message. A function we do not know stays as it is written,
so bodies with braces of their own survive; `unknown` tells which, for a warning.
"""

import random
import re
import string
import time
from collections.abc import Callable
from datetime import datetime

_CALL = re.compile(r"\{\{\s*\.?([A-Za-z0-9]+)((?:\s+(?:\"[^\"]*\"|[^\s{}]+))*)\s*\}\}")
_ARGUMENT = re.compile(r"\"([^\"]*)\"|(\S+)")
_LETTERS = string.ascii_letters + string.digits

Render = Callable[[int, bytes], str]


class Template:
    """A text with functions in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.unknown: list[str] = []
        self._parts: list[str | Render] = []
        at = 0
        for found in _CALL.finditer(text):
            made = self._function(found)
            if made is None:
                continue
            self._parts += [text[at : found.start()], made]
            at = found.end()
        self._parts.append(text[at:])

    @property
    def is_plain(self) -> bool:
        return len(self._parts) == 1

    def render(self, count: int, request: bytes = b"") -> str:
        if len(self._parts) == 1:
            return self.text
        return "".join(
            part if isinstance(part, str) else part(count, request) for part in self._parts
        )

    def _function(self, found: re.Match[str]) -> Render | None:
        name = found[1]
        arguments = [quoted or plain for quoted, plain in _ARGUMENT.findall(found[2])]
        make = _FUNCTIONS.get(name)
        try:
            if make is not None:
                return make(*arguments)
        except (TypeError, ValueError):
            pass
        self.unknown.append(found[0])
        return None


def _now() -> datetime:
    return datetime.now().astimezone()


def _random_text(low: str = "1", high: str = "16") -> Render:
    first, last = int(low), int(high)
    if first > last:
        raise ValueError("MIN is above MAX")
    return lambda count, request: "".join(random.choices(_LETTERS, k=random.randint(first, last)))


def _int(low: str = "0", high: str = "100") -> Render:
    first, last = int(low), int(high)
    return lambda count, request: str(random.randint(first, last))


def _float(low: str = "0", high: str = "1") -> Render:
    first, last = float(low), float(high)
    return lambda count, request: f"{random.uniform(first, last):.2f}"


def _pick(*choices: str) -> Render:
    if not choices:
        raise ValueError("nothing to pick from")
    return lambda count, request: random.choice(choices)


def _json(count: int, request: bytes) -> str:
    import json

    return json.dumps(
        {
            "order": count,
            "customer": f"c{random.randint(1, 500):03d}",
            "country": random.choice(["us", "de", "fr", "jp", "br"]),
            "amount": round(random.uniform(1, 500), 2),
            "time": _now().isoformat(timespec="milliseconds"),
        },
        separators=(",", ":"),
    )


def _unique(count: int, request: bytes) -> str:
    return "".join(random.choices(_LETTERS, k=22))


_FUNCTIONS: dict[str, Callable[..., Render]] = {
    "Count": lambda: lambda count, request: str(count),
    "Cnt": lambda: lambda count, request: str(count),
    "TimeStamp": lambda: lambda count, request: _now().isoformat(timespec="seconds"),
    "Time": lambda: lambda count, request: _now().strftime("%I:%M%p").lstrip("0"),
    "Unix": lambda: lambda count, request: str(int(time.time())),
    "UnixNano": lambda: lambda count, request: str(time.time_ns()),
    "ID": lambda: _unique,
    "Random": _random_text,
    "Request": lambda: lambda count, request: request.decode("utf-8", "replace"),
    "Int": _int,
    "Float": _float,
    "Pick": _pick,
    "JSON": lambda: _json,
}
