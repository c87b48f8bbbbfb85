"""Facts to a model: what the overview shows, computed from one look at the server after another.

Pure: `Feed.update(look, now)` takes what was seen (`Look`) and returns the model that the page and
`jetstream top` draw. Rates are differences between looks; a short history makes the sparklines.
"""

from collections import deque
from typing import Any

from msgspec import Struct, field

from jetstream.clock import SECOND

HISTORY = 60
ADVISORIES = 50


class Look(Struct):
    """One look at the server: the API's own words, as dictionaries."""

    account: dict[str, Any] = field(default_factory=dict)
    streams: list[dict[str, Any]] = field(default_factory=list)
    consumers: list[dict[str, Any]] = field(default_factory=list)
    connections: int | None = None
    pipelines: list[dict[str, Any]] = field(default_factory=list)


class StreamLine(Struct):
    name: str
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    subjects: int
    consumers: int
    retention: str
    storage: str
    in_rate: float
    spark: list[float]
    lost: int = 0
    full: float | None = None  # share of the tightest limit


class ConsumerLine(Struct):
    stream: str
    name: str
    lag: int
    pending: int
    redelivered: int
    waiting: int
    out_rate: float
    kind: str
    paused: bool = False


class Model(Struct):
    """Everything the overview needs."""

    time_ms: int
    in_rate: float
    out_rate: float
    stored_messages: int
    stored_bytes: int
    lag: int
    connections: int | None
    store_share: float | None
    memory_share: float | None
    streams: list[StreamLine]
    consumers: list[ConsumerLine]
    pipelines: list[dict[str, Any]]
    advisories: list[dict[str, Any]]
    history: dict[str, list[float]]
    trouble: list[str]


class Feed:
    """Remembers the last looks of one session."""

    def __init__(self) -> None:
        self._last_seq: dict[str, tuple[int, int]] = {}
        self._delivered: dict[str, tuple[int, int]] = {}
        self._sparks: dict[str, deque[float]] = {}
        self._totals: dict[str, deque[float]] = {
            "in": deque(maxlen=HISTORY),
            "out": deque(maxlen=HISTORY),
            "lag": deque(maxlen=HISTORY),
        }
        self.advisories: deque[dict[str, Any]] = deque(maxlen=ADVISORIES)

    def advise(self, subject: str, text: dict[str, Any], now: int) -> None:
        """An advisory arrived."""
        kind = str(text.get("type", "")).rsplit(".", 1)[-1]
        self.advisories.appendleft(
            {"time_ms": now // 1_000_000, "kind": kind, "subject": subject, "text": text}
        )

    def update(self, look: Look, now: int) -> Model:
        """What this look means, given the ones before."""
        streams = [self._stream(info, now) for info in look.streams]
        consumers = [self._consumer(info, now) for info in look.consumers]
        self._forget({line.name for line in streams})
        in_rate = sum(line.in_rate for line in streams)
        out_rate = sum(line.out_rate for line in consumers)
        lag = max((line.lag for line in consumers), default=0)
        for name, value in (("in", in_rate), ("out", out_rate), ("lag", float(lag))):
            self._totals[name].append(value)
        limits = look.account.get("limits", {})
        return Model(
            time_ms=now // 1_000_000,
            in_rate=in_rate,
            out_rate=out_rate,
            stored_messages=sum(line.messages for line in streams),
            stored_bytes=sum(line.bytes for line in streams),
            lag=lag,
            connections=look.connections,
            store_share=_share(look.account.get("storage", 0), limits.get("max_storage", -1)),
            memory_share=_share(look.account.get("memory", 0), limits.get("max_memory", -1)),
            streams=sorted(streams, key=lambda line: line.name),
            consumers=sorted(consumers, key=lambda line: -line.lag),
            pipelines=look.pipelines,
            advisories=list(self.advisories),
            history={name: list(values) for name, values in self._totals.items()},
            trouble=[
                f"{line.name}: {line.lost:,} messages were damaged" for line in streams if line.lost
            ],
        )

    def _stream(self, info: dict[str, Any], now: int) -> StreamLine:
        config, state = info["config"], info["state"]
        name = config["name"]
        rate = self._rate(self._last_seq, name, state["last_seq"], now)
        spark = self._sparks.setdefault(name, deque(maxlen=HISTORY))
        spark.append(rate)
        return StreamLine(
            name=name,
            messages=state["messages"],
            bytes=state["bytes"],
            first_seq=state["first_seq"],
            last_seq=state["last_seq"],
            subjects=state.get("num_subjects", 0),
            consumers=state.get("consumer_count", 0),
            retention=config.get("retention", "limits"),
            storage=config.get("storage", "file"),
            in_rate=rate,
            spark=list(spark),
            lost=len((state.get("lost") or {}).get("msgs") or ()),
            full=_fullest(config, state),
        )

    def _consumer(self, info: dict[str, Any], now: int) -> ConsumerLine:
        key = f"{info['stream_name']}\0{info['name']}"
        return ConsumerLine(
            stream=info["stream_name"],
            name=info["name"],
            lag=info["num_pending"],
            pending=info["num_ack_pending"],
            redelivered=info["num_redelivered"],
            waiting=info["num_waiting"],
            out_rate=self._rate(self._delivered, key, info["delivered"]["consumer_seq"], now),
            kind="push" if info["config"].get("deliver_subject") else "pull",
            paused=bool(info.get("paused")),
        )

    def _rate(self, seen: dict[str, tuple[int, int]], key: str, value: int, now: int) -> float:
        """Per second since the last look; nothing at the first."""
        before = seen.get(key)
        seen[key] = (value, now)
        if before is None or now <= before[1] or value < before[0]:
            return 0.0
        return (value - before[0]) * SECOND / (now - before[1])

    def _forget(self, names: set[str]) -> None:
        for name in [name for name in self._sparks if name not in names]:
            del self._sparks[name]
            self._last_seq.pop(name, None)


def _share(used: int, limit: int) -> float | None:
    return used / limit if limit and limit > 0 else None


def _fullest(config: dict[str, Any], state: dict[str, Any]) -> float | None:
    shares = [
        _share(state["messages"], config.get("max_msgs", -1)),
        _share(state["bytes"], config.get("max_bytes", -1)),
    ]
    known = [share for share in shares if share is not None]
    return max(known) if known else None
