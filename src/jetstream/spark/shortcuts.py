"""Short ways in: `read`, `stream`, `write`, `kv` and `objects` with `where=` pushed down.

Each call makes a fresh DataFrame. That matters: Spark plans a batch DataFrame once, so one kept
for later does not see messages that came since.
"""

from typing import Any

from jetstream.spark.where import pushed


def read(
    spark: Any, stream: str, where: str = "", schema: Any = None, servers: str = "", **options: Any
) -> Any:
    """A stream as a table. Of `where`, ranges of seq and time and subjects are pushed down."""
    reader = spark.read.format("jetstream").options(**_merged(where, servers, options, False))
    found = (reader.schema(schema) if schema is not None else reader).load(stream)
    return found.where(where) if where else found


def stream(
    spark: Any, stream: str, where: str = "", schema: Any = None, servers: str = "", **options: Any
) -> Any:
    """A stream as a streaming DataFrame."""
    reader = spark.readStream.format("jetstream").options(**_merged(where, servers, options, True))
    found = (reader.schema(schema) if schema is not None else reader).load(stream)
    return found.where(where) if where else found


def write(df: Any, stream: str = "", servers: str = "", **options: Any) -> Any:
    """A DataFrame into a stream: written at once, or a started query when it is streaming."""
    given = _text(options) | ({"servers": servers} if servers else {})
    if stream:
        given["stream"] = stream
    if df.isStreaming:
        trigger = given.pop("trigger", "")
        writer = df.writeStream.format("jetstream").options(**given)
        return (writer.trigger(availableNow=True) if trigger == "available-now" else writer).start()
    df.write.format("jetstream").options(**given).mode("append").save()
    return None


def kv(spark: Any, bucket: str, servers: str = "", **options: Any) -> Any:
    """A bucket as a table: the latest value of every key."""
    given = _text(options) | ({"servers": servers} if servers else {})
    return spark.read.format("jetstream_kv").options(**given).load(bucket)


def objects(spark: Any, bucket: str, servers: str = "", **options: Any) -> Any:
    """The objects of a bucket as rows."""
    given = _text(options) | ({"servers": servers} if servers else {})
    return spark.read.format("jetstream_object").options(**given).load(bucket)


def _merged(where: str, servers: str, options: dict[str, Any], streaming: bool) -> dict[str, str]:
    """Options from the predicate; what the user says explicitly wins."""
    merged = pushed(where, streaming) if where else {}
    return merged | _text(options) | ({"servers": servers} if servers else {})


def _text(options: dict[str, Any]) -> dict[str, str]:
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}
