"""Takes the addresses out of uv.lock: what is committed names packages and versions, no index.

uv fills them in again from whatever index the machine is configured for: a lock without its
metadata counts as out of date, so `uv sync` resolves anew and prefers the versions named here.
Running this on a stripped lock changes nothing.
"""

import re
import sys
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "uv.lock"

_FILES = re.compile(r"^sdist = \{.*\}\n|^wheels = \[\n(?:    \{.*\},?\n)*\]\n", re.MULTILINE)
_SOURCE = re.compile(r"source = \{ registry = \"[^\"]*\" \}")
_METADATA = re.compile(r"\n\[package\.metadata(?:\.[\w-]+)?\]\n(?:[^\[\n].*\n|\n(?=[^\[\n]))*")


def stripped(text: str) -> str:
    text = _FILES.sub("", text)
    text = _SOURCE.sub('source = { registry = "index" }', text)
    return _METADATA.sub("", text)


def main() -> int:
    text = stripped(LOCK.read_text())
    if "://" in text:
        print("uv.lock still names an address", file=sys.stderr)
        return 1
    LOCK.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
