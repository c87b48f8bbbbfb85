"""What a pipeline file says, checked before Spark starts.

    name: orders
    servers: nats://127.0.0.1:4222
    sources:
      orders: {stream: ORDERS, format: json, schema: "id long, amount double, at timestamp"}
    steps:
      large:
        sql: SELECT * FROM orders WHERE amount > 100
        expect: {has_id: {check: id IS NOT NULL, otherwise: drop}}
    sinks:
      out: {from: large, stream: LARGE, subject: large.orders}

`check` reads the file into a `Pipeline` or raises `BadPipeline` with every mistake and its line.
"""

import ast
import difflib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from jetstream.spark.nodes import BadPipeline, Node, Problem, load
from jetstream.spark.options import BadOption, Options, known_options, parse_seconds

TOP = {
    "name", "description", "servers", "connection", "checkpoint", "trigger", "dead_letter",
    "sources", "steps", "sinks", "settings", "progress_bucket",
}  # fmt: skip
SOURCE_KINDS = ("stream", "kv", "object", "parquet", "json", "csv", "sql", "rate")
SINK_KINDS = ("stream", "kv", "parquet", "delta", "iceberg", "console", "memory", "noop")
STEP = {"sql", "python", "from", "expect", "watermark", "dedup"}
OUTCOMES = ("fail", "drop", "deadletter")
MODES = ("append", "update", "complete")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TABLES = re.compile(r"\b(?:from|join)\s+([A-Za-z_][A-Za-z0-9_.]*)(?!\s*\()", re.IGNORECASE)
_WITH = re.compile(r"(?:\bwith|,)\s+([A-Za-z_][A-Za-z0-9_]*)\s+as\s*\(", re.IGNORECASE)


class Source(Struct, frozen=True):
    name: str
    kind: str
    where: str
    options: dict[str, str]
    schema: str = ""
    watermark: tuple[str, str] = ("", "")
    batch: bool = False
    line: int = 0


class Expectation(Struct, frozen=True):
    name: str
    check: str
    otherwise: str


class Step(Struct, frozen=True):
    name: str
    sql: str = ""
    function: Any = None
    inputs: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    watermark: tuple[str, str] = ("", "")
    dedup: tuple[str, ...] = ()
    line: int = 0


class Sink(Struct, frozen=True):
    name: str
    kind: str
    where: str
    source: str
    options: dict[str, str]
    mode: str = "append"
    partition_by: tuple[str, ...] = ()
    line: int = 0


class Pipeline(Struct, frozen=True):
    name: str
    path: str
    servers: str
    connection: dict[str, str]
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]
    checkpoint: str = ""
    trigger: str = ""
    dead_letter: str = ""
    settings: dict[str, str] = {}
    progress_bucket: str = "spark_progress"


def check(path: str | Path) -> Pipeline:
    """Read and check a pipeline file; every mistake is reported, with its line."""
    path = Path(path)
    reader = _Reader(path, load(path))
    made = reader.pipeline()
    if reader.problems:
        raise BadPipeline(reader.problems)
    return made


