"""Makes `format("jetstream")` known: Spark looks for installed modules named `pyspark_*`."""

from jetstream.spark.formats import JetStreamSource


class DefaultSource(JetStreamSource):
    """Streams as tables."""


__all__ = ["DefaultSource"]
