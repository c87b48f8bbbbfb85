"""Builds the house, opens its doors and closes them again.

    async with jetstream.Server(port=0) as server:
        print(server.url)

A turn of the loop reads all ready sockets, then `turn()` runs once: the engine writes what was
published, hands out what consumers are due, and every connection with something to say is flushed.
"""

import asyncio
import inspect
import logging
import os
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from jetstream.broker._broker import Broker, Client, Subscription
from jetstream.broker.accounts import Accounts
from jetstream.clock import SECOND, Clock, Random, SystemClock
from jetstream.security.nkeys import KeyKind, KeyPair, encode_public
from jetstream.server.accounts import specs_of, system_name
from jetstream.server.auth import Authenticator, AuthError, Identity
from jetstream.server.closed import ClosedConnection, Reason
from jetstream.server.connection import Connection
from jetstream.server.options import VERSION, Options
from jetstream.wire._outbox import trim_stock

if TYPE_CHECKING:
    from jetstream.engine.engine import Engine

API_LEVEL = 5
SWEEP_S = 0.25
TRIM_EVERY = 4  # sweeps
BACKLOG = 4096


class Server:
    """A NATS server with JetStream, in any running asyncio loop.

    Keyword arguments set `Options` fields (`port=0` or `-1` takes a free port, `store_dir=…`
    switches JetStream on). Several servers can live in one process.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        store_dir: str | os.PathLike[str] | None = None,
        jetstream: bool | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        log: logging.Logger | None = None,
        files: Any = None,
        **settings: Any,
    ) -> None:
        self.options = options if options is not None else Options(host="127.0.0.1")
        for name, value in settings.items():
            if not hasattr(self.options, name):
                raise TypeError(f"jetstream.Server has no setting {name!r}")
            setattr(self.options, name, value)
        if store_dir is not None:
            self.options.jetstream.enabled = True
            self.options.jetstream.store_dir = os.fspath(store_dir)
        if jetstream is not None:
            self.options.jetstream.enabled = jetstream
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.random = random if random is not None else Random()
        self.log = log if log is not None else logging.getLogger("jetstream.server")
        # A name made of chance has the shape of a key; a real one is made (and libsodium loaded)
        # only if something has to be signed with it.
        self.key: KeyPair | None = None
        if self.options.callout is not None:
            self.key = KeyPair.create(KeyKind.SERVER)
        self.id = (
            self.key.public_key
            if self.key is not None
            else encode_public(KeyKind.SERVER, self.random.bytes(32))
        )
        self.name = self.options.server_name or self.id
        self.broker = Broker(self.random.below(2**63) + 1)
        self.broker.wake = self.wake
        self.broker.on_error = self.on_handler_error
        self.broker.on_overflow = self.on_overflow
        self.broker.now = self.clock.monotonic
        self.accounts = Accounts(
            self.broker,
            specs_of(self.options),
            system_name(self.options),
            now=self.clock.monotonic,
            random=self.random,
        )
        self.accounts.describe = self._describe
        self.authenticator = Authenticator(self.options)
        self.connections: dict[int, Connection] = {}
        self.closed: deque[ClosedConnection] = deque(maxlen=self.options.max_closed_clients)
        self.slow, self.closing = set[Connection](), set[Connection]()
        self.engine: Engine | None = None
        self.files = files  # another disk than the machine's: for tests
        self.started_ns = self.clock.now()
        self.total_connections = 0
        self.reads = 0  # sockets read since the last turn
        self.slow_consumers = 0
        self.slow_deadline = 0
        self.stale_connections = 0
        self.stalled_clients = 0
        self.lame_duck_mode = False
        self.running = False
        self.host = self.options.host
        self.port = 0
        self.listeners: list[asyncio.AbstractServer] = []
        self.advertised: tuple[str, int] | None = None
        self.open_ports: dict[str, tuple[str, str, int]] = {}  # name → scheme, host, port
        self.config_loaded_ns = self.started_ns
        self.tracing = self.options.trace
        self.http_requests: dict[str, int] = {}
        self.reload_again: Any = None  # set by a process that has a configuration file
        self.services: list[Any] = []  # monitoring, system account, console: anything with stop()
        self._cid = 0
        self._sweeps = 0
        self._turn_scheduled = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopped = asyncio.Event()
        self._temporary: Any = None  # a TemporaryDirectory

    # --- opening and closing ------------------------------------------------------------------

    async def start(self) -> Self:
        """Open the store, then the doors."""
        self.loop = asyncio.get_running_loop()
        self.running = True
        try:
            if self.options.jetstream.enabled:
                await self._start_engine()
            from jetstream.server.doors import open_doors

            await open_doors(self)
        except BaseException:
            await self.stop()
            raise
        advanced = getattr(self.clock, "on_advance", None)
        if advanced is not None:
            advanced.append(self.tick)
        self._sweeper = self.loop.call_later(SWEEP_S, self._sweep)
        return self

    async def _start_engine(self) -> None:
        from jetstream.engine.engine import Engine
        from jetstream.server.banner import JetStreamStart

        starting = JetStreamStart(self)
        starting.check()
        if self.options.ephemeral or (
            self.options.jetstream.store_dir == ""
            and self.options.config_file == ""
            and getattr(self, "_private_store", False)
        ):
            import tempfile

            self._temporary = tempfile.TemporaryDirectory(prefix="jetstream-")
            self.options.jetstream.store_dir = self._temporary.name
        from jetstream.api.dispatch import dispatch

        self.engine = Engine(self, dispatch, self.files)
        await self.engine.start()
        starting.tell()

    async def stop(self) -> None:
        """Close everything: doors, connections, store. Safe to call twice."""
        if not self.running:
            return
        self.running = False
        for listener in self.listeners:
            listener.close()
        for service in reversed(self.services):
            stopped = service.stop()
            if inspect.isawaitable(stopped):
                await stopped
        for timer in (self._sweeper, self._timer):
            if timer is not None:
                timer.cancel()
        self.turn()
        for connection in list(self.connections.values()):
            connection.close(Reason.SHUTDOWN)
        for task in list(self._tasks):
            task.cancel()
        if self.engine is not None:
            await self.engine.stop()
        deadline = self.loop.time() + 1.0
        while self.closing and self.loop.time() < deadline:
            await asyncio.sleep(0.005)
        for connection in list(self.closing):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(0)
        advanced = getattr(self.clock, "on_advance", None)
        if advanced is not None and self.tick in advanced:
            advanced.remove(self.tick)
        if self._temporary is not None:
            self._temporary.cleanup()
        self._stopped.set()

    async def reload(self, options: Options) -> list[str]:
        """Take over a changed configuration; ReloadError, and nothing changed, if it cannot."""
        from jetstream.server import lifecycle

        return await lifecycle.reload(self, options)

    async def lame_duck(self) -> None:
        """Leave gently: clients are told, and closed one by one."""
        from jetstream.server import lifecycle

        await lifecycle.lame_duck(self)

    async def wait_stopped(self) -> None:
        await self._stopped.wait()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host
        return f"nats://{host}:{self.port}"

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run something beside the connections; it ends with the server at the latest."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- the turn -----------------------------------------------------------------------------

    def wake(self) -> None:
        """Something is to be sent or stored: come round once this turn's reading is done."""
        if not self._turn_scheduled and self.running:
            self._turn_scheduled = True
            self.loop.call_soon(self.turn)

    def turn(self) -> None:
        """Deliveries first, then one write, then the answers that promise something."""
        self._turn_scheduled = False
        if self.engine is not None:
            self.engine.turn()
            self._flush()
            self.engine.write_out()
        self.reads = 0
        self._flush()

    def _flush(self) -> None:
        for connection in self.broker.take_dirty():
            connection.flush()  # type: ignore[attr-defined]

    def set_timer(self, deadline_ns: int) -> None:
        """The engine wants to be asked again at this wall time."""
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0, deadline_ns - self.clock.now()) / SECOND
        self._timer = self.loop.call_later(min(delay, 3600.0), self.tick)

    def tick(self) -> None:
        """Time has passed."""
        if self.engine is not None and self.running:
            self.engine.tick()
            self.wake()

    def loop_now(self) -> int:
        return self.clock.now()

    def _sweep(self) -> None:
        """A few times a second: pings, log-ins that take too long, peers that do not read."""
        if not self.running:
            return
        self._sweeper = self.loop.call_later(SWEEP_S, self._sweep)
        self._sweeps += 1
        if self._sweeps % TRIM_EVERY == 0:
            trim_stock()
        now = self.clock.monotonic()
        for connection in [
            c for c in self.connections.values() if c.next_ping_ns or c.auth_deadline_ns
        ]:
            if connection.auth_deadline_ns and now >= connection.auth_deadline_ns:
                connection.close(Reason.AUTHENTICATION_TIMEOUT, "Authentication Timeout")
            elif connection.next_ping_ns and now >= connection.next_ping_ns:
                connection.on_ping_due(now)
            if connection.identity is not None:
                self._check_expiry(connection)
        for connection in list(self.slow):
            if now - connection.writing_paused_ns > self.options.write_deadline_ns:
                self._check_progress(connection, now)
        for connection in list(self.closing):
            if connection.transport is not None and now >= connection.closing_deadline_ns:
                connection.transport.abort()

    def _check_expiry(self, connection: Connection) -> None:
        """Tokens end, those of users and those of whole accounts."""
        assert connection.identity is not None
        user_ns, spec = connection.identity.expires_ns, connection.account.spec
        account_ns = spec.expires_ns if spec is not None else 0
        if not user_ns and not account_ns:
            return
        now = self.clock.now()
        if user_ns and now >= user_ns:
            connection.close(Reason.AUTHENTICATION_EXPIRED, "User Authentication Expired")
        elif account_ns and now >= account_ns:
            connection.close(Reason.AUTHENTICATION_EXPIRED, "Account Authentication Expired")

    def _check_progress(self, connection: Connection, now: int) -> None:
        """A write that cannot finish in time ends the connection, unless some of it went out."""
        assert connection.transport is not None
        left = connection.transport.get_write_buffer_size()
        if self.options.write_timeout == "retry" and left < connection.in_transport:
            connection.in_transport = left
            connection.writing_paused_ns = now
            return
        self.slow_consumers += 1
        self.slow_deadline += 1
        connection.close(Reason.SLOW_DEADLINE)

    def on_overflow(self, client: Client) -> None:
        """A receiver that does not keep up has more waiting than it may."""
        assert isinstance(client, Connection)
        self.slow_consumers += 1
        self.log.warning(
            "%s - Slow Consumer Detected: MaxPending of %d Exceeded", client, client.pending_max
        )
        self.loop.call_soon(client.close, Reason.SLOW_PENDING)

    def on_handler_error(self, problem: Exception) -> None:
        self.log.error("a request failed inside the server: %r", problem, exc_info=problem)

    # --- connections --------------------------------------------------------------------------

    def welcome(self, connection: Connection) -> None:
        """A new peer: give it a number and an INFO, or turn it away."""
        welcome = self.enroll(connection)
        connection.say(self.info_line(connection))
        connection.flush()
        if not welcome:
            connection.close(Reason.MAX_CONNECTIONS, "maximum connections exceeded")

    def enroll(self, connection: Connection) -> bool:
        """Give a new peer its number and its time to log in; False if there are too many."""
        self._cid += 1
        connection.cid = self._cid
        connection.started_ns = connection.last_activity_ns = self.clock.now()
        connection.account = self.accounts.default
        self.total_connections += 1
        self.connections[connection.cid] = connection
        needs_auth = self.options.needs_auth_for(connection.kind)
        connection.ready = not needs_auth
        if needs_auth:
            connection.auth_deadline_ns = self.clock.monotonic() + self.options.auth_timeout
        self.log.debug("%s - Client connection created", connection)
        return not 0 <= self.options.max_connections < len(self.connections)

    def accepts_without_connect(self, connection: Connection) -> bool:
        """May somebody who never said CONNECT go on? Only as the `no_auth_user`."""
        options = self.options
        if not (
            options.no_auth_user
            or (connection.kind == "WEBSOCKET" and options.websocket.no_auth_user)
            or options.default_sentinel
        ):
            return False
        # Nobody said CONNECT, so nobody is told +OK.
        verbose, connection.verbose = connection.verbose, False
        self.log_in(connection)
        connection.verbose = verbose
        return connection.ready

    def log_in(self, connection: Connection) -> None:
        """Check what CONNECT said; a slow check holds the connection back meanwhile."""
        if connection.cookies:
            from jetstream.server.websocket import fill_from_cookies

            fill_from_cookies(connection.connect, connection.cookies, self.options.websocket)
        try:
            outcome = self.authenticator.authenticate(
                connection.connect,
                nonce=connection.nonce,
                tls_peer=connection.tls_peer,
                client_ip=connection.host,
                connection_type=connection.kind,
            )
        except AuthError as refused:
            self.turn_away(connection, refused)
            return
        if isinstance(outcome, Identity):
            self.let_in(connection, outcome)
            return
        connection.suspended = True
        connection.hold()
        self.spawn(self._finish_log_in(connection, outcome))

    async def _finish_log_in(self, connection: Connection, outcome: Any) -> None:
        try:
            identity = await outcome
        except AuthError as refused:
            self.turn_away(connection, refused)
            return
        if not connection.gone:
            self.let_in(connection, identity)
            connection.resume()

    def let_in(self, connection: Connection, identity: Identity, *, again: bool = False) -> None:
        account = self.accounts.find(identity.account)
        if account is None:
            connection.close(Reason.MISSING_ACCOUNT, "Authorization Violation")
            return
        limit = account.spec.max_connections if account.spec is not None else -1
        if limit >= 0 and connection not in account.clients and len(account.clients) >= limit:
            connection.close(
                Reason.MAX_ACCOUNT_CONNECTIONS, "maximum account active connections exceeded"
            )
            return
        spec = account.spec
        if identity.max_subscriptions == 0 or (spec is not None and spec.max_subscriptions == 0):
            connection.close(Reason.SUBSCRIPTIONS, "maximum subscriptions exceeded")
            return
        connection.account.clients.discard(connection)
        connection.account = account
        account.clients.add(connection)
        connection.permissions = identity.permissions
        connection.tracks_replies = (
            identity.permissions is not None and identity.permissions.responses is not None
        )
        connection.parser.payload_max = self.payload_max(connection, identity)
        if again:
            connection.identity = identity
            return
        connection.logged_in(identity)
        for service in self.services:
            hook = getattr(service, "on_connected", None)
            if hook is not None:
                hook(connection)

    def payload_max(self, connection: Connection, identity: Identity | None) -> int:
        limits = [self.options.max_payload]
        if connection.account.spec is not None and connection.account.spec.max_payload >= 0:
            limits.append(connection.account.spec.max_payload)
        if identity is not None and identity.max_payload >= 0:
            limits.append(identity.max_payload)
        return min(limits)

    def turn_away(self, connection: Connection, refused: AuthError) -> None:
        self.log.error("%s - authentication error%s", connection, refused.who)
        for service in self.services:
            hook = getattr(service, "on_auth_error", None)
            if hook is not None:
                hook(connection, refused)
        connection.suspended = False
        connection.close(refused.reason, refused.text)

    def forget(self, connection: Connection) -> None:
        """Take a connection out of everything; its socket may still be closing."""
        if self.connections.pop(connection.cid, None) is None:
            return
        self.slow.discard(connection)
        if not connection.closed:
            self.closing.add(connection)
        connection.account.clients.discard(connection)
        remembered = tuple(
            (sub.subject, sub.queue or b"", sub.sid) for sub in connection.subscriptions.values()
        )
        for sub in list(connection.subscriptions.values()):
            self.broker.drop(sub)
        identity = connection.identity
        self.closed.append(
            ClosedConnection(
                cid=connection.cid,
                kind=connection.kind,
                host=connection.host,
                port=connection.port,
                started_ns=connection.started_ns,
                stopped_ns=self.clock.now(),
                last_activity_ns=connection.last_activity_ns,
                reason=connection.close_reason,
                rtt_ns=connection.rtt_ns,
                in_msgs=connection.in_msgs,
                out_msgs=connection.out_msgs,
                in_bytes=connection.in_bytes,
                out_bytes=connection.out_bytes,
                subscriptions=remembered,
                name=connection.connect.name or "",
                lang=connection.connect.lang or "",
                version=connection.connect.version or "",
                user=identity.user if identity is not None else "",
                account=connection.account.name,
                stalls=connection.stalls,
            )
        )
        for service in self.services:
            hook = getattr(service, "on_disconnected", None)
            if hook is not None:
                hook(connection)

    def farewell(self, connection: Connection) -> None:
        self.closing.discard(connection)
        self.log.debug("%s - Client connection closed: %s", connection, connection.close_reason)

    # --- subscriptions ------------------------------------------------------------------------

    def too_many_tokens(self, subject: bytes) -> bool:
        limit = self.options.max_sub_tokens
        return limit > 0 and subject.count(b".") + 1 > limit

    def too_many_subscriptions(self, connection: Connection) -> bool:
        held = len(connection.subscriptions)
        if 0 < self.options.max_subscriptions <= held:
            return True
        identity = connection.identity
        if identity is not None and 0 <= identity.max_subscriptions <= held:
            return True
        spec = connection.account.spec
        if spec is not None and spec.max_subscriptions >= 0:
            held = sum(len(client.subscriptions) for client in connection.account.clients)
            return bool(held >= spec.max_subscriptions)
        return False

    def on_subscribed(self, connection: Connection, sub: Subscription) -> None:
        """Accounts that this one imports streams from hear of it too."""
        self.accounts.add_shadows(connection.account, sub)

    def _describe(self, client: Client, share: bool) -> bytes:
        """What a request that crosses accounts tells about its sender."""
        from jetstream.server.events import request_info

        assert isinstance(client, Connection)
        return msgspec.json.encode(request_info(self, client, share))

    # --- INFO ---------------------------------------------------------------------------------

    def info_line(self, connection: Connection, after_connect: bool = False) -> bytes:
        return b"INFO " + msgspec.json.encode(self.info(connection, after_connect)) + b" \r\n"

    def info(self, connection: Connection, after_connect: bool = False) -> dict[str, Any]:
        """The greeting of one connection, fields in the reference's order."""
        options = self.options
        host, port = self.advertised or (self.host, self.port)
        if connection.kind == "WEBSOCKET":
            _, host, port = self.open_ports.get("websocket", ("", host, port))
        info: dict[str, Any] = {
            "server_id": self.id,
            "server_name": self.name,
            "version": VERSION,
            "proto": 1,
            "go": "python",
            "host": host,
            "port": port,
            "headers": not options.no_header_support,
        }
        if options.needs_auth_for(connection.kind) and (after_connect or not options.no_auth_user):
            info["auth_required"] = True
        tls = options.tls if connection.kind != "WEBSOCKET" else options.websocket.tls
        if tls is not None and connection.kind != "IN_PROCESS":
            if not options.allow_non_tls:
                info["tls_required"] = True
            if tls.verify or tls.verify_and_map:
                info["tls_verify"] = True
            if options.allow_non_tls:
                info["tls_available"] = True
        info["max_payload"] = connection.parser.payload_max
        if options.jetstream.enabled:
            info["jetstream"] = True
        info["client_id"] = connection.cid
        info["client_ip"] = connection.host
        if options.needs_nonce and not after_connect:
            info["nonce"] = connection.make_nonce().decode()
        if options.jetstream.domain:
            info["domain"] = options.jetstream.domain
        if self.lame_duck_mode:
            info["ldm"] = True
        if after_connect:
            info["connect_info"] = True
            info["remote_account"] = connection.account.name
            if connection.account is self.accounts.system:
                info["acc_is_sys"] = True
        info["api_lvl"] = API_LEVEL
        info["xkey"] = self.accounts.xkey
        return info

    def connect_in_process(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Join a client's protocol to this server without a socket; returns its transport."""
        from jetstream.server.inprocess import connect_in_process

        return connect_in_process(self, protocol)
