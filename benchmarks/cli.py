"""How long the command line takes to start: CPU seconds beside `python -c pass`.

Measured with bytecode present (PYTHONDONTWRITEBYTECODE doubles import times), medians of several
runs, CPU time of the child so that a busy machine matters less. `--imports` names what costs most.
"""

import os
import resource
import statistics
import subprocess
import sys

RUNS = 9
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "jetstream --version": [sys.executable, "-m", "jetstream", "--version"],
    "jetstream --help": [sys.executable, "-m", "jetstream", "--help"],
    "jetstream stream --help": [sys.executable, "-m", "jetstream", "stream", "--help"],
    "jetstream stream ls -j (no server)": [
        sys.executable,
        "-m",
        "jetstream",
        "stream",
        "ls",
        "-j",
        "-s",
        "nats://127.0.0.1:1",
    ],
}


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"XDG_CONFIG_HOME": "/nonexistent"}


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment(), capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def median_cpu(command: list[str], runs: int = RUNS) -> float:
    cpu_seconds(command)  # writes the bytecode
    return statistics.median(cpu_seconds(command) for _ in range(runs))


def costly_imports(count: int = 12) -> list[tuple[int, str]]:
    """Own microseconds of the modules that `jetstream --help` loads, the dearest first."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "jetstream", "--help"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    found = []
    for line in done.stderr.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[0].strip().isdigit():
            found.append((int(parts[0]), parts[2].strip()))
    return sorted(found, reverse=True)[:count]


def main() -> None:
    base = 0.0
    for name, command in COMMANDS.items():
        took = median_cpu(command)
        base = base or took
        print(f"{name:<40} {took * 1000:7.1f} ms CPU  {took / base:5.1f} x python")
    print("\ndearest imports of `jetstream --help` (own time):")
    for micros, module in costly_imports():
        print(f"  {micros / 1000:7.1f} ms  {module}")


if __name__ == "__main__":
    main()
