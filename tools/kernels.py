"""Compiles the kernels that changed, each beside its source and each on its own.

A kernel is rebuilt when its .pyx, its .pxd or a .pxd it cimports is newer than the compiled module.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


def compile_one(source: Path) -> bool:
    """Build one kernel; False if the compiler refused."""
    name = str(source.relative_to(HOUSE))
    print(f"compiling {name}", flush=True)
    temporary = f"build/temp/{source.stem}-{source.parent.name}"
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
    command += ["--build-temp", temporary]
    environment = {**os.environ, "JETSTREAM_KERNELS": name}
    return subprocess.run(command, cwd=HOUSE, env=environment).returncode == 0


def main() -> int:
    stale = [source for source in sorted((HOUSE / "src").rglob("*.pyx")) if is_stale(source)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return 0 if all(list(pool.map(compile_one, stale))) else 1


if __name__ == "__main__":
    sys.exit(main())
