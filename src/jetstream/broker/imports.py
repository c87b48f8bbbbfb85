"""What one account takes from another.

service   B publishes a request on `to`; A hears it on `subject`, with an opaque reply:

              B: PUB help inbox.1          A: MSG svc.help  _R_.k3x9aB.Qm27zT
              B: MSG inbox.1        ◄───   A: PUB _R_.k3x9aB.Qm27zT
                                           (known to A's `Responses`, once or until it ends)

stream    B subscribes to `to`; a shadow of that subscription waits in A on `subject`, and what it
          receives is renamed on the way.
"""

from collections.abc import Callable

from jetstream.broker._broker import Account, Broker, Client, Subscription
from jetstream.broker.accounts_spec import (
    ExportSpec,
    ImportSpec,
    service_transform,
    stream_transform,
)
from jetstream.clock import Random
from jetstream.subjects.match import is_subset, matches, overlaps
from jetstream.subjects.transform import SubjectTransform
from jetstream.wire.headers import with_header, without_headers

REPLY_PREFIX = b"_R_."
REQUEST_INFO = b"Nats-Request-Info"
RESPONSES_MAX = 1_000_000
_ACK_PREFIX = b"$JS.ACK."
_TOKEN_CHARS = 6

Now = Callable[[], int]
Describe = Callable[[Client, bool], bytes]


class _Response:
    """Somebody in another account waits for this answer."""

    __slots__ = ("expires", "once", "reply", "threshold_ns", "to")

    def __init__(self, to: Account, reply: bytes, once: bool, threshold_ns: int) -> None:
        self.to = to
        self.reply = reply
        self.once = once
        self.threshold_ns = threshold_ns
        self.expires = 0


