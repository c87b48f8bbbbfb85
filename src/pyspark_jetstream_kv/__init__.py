"""Makes `format("jetstream_kv")` known: Spark looks for installed modules named `pyspark_*`."""

from jetstream.spark.kv import KvSource


class DefaultSource(KvSource):
    """Buckets as tables."""


__all__ = ["DefaultSource"]
