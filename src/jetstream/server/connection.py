"""One client's connection: what it says reaches the broker, what it is owed goes out.

        ┌────────────── connection_made: INFO ───────────────┐
        ▼                                                    │
    greeting ── CONNECT ──► authenticating ──► ready ──► closing ──► closed
                             (reading paused)    ▲  │
                                                 └──┘ PUB SUB UNSUB PING …

All of it runs on the loop. A read is parsed and handled whole; what is owed to connections is
gathered in their outboxes and written once per turn (`Server.flush`). A peer that does not read
makes its own outbox grow, up to `max_pending`, and nobody else's.
"""

import asyncio
import base64
from typing import TYPE_CHECKING, Any, cast

import msgspec

from jetstream.broker._broker import Client, Subscription
from jetstream.clock import SECOND
from jetstream.errors import JetStreamError, ProtocolError
from jetstream.server import trace
from jetstream.server.closed import Reason
from jetstream.subjects.tokens import has_valid_tokens, has_wildcard
from jetstream.wire._parser import Batch, Parser
from jetstream.wire.operations import FAULT_TEXT, UNSAID, Fault, Kind, Role, read_connect

if TYPE_CHECKING:
    from jetstream.server.auth import Identity
    from jetstream.server.server import Server

# What the socket did not take at once goes through the transport, in slices: it tells us when.
SLICE_BYTES = 64 * 1024
CAUGHT_UP_BYTES = 4 * 1024 * 1024
WAIT_S = 0.005
STUCK_NS = SECOND // 10
_PLAIN_TRANSPORTS = ("TCPTransport", "_SelectorSocketTransport")
FIRST_PING_NS = 2 * SECOND
STALL_S = 0.003
CONNECT_TEXT_MAX = 64 * 1024

_PUB, _HPUB, _SUB, _UNSUB = Kind.PUB, Kind.HPUB, Kind.SUB, Kind.UNSUB


