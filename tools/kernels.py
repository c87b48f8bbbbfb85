"""Compiles the kernels that changed, each beside its source and each on its own.

A kernel is rebuilt when its .pyx, its .pxd or a .pxd it cimports is newer than the compiled module.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent


def declarations(source: Path) -> list[Path]:
    """The .pxd files a kernel depends on, its own first."""
    names = re.findall(r"^from (jetstream[\w.]+) cimport", source.read_text(), re.MULTILINE)
    found = [source.with_suffix(".pxd")]
    found += [HOUSE / "src" / (name.replace(".", "/") + ".pxd") for name in names]
    return [path for path in found if path.exists()]


def is_stale(source: Path) -> bool:
    built = [*source.parent.glob(source.stem + ".*.so")]
    if not built:
        return True
    made = built[0].stat().st_mtime
    return any(path.stat().st_mtime > made for path in [source, *declarations(source)])


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
