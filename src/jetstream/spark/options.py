"""The options of the three formats: their names, their meaning, and what to say to a wrong one.

Names follow Spark's Kafka source where they fit. Spark hands options over as text with
lower-cased names; here they become one typed `Options` value. Files named by options (credentials,
certificates) are read at once, on the driver: executors do not share its disk.
"""

import difflib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from jetstream.client.pipe import Target
from jetstream.errors import JetStreamError
from jetstream.schema.times import parse_rfc3339


class BadOption(JetStreamError):
    """An option that does not exist, or a value it cannot have."""


class Known(Struct, frozen=True):
    """One option: its spelling, what it means, and where it may stand (s source, w sink, k, o)."""

    name: str
    where: str
    text: str
    default: str = ""


CONNECTION = [
    Known("servers", "swko", "server addresses, separated by commas", "nats://127.0.0.1:4222"),
    Known("creds", "swko", "credentials: a path on the driver, or the content itself"),
    Known("nkey", "swko", "nkey seed: a path on the driver, or the seed itself"),
    Known("user", "swko", "user name"),
    Known("password", "swko", "password"),
    Known("token", "swko", "token"),
    Known("tls", "swko", "use TLS even when the server does not ask for it", "false"),
    Known("tlsFirst", "swko", "TLS handshake before INFO", "false"),
    Known("tls.ca", "swko", "certificate authority (path or PEM)"),
    Known("tls.cert", "swko", "client certificate (path or PEM)"),
    Known("tls.key", "swko", "client key (path or PEM)"),
    Known("tls.insecure", "swko", "do not verify the server's certificate", "false"),
    Known("domain", "swko", "JetStream domain"),
    Known("jsPrefix", "swko", "prefix of the JetStream API", "$JS.API"),
    Known("timeout", "swko", "how long to wait for an answer or a server to come back", "20s"),
]

SOURCE = [
    Known("stream", "swk", "name of the stream (also `load(NAME)`)"),
    Known("streams", "s", "several streams, separated by commas, read as one table"),
    Known("filterSubjects", "sk", "only these subjects (wildcards allowed, commas between)"),
    Known(
        "startingOffsets", "sk", '`earliest`, `latest`, a sequence, or {"STREAM": seq}', "earliest"
    ),
    Known(
        "endingOffsets",
        "s",
        'batch: `latest`, a sequence (inclusive), or {"STREAM": seq}',
        "latest",
    ),
    Known("startingTimestamp", "sk", "RFC 3339 time or milliseconds; wins over startingOffsets"),
    Known("endingTimestamp", "s", "batch: messages before this time"),
    Known("maxOffsetsPerTrigger", "sk", "at most so many sequences per micro-batch"),
    Known("maxBytesPerTrigger", "sk", "about so many bytes per micro-batch (`64m`)"),
    Known("minOffsetsPerTrigger", "sk", "wait for so many before a micro-batch starts"),
    Known("maxTriggerDelay", "sk", "…but at most so long", "15m"),
    Known("minPartitions", "sk", "at least so many partitions", "cores of the driver"),
    Known("maxRecordsPerPartition", "sk", "at most so many records in one partition"),
    Known("failOnDataLoss", "sk", "fail when messages are gone before they were read", "true"),
    Known("includeHeaders", "s", "add the column headers map<string,array<string>>", "false"),
    Known("columns", "s", "which columns, e.g. `subject,data,seq,time,msgid,size,tokens`"),
    Known("readMode", "sk", "auto, file, bulk, consumer or direct", "auto"),
    Known("storeDir", "s", "where the server's store directory is visible to the workers"),
    Known("onCommit", "s", "none, purge or ack: what happens to what a query has finished", "none"),
    Known("consumer", "s", "name of the shared durable consumer for onCommit=ack"),
    Known("format", "s", "decode payloads: json, csv or text; `.schema(…)` gives the fields"),
    Known("csvDelimiter", "s", "delimiter for format=csv", ","),
    Known("badRows", "s", "fail, null, drop or deadletter: rows that do not decode", "fail"),
    Known("archive", "s", "location of the stream's archive; read as one table with the live tail"),
    Known("archiveFormat", "s", "parquet, delta or iceberg", "parquet"),
    Known("arrowBatchRows", "sk", "rows per Arrow batch", "16384"),
]