class AuthRefused(JetStreamError):
    """Raised by the door when a CONNECT is not accepted."""

    def __init__(self, text: str = "Authorization Violation", reason: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.reason = reason or Reason.AUTHENTICATION_FAILURE


class Connection(Client, asyncio.BufferedProtocol):
    """A TCP, TLS, WebSocket or in-process client."""

    def __init__(self, server: "Server", kind: str = "STANDARD") -> None:
        super().__init__()
        self.draining = True
        self.server = server
        self.kind = kind
        self.parser = Parser(Role.SERVER)
        self.parser.payload_max = server.options.max_payload
        self.parser.control_line_max = server.options.max_control_line
        self.pending_max = server.options.max_pending
        self.transport: asyncio.Transport | None = None
        self.connect = UNSAID
        self.connected = False  # CONNECT was accepted
        self.identity: Identity | None = None
        self.nonce = b""
        self.host = ""
        self.port = 0
        self.tls_first = False
        self.greeted = False
        self.tls_peer: Any = None
        self.started_ns = 0
        self.last_activity_ns = 0
        self.close_reason = ""
        self.closed = False
        self.writing_paused_ns = 0
        self.fd = -1  # of a plain socket, which is written to without a detour
        self.waiters: list[Connection] = []  # publishers that give this one time to read
        self.waiting: asyncio.TimerHandle | None = None
        self.suspended = False
        self.held = 0  # reasons to stop reading for a while
        self.first_ping_seen = False
        self.pings_out = 0
        self.next_ping_ns = 0
        self.ping_sent_ns = 0
        self.rtt_ns = 0
        self.connect_ns = 0  # from the greeting to CONNECT: the first guess at the round trip
        self.auth_deadline_ns = 0
        self.closing_deadline_ns = 0
        self.stalls = 0
        self.cookies: dict[str, str] = {}

    # --- the socket ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer has arrived; greet it unless TLS comes first."""
        self.attach(transport)
        if not self.greeted:
            self.greeted = True
            if self.cid:
                self.say(self.server.info_line(self))
                self.flush()
            else:
                self.server.welcome(self)

    def attach(self, transport: asyncio.BaseTransport) -> None:
        """Use this transport from now on (the first, or the one TLS made of it)."""
        self.transport = cast(asyncio.Transport, transport)
        # A TLS transport counts an empty buffer as full when the limit is 0.
        encrypted = transport.get_extra_info("ssl_object") is not None
        self.transport.set_write_buffer_limits(high=1 if encrypted else 0)
        self.fd = -1
        if type(transport).__name__ in _PLAIN_TRANSPORTS:
            self.fd = transport.get_extra_info("socket").fileno()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and not self.host:
            self.host, self.port = str(peer[0]), int(peer[1])
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            from jetstream.server.tls import peer_of

            self.tls_peer = peer_of(tls)

    def get_buffer(self, sizehint: int) -> Any:
        # asyncio measures and slices what it gets here (TLS does); uvloop would take any buffer.
        return memoryview(self.parser.get_buffer(sizehint))

    def buffer_updated(self, nbytes: int) -> None:
        self.parser.received(nbytes)
        self.work()

    def data_received(self, data: bytes) -> None:
        """For transports that hand over bytes (WebSocket, in-process)."""
        self.parser.feed(data)
        if not self.suspended:
            self.work()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended(Reason.CLIENT_CLOSED if exc is None else Reason.READ_ERROR)

    def pause_writing(self) -> None:
        assert self.transport is not None
        self.writing_paused_ns = self.server.clock.monotonic()
        self.in_transport = self.transport.get_write_buffer_size()
        self.server.slow.add(self)

    def resume_writing(self) -> None:
        self.writing_paused_ns = 0
        self.in_transport = 0
        self.server.slow.discard(self)
        self.draining = True
        self.flush()
        if self.waiters and len(self.outbox) < CAUGHT_UP_BYTES:
            self.release_waiters()

    # --- in -----------------------------------------------------------------------------------

    def work(self) -> None:
        """Handle what has been read."""
        server = self.server
        self.last_activity_ns = server.loop_now()
        server.reads += 1
        parser = self.parser
        while not self.gone and not self.suspended:
            batch = parser.next_batch()
            if batch is None:
                break
            if server.tracing:
                trace.incoming(self, batch)
            try:
                server.broker.walk(self, batch)
            finally:
                Parser.done(batch)
        if self.suspended:
            parser.stash()
            return
        if parser.fault and not self.gone:
            self.on_fault(parser.fault)
        elif self.stalled:
            self.stalled = False
            self.stalls += 1
            server.stalled_clients += 1
            if not server.options.no_fast_producer_stall:
                self.hold()
                server.loop.call_later(STALL_S, self.unhold)
        elif self.waits_for is not None:
            self.wait_for(cast(Connection, self.waits_for))
        self.waits_for = None

    def wait_for(self, reader: "Connection") -> None:
        """Give a reader a moment: until it has caught up, or a few milliseconds.

        One that has read nothing for a while is not waited for until it does: a stuck reader
        holds up nobody.
        """
        if not reader.writing_paused_ns or self.waiting is not None:
            return
        if self.server.clock.monotonic() - reader.writing_paused_ns > STUCK_NS:
            reader.draining = False
            return
        reader.waiters.append(self)
        self.waiting = self.server.loop.call_later(WAIT_S, self.wait_over)
        self.hold()

    def release_waiters(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.wait_over()

    def wait_over(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None
            self.unhold()

    def hold(self) -> None:
        """Stop reading; the inside is full. Nothing is lost, the peer just waits."""
        self.held += 1
        if self.held == 1 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def unhold(self) -> None:
        self.held -= 1
        if self.held == 0 and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def on_fault(self, fault: int) -> None:
        """The peer broke the protocol."""
        reasons: dict[int, str] = {
            Fault.CONTROL_LINE: Reason.CONTROL_LINE,
            Fault.PAYLOAD: Reason.PAYLOAD,
        }
        self.close(reasons.get(fault, Reason.PROTOCOL_VIOLATION), FAULT_TEXT.get(fault))

    def on_operation(self, kind: int, batch: Batch, i: int) -> bool:
        """Everything but a permitted publish. True: stop handling this batch."""
        if kind == Kind.CONNECT:
            return self.on_connect(batch.payload(i))
        if kind == Kind.ERR:
            self.close(Reason.PARSE_ERROR)
            return True
        if kind == Kind.INFO:
            return self.on_info(batch.payload(i))
        if not self.ready:
            if not self.server.accepts_without_connect(self):
                self.close(Reason.AUTHENTICATION_FAILURE, "Authorization Violation")
                return True
            if kind in (_PUB, _HPUB):
                # Permitted now: the rest of the batch is walked again, publishing included.
                self.server.broker.walk(self, batch, i)
                return True
        if kind == Kind.PING:
            self.on_ping()
        elif kind == Kind.PONG:
            self.on_pong()
        elif kind == _SUB:
            self.on_sub(batch.subject(i), batch.reply(i) or None, batch.payload(i))
        elif kind == _UNSUB:
            self.on_unsub(batch.payload(i), batch.sid(i))
        return self.gone

    def on_connect(self, text: bytes) -> bool:
        """A client says who it is."""
        try:
            connect = read_connect(text, self.connect)
        except ProtocolError:
            self.close(Reason.PROTOCOL_VIOLATION)
            return True
        if connect.protocol > 1 or connect.protocol < 0:
            self.close(Reason.BAD_CLIENT_PROTOCOL, "invalid client protocol")
            return True
        if connect.no_responders and not connect.headers:
            self.close(Reason.NO_RESPONDERS_HEADERS, "no responders requires headers support")
            return True
        self.connect = connect
        self.connect_ns = self.connect_ns or self.server.clock.now() - self.started_ns
        self.verbose, self.pedantic, self.echo = connect.verbose, connect.pedantic, connect.echo
        self.headers = connect.headers and not self.server.options.no_header_support
        self.parser.headers_agreed = self.headers
        self.no_responders = connect.no_responders
        self.server.log_in(self)
        return self.suspended or self.gone

    def on_info(self, text: bytes) -> bool:
        """Clients have no reason to say INFO; it is passed over, but has to be JSON."""
        try:
            msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.close(Reason.PROTOCOL_VIOLATION)
        return self.gone

    def logged_in(self, identity: "Identity") -> None:
        """The door let this client in."""
        first = not self.connected
        self.connected = True
        self.ready = True
        self.suspended = False
        self.auth_deadline_ns = 0
        self.identity = identity
        if not first:
            for sub in list(self.subscriptions.values()):
                self.server.broker.drop(sub)
        if self.verbose:
            self.say(b"+OK\r\n")
        if first:
            self.next_ping_ns = self.server.clock.monotonic() + FIRST_PING_NS

    def resume(self) -> None:
        """Go on after an answer that took its time (a password that is checked in a thread)."""
        self.suspended = False
        if not self.gone:
            self.unhold()
            self.work()

    def on_ping(self) -> None:
        self.say(b"PONG\r\n")
        if self.connected and not self.first_ping_seen:
            self.first_ping_seen = True
            if self.connect.protocol >= 1:
                self.say(self.server.info_line(self, after_connect=True))

    def on_pong(self) -> None:
        if self.pings_out:
            self.rtt_ns = self.server.clock.monotonic() - self.ping_sent_ns
        self.pings_out = 0

    def on_ping_due(self, now: int) -> None:
        """Time to see whether the peer is still there."""
        options = self.server.options
        if self.pings_out > options.ping_max - 1 and self.rtt_ns:
            self.server.stale_connections += 1
            self.close(Reason.STALE, "Stale Connection")
            return
        heard_ns = self.server.loop_now() - self.last_activity_ns
        interval = options.ping_interval_ns
        self.next_ping_ns = now + interval
        if self.rtt_ns and heard_ns < interval and self.pings_out == 0:
            self.next_ping_ns = now + interval - heard_ns
            return
        if self.pings_out >= options.ping_max:
            self.server.stale_connections += 1
            self.close(Reason.STALE, "Stale Connection")
            return
        self.pings_out += 1
        self.ping_sent_ns = now
        self.say(b"PING\r\n")

    def on_sub(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """A wish to receive."""
        server = self.server
        refused = ""
        if sid in self.subscriptions:
            pass
        elif not has_valid_tokens(subject):
            refused = "Invalid Subject"
        elif server.too_many_tokens(subject):
            name = subject.decode("utf-8", "replace")
            refused = f'Permissions Violation for Subscription to "{name}", too many tokens'
        elif queue == b"_sys_" or (
            self.permissions is not None and not self.permissions.can_subscribe(subject, queue)
        ):
            refused = subscription_violation(subject, queue)
        elif server.too_many_subscriptions(self):
            refused = "maximum subscriptions exceeded"
        else:
            sub = Subscription(self, self.account, subject, queue, sid)
            if self.permissions is not None and self.permissions.has_delivery_filter:
                sub.filtered = self.permissions.needs_filter(subject)
            self.subscriptions[sid] = sub
            self.account.subscribe(sub)
            server.on_subscribed(self, sub)
        if refused:
            self.complain(refused)
        elif self.verbose:
            self.say(b"+OK\r\n")

    def on_unsub(self, sid: bytes, limit: int) -> None:
        sub = self.subscriptions.get(sid)
        if sub is not None:
            if limit > 0 and sub.delivered < limit:
                sub.limit = limit
                for shadow in sub.shadows or ():
                    shadow.limit = limit
            else:
                self.server.broker.drop(sub)
        if self.verbose:
            self.say(b"+OK\r\n")

    def refuse_publish(self, subject: bytes, reply: bytes) -> None:
        what = "with Reply of" if reply else "to"
        name = (reply or subject).decode("utf-8", "replace")
        text = f'Permissions Violation for Publish {what} "{name}"'
        self.complain(text)

    def bad_publish_subject(self, subject: bytes) -> None:
        if not has_valid_tokens(subject) or has_wildcard(subject):
            self.complain("Invalid Publish Subject")

    # --- out ----------------------------------------------------------------------------------

    def say(self, line: bytes) -> None:
        """Queue protocol bytes; they leave at the end of the turn."""
        self.put(line)
        self.server.broker.mark(self)

    def complain(self, text: str) -> None:
        """An error that does not end the connection."""
        self.server.log.debug("%s - %s", self, text)
        self.say(b"-ERR '" + text.encode("utf-8", "replace") + b"'\r\n")

    def flush(self) -> None:
        """Hand what is owed to the transport, unless that one is still busy."""
        if self.writing_paused_ns or not len(self.outbox):
            return
        transport = self.transport
        if transport is None or transport.is_closing():
            self.outbox.clear()
            return
        if self.fd >= 0 and not self.server.tracing:
            while len(self.outbox) and not self.writing_paused_ns:
                left = self.outbox.send(self.fd)
                if left > 0:
                    transport.write(self.outbox.take_front(SLICE_BYTES))
                elif left < 0:
                    transport.write(self.outbox.take())  # it will find out what is wrong
            return
        data = self.outbox.take()
        if self.server.tracing:
            trace.outgoing(self, data)
        transport.write(data)

    def close(self, reason: str, error: str | None = None) -> None:
        """End the connection, saying why if there is something to say."""
        if self.gone:
            return
        self.close_reason = reason
        if error is not None:
            self.put(b"-ERR '" + error.encode("utf-8", "replace") + b"'\r\n")
        is_slow = reason in (Reason.SLOW_PENDING, Reason.SLOW_DEADLINE)
        self.flush()
        self.gone = True
        transport = self.transport
        if transport is not None and len(self.outbox) and not is_slow:
            transport.write(self.outbox.take())  # it keeps the order, and sends before it closes
        if transport is None:
            self.ended(reason)
            return
        self.closing_deadline_ns = self.server.clock.monotonic() + 2 * SECOND
        if is_slow:
            transport.abort()
        else:
            transport.close()
        self.server.forget(self)

    def ended(self, reason: str) -> None:
        """The socket is gone."""
        if self.closed:
            return
        self.closed = True
        self.gone = True
        self.close_reason = self.close_reason or reason
        self.outbox.clear()
        self.release_waiters()
        self.server.forget(self)
        self.server.farewell(self)

    def __repr__(self) -> str:
        letter = "w" if self.kind == "WEBSOCKET" else "c"
        text = f"{self.host}:{self.port} - {letter}id:{self.cid}"
        if self.identity is None:
            return text
        connect = self.connect
        if connect.version or connect.lang or connect.name:
            version = f"v{connect.version}" if connect.version else ""
            parts = [part for part in (version, connect.lang, connect.name) if part]
            text += f' - "{":".join(parts)}"'
        if self.identity.user:
            text += f' - "{self.account.name}/user:{self.identity.user}"'
        return text

    @property
    def is_signed(self) -> bool:
        """Did the peer say who it is in CONNECT?"""
        connect = self.connect
        return any((connect.user, connect.auth_token, connect.nkey, connect.jwt))

    def make_nonce(self) -> bytes:
        self.nonce = base64.urlsafe_b64encode(self.server.random.bytes(11)).rstrip(b"=")
        return self.nonce


def subscription_violation(subject: bytes, queue: bytes | None) -> str:
    text = f'Permissions Violation for Subscription to "{subject.decode("utf-8", "replace")}"'
    if queue:
        text += f' using queue "{queue.decode("utf-8", "replace")}"'
    return text
