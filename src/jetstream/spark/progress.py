"""Small records about queries in a KV bucket: where replays, the CLI and the console look.

    sink.<job>.<partition>   {"batch": 7, "last": 1200}     before the first row of a batch
    query.<query>            {"batch": 7, "rows": …, …}     after a batch was committed
    pipeline.<name>          {"state": "running", …}        by `jetstream pipeline`

The bucket is an ordinary KV bucket; the records are JSON.
"""

import json
from typing import Any

from jetstream.client.pipe import header_block
from jetstream.errors import ApiError, JetStreamError
from jetstream.spark.control import Control

BUCKET = "spark_progress"
STREAM_NAME_EXISTS = 10058


class ProgressBook:
    """Reads and writes the records of one bucket."""

    def __init__(self, control: Control, bucket: str = BUCKET) -> None:
        self.control = control
        self.bucket = bucket

    def ensure(self) -> None:
        """Make the bucket when it is not there."""
        try:
            self.control.create_stream(bucket_config(self.bucket))
        except ApiError as error:
            if error.err_code != STREAM_NAME_EXISTS:
                raise

    def get(self, key: str) -> dict[str, Any] | None:
        try:
            found = self.control.last_message(f"KV_{self.bucket}", f"$KV.{self.bucket}.{key}")
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        if found is None or b"KV-Operation" in found["hdrs"]:
            return None
        value = json.loads(found["data"])
        assert isinstance(value, dict)
        return value | {"_revision": found["seq"], "_time": found["time"]}

    def put(self, key: str, value: dict[str, Any]) -> int:
        body = json.dumps(value).encode()
        answer = json.loads(self.control.request(f"$KV.{self.bucket}.{key}", body).payload)
        if "error" in answer:
            raise JetStreamError(f"bucket {self.bucket}: {answer['error'].get('description')}")
        return int(answer["seq"])

    def delete(self, key: str) -> None:
        headers = header_block({"KV-Operation": "DEL"})
        self.control.request(f"$KV.{self.bucket}.{key}", b"", headers)

    def keys(self) -> list[str]:
        body = {"subjects_filter": f"$KV.{self.bucket}.>"}
        try:
            info = self.control.ask(f"STREAM.INFO.KV_{self.bucket}", body)
        except ApiError as error:
            if error.code == 404:
                return []
            raise
        front = len(f"$KV.{self.bucket}.")
        return sorted(subject[front:] for subject in info["state"].get("subjects") or {})


def bucket_config(bucket: str, history: int = 1) -> dict[str, Any]:
    """A KV bucket as a stream, as every client makes it."""
    return {
        "name": f"KV_{bucket}",
        "subjects": [f"$KV.{bucket}.>"],
        "max_msgs_per_subject": history,
        "discard": "new",
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
        "num_replicas": 1,
        "storage": "file",
    }
