"""Streams, buckets and objects as Spark tables and streams.

    from jetstream.spark import session, read, stream, write

    spark = session()
    orders = read(spark, "ORDERS", where="subject LIKE 'orders.eu.%' AND seq > 1000")

The formats `jetstream`, `jetstream_kv` and `jetstream_object` are found by name in every Spark
session whose Python has this package; nothing here is needed for that.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetstream.spark.session import register, session
    from jetstream.spark.shortcuts import kv, objects, read, stream, write

__all__ = ["kv", "objects", "read", "register", "session", "stream", "write"]

_HOMES = {
    "session": "jetstream.spark.session",
    "register": "jetstream.spark.session",
    "read": "jetstream.spark.shortcuts",
    "stream": "jetstream.spark.shortcuts",
    "write": "jetstream.spark.shortcuts",
    "kv": "jetstream.spark.shortcuts",
    "objects": "jetstream.spark.shortcuts",
}


def __getattr__(name: str) -> Any:
    # PySpark takes a second to import: only who uses it pays for it.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(name)
