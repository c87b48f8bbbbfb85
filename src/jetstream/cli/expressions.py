"""Small conditions over infos: `state.messages > 1000 and config.storage == "memory"`.

Python's own grammar is parsed, and only comparisons, boolean words, arithmetic, `in`, `len()`,
attribute and key look-ups of plain data are carried out; nothing can be called or reached besides.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from jetstream.cli.problems import Failure

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression; `Failure` when it is not one of ours."""
    plain = text.replace("&&", " and ").replace("||", " or ")
    try:
        tree = ast.parse(plain.strip(), mode="eval")
        return _value(tree.body, names)
    except SyntaxError as error:
        raise Failure(f"invalid expression {text!r}: {error.msg}", None, 2) from error
    except (TypeError, ZeroDivisionError) as error:
        raise Failure(f"the expression {text!r} cannot be worked out: {error}", None, 2) from error


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        words = {"true": True, "false": False, "null": None, **names}
        if node.id not in words:
            known = ", ".join(sorted(names))
            raise Failure(f"unknown name {node.id!r} in the expression", f"there are {known}", 2)
        return words[node.id]
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, names)
        return owner.get(node.attr) if isinstance(owner, Mapping) else None
    if isinstance(node, ast.Subscript):
        owner, key = _value(node.value, names), _value(node.slice, names)
        return owner.get(key) if isinstance(owner, Mapping) else owner[key]
    if isinstance(node, ast.BoolOp):
        values = (_value(each, names) for each in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, names)
        return not inner if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.Compare):
        return _compared(node, names)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each, names) for each in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return len(_value(node.args[0], names) or ())
    raise Failure("the expression uses something that is not allowed here", None, 2)


def _compared(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, names)
        if type(op) not in _COMPARE or not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True
