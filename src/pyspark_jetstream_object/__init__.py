"""Makes `format("jetstream_object")` known: Spark looks for installed modules named `pyspark_*`."""

from jetstream.spark.objects import ObjectSource


class DefaultSource(ObjectSource):
    """Objects as tables."""


__all__ = ["DefaultSource"]
