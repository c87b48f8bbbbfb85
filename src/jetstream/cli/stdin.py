"""What a body is when the command line has none: the standard input."""

import sys
from collections.abc import Iterator


def is_piped() -> bool:
    """Is something handed in, rather than typed?"""
    return not sys.stdin.isatty()


def bodies(send_on: str) -> Iterator[bytes]:
    """The whole input as one body, or each line as one."""
    if send_on == "newline":
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\r\n")
    else:
        yield sys.stdin.buffer.read()
