"""Reading request JSON the way the reference does.

Field names match in any letter case, `null` counts as absent, an unknown field is refused when
strict, and a wrong enum value is quoted back. The texts after "invalid JSON:" follow Go's decoder
where a client could show them.
"""

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec

from jetstream.errors import ApiError
from jetstream.schema.api_errors import INVALID_JSON

T = TypeVar("T", bound=msgspec.Struct)


def decode(payload: bytes, kind: type[T], strict: bool = True) -> T:
    """The request as a Struct; ApiError(INVALID_JSON) with the reference's text otherwise."""
    try:
        raw = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(INVALID_JSON, err=_syntax_text(payload, error)) from None
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        text = f"json: cannot unmarshal {_json_kind(raw)} into Go value of type server.{_go(kind)}"
        raise ApiError(INVALID_JSON, err=text)
    shaped = _shape(raw, kind, strict)
    try:
        return msgspec.convert(shaped, kind)
    except msgspec.ValidationError as error:
        raise ApiError(INVALID_JSON, err=_type_text(error, shaped, kind)) from None


def _shape(raw: Mapping[str, Any], kind: type[Any], strict: bool) -> dict[str, Any]:
    """Names as the Struct spells them, nulls dropped, nested Structs likewise."""
    known, folded = _fields(kind)  # type: ignore[arg-type]
    choices: Mapping[str, tuple[str, ...]] = getattr(kind, "CHOICES", {})
    shaped: dict[str, Any] = {}
    for given, value in raw.items():
        name = given if given in known else folded.get(given.casefold())
        if name is None:
            if strict:
                raise ApiError(INVALID_JSON, err=f"json: unknown field {_quoted(given)}")
            continue
        if value is None:
            continue
        allowed = choices.get(name)
        if allowed is not None:
            shaped[name] = _choice(name, value, allowed)
        else:
            shaped[name] = _nested(value, known[name], strict)
    return shaped


def _nested(value: Any, kind: Any, strict: bool) -> Any:
    if isinstance(value, dict) and _is_struct(kind):
        return _shape(value, kind, strict)
    if isinstance(value, list) and get_origin(kind) is list:
        (inner,) = get_args(kind)
        if _is_struct(inner):
            return [
                _shape(v or {}, inner, strict) if v is None or isinstance(v, dict) else v
                for v in value
            ]
        if inner is str:
            # Go turns a null inside a list of strings into an empty string.
            return ["" if v is None else v for v in value]
    if isinstance(value, dict) and get_origin(kind) is dict:
        return {k: ("" if v is None else v) for k, v in value.items()}
    return value


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if isinstance(value, str):
        # The reference folds the case of this one enum only.
        plain = value.lower() if name == "discard" else value
        if plain in allowed:
            return plain
    if name == "compression":
        raise ApiError(INVALID_JSON, err="unknown compression algorithm")
    quoted = _quoted(msgspec.json.encode(value).decode())
    raise ApiError(INVALID_JSON, err=f"can not unmarshal {quoted}")


@cache
def _fields(kind: type[Any]) -> tuple[dict[str, Any], dict[str, str]]:
    hints = typing.get_type_hints(kind)
    known = {name: _without_none(hints[name]) for name in kind.__struct_fields__}
    return known, {name.casefold(): name for name in known}


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        inner = [arg for arg in get_args(hint) if arg is not types.NoneType]
        return inner[0] if len(inner) == 1 else hint
    return hint


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"


def _go(kind: type[Any]) -> str:
    return kind.__name__


def _syntax_text(payload: bytes, error: Exception) -> str:
    text = str(error)
    if "truncated" in text:
        return "unexpected EOF"
    start = payload.lstrip()[:1]
    if start and start not in b'{["0123456789-tfn':
        at = len(payload) - len(payload.lstrip()) + 1
        shown = start.decode("latin-1")
        return f"invalid character '{shown}' looking for beginning of value at offset {at}"
    return text


_GO_TYPES = {"str": "string", "bool": "bool", "int": "int64", "array": "[]string"}


def _type_text(error: msgspec.ValidationError, shaped: Mapping[str, Any], kind: type[Any]) -> str:
    message = str(error)
    path = message.rsplit("`$.", 1)[1].rstrip("`") if "`$." in message else ""
    value: Any = shaped
    for step in path.split("."):
        value = value.get(step.split("[")[0]) if isinstance(value, dict) else None
    wanted = message.split("`")[1] if message.startswith("Expected `") else "int"
    shown = _json_kind(value)
    if shown == "number" and wanted == "int":
        shown = f"number {value}"
    go_type = _GO_TYPES.get(wanted, wanted)
    return (
        f"json: cannot unmarshal {shown} into Go struct field {_go(kind)}.{path} of type {go_type}"
    )
