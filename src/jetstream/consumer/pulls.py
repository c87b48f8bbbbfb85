"""Waiting pull requests: who is served next, and what those hear who are not.

Requests wait in a queue and take turns, one message each; `share` hands a run of sequences out in
slices that come to the same thing. A request that counts bytes, or that belongs to a priority
group, is looked at message by message (`share_carefully`).
"""

from array import array
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct

from jetstream.consumer import statuses
from jetstream.consumer.values import Delivery, Status
from jetstream.errors import ApiError
from jetstream.schema.consumer import ConsumerConfig, NextRequest
from jetstream.schema.decoding import decode
from jetstream.schema.times import go_duration

HasInterest = Callable[[bytes], bool]

BATCH_MAX: Final = 2**31

_requests: Final = msgspec.json.Decoder(NextRequest)
PRIORITY_MAX: Final = 9


class Waiting(Struct, eq=False):
    """A pull request that was accepted and is not yet filled."""

    reply: bytes
    left: int
    bytes_left: int = 0
    counts_bytes: bool = False
    expires_at: int = 0
    no_wait: bool = False
    heartbeat: int = 0
    heartbeat_at: int = 0
    group: str = ""
    pin: str = ""
    priority: int = 0
    min_pending: int = 0
    min_ack_pending: int = 0
    sent: int = 0

    @property
    def ends_when_dry(self) -> bool:
        """Does a no_wait request end now that nothing is left for it?"""
        return self.no_wait and (self.sent > 0 or not self.expires_at)

    def pending_status(self, code: int, text: str) -> Status:
        return Status(
            self.reply, statuses.with_pending(code, text, self.left, max(self.bytes_left, 0))
        )


def parse_request(payload: bytes) -> NextRequest:
    """What a pull asks for. Nothing and odd text mean one message; bad JSON is an ApiError."""
    text = payload.strip()
    if text.startswith(b"{"):
        try:
            request = _requests.decode(text)
        except msgspec.MsgspecError:
            # The slow way is more forgiving, or says what is wrong as the reference does.
            request = decode(text, NextRequest, strict=False)
        if request.batch <= 0:
            request.batch = 1
        return request
    if text.isdigit() and 0 < int(text) < BATCH_MAX:
        return NextRequest(batch=int(text))
    return NextRequest(batch=1)


def refusal_of(request: NextRequest, config: ConsumerConfig, bare: bool) -> bytes | None:
    """The status a request is refused with, None if it is fine. `bare`: it had no JSON body."""
    if 0 < config.max_batch < request.batch:
        return statuses.exceeded("MaxRequestBatch", config.max_batch)
    if config.max_expires > 0 and request.expires > config.max_expires:
        return statuses.exceeded("MaxRequestExpires", go_duration(config.max_expires))
    if config.max_bytes > 0 and request.max_bytes > config.max_bytes:
        return statuses.exceeded("MaxRequestMaxBytes", config.max_bytes)
    if request.idle_heartbeat and request.idle_heartbeat * 2 > request.expires:
        return statuses.bad_request("heartbeat value too large")
    return None if bare else _group_refusal(request, config)


def _group_refusal(request: NextRequest, config: ConsumerConfig) -> bytes | None:
    text = ""
    if config.priority_policy and not request.group:
        text = "Priority Group missing"
    elif config.priority_policy and request.group not in config.priority_groups:
        text = "Invalid Priority Group"
    elif (request.min_pending or request.min_ack_pending) and config.priority_policy != "overflow":
        text = "Not a Overflow Priority consumer"
    elif request.id and config.priority_policy != "pinned_client":
        text = "Not a Pinned Client Priority consumer"
    elif not 0 <= request.priority <= PRIORITY_MAX:
        text = "Priority must be between 0 and 9"
    return statuses.bad_request(text) if text else None