class _Reader:
    def __init__(self, path: Path, root: Node) -> None:
        self.path = path
        self.root = root
        self.problems: list[Problem] = []
        self.names: dict[str, int] = {}

    def wrong(self, line: int, text: str) -> None:
        self.problems.append(Problem(str(self.path), line, text))

    def pipeline(self) -> Pipeline:
        top = self.mapping(self.root, "the file")
        self.only(top, TOP, "")
        name = self.text(top, "name", self.path.stem)
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            self.wrong(top["name"].line, f"name {name!r}: letters, digits, - and _ only")
        trigger = self.text(top, "trigger", "")
        if trigger and trigger != "available-now":
            self.guard(top["trigger"].line, lambda: parse_seconds("trigger", trigger))
        sources = [self.source(n, node) for n, node in self.block(top, "sources", needed=True)]
        steps = [self.step(n, node) for n, node in self.block(top, "steps")]
        sinks = [self.sink(n, node) for n, node in self.block(top, "sinks", needed=True)]
        dead = self.text(top, "dead_letter", "")
        if not dead:
            for step in steps:
                if any(e.otherwise == "deadletter" for e in step.expectations):
                    self.wrong(
                        step.line,
                        f"step {step.name}: deadletter needs `dead_letter: SUBJECT` at the top",
                    )
        self.references(steps, sinks)
        return Pipeline(
            name,
            str(self.path),
            self.text(top, "servers", "nats://127.0.0.1:4222"),
            self.texts(top, "connection"),
            tuple(s for s in sources if s),
            tuple(steps),
            tuple(s for s in sinks if s),
            self.text(top, "checkpoint", ""),
            trigger,
            dead,
            self.texts(top, "settings"),
            self.text(top, "progress_bucket", "spark_progress"),
        )

    # Parts

    def source(self, name: str, node: Node) -> Source | None:
        self.named(name, node.line)
        given = self.mapping(node, f"source {name}")
        kind, where = self.kind(given, SOURCE_KINDS, f"source {name}", node.line)
        if not kind:
            return None
        extra = {"schema", "watermark", "batch", kind}
        options = self.options(
            given, extra, {"stream": "s", "kv": "k", "object": "o"}.get(kind, ""), kind
        )
        schema = self.text(given, "schema", "")
        if options.get("format") in ("json", "csv") and not schema:
            self.wrong(node.line, f"source {name}: format {options['format']} needs a schema")
        if schema:
            self.schema(given["schema"], f"source {name}")
        return Source(
            name, kind, where, options, schema,
            self.watermark(given, f"source {name}"), self.flag(given, "batch"), node.line,
        )  # fmt: skip

    def step(self, name: str, node: Node) -> Step:
        self.named(name, node.line)
        given = self.mapping(node, f"step {name}")
        self.only(given, STEP, f"step {name}: ")
        sql = self.text(given, "sql", "")
        if bool(sql) == ("python" in given):
            self.wrong(node.line, f"step {name}: say either sql or python")
        function = self.function(given["python"], name) if "python" in given else None
        inputs = tuple(self.list_of(given, "from"))
        if "python" in given and not inputs:
            self.wrong(
                node.line, f"step {name}: a Python step says which inputs it takes: `from: […]`"
            )
        if sql:
            self.sql(given["sql"], f"step {name}")
        expectations = [self.expectation(name, n, e) for n, e in self.block(given, "expect")]
        return Step(
            name, sql, function, inputs, tuple(e for e in expectations if e),
            self.watermark(given, f"step {name}"), tuple(self.list_of(given, "dedup")),
            given["sql"].line if sql else node.line,
        )  # fmt: skip

    def sink(self, name: str, node: Node) -> Sink | None:
        given = self.mapping(node, f"sink {name}")
        kind, where = self.kind(given, SINK_KINDS, f"sink {name}", node.line)
        if not kind:
            return None
        extra = {"from", "output", "partition_by", kind}
        options = self.options(given, extra, {"stream": "w", "kv": "k"}.get(kind, ""), kind)
        mode = self.text(given, "output", "append")
        if mode not in MODES:
            self.wrong(
                given["output"].line,
                f"sink {name}: output {mode!r} is not one of {', '.join(MODES)}",
            )
        if kind in ("parquet", "delta", "iceberg") and mode != "append":
            self.wrong(node.line, f"sink {name}: a {kind} table takes output append only")
        source = self.text(given, "from", "")
        if not source:
            self.wrong(node.line, f"sink {name}: say which step or source it takes: `from: NAME`")
        return Sink(
            name,
            kind,
            where,
            source,
            options,
            mode,
            tuple(self.list_of(given, "partition_by")),
            node.line,
        )

    def expectation(self, step: str, name: str, node: Node) -> Expectation | None:
        if isinstance(node.value, str):
            return Expectation(name, node.value, "fail")
        given = self.mapping(node, f"expectation {name}")
        self.only(given, {"check", "otherwise"}, f"expectation {name}: ")
        rule = self.text(given, "check", "")
        if not rule:
            self.wrong(node.line, f"expectation {name} of {step}: no `check`")
        otherwise = self.text(given, "otherwise", "fail")
        if otherwise not in OUTCOMES:
            self.wrong(
                given["otherwise"].line,
                f"expectation {name}: otherwise {otherwise!r} is not one of {', '.join(OUTCOMES)}",
            )
        return Expectation(name, rule, otherwise)

    def references(self, steps: list[Step], sinks: list[Sink | None]) -> None:
        seen = {n for n in self.names if n not in {s.name for s in steps}}
        later = {s.name for s in steps}
        for step in steps:
            used = set(step.inputs)
            if step.sql:
                own = {w.lower() for w in _WITH.findall(step.sql)}
                used |= {t for t in _TABLES.findall(_quiet(step.sql)) if t.lower() not in own}
            for table in sorted(used):
                if table in seen or "." in table:
                    continue
                if table in later:
                    self.wrong(step.line, f"step {step.name} uses {table}, which comes later")
                else:
                    self.wrong(
                        step.line,
                        f"step {step.name}: no source or step named {table!r}{_near(table, seen)}",
                    )
            seen.add(step.name)
        for sink in sinks:
            if sink is not None and sink.source and sink.source not in seen:
                self.wrong(
                    sink.line,
                    f"sink {sink.name}: no source or step named {sink.source!r}"
                    f"{_near(sink.source, seen)}",
                )

    # Values

    def kind(
        self, given: dict[str, Node], kinds: tuple[str, ...], who: str, line: int
    ) -> tuple[str, str]:
        found = [k for k in kinds if k in given]
        if len(found) != 1:
            self.wrong(
                line,
                f"{who}: say exactly one of {', '.join(kinds)}"
                + (f" (found {' and '.join(found)})" if found else ""),
            )
            return "", ""
        value = given[found[0]].value
        return found[0], "" if value is None or isinstance(value, bool) else str(value)

    def options(
        self, given: dict[str, Node], extra: set[str], letter: str, kind: str
    ) -> dict[str, str]:
        options: dict[str, str] = {}
        names = {k.name.lower(): k.name for k in known_options(letter)} if letter else {}
        for key, node in given.items():
            if key in extra:
                continue
            if letter and key.lower() not in names:
                near = difflib.get_close_matches(key.lower(), [*names, *extra], n=1)
                hint = f"; did you mean {names.get(near[0], near[0])}?" if near else ""
                self.wrong(node.line, f"{kind} has no option {key!r}{hint}")
            else:
                value = node.plain()
                options[names.get(key.lower(), key)] = (
                    ",".join(map(str, value)) if isinstance(value, list) else _as_text(value)
                )
        if letter and not self.problems:
            line = min((n.line for n in given.values()), default=1)
            self.guard(
                line,
                lambda: Options(
                    {k: v for k, v in options.items() if not k.startswith("tls.")}, letter
                ),
            )
        return options

    def schema(self, node: Node, who: str) -> None:
        depth = 0
        text = str(node.value)
        for sign in text:
            depth += (sign in "(<") - (sign in ")>")
            if depth < 0:
                break
        fields = [f.strip() for f in re.split(r",(?![^<(]*[>)])", text)]
        if depth or any(
            not re.fullmatch(r"`?\w+`?\s*:?\s+?.*\w.*|`?\w+`?\s*:\s*.+", f, re.DOTALL)
            for f in fields
        ):
            self.wrong(node.line, f"{who}: schema is not like `id long, name string`")

    def sql(self, node: Node, who: str) -> None:
        text = _quiet(str(node.value))
        if text.count("(") != text.count(")"):
            self.wrong(node.line, f"{who}: the parentheses of the SQL do not match")
        if not re.match(r"\s*(select|with|from|values|table)\b", text, re.IGNORECASE):
            self.wrong(node.line, f"{who}: the SQL of a step is a query (SELECT …)")

    def function(self, node: Node, step: str) -> Any:
        if callable(node.value):
            return node.value
        text = str(node.value)
        file, colon, name = text.partition(":")
        path = self.path.parent / file
        if not colon or not file.endswith(".py"):
            self.wrong(node.line, f"step {step}: python is like `steps.py:clean`")
        elif not path.is_file():
            self.wrong(node.line, f"step {step}: no such file {file}")
        else:
            self.guard(node.line, lambda: _has_function(path, name))
        return (str(path), name)

    def watermark(self, given: dict[str, Node], who: str) -> tuple[str, str]:
        text = self.text(given, "watermark", "")
        if not text:
            return "", ""
        column, _, delay = text.partition(" ")
        if not re.fullmatch(
            r"\d+(\.\d+)?\s*(milliseconds?|seconds?|minutes?|hours?|days?|ms|s|m|h|d)",
            delay.strip(),
        ):
            self.wrong(given["watermark"].line, f"{who}: watermark is like `at 10 minutes`")
        return column, delay.strip()

    def mapping(self, node: Node, who: str) -> dict[str, Node]:
        if not isinstance(node.value, dict):
            self.wrong(node.line, f"{who}: expected names and values")
            return {}
        return node.value

    def block(
        self, given: dict[str, Node], name: str, needed: bool = False
    ) -> list[tuple[str, Node]]:
        if name not in given:
            if needed:
                self.wrong(self.root.line, f"no `{name}`")
            return []
        return list(self.mapping(given[name], name).items())

    def text(self, given: dict[str, Node], key: str, default: str) -> str:
        node = given.get(key)
        if node is None or node.value is None:
            return default
        if isinstance(node.value, (dict, list)):
            self.wrong(node.line, f"{key}: expected one value")
            return default
        return _as_text(node.value)

    def texts(self, given: dict[str, Node], key: str) -> dict[str, str]:
        return {k: _as_text(n.plain()) for k, n in self.block(given, key)}

    def flag(self, given: dict[str, Node], key: str) -> bool:
        node = given.get(key)
        if node is not None and not isinstance(node.value, bool):
            self.wrong(node.line, f"{key}: expected true or false")
        return node is not None and node.value is True

    def list_of(self, given: dict[str, Node], key: str) -> list[str]:
        node = given.get(key)
        if node is None:
            return []
        value = node.plain()
        return (
            [str(v) for v in value]
            if isinstance(value, list)
            else [p.strip() for p in str(value).split(",")]
        )

    def only(self, given: dict[str, Node], allowed: set[str], who: str) -> None:
        for key, node in given.items():
            if key not in allowed:
                self.wrong(node.line, f"{who}nothing is called {key!r} here{_near(key, allowed)}")

    def named(self, name: str, line: int) -> None:
        if not _NAME.fullmatch(name):
            self.wrong(line, f"{name!r} cannot be the name of a table: letters, digits and _ only")
        if name in self.names:
            self.wrong(line, f"{name} is already defined in line {self.names[name]}")
        self.names.setdefault(name, line)

    def guard(self, line: int, work: Callable[[], Any]) -> None:
        try:
            work()
        except (BadOption, ValueError) as error:
            self.wrong(line, str(error))


def _has_function(path: Path, name: str) -> None:
    try:
        tree = ast.parse(path.read_text(), str(path))
    except SyntaxError as error:
        raise ValueError(f"{path}:{error.lineno}: {error.msg}") from error
    if not any(isinstance(s, ast.FunctionDef) and s.name == name for s in tree.body):
        raise ValueError(f"{path.name} has no function {name!r}")


def _quiet(sql: str) -> str:
    """SQL without literals and comments."""
    return re.sub(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", "''", sql, flags=re.DOTALL)


def _near(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(sorted(known))}" if known else ""


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
