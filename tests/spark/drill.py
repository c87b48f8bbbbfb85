"""A pipeline in a process of its own, to be killed in the middle: used by test_drills.py.

    python drill.py SOURCE_URL STREAM TARGET CHECKPOINT KIND ROWS_PER_BATCH

KIND is `stream` (into the stream TARGET) or `parquet` (into the folder TARGET).
"""

import sys

from jetstream.spark.session import session


def main() -> None:
    url, stream, target, checkpoint, kind, rows = sys.argv[1:]
    spark = session("drill", "local[2]", quick=True)
    source = (
        spark.readStream.format("jetstream")
        .option("servers", url)
        .option("maxOffsetsPerTrigger", rows)
        .option("minPartitions", 2)
        .option("timeout", "60s")
        .load(stream)
    )
    if kind == "stream":
        low = target.lower()
        writer = (
            source.selectExpr(f"concat('{low}.', seq % 7) AS subject", "data")
            .writeStream.format("jetstream")
            .option("servers", url)
            .option("stream", target)
            .option("timeout", "60s")
        )
    else:
        from jetstream.spark.table_sink import TableSink

        spark.dataSource.register(TableSink)
        writer = (
            source.select("seq", "data")
            .writeStream.format("jetstream_table")
            .option("path", target)
        )
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