class Pulls:
    """The queue of waiting requests of one consumer."""

    __slots__ = ("_deadline", "limit", "queue")

    def __init__(self, limit: int) -> None:
        self.queue: list[Waiting] = []
        self.limit = limit
        self._deadline = 0

    def __len__(self) -> int:
        return len(self.queue)

    @property
    def asked(self) -> int:
        """How many messages all of them together still ask for."""
        if len(self.queue) == 1:
            return self.queue[0].left
        return sum(waiting.left for waiting in self.queue)

    def accept(self, request: NextRequest, reply: bytes, now: int) -> Waiting:
        """Put a request at the end of the queue."""
        waiting = Waiting(
            reply,
            request.batch,
            request.max_bytes,
            request.max_bytes > 0,
            now + request.expires if request.expires > 0 else 0,
            request.no_wait,
            request.idle_heartbeat,
            now + request.idle_heartbeat if request.idle_heartbeat else 0,
            request.group,
            request.id,
            request.priority,
            request.min_pending,
            request.min_ack_pending,
        )
        self.queue.append(waiting)
        self._deadline = -1
        return waiting

    def drop_dead(self, has_interest: HasInterest) -> None:
        """Forget requests whose client no longer listens."""
        for waiting in self.queue:
            if not has_interest(waiting.reply):
                self.keep([each for each in self.queue if has_interest(each.reply)])
                return

    def keep(self, waiting: Iterable[Waiting]) -> None:
        self.queue = list(waiting)
        self._deadline = -1

    def next_deadline(self) -> int:
        """When the next request expires or wants a heartbeat; 0 if none does."""
        if self._deadline < 0:
            times = [w.expires_at for w in self.queue if w.expires_at]
            times += [w.heartbeat_at for w in self.queue if w.heartbeat_at]
            self._deadline = min(times, default=0)
        return self._deadline

    def expire(self, now: int, heartbeat: Callable[[], bytes]) -> list[Status]:
        """Requests that are over hear so, quiet ones get a heartbeat."""
        deadline = self.next_deadline()
        if not deadline or now < deadline:
            return []
        out: list[Status] = []
        kept: list[Waiting] = []
        for waiting in self.queue:
            if waiting.expires_at and now >= waiting.expires_at:
                out.append(waiting.pending_status(408, "Request Timeout"))
                continue
            if waiting.heartbeat_at and now >= waiting.heartbeat_at:
                if waiting.ends_when_dry:
                    # It got something and is blocked since: there is nothing to wait for.
                    out.append(Status(waiting.reply, statuses.NO_MESSAGES))
                    continue
                out.append(Status(waiting.reply, heartbeat()))
                waiting.heartbeat_at = now + waiting.heartbeat
            kept.append(waiting)
        self.keep(kept)
        return out

    def end_dry(self) -> list[Status]:
        """Nothing more is there: no_wait requests are told so."""
        dry = [waiting for waiting in self.queue if waiting.ends_when_dry]
        if dry:
            self.keep(waiting for waiting in self.queue if not waiting.ends_when_dry)
        return [Status(waiting.reply, statuses.NO_MESSAGES) for waiting in dry]

    def end_all(self, block: bytes) -> list[Status]:
        """The consumer goes away."""
        out = [Status(waiting.reply, block) for waiting in self.queue]
        self.keep(())
        return out

    @property
    def careful(self) -> bool:
        """Must messages be handed out one by one?"""
        for waiting in self.queue:  # noqa: SIM110 - twice as fast as any() for one
            if waiting.counts_bytes:
                return True
        return False

    def share(
        self,
        seqs: "array[int]",
        deliveries: "array[int] | None",
        first_consumer_seq: int,
        pending: int,
        now: int,
    ) -> list[Delivery]:
        """Hand `seqs` out in turns. The requests together ask for at least as many."""
        countdown = 1 if deliveries is None else 0
        if len(self.queue) == 1:
            waiting = self.queue[0]
            self._served(waiting, len(seqs), now)
            if waiting.left <= 0:
                self.queue = []
            self._deadline = -1
            return [
                Delivery(waiting.reply, seqs, first_consumer_seq, pending, deliveries, 1, countdown)
            ]
        out: list[Delivery] = []
        at, total = 0, len(seqs)
        while at < total:
            turn = self.queue
            left = total - at
            sharers = min(len(turn), left)
            rounds = (
                min(left // sharers, *(w.left for w in turn[:sharers]))
                if sharers > 1
                else (min(left, turn[0].left))
            )
            stop = at + rounds * sharers
            for place in range(sharers):
                waiting = turn[place]
                start = at + place
                out.append(
                    Delivery(
                        waiting.reply,
                        seqs[start:stop:sharers],
                        first_consumer_seq + start,
                        pending - start * countdown,
                        None if deliveries is None else deliveries[start:stop:sharers],
                        sharers,
                        sharers * countdown,
                    )
                )
                self._served(waiting, rounds, now)
            at = stop
            # Those who were served go behind those who were not.
            self.queue = [w for w in turn[sharers:] + turn[:sharers] if w.left > 0]
        self._deadline = -1
        return out

    def serve_one(
        self,
        waiting: Waiting,
        seq: int,
        deliveries: int,
        consumer_seq: int,
        pending: int,
        now: int,
        out: list[Delivery],
        extra_headers: bytes = b"",
    ) -> None:
        """Give one message to one request, as part of its last Delivery where that fits."""
        last = out[-1] if out else None
        if (
            last is not None
            and last.to == waiting.reply
            and last.deliveries is not None
            and last.step == 1
            and last.countdown == (1 if deliveries == 1 else 0)
            and last.first_consumer_seq + len(last.seqs) == consumer_seq
            and last.pending - last.countdown * len(last.seqs) == pending
        ):
            last.seqs.append(seq)
            last.deliveries.append(deliveries)
        else:
            out.append(
                Delivery(
                    waiting.reply,
                    array("Q", (seq,)),
                    consumer_seq,
                    pending,
                    array("Q", (deliveries,)),
                    1,
                    1 if deliveries == 1 else 0,
                    extra_headers,
                )
            )
        self._served(waiting, 1, now)
        self.queue.remove(waiting)
        if waiting.left > 0:
            self.queue.append(waiting)
        self._deadline = -1

    def _served(self, waiting: Waiting, count: int, now: int) -> None:
        waiting.left -= count
        waiting.sent += count
        if waiting.heartbeat:
            waiting.heartbeat_at = now + waiting.heartbeat


def request_error(error: ApiError | msgspec.MsgspecError) -> bytes:
    """The 400 for a body that is not what it should be."""
    text = error.description if isinstance(error, ApiError) else str(error)
    return statuses.bad_request(text.removeprefix("invalid JSON: "))
