"""`jetstream doctor`: is everything here that the commands need?"""

import importlib.util
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from jetstream import __version__
from jetstream.cli import human
from jetstream.cli.app import command as make_command
from jetstream.cli.app import settings
from jetstream.cli.output import print_json, say, screen
from jetstream.cli.problems import Quit, explain
from jetstream.cli.session import connect

KERNELS = (
    "jetstream.wire._parser",
    "jetstream.broker._broker",
    "jetstream.store._log",
    "jetstream.client._inbound",
    "jetstream.client._outbound",
)
EXTRAS = {
    "questionary": ("prompts with lists", "tui"),
    "textual": ("jetstream top", "tui"),
    "starlette": ("the web console", "console"),
    "uvicorn": ("the web console", "console"),
    "pyspark": ("pipelines", "spark"),
    "pyarrow": ("Arrow batches", "spark"),
    "deltalake": ("Delta tables", "lakehouse"),
}


class Finding(NamedTuple):
    """One thing looked at: fine, worth knowing, or broken."""

    level: str
    what: str
    detail: str
    hint: str = ""


@make_command(
    "doctor",
    help="Check the installation, optional parts, disk, ports and the server. Exit code 1 when "
    "something is broken.",
    examples="""
    jetstream doctor
    jetstream doctor -s nats://prod:4222 -j
    """,
)
@click.option(
    "--store-dir", type=click.Path(path_type=Path), default=Path(), help="disk to look at"
)
async def command(store_dir: Path) -> None:
    found = [*installation(), *optional_parts(), *machine(store_dir)]
    found += await server()
    if screen().json:
        print_json([finding._asdict() for finding in found])
    else:
        marks = {"ok": ("✓", "green"), "note": ("•", "yellow"), "bad": ("✗", "red")}
        for finding in found:
            mark, color = marks[finding.level]
            say(f"{click.style(mark, fg=color)} {finding.what}: {finding.detail}")
            if finding.hint:
                say(f"    {finding.hint}")
    if any(finding.level == "bad" for finding in found):
        raise Quit(1)


def installation() -> Iterator[Finding]:
    yield Finding("ok", "jetstream", f"{__version__} at {Path(__file__).parents[1]}")
    version = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info >= (3, 11)
    yield Finding("ok" if fine else "bad", "Python", version, "" if fine else "3.11 is needed")
    missing = [name for name in KERNELS if not _importable(name)]
    if missing:
        yield Finding("bad", "kernels", f"not compiled: {', '.join(missing)}", "run `make kernels`")
    else:
        yield Finding("ok", "kernels", "compiled")
    loop = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio only"
    yield Finding("ok" if loop == "uvloop" else "note", "event loop", loop)


def _importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def optional_parts(has: Callable[[str], bool] | None = None) -> Iterator[Finding]:
    has = has or (lambda name: importlib.util.find_spec(name) is not None)
    for name, (purpose, extra) in EXTRAS.items():
        if has(name):
            yield Finding("ok", name, f"for {purpose}")
        else:
            hint = f"pip install 'jetstream-py[{extra}]'"
            yield Finding("note", name, f"not installed, needed for {purpose}", hint)
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    if java:
        yield Finding("ok", "Java", str(java))
    else:
        yield Finding(
            "note",
            "Java",
            "not found, Spark needs it",
            "Debian: apt-get install openjdk-17-jre-headless",
        )


def machine(store_dir: Path) -> Iterator[Finding]:
    usage = shutil.disk_usage(store_dir)
    level = "note" if usage.free < 1 << 30 else "ok"
    yield Finding(level, "disk", f"{human.size(usage.free)} free at {store_dir.resolve()}")
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fine = soft >= 1024
    yield Finding(
        "ok" if fine else "note",
        "open files",
        f"{soft:,} allowed (up to {hard:,})",
        "" if fine else "raise it with `ulimit -n 65536`",
    )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 4222))
            yield Finding("ok", "port 4222", "free for a server")
        except OSError:
            yield Finding("note", "port 4222", "in use", "`jetstream server -p -1` takes another")


async def server() -> list[Finding]:
    chosen = settings()
    where = f"{chosen.url} (from {chosen.url_origin})"
    try:
        async with connect() as session:
            rtt = await session.nc.rtt()
            version = session.nc.info.version
            found = [
                Finding(
                    "ok",
                    "server",
                    f"{where}, version {version}, rtt {human.duration(int(rtt * 1e9))}",
                )
            ]
            try:
                usage = await session.account_info()
                text = f"{usage['streams']} streams, {usage['consumers']} consumers"
                found.append(Finding("ok", "JetStream", text))
            except Exception as error:
                text, hint, _ = explain(error, chosen)
                found.append(Finding("note", "JetStream", text, hint or ""))
            return found
    except Exception as error:
        text, hint, _ = explain(error, chosen)
        return [Finding("note", "server", text, hint or "")]