class Responses:
    """The answers an account still owes to others; each under an opaque subject of its own."""

    def __init__(
        self,
        account: Account,
        broker: Broker,
        random: Random,
        now: Now,
        of_account: "Callable[[Account], Responses]",
    ) -> None:
        self._account = account
        self._of_account = of_account
        self._broker = broker
        self._random = random
        self._now = now
        self._prefix = REPLY_PREFIX + random.token(_TOKEN_CHARS).encode() + b"."
        # Oldest first: an answer that uses its entry moves it to the end.
        self._waiting: dict[bytes, _Response] = {}
        self._subscription: Subscription | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self, to: Account, reply: bytes, once: bool, threshold_ns: int) -> bytes:
        """A subject on which this account can answer to `reply` of the other account."""
        if self._subscription is None:
            self._subscription = Subscription(None, self._account, self._prefix + b">")
            self._subscription.handler = self._on_response
            self._account.subscribe(self._subscription)
        now = self._now()
        self._forget_expired(now)
        subject = self._prefix + self._random.token(_TOKEN_CHARS).encode()
        response = _Response(to, reply, once, threshold_ns)
        response.expires = now + threshold_ns
        self._waiting[subject] = response
        return subject

    def forget(self, subject: bytes) -> None:
        self._waiting.pop(subject, None)

    def _forget_expired(self, now: int) -> None:
        while self._waiting:
            oldest = next(iter(self._waiting))
            if self._waiting[oldest].expires > now and len(self._waiting) < RESPONSES_MAX:
                return
            del self._waiting[oldest]

    def _on_response(
        self, origin: Client, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> bool:
        response = self._waiting.get(subject)
        if response is None:
            return False
        now = self._now()
        if response.expires <= now:
            del self._waiting[subject]
            return False
        if reply and not reply.startswith(_ACK_PREFIX):
            # An answer that asks for an answer: the way back is opaque, too.
            back = self._of_account(response.to)
            reply = back.expect(self._account, reply, response.once, response.threshold_ns)
        taken = self._broker.publish(
            response.to, response.reply, payload, reply, headers, origin, shown=self._broker.shown
        )
        # A stream of answers ends with an empty one.
        self._waiting.pop(subject, None)
        if taken and not response.once and (payload or headers):
            response.expires = now + response.threshold_ns
            self._waiting[subject] = response
        return taken > 0


class ServiceImport:
    """A responder for requests that are meant for another account."""

    def __init__(
        self,
        spec: ImportSpec,
        export: ExportSpec,
        importer: Account,
        exporter: Account,
        responses: Responses,
        broker: Broker,
        describe: Describe,
    ) -> None:
        self._spec = spec
        self._export = export
        self._importer = importer
        self._exporter = exporter
        self._responses = responses
        self._broker = broker
        self._describe = describe
        self._transform: SubjectTransform | None = None
        pattern = spec.to or spec.subject
        if spec.to and spec.to != spec.subject:
            pattern, destination = service_transform(spec)
            self._transform = SubjectTransform(pattern, destination)
        self.subscription = Subscription(None, importer, pattern.encode())
        self.subscription.handler = self.on_request
        importer.subscribe(self.subscription)

    def close(self) -> None:
        self._importer.unsubscribe(self.subscription)

    def on_request(
        self, origin: Client | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> bool:
        """False if nobody in the other account took it: the requester hears of that."""
        target = subject
        if self._transform is not None:
            made = self._transform.transform(subject.decode("utf-8", "surrogateescape"))
            if made is None:
                return False
            target = made.encode("utf-8", "surrogateescape")
        if self._exporter.mapping is not None:
            mapped = self._exporter.mapping(target)
            if mapped is None:
                return True
            target = mapped
        opaque = reply
        # An acknowledgement's address is understood by JetStream alone; it must stay readable.
        if reply and not reply.startswith(_ACK_PREFIX):
            opaque = self._responses.expect(
                self._importer,
                reply,
                self._export.response == "Singleton",
                self._export.threshold_ns,
            )
        if origin is not None:
            headers = without_headers(headers, REQUEST_INFO + b":")
            headers = with_header(headers, REQUEST_INFO, self._describe(origin, self._spec.share))
        taken = self._broker.publish(self._exporter, target, payload, opaque, headers, origin)
        if not taken and opaque is not reply:
            self._responses.forget(opaque)
        return taken > 0


class StreamImport:
    """Lets subscriptions of one account hear what another publishes."""

    def __init__(self, spec: ImportSpec, exporter: Account) -> None:
        self._exporter = exporter
        self._source = spec.subject
        self._transform: SubjectTransform | None = None
        local = spec.to or spec.subject
        if local != spec.subject:
            source, destination = stream_transform(spec)
            self._transform = SubjectTransform(source, destination)
            local = _as_pattern(spec.subject, destination)
        self._local = local

    def shadow(self, sub: Subscription) -> Subscription | None:
        """The same wish in the exporting account, or None if it does not concern this import."""
        wanted = sub.subject.decode("utf-8", "surrogateescape")
        if not overlaps(wanted, self._local):
            return None
        subject = self._source
        if self._transform is None:
            if is_subset(wanted, self._local):
                subject = wanted
        elif wanted.split(".")[-1] != ">" or self._local.split(".")[-1] == ">":
            subject = self._narrowed(wanted) or self._source
        shadow = Subscription(
            sub.client,
            self._exporter,
            subject.encode("utf-8", "surrogateescape"),
            sub.queue,
            sub.sid,
        )
        shadow.parent = sub
        shadow.filtered = sub.filtered
        shadow.rename = self._renamer(sub.subject)
        return shadow

    def _renamer(self, wanted: bytes) -> Callable[[bytes], bytes | None]:
        transform = self._transform

        def rename(subject: bytes) -> bytes | None:
            if transform is not None:
                made = transform.transform(subject.decode("utf-8", "surrogateescape"))
                if made is None:
                    return None
                subject = made.encode("utf-8", "surrogateescape")
            return subject if matches(wanted, subject) else None

        return rename

    def _narrowed(self, wanted: str) -> str:
        """The exporter's subjects that can become a wanted one; "" if that is not plain to see."""
        if not is_subset(wanted, self._local):
            return ""
        assert self._transform is not None
        source, made = self._source.split("."), self._transform.dest.split(".")
        asked = wanted.split(".")
        values: dict[int, str] = {}
        for token, value in zip(made, asked, strict=False):
            if token.startswith("$") and token[1:].isdigit():
                values[int(token[1:])] = value
        found, wildcard = [], 0
        for token in source:
            if token == "*":
                wildcard += 1
                found.append(values.get(wildcard, "*"))
            elif token == ">":
                found += asked[len(made) - 1 :]
            else:
                found.append(token)
        return ".".join(found)


def _as_pattern(source: str, destination: str) -> str:
    """The local subjects a transform can produce, as a pattern."""
    return ".".join(
        "*" if token.startswith(("$", "{{")) and token != "$" and _is_variable(token) else token
        for token in destination.split(".")
    )


def _is_variable(token: str) -> bool:
    return token.startswith("{{") or token[1:].isdigit()
