"""Compiles the kernels that changed, each beside its source and each on its own.

A kernel is rebuilt when its .pyx, its .pxd or a .pxd it cimports is newer than the compiled module.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent


def declarations(source: Path) -> set[Path]:
    """The .pxd files a kernel depends on: its own, those it cimports, and those they cimport."""
    found: set[Path] = set()
    waiting = [source, source.with_suffix(".pxd")]
    while waiting:
        path = waiting.pop()
        if path in found or not path.exists():
            continue
        found.add(path)
        names = re.findall(r"^from (jetstream[\w.]+) cimport", path.read_text(), re.MULTILINE)
        waiting += [HOUSE / "src" / (name.replace(".", "/") + ".pxd") for name in names]
    return found


def is_stale(source: Path) -> bool:
    built = [*source.parent.glob(source.stem + ".*.so")]
    if not built:
        return True
    made = built[0].stat().st_mtime
    return any(path.stat().st_mtime > made for path in declarations(source))


def main() -> int:
    failed = 0
    for source in sorted((HOUSE / "src").rglob("*.pyx")):
        if not is_stale(source):
            continue
        name = str(source.relative_to(HOUSE))
        print(f"compiling {name}", flush=True)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
        done = subprocess.run(command, cwd=HOUSE, env={**os.environ, "JETSTREAM_KERNELS": name})
        failed += done.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
