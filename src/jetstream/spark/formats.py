"""The data source classes Spark finds by name; each only says what it reads and writes with."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from jetstream.spark.options import Options
from jetstream.spark.plan import source_config
from jetstream.spark.rows import default_ddl


class JetStreamSource(DataSource):
    """`format("jetstream")`: streams."""

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def schema(self) -> str:
        options = Options(self.options, "s")
        source_config(options)
        return default_ddl(
            options.names("columns"), options.flag("includeHeaders"), options.text("format")
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        from jetstream.spark.source import BatchReader

        return BatchReader(source_config(Options(self.options, "s")), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        config = source_config(Options(self.options, "s"))
        if config.on_commit == "ack":
            from jetstream.spark.queue import QueueReader

            return QueueReader(config, schema)
        from jetstream.spark.source import StreamReader

        return StreamReader(config, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from jetstream.spark.sink import BatchWriter, sink_config

        return BatchWriter(sink_config(Options(self.options, "w")), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from jetstream.spark.sink import StreamWriter, sink_config

        return StreamWriter(sink_config(Options(self.options, "w")), schema)
