"""Waiting for news without asking all the time.

Spark asks an idle source for its end some eighty times a second. Instead of passing that on, we
leave one pull request with a passing consumer behind the last offset and wait on it for a moment:
the first new message (without its body) ends the wait at once.
"""

import json
import time
from contextlib import suppress

from jetstream.client.pipe import Pipe
from jetstream.errors import JetStreamError
from jetstream.spark.control import Control, reader_config
from jetstream.spark.offsets import Offset


class Waiter:
    """One open question: has something come behind this offset?"""

    def __init__(self, control: Control, filters: tuple[str, ...]) -> None:
        self._control = control
        self._filters = filters
        self._pipe: Pipe | None = None
        self._behind: Offset | None = None
        self._asked_until = 0.0
        self._names: list[tuple[str, str]] = []

    def wait(self, behind: Offset, seconds: float) -> bool:
        """True as soon as there is something new, False when `seconds` passed without."""
        try:
            pipe = self._ready(behind)
            until = time.monotonic() + seconds
            if time.monotonic() >= self._asked_until:
                self._ask(pipe, seconds * 8)
            while time.monotonic() < until:
                found = pipe.next_message(until)
                if found is None or found[0] != self._sid:
                    continue
                if found[1].status:
                    # Expired or consumer gone: ask again next time.
                    self._asked_until = 0.0
                    if found[1].status != 408:
                        self.close()
                    return False
                self._behind = None
                return True
            return False
        except JetStreamError:
            self.close()
            time.sleep(min(seconds, 0.05))
            return False

    def _ready(self, behind: Offset) -> Pipe:
        if self._pipe is not None and self._behind == behind:
            return self._pipe
        self._drop()
        if self._pipe is None:
            self._pipe = Pipe(self._control.target)
        pipe = self._pipe
        self._sid = pipe.subscribe(inbox := pipe.new_inbox())
        self._inbox = inbox
        for stream, mark in behind.items():
            config = reader_config(self._filters) | {
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": mark.seq + 1,
                "headers_only": True,
                "inactive_threshold": 30_000_000_000,
            }
            name = f"spark-wait-{inbox[-10:].decode()}"
            body = {"stream_name": stream, "config": config | {"name": name}, "action": ""}
            pipe.api(f"{self._control.prefix}.CONSUMER.CREATE.{stream}.{name}", body)
            self._names.append((stream, name))
        self._behind = behind
        self._asked_until = 0.0
        return pipe

    def _ask(self, pipe: Pipe, seconds: float) -> None:
        body = json.dumps({"batch": 1, "expires": int(seconds * 1e9)}).encode()
        for stream, name in self._names:
            subject = f"{self._control.prefix}.CONSUMER.MSG.NEXT.{stream}.{name}"
            pipe.publish(subject, body, self._inbox)
        self._asked_until = time.monotonic() + seconds

    def _drop(self) -> None:
        pipe = self._pipe
        if pipe is not None:
            with suppress(JetStreamError):
                for stream, name in self._names:
                    subject = f"{self._control.prefix}.CONSUMER.DELETE.{stream}.{name}"
                    pipe.publish(subject, reply=b"_INBOX.none")
                if self._names:
                    pipe.unsubscribe(self._sid)
        self._names = []
        self._behind = None

    def close(self) -> None:
        self._drop()
        if self._pipe is not None:
            self._pipe.close()
        self._pipe = None
