"""What the connector asks a server about streams: states, counts, times, changes.

Works with any server that speaks JetStream. Every question is repeatable, so a lost connection
means asking again on a new one.
"""

import base64
from contextlib import suppress
from typing import Any

from jetstream.client.pipe import Message, Target, lease, with_retries
from jetstream.clock import Random
from jetstream.errors import ApiError, JetStreamError
from jetstream.schema.times import parse_rfc3339, rfc3339
from jetstream.spark.offsets import State

CONSUMER_NAME_NOT_FOUND = 10014
STREAM_NOT_FOUND = 10059


class Control:
    """Questions and orders for one server (and API prefix)."""

    def __init__(self, target: Target, prefix: str = "$JS.API", timeout: float = 20.0) -> None:
        self.target = target
        self.prefix = prefix
        self.timeout = timeout
        # Set when a server answers overlapping pulls out of order: then one at a time.
        self.one_pull = False
        self._random = Random()

    def ask(self, verb: str, body: Any = None) -> dict[str, Any]:
        subject = f"{self.prefix}.{verb}"
        return with_retries(self.target, lambda pipe: pipe.api(subject, body), self.timeout)

    def request(self, subject: str, payload: bytes = b"", headers: bytes = b"") -> Message:
        return with_retries(
            self.target, lambda pipe: pipe.request(subject, payload, headers), self.timeout
        )

    def info(self, stream: str) -> dict[str, Any]:
        try:
            return self.ask(f"STREAM.INFO.{stream}")
        except ApiError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise JetStreamError(self._no_stream(stream)) from error
            raise

    def _no_stream(self, stream: str) -> str:
        import difflib

        names = self.stream_names()
        near = difflib.get_close_matches(stream, names, n=3)
        known = (
            f"; did you mean {' or '.join(near)}?"
            if near
            else f"; there are {', '.join(names[:20])}"
            if names
            else ""
        )
        return f"there is no stream named {stream!r}{known}"

    def stream_names(self, subject: str = "") -> list[str]:
        names: list[str] = []
        while True:
            body: dict[str, Any] = {"offset": len(names)}
            if subject:
                body["subject"] = subject
            page = self.ask("STREAM.NAMES", body)
            found = page.get("streams") or []
            names += found
            if not found or len(names) >= page.get("total", 0):
                return names

    def state(self, stream: str) -> State:
        return state_of(self.info(stream))

    def count_from(self, stream: str, seq: int, filters: tuple[str, ...] = ()) -> int:
        """How many messages (that match) there are from `seq` on: asked of a passing consumer."""
        return int(
            self._passing(
                stream,
                {"deliver_policy": "by_start_sequence", "opt_start_seq": max(seq, 1)},
                filters,
            )["num_pending"]
        )

    def seq_at(self, stream: str, time_ns: int) -> int:
        """The first sequence at or after a time; last_seq + 1 when there is none."""
        start = {"deliver_policy": "by_start_time", "opt_start_time": rfc3339(time_ns)}
        info = self._passing(stream, start, ())
        return int(info["delivered"]["stream_seq"]) + 1

    def _passing(
        self, stream: str, start: dict[str, Any], filters: tuple[str, ...]
    ) -> dict[str, Any]:
        config = reader_config(filters) | start
        info = self.create_consumer(stream, config)
        self.drop_consumer(stream, info["name"])
        return info

    def create_consumer(self, stream: str, config: dict[str, Any]) -> dict[str, Any]:
        name = config.get("name") or f"spark-{self._random.token(12)}"
        body = {"stream_name": stream, "config": config | {"name": name}, "action": ""}
        return self.ask(f"CONSUMER.CREATE.{stream}.{name}", body)

    def drop_consumer(self, stream: str, name: str) -> None:
        """Without waiting for the answer: an unused consumer goes away by itself as well."""
        subject = f"{self.prefix}.CONSUMER.DELETE.{stream}.{name}"
        with suppress(JetStreamError), lease(self.target) as pipe:
            pipe.publish(subject, reply=b"_INBOX.none")

    def create_stream(self, config: dict[str, Any]) -> dict[str, Any]:
        return self.ask(f"STREAM.CREATE.{config['name']}", config)

    def purge(self, stream: str, up_to: int, subject: str = "") -> int:
        """Remove everything up to and including a sequence."""
        body: dict[str, Any] = {"seq": up_to + 1}
        if subject:
            body["filter"] = subject
        return int(self.ask(f"STREAM.PURGE.{stream}", body).get("purged", 0))

    def last_message(self, stream: str, subject: str) -> dict[str, Any] | None:
        """The newest message on a subject: seq, time, data, hdrs; None when there is none."""
        try:
            found = self.ask(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})["message"]
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        found["data"] = base64.b64decode(found.get("data", ""))
        found["hdrs"] = base64.b64decode(found.get("hdrs", ""))
        assert isinstance(found, dict)
        return found


def state_of(info: dict[str, Any]) -> State:
    state = info["state"]
    return State(
        name=info["config"]["name"],
        created=info["created"],
        first_seq=state["first_seq"],
        last_seq=state["last_seq"],
        messages=state["messages"],
        bytes=state["bytes"],
        num_deleted=state.get("num_deleted", 0),
        first_ts=_ns(state.get("first_ts", "")),
        last_ts=_ns(state.get("last_ts", "")),
        storage=info["config"].get("storage", "file"),
    )


def _ns(text: str) -> int:
    return 0 if not text or text.startswith("0001-") else parse_rfc3339(text)


def reader_config(filters: tuple[str, ...]) -> dict[str, Any]:
    """A consumer that only reads: nothing to acknowledge, nothing on disk, gone when unused."""
    config: dict[str, Any] = {
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "max_deliver": -1,
        "inactive_threshold": 300_000_000_000,
    }
    if len(filters) == 1:
        config["filter_subject"] = filters[0]
    elif filters:
        config["filter_subjects"] = list(filters)
    return config
