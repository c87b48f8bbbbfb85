"""Runs every benchmark against the reference and writes docs/benchmarks.md: `make bench`.

`python -m benchmarks --quick` gives a first impression in a few minutes.
"""

import argparse
import subprocess
import sys

SCRIPTS = ("core", "streams", "consumers", "client", "cli", "spark")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("names", nargs="*", default=SCRIPTS, help="which scripts to run")
    options = parser.parse_args()
    failed = []
    for name in options.names:
        print(f"\n== {name}", flush=True)
        command = [
            sys.executable,
            "-m",
            f"benchmarks.{name}",
            *(["--quick"] if options.quick else []),
        ]
        if subprocess.run(command).returncode:
            failed.append(name)
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