SINK = [
    Known("subject", "w", "subject of every row that has no column `subject`"),
    Known("delivery", "wk", "exactly-once, at-least-once or fast", "exactly-once"),
    Known("jobId", "w", "batch writes: the same id makes a repeated job write nothing twice"),
    Known("messageIds", "w", "row or content: what an exactly-once id is made of", "row"),
    Known("writeMode", "w", "auto, bulk or publish", "auto"),
    Known("window", "wk", "messages on their way without an answer", "8192"),
    Known("deadLetter", "sw", "subject (of a stream) that takes rows which fail"),
    Known("progressBucket", "w", "KV bucket for progress and replays", "spark_progress"),
]

KV = [
    Known("bucket", "k", "name of the bucket (also `load(NAME)`)"),
    Known("asOf", "k", "batch: the table as of this revision"),
    Known("keys", "k", "only these keys (wildcards allowed, commas between)"),
    Known("includeDeletes", "k", "also show deleted keys", "false"),
    Known("mode", "k", "sink: upsert, create, update (compare-and-set by `revision`)", "upsert"),
]

OBJECT = [
    Known("bucket", "o", "name of the object bucket (also `load(NAME)`)"),
    Known("names", "o", "only objects whose name matches this glob"),
    Known("chunkSize", "o", "sink: bytes per chunk", "128k"),
]

# Spark itself puts these among ours.
SPARKS_OWN = {"path", "checkpointlocation", "queryname", "__partition_columns", "truncate"}

FORMATS = {"source": "s", "sink": "w", "kv": "k", "object": "o"}


def known_options(letter: str) -> list[Known]:
    return [k for k in (*CONNECTION, *SOURCE, *SINK, *KV, *OBJECT) if letter in k.where]


