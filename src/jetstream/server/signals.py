"""`--signal stop=…`: tell a server that is already running to do something."""

import os
import signal
import sys
from pathlib import Path

SIGNALS = {
    "stop": signal.SIGKILL,
    "quit": signal.SIGINT,
    "term": signal.SIGTERM,
    "reopen": signal.SIGUSR1,
    "reload": signal.SIGHUP,
    "ldm": signal.SIGUSR2,
}
# As Go names them; the log of a server says which one it got.
GO_NAMES = {
    signal.SIGINT: "interrupt",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hangup",
    signal.SIGUSR1: "user defined signal 1",
    signal.SIGUSR2: "user defined signal 2",
}


def send_signal(text: str, program: str) -> int:
    """`reload`, `reload=4711` or `reload=/run/server.pid`; returns the exit code."""
    name, _, target = text.partition("=")
    try:
        pids = _targets(target)
        if name not in SIGNALS:
            raise ValueError(f'unknown signal "{name}"')
        wrong = []
        for pid in pids:
            try:
                os.kill(pid, SIGNALS[name])
            except OSError as error:
                why = str(error.strerror).lower()
                wrong.append(f'\nsignal "{name}" {pid}: {why}')
        if wrong:
            raise ValueError("".join(wrong))
    except ValueError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return 1
    return 0


def _targets(text: str) -> list[int]:
    """A process id, a file that holds one, or the only server that runs here."""
    if text:
        if text.isdigit():
            return [int(text)]
        try:
            return [int(Path(text).read_text().strip())]
        except (OSError, ValueError):
            raise ValueError(f"invalid pid: {text}") from None
    found = _running()
    if not found:
        raise ValueError("no nats-server processes running")
    if len(found) > 1:
        listed = "\n".join(str(pid) for pid in found)
        raise ValueError(f"multiple nats-server processes running:\n{listed}")
    return found


def _running() -> list[int]:
    """Other processes whose command line is a server of ours."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        names = [os.path.basename(word) for word in words[:3]]  # noqa: PTH119
        is_ours = any(n in (b"jetstream-server", b"nats-server") for n in names[:2]) or (
            b"jetstream.server.main" in words[:4]
        )
        if is_ours and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return sorted(found)
