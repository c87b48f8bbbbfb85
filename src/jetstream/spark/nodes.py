"""Pipeline files with line numbers: every value knows where it stands.

YAML is composed, not loaded, and a Python file is read as a syntax tree beside being run, so that
a mistake can be shown with file and line before Spark starts.
"""

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from jetstream.errors import JetStreamError


class Problem(Struct, frozen=True, order=True):
    """Something wrong in a pipeline file."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class BadPipeline(JetStreamError):
    """A pipeline file with mistakes."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, sorted(problems))))
        self.problems = sorted(problems)


class Node:
    """A value of a pipeline file and the line it stands on."""

    __slots__ = ("line", "value")

    def __init__(self, value: Any, line: int) -> None:
        self.value = value
        self.line = line

    def __repr__(self) -> str:
        return f"Node({self.value!r}, {self.line})"

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def load(path: Path) -> Node:
    """The root of a YAML or Python pipeline file."""
    if not path.is_file():
        raise BadPipeline([Problem(str(path), 1, "no such file")])
    return _python(path) if path.suffix == ".py" else _yaml(path)


def _yaml(path: Path) -> Node:
    loader = yaml.SafeLoader(path.read_text())
    try:
        root = loader.get_single_node()
        if root is None:
            raise BadPipeline([Problem(str(path), 1, "the file is empty")])
        return _of_yaml(loader, root, str(path))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadPipeline([Problem(str(path), line, str(error.problem))]) from error
    finally:
        loader.dispose()


def _of_yaml(loader: yaml.SafeLoader, node: yaml.Node, path: str) -> Node:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        made: dict[str, Node] = {}
        for key, value in node.value:
            name = str(loader.construct_object(key, deep=True))
            if name in made:
                raise BadPipeline(
                    [Problem(path, key.start_mark.line + 1, f"{name} stands here twice")]
                )
            made[name] = _of_yaml(loader, value, path)
            # A mistake in a nested block is better shown where the block is named.
            if isinstance(value, yaml.MappingNode):
                made[name].line = key.start_mark.line + 1
        return Node(made, line)
    if isinstance(node, yaml.SequenceNode):
        return Node([_of_yaml(loader, item, path) for item in node.value], line)
    return Node(loader.construct_object(node, deep=True), line)


def _python(path: Path) -> Node:
    source = path.read_text()
    try:
        tree = ast.parse(source, str(path))
    except SyntaxError as error:
        raise BadPipeline([Problem(str(path), error.lineno or 1, f"{error.msg}")]) from error
    shown: ast.expr | None = None
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "pipeline" for t in statement.targets
        ):
            shown = statement.value
    if shown is None:
        raise BadPipeline([Problem(str(path), 1, "a Python pipeline says `pipeline = {…}`")])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        line = error.__traceback__.tb_lineno if error.__traceback__ else 1
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == str(path):
                line = trace.tb_lineno
            trace = trace.tb_next
        raise BadPipeline([Problem(str(path), line, f"{type(error).__name__}: {error}")]) from error
    return _of_python(module.pipeline, shown, shown.lineno)


def _of_python(value: Any, shown: ast.expr | None, line: int) -> Node:
    line = shown.lineno if shown is not None else line
    if isinstance(value, dict):
        lines: dict[str, ast.expr] = {}
        if isinstance(shown, ast.Dict):
            for key, item in zip(shown.keys, shown.values, strict=True):
                if isinstance(key, ast.Constant):
                    lines[str(key.value)] = item
        return Node(
            {str(k): _of_python(v, lines.get(str(k)), line) for k, v in value.items()}, line
        )
    if isinstance(value, list):
        items = shown.elts if isinstance(shown, ast.List) and len(shown.elts) == len(value) else []
        return Node(
            [_of_python(v, items[i] if items else None, line) for i, v in enumerate(value)], line
        )
    return Node(value, line)
