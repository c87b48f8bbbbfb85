"""What `apply` wants: files read as desired streams, consumers, buckets, and the way there.

Pure: files and the server's present state in, a list of steps out. Only fields that a file states
are compared, so defaults of the server are no drift.

    streams:
      - name: ORDERS
        subjects: [orders.*]
        max_age: 7d
        consumers:
          - name: work
            ack_wait: 30s
    kv:
      - bucket: profiles
        history: 5
    objects:
      - bucket: files
"""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct, field

from jetstream.cli.configs import comparable, differences, normal_config, old_names
from jetstream.cli.problems import Failure
from jetstream.cli.values import parse_bytes, parse_duration

Json = dict[str, Any]
Verb = Literal["create", "update", "delete"]
SECTIONS = ("streams", "consumers", "kv", "buckets", "objects", "object_stores")


class Desired(Struct):
    """Configurations by name."""

    streams: dict[str, Json] = field(default_factory=dict)
    consumers: dict[tuple[str, str], Json] = field(default_factory=dict)

    def merge(self, other: "Desired", where: str) -> None:
        for name in other.streams:
            if name in self.streams:
                raise Failure(f"{where}: stream {name} is configured twice")
        for stream, name in other.consumers:
            if (stream, name) in self.consumers:
                raise Failure(f"{where}: consumer {stream} > {name} is configured twice")
        self.streams |= other.streams
        self.consumers |= other.consumers


class Step(Struct, frozen=True):
    """One thing to do, and how it looks to a person."""

    verb: Verb
    kind: Literal["stream", "consumer"]
    stream: str
    name: str
    config: Json
    lines: list[str]

    @property
    def title(self) -> str:
        shown = self.stream if self.kind == "stream" else f"{self.stream} > {self.name}"
        for prefix, what in (("KV_", "kv bucket"), ("OBJ_", "object bucket")):
            if self.kind == "stream" and self.stream.startswith(prefix):
                return f"{self.verb} {what} {self.stream.removeprefix(prefix)}"
        return f"{self.verb} {self.kind} {shown}"


def read_desired(content: Any, where: str) -> Desired:
    """One document: sections, a list of them, or a single stream or consumer configuration."""
    made = Desired()
    if isinstance(content, list):
        for each in content:
            made.merge(read_desired(each, where), where)
        return made
    if not isinstance(content, dict):
        raise Failure(f"{where} does not hold a configuration")
    if not any(section in content for section in SECTIONS):
        _single(made, content, where)
        return made
    unknown = set(content) - set(SECTIONS)
    if unknown:
        raise Failure(
            f"{where}: unknown section {', '.join(sorted(unknown))}",
            f"there are {', '.join(SECTIONS)}",
        )
    for each in content.get("streams") or []:
        _add_stream(made, each, where)
    for each in content.get("consumers") or []:
        _add_consumer(made, each, str(each.get("stream") or each.get("stream_name") or ""), where)
    for each in [*(content.get("kv") or []), *(content.get("buckets") or [])]:
        config = kv_config(each, where)
        made.streams[config["name"]] = config
    for each in [*(content.get("objects") or []), *(content.get("object_stores") or [])]:
        config = object_config(each, where)
        made.streams[config["name"]] = config
    return made


def _single(made: Desired, content: Json, where: str) -> None:
    if "stream_name" in content:
        _add_consumer(made, content, str(content["stream_name"]), where)
    elif "name" in content or isinstance(content.get("config"), dict):
        _add_stream(made, content, where)
    else:
        raise Failure(
            f"{where} is neither a stream nor a consumer", f"sections: {', '.join(SECTIONS)}"
        )


def _add_stream(made: Desired, raw: Json, where: str) -> None:
    inner = raw.get("config")
    config = dict(inner) if isinstance(inner, dict) else dict(raw)
    consumers = raw.get("consumers") or []
    config.pop("consumers", None)
    name = config.get("name")
    if not name:
        raise Failure(f"{where}: a stream without a name")
    if name in made.streams:
        raise Failure(f"{where}: stream {name} is configured twice")
    made.streams[name] = normal_config(config, where)
    for each in consumers:
        _add_consumer(made, each, name, where)


def _add_consumer(made: Desired, raw: Json, stream: str, where: str) -> None:
    inner = raw.get("config")
    config = old_names(dict(inner) if isinstance(inner, dict) else dict(raw))
    config.pop("stream", None)
    config.pop("stream_name", None)
    name = config.get("durable_name") or config.get("name") or raw.get("name")
    if not name or not stream:
        raise Failure(f"{where}: a consumer needs a name and a stream")
    config["durable_name"] = config["name"] = name
    config.setdefault("ack_policy", "none" if config.get("deliver_subject") else "explicit")
    if (stream, name) in made.consumers:
        raise Failure(f"{where}: consumer {stream} > {name} is configured twice")
    made.consumers[stream, name] = normal_config(config, where)


