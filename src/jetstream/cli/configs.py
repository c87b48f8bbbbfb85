"""Configuration files: read them kindly, compare them, show the difference.

A file may hold a bare configuration or the output of `info -j`; JSON, YAML or TOML; durations as
nanoseconds or as text such as "24h". Field names of 2020 are still understood.
"""

from pathlib import Path
from typing import Any

from jetstream.cli import human
from jetstream.cli.problems import Failure
from jetstream.cli.stream_config import RESERVED_METADATA
from jetstream.cli.values import parse_bytes, parse_duration
from jetstream.schema.times import ZERO_TIME, go_duration

Json = dict[str, Any]
DURATION_FIELDS = frozenset(
    {
        "max_age",
        "duplicate_window",
        "subject_delete_marker_ttl",
        "inactive_threshold",
        "ack_wait",
        "max_expires",
        "idle_heartbeat",
        "priority_timeout",
    }
)
SIZE_FIELDS = frozenset({"max_bytes", "max_msg_size"})


def load_file(path: str) -> Any:
    """The decoded content of a JSON, YAML or TOML file (`-` is stdin)."""
    import sys

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from error
    ending = Path(path).suffix.lower()
    if ending in (".yaml", ".yml"):
        return _yaml(path, text)
    if ending == ".toml":
        return _toml(path, text)
    import json

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Failure(
            f"{path}: {error.msg} at line {error.lineno}, column {error.colno}",
            "the file has to be JSON; name it .yaml for YAML",
        ) from error


def _yaml(path: str, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Failure(f"{path}: {' '.join(str(error).split())}") from error


def _toml(path: str, text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Failure(f"{path}: {error}") from error


def stream_from_file(path: str) -> Json:
    return normal_config(_config_of(path, load_file(path)), path)


def consumer_from_file(path: str) -> tuple[Json, str]:
    """The configuration, and the stream the file names (or nothing)."""
    content = load_file(path)
    config = old_names(_config_of(path, content))
    stream = content.get("stream_name", "") if isinstance(content, dict) else ""
    return normal_config(config, path), str(stream)


def _config_of(path: str, content: Any) -> Json:
    if not isinstance(content, dict):
        raise Failure(f"{path} does not hold an object")
    inner = content.get("config")
    return dict(inner) if isinstance(inner, dict) else dict(content)


def old_names(config: Json) -> Json:
    """Consumer fields as they were called in 2020."""
    made = dict(config)
    if "delivery_subject" in made:
        made["deliver_subject"] = made.pop("delivery_subject")
    if made.pop("deliver_all", False):
        made["deliver_policy"] = "all"
    if made.pop("deliver_last", False):
        made["deliver_policy"] = "last"
    start = made.pop("start_time", None)
    if start and start != ZERO_TIME:
        made |= {"deliver_policy": "by_start_time", "opt_start_time": start}
    sequence = made.pop("stream_seq", None)
    if sequence:
        made |= {"deliver_policy": "by_start_sequence", "opt_start_seq": sequence}
    return made


def normal_config(config: Json, where: str = "") -> Json:
    """Durations and sizes as integers, without what only the server may say."""
    made: Json = {}
    for key, value in config.items():
        try:
            made[key] = _normal_value(key, value)
        except ValueError as error:
            raise Failure(f"{where}: field {key}: {error}") from error
    if "metadata" in made:
        kept = {k: v for k, v in made["metadata"].items() if not k.startswith(RESERVED_METADATA)}
        made["metadata"] = kept
    return made


def _normal_value(key: str, value: Any) -> Any:
    if key in DURATION_FIELDS and isinstance(value, str):
        return max(parse_duration(value), 0)
    if key in SIZE_FIELDS and isinstance(value, str):
        return parse_bytes(value)
    if key == "backoff" and isinstance(value, list):
        return [parse_duration(each) if isinstance(each, str) else each for each in value]
    if key == "consumer_limits" and isinstance(value, dict):
        return {k: _normal_value(k, v) for k, v in value.items()}
    return value


def comparable(config: Json) -> Json:
    """For comparing: empty values gone, subject lists in order, reserved metadata gone."""
    made: Json = {}
    for key, value in config.items():
        if key == "metadata":
            value = {k: v for k, v in value.items() if not k.startswith(RESERVED_METADATA)}
        elif key in ("subjects", "filter_subjects") and isinstance(value, list):
            value = sorted(value)
        if value in (None, "", [], {}, False, 0) and key not in ("max_age",):
            continue
        made[key] = value
    return {key: value for key, value in made.items() if value != 0 or key != "max_age"}


def same(old: Json, new: Json) -> bool:
    return comparable(old) == comparable(new)


def shown(key: str, value: Any) -> str:
    """A field's value for eyes."""
    import json

    if key in DURATION_FIELDS and isinstance(value, int):
        return go_duration(value)
    if key == "backoff" and isinstance(value, list):
        return "[" + ", ".join(go_duration(each) for each in value) + "]"
    if key in SIZE_FIELDS and isinstance(value, int) and value >= 1024:
        return f"{value} ({human.size(value)})"
    return json.dumps(value, ensure_ascii=False)


def differences(old: Json, new: Json, title: str) -> list[str]:
    """Changed fields line by line; runs of equal ones folded, but for one neighbour each side."""
    before, after = comparable(old), comparable(new)
    keys = [*old, *(key for key in new if key not in old)]
    keys = [key for key in keys if key in before or key in after]
    changed = [before.get(key) != after.get(key) for key in keys]
    near = [any(changed[max(i - 1, 0) : i + 2]) for i in range(len(keys))]
    width = max((len(key) for key, is_near in zip(keys, near, strict=True) if is_near), default=0)
    lines = ["Differences (-old +new):", f"  {title}{{"]
    folded = 0
    for key, is_changed, is_near in zip(keys, changed, near, strict=True):
        if not is_near:
            folded += 1
            continue
        lines += _folded(folded)
        folded = 0
        label = f"{key}:".ljust(width + 1)
        if not is_changed:
            lines.append(f"      {label} {shown(key, before[key])},")
            continue
        if key in before:
            lines.append(f"-     {label} {shown(key, before[key])},")
        if key in after:
            lines.append(f"+     {label} {shown(key, after[key])},")
    return [*lines, *_folded(folded), "  }"]


def _folded(count: int) -> list[str]:
    if not count:
        return []
    return [f"      … // {count} identical field{'s' if count > 1 else ''}"]
