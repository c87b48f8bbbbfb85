"""The house stands as it was drawn: who may lean on whom, how large a room may grow.

The imports are read out of the sources, so nothing has to be run (or installed) to prove this.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent
SOURCES = HOUSE / "src" / "jetstream"
LINES_MAX = 600

# Floors from the ground up; a room imports from its own room and from floors below.
FLOORS: list[set[str]] = [
    {"clock", "errors"},
    {"schema", "subjects", "wire", "security"},
    {"store"},
    {"broker", "stream", "consumer"},
    {"engine"},
    {"api"},
    {"server", "client"},
    {"cli", "console", "spark", "testing", "demo"},
]
FLOOR_OF = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}

# Who stands outside the server's back rooms knows the client and the words, nothing behind them.
OUTSIDE = {"client", "cli", "console", "spark", "demo"}
WORDS = {"clock", "errors", "schema", "subjects", "wire", "security"}
MAY_START_A_SERVER = {"cli", "console", "demo", "testing"}
# Tools for a server that is not running work on its files.
MAY_LOOK_INSIDE = {"cli/store.py": {"store"}, "spark/files.py": {"store"}}

# The rooms that touch the world; everybody else gets time, disk and sockets handed in.
SOCKETS = {"socket", "asyncio", "ssl", "selectors"}
MAY_USE_SOCKETS = {"server", "client", "cli", "console", "spark", "testing", "demo"}


def modules() -> list[Path]:
    return sorted(SOURCES.rglob("*.py"))


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCES).parts[0]
    return first.removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path, at_run_time: bool = False) -> Iterator[str]:
    """The modules a file imports; with `at_run_time`, not those for type checkers alone."""
    tree = parsed(path)
    skipped: set[int] = set()
    if at_run_time:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                skipped |= {id(below) for part in node.body for below in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def rooms_imported(path: Path) -> set[str]:
    found = set()
    for name in imports(path, at_run_time=True):
        parts = name.split(".")
        if parts[0] == "jetstream" and len(parts) > 1 and parts[1] in FLOOR_OF:
            found.add(parts[1])
    return found


def test_a_room_leans_only_on_floors_below() -> None:
    wrong = []
    for path in modules():
        room = room_of(path)
        if room not in FLOOR_OF:
            continue  # jetstream/__init__.py and friends offer everything
        for other in rooms_imported(path) - {room}:
            top = FLOOR_OF[other] == FLOOR_OF[room] == len(FLOORS) - 1
            if FLOOR_OF[other] >= FLOOR_OF[room] and not top:
                wrong.append(f"{path.relative_to(SOURCES)} leans on {other}")
    assert not wrong


def test_who_stands_outside_knows_the_client_and_the_words() -> None:
    wrong = []
    for path in modules():
        room, name = room_of(path), str(path.relative_to(SOURCES))
        if room not in OUTSIDE:
            continue
        allowed = WORDS | OUTSIDE | MAY_LOOK_INSIDE.get(name, set())
        if room in MAY_START_A_SERVER:
            allowed |= {"server", "testing"}
        wrong += [f"{name} knows {other}" for other in rooms_imported(path) - allowed]
    assert not wrong


def test_stream_and_consumer_are_strangers() -> None:
    for path in modules():
        if room_of(path) == "stream":
            assert "consumer" not in rooms_imported(path), path
        if room_of(path) == "consumer":
            assert "stream" not in rooms_imported(path), path


def test_only_the_doors_touch_sockets() -> None:
    for path in modules():
        if room_of(path) in MAY_USE_SOCKETS or room_of(path) not in FLOOR_OF:
            continue
        used = {name.split(".")[0] for name in imports(path)} & SOCKETS
        assert not used, f"{path.relative_to(SOURCES)} uses {used}"


def test_middle_rooms_are_handed_the_time() -> None:
    wrong = []
    for path in modules():
        if room_of(path) in {"stream", "consumer", "broker", "subjects", "wire"}:
            wrong += [
                f"{path.relative_to(SOURCES)} has a clock of its own: {name}"
                for name in imports(path)
                if name == "time" or name.startswith("time.")
            ]
    assert not wrong


def test_a_module_has_one_subject() -> None:
    wrong = []
    for path in modules():
        text = path.read_text()
        if len(text.splitlines()) > LINES_MAX:
            wrong.append(f"{path.relative_to(SOURCES)} has {len(text.splitlines())} lines")
        if text.strip() and not ast.get_docstring(parsed(path)):
            wrong.append(f"{path.relative_to(SOURCES)} does not say what it is for")
    assert not wrong


def test_every_kernel_that_python_sees_has_its_types_beside_it() -> None:
    named = {name for path in modules() for name in imports(path)}
    wrong = []
    for kernel in SOURCES.rglob("*.pyx"):
        module = ".".join(kernel.relative_to(SOURCES.parent).with_suffix("").parts)
        if module in named and not kernel.with_suffix(".pyi").exists():
            wrong.append(module)
    assert not wrong


def test_nothing_names_a_private_address() -> None:
    lock = (HOUSE / "uv.lock").read_text()
    assert "://" not in lock, "run `make lock`: the lock names no index"
    npm = (HOUSE / "tests" / "interop" / "package-lock.json").read_text()
    assert '"resolved"' not in npm
