"""The same in Python: steps are functions, the rest is a dictionary.

jetstream pipeline run sessions.py
"""

from typing import Any


def by_minute(spark: Any, clicks: Any) -> Any:
    """Clicks per page and minute; late ones are waited for as long as the watermark says."""
    from pyspark.sql.functions import col, window

    counted = clicks.groupBy(window("at", "1 minute"), col("page")).count()
    return counted.selectExpr("page", "window.start AS minute", "count AS clicks")


pipeline = {
    "name": "sessions",
    "servers": "nats://127.0.0.1:4222",
    "sources": {
        "clicks": {
            "stream": "CLICKS",
            "format": "json",
            "schema": "page string, user string, at timestamp",
            "watermark": "at 2 minutes",
        },
    },
    "steps": {"by_minute": {"python": by_minute, "from": ["clicks"]}},
    "sinks": {"counts": {"from": "by_minute", "stream": "COUNTS", "subject": "counts.clicks"}},
}
