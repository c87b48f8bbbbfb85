"""Runs command lines in this process, as a person at a pipe would."""

import io
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import msgspec

from jetstream.cli.main import run


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Terminal(io.TextIOWrapper):
    """Text over bytes, like the real standard streams."""

    def __init__(self, data: bytes = b"", tty: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8", write_through=True)
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    def text(self) -> str:
        raw = self.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue().decode()


class Cli:
    """The command line against one server (or none)."""

    def __init__(self, url: str = "nats://127.0.0.1:1", config_home: str = "/nonexistent") -> None:
        self.url = url
        self.config_home = config_home

    def __call__(self, *args: str, stdin: str | bytes = b"", **env: str) -> Outcome:
        out, err = Terminal(), Terminal()
        data = stdin.encode() if isinstance(stdin, str) else stdin
        before_in, before_env = sys.stdin, dict(os.environ)
        for name in list(os.environ):
            if name.startswith(("NATS_", "JETSTREAM_")):
                del os.environ[name]
        os.environ.update({"NATS_URL": self.url, "XDG_CONFIG_HOME": self.config_home, **env})
        sys.stdin = Terminal(data)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = run(list(args))
        finally:
            sys.stdin = before_in
            os.environ.clear()
            os.environ.update(before_env)
        return Outcome(code, out.text(), err.text())

    def ok(self, *args: str, stdin: str | bytes = b"", **env: str) -> Outcome:
        """A command that has to succeed."""
        done = self(*args, stdin=stdin, **env)
        assert done.code == 0, f"{args} ended with {done.code}:\n{done.out}\n{done.err}"
        return done


_PATTERNS = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<clock>"),
    (re.compile(r"\b\d+(\.\d+)?(e-\d+)?(µs|ms|ns|s)\b( ago)?"), "<duration>"),
    (re.compile(r"\b(\d+[ydhm])+\d+s\b"), "<duration>"),
    (re.compile(r'"(nuid|id|server_id|ts|created)": ?"[^"]*"'), r'"\1": "<id>"'),
    (re.compile(r"\bN[A-Z2-7]{55}\b"), "<server>"),
    (re.compile(r"_INBOX\.[A-Za-z0-9.]+"), "<inbox>"),
)


def plain(text: str) -> str:
    """Without what differs from run to run: times, durations, ids."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text