def _seconds(raw: Json, *names: str) -> Json:
    """Durations as the client's configurations take them."""
    made = dict(raw)
    for name in names:
        if isinstance(made.get(name), str):
            made[name] = parse_duration(made[name]) / 1e9
    for name in ("max_bytes", "max_value_size"):
        if isinstance(made.get(name), str):
            made[name] = parse_bytes(made[name])
    return made


def kv_config(raw: Json, where: str) -> Json:
    from jetstream.client.kv import KeyValueConfig, bucket_config

    given = _seconds(raw, "ttl", "limit_marker_ttl")
    return _bucket(KeyValueConfig, bucket_config, given, where)


def object_config(raw: Json, where: str) -> Json:
    from jetstream.client.objects import ObjectStoreConfig, store_config

    return _bucket(ObjectStoreConfig, store_config, _seconds(raw, "ttl"), where)


def _bucket(kind: Any, to_stream: Any, given: Json, where: str) -> Json:
    import msgspec

    unknown = set(given) - set(kind.__struct_fields__)
    if unknown:
        raise Failure(f"{where}: bucket {given.get('bucket')}: unknown field {', '.join(unknown)}")
    try:
        config = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Failure(f"{where}: bucket {given.get('bucket')}: {error}") from error
    return dict(to_stream(config).to_wire())


def drift(actual: Json, wanted: Json) -> bool:
    """Does the server differ in something the file states?"""
    have, want = comparable(actual), comparable(wanted)
    for key in wanted:
        if key in ("name", "durable_name"):
            continue
        if have.get(key) != want.get(key) and not _means_default(key, actual, wanted):
            return True
    return False


def _means_default(key: str, actual: Json, wanted: Json) -> bool:
    """0 and -1 both say "no limit"; the server answers with one of them."""
    return key.startswith("max_") and _unlimited(actual.get(key)) and _unlimited(wanted.get(key))


def _unlimited(value: Any) -> bool:
    return value is None or (isinstance(value, int) and value <= 0)


def plan(
    desired: Desired,
    streams: dict[str, Json],
    consumers: dict[tuple[str, str], Json],
    *,
    prune: bool = False,
) -> list[Step]:
    """The steps from the present state to the desired one, in an order that works."""
    steps: list[Step] = []
    for name in _in_order(desired.streams):
        wanted = desired.streams[name]
        actual = streams.get(name)
        if actual is None:
            steps.append(Step("create", "stream", name, name, wanted, _new_lines(wanted)))
        elif drift(actual, wanted):
            merged = {**actual, **wanted}
            lines = differences(actual, merged, "StreamConfig")[1:]
            steps.append(Step("update", "stream", name, name, merged, lines))
    for (stream, name), wanted in sorted(desired.consumers.items()):
        actual = consumers.get((stream, name))
        if actual is None:
            steps.append(Step("create", "consumer", stream, name, wanted, _new_lines(wanted)))
        elif drift(actual, wanted):
            merged = {**actual, **wanted}
            lines = differences(actual, merged, "ConsumerConfig")[1:]
            steps.append(Step("update", "consumer", stream, name, merged, lines))
    return steps + (_prunings(desired, streams, consumers) if prune else [])


def _prunings(
    desired: Desired, streams: dict[str, Json], consumers: dict[tuple[str, str], Json]
) -> list[Step]:
    made = [
        Step("delete", "consumer", stream, name, {}, [])
        for stream, name in sorted(consumers)
        if stream in desired.streams and (stream, name) not in desired.consumers
    ]
    made += [
        Step("delete", "stream", name, name, {}, [])
        for name in sorted(streams)
        if name not in desired.streams
    ]
    return made


def extras(desired: Desired, streams: Iterable[str]) -> list[str]:
    """Streams the files do not mention."""
    return sorted(name for name in streams if name not in desired.streams)


def _new_lines(config: Json) -> list[str]:
    return [f"+     {key}: {value}" for key, value in config.items() if value not in (None, [], {})]


def _in_order(streams: dict[str, Json]) -> list[str]:
    """Origins before their mirrors and sourcing streams."""
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in done or name not in streams or name in path:
            return
        config = streams[name]
        origins = [config["mirror"]] if config.get("mirror") else []
        for origin in [*origins, *(config.get("sources") or [])]:
            visit(str(origin.get("name")), (*path, name))
        done.append(name)

    for name in streams:
        visit(name, ())
    return done