class Options:
    """The given options of one use of a format, checked."""

    def __init__(self, given: Mapping[str, str], letters: str) -> None:
        spelled = {k.name.lower(): k for letter in letters for k in known_options(letter)}
        self._given: dict[str, str] = {}
        for name, value in given.items():
            low = name.lower()
            if low in SPARKS_OWN or low.startswith("spark."):
                continue
            if low not in spelled:
                raise BadOption(_unknown(name, [k.name for k in spelled.values()]))
            self._given[low] = str(value)
        self.path = given.get("path") or ""

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str, default: str = "") -> str:
        return self._given.get(name.lower(), default)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.text(name, allowed[0]).lower()
        if value not in allowed:
            raise BadOption(f"option {name}: {value!r} is not one of {', '.join(allowed)}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name, str(default)).strip().lower()
        if value not in ("true", "false"):
            raise BadOption(f"option {name}: {value!r} is neither true nor false")
        return value == "true"

    def number(self, name: str, default: int = 0, least: int = 1) -> int:
        if name not in self:
            return default
        value = self.text(name).strip()
        if not value.isdigit() or int(value) < least:
            raise BadOption(f"option {name}: {value!r} is not a number of at least {least}")
        return int(value)

    def size(self, name: str, default: int = 0) -> int:
        return parse_size(name, self.text(name)) if name in self else default

    def seconds(self, name: str, default: float) -> float:
        return parse_seconds(name, self.text(name)) if name in self else default

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())

    def time_ns(self, name: str) -> int:
        value = self.text(name).strip()
        if not value:
            return 0
        if value.isdigit():
            return int(value) * 1_000_000
        try:
            return parse_rfc3339(value if "T" in value else value.replace(" ", "T"))
        except ValueError as error:
            raise BadOption(
                f"option {name}: {value!r} is not a time like 2026-01-31T12:00:00Z"
            ) from error

    def offsets(self, name: str, default: str) -> "str | int | dict[str, int | str]":
        """`earliest`, `latest`, a sequence, or sequences by stream."""
        value = self.text(name, default).strip()
        if value in ("earliest", "latest"):
            return value
        if value.isdigit():
            return int(value)
        try:
            parsed = json.loads(value)
            if isinstance(parsed, dict) and all(
                (isinstance(v, int) and not isinstance(v, bool)) or v in ("earliest", "latest")
                for v in parsed.values()
            ):
                return parsed
        except json.JSONDecodeError:
            pass
        raise BadOption(
            f"option {name}: {value!r} is not earliest, latest, a sequence "
            'or {"STREAM": sequence}'
        )

    def stream_names(self) -> tuple[str, ...]:
        """Which streams to read: `stream`, `streams` or `load(NAME)`."""
        names = self.names("streams") or self.names("stream") or ((self.path,) if self.path else ())
        if not names:
            raise BadOption('which stream? say .option("stream", "NAME") or .load("NAME")')
        for name in names:
            if re.search(r"[\s.*>/\\]", name):
                raise BadOption(f"{name!r} is not the name of a stream")
        return names

    def target(self, name: str = "jetstream-spark") -> Target:
        """Where and as whom to connect, with the content of every file."""
        servers = self.names("servers") or ("nats://127.0.0.1:4222",)
        return Target(
            servers=servers,
            user=self.text("user"),
            password=self.text("password"),
            token=self.text("token"),
            nkey=_content("nkey", self.text("nkey"), "SU"),
            creds=_content("creds", self.text("creds"), "-----BEGIN"),
            tls=self.flag("tls"),
            tls_first=self.flag("tlsFirst"),
            tls_ca=_content("tls.ca", self.text("tls.ca"), "-----BEGIN"),
            tls_cert=_content("tls.cert", self.text("tls.cert"), "-----BEGIN"),
            tls_key=_content("tls.key", self.text("tls.key"), "-----BEGIN"),
            tls_insecure=self.flag("tls.insecure"),
            name=name,
        )

    def api_prefix(self) -> str:
        if "jsPrefix" in self:
            return self.text("jsPrefix").rstrip(".")
        domain = self.text("domain")
        return f"$JS.{domain}.API" if domain else "$JS.API"


def _content(name: str, value: str, begins: str) -> str:
    """The option itself when it is content, otherwise the file it names."""
    if not value or value.lstrip().startswith(begins):
        return value
    path = Path(value).expanduser()
    if not path.is_file():
        raise BadOption(f"option {name}: no such file {value!r} (content may be given as well)")
    return path.read_text()


def _unknown(name: str, spelled: list[str]) -> str:
    lower = {s.lower(): s for s in spelled}
    near = [lower[m] for m in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)]
    hint = (
        f"; did you mean {' or '.join(near)}?"
        if near
        else "; known are " + ", ".join(sorted(spelled))
    )
    return f"no option named {name!r}{hint}"


_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "": 1.0,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h|d|)", re.IGNORECASE)


def parse_size(name: str, value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    if not found:
        raise BadOption(f"option {name}: {value!r} is not a size like 64m")
    return int(found[1]) << (10 * " kmgt".index(found[2].lower() or " "))


def parse_seconds(name: str, value: str) -> float:
    found = _DURATION.fullmatch(value.strip())
    if not found:
        raise BadOption(f"option {name}: {value!r} is not a duration like 30s")
    return float(found[1]) * _SECONDS[found[2].lower()]


def describe() -> dict[str, list[Known]]:
    """Every option by format, for the reference page and for `jetstream spark options`."""
    return {name: known_options(letter) for name, letter in FORMATS.items()}


def as_rows(options: Any) -> list[tuple[str, str, str]]:
    return [(k.name, k.default, k.text) for k in options]
