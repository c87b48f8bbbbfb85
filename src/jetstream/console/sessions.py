"""Who looks at the console: one log-in, one NATS connection, whose permissions decide.

The browser holds a random cookie (HttpOnly, SameSite=Strict) and a second token that has to come
back as a header with every change, so that another site can neither read nor act. Passwords are
used once, to connect, and not kept.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable

from jetstream.client.connection import Connection
from jetstream.clock import HOUR, Clock, SystemClock

COOKIE = "jetstream_console"
CSRF_HEADER = "x-console-token"
SESSIONS_MAX = 64
IDLE_NS = 12 * HOUR
ATTEMPTS_MAX = 5
ATTEMPTS_WINDOW_NS = HOUR // 60

Connect = Callable[[dict[str, str]], Awaitable[Connection]]


class TooManyAttempts(Exception):
    """Somebody tries passwords."""


class Session:
    """One browser that logged in."""

    def __init__(self, connection: Connection, user: str, now: int) -> None:
        self.id = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)
        self.connection = connection
        self.js = connection.jetstream()
        self.user = user
        self.seen_ns = now

    def may_change(self, token: str | None) -> bool:
        """Does this request come from our own page?"""
        return token is not None and hmac.compare_digest(token, self.csrf)


class Sessions:
    """The open sessions; the oldest idle one makes room for a new one."""

    def __init__(self, connect: Connect, clock: Clock | None = None) -> None:
        self._connect = connect
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._open: dict[str, Session] = {}
        self._failures: dict[str, list[int]] = {}

    async def log_in(self, credentials: dict[str, str], address: str = "") -> Session:
        """Connect as this user; raises what the client raises when the server says no."""
        now = self._clock.monotonic()
        recent = [at for at in self._failures.get(address, []) if now - at < ATTEMPTS_WINDOW_NS]
        if len(recent) >= ATTEMPTS_MAX:
            raise TooManyAttempts
        try:
            connection = await self._connect(credentials)
        except Exception:
            self._failures[address] = [*recent, now]
            raise
        self._failures.pop(address, None)
        session = Session(connection, credentials.get("user", ""), now)
        await self._make_room(now)
        self._open[session.id] = session
        return session

    def find(self, cookie: str | None) -> Session | None:
        session = self._open.get(cookie or "")
        if session is not None:
            session.seen_ns = self._clock.monotonic()
        return session

    async def log_out(self, session: Session) -> None:
        self._open.pop(session.id, None)
        await session.connection.close()

    async def _make_room(self, now: int) -> None:
        idle = [s for s in self._open.values() if now - s.seen_ns > IDLE_NS]
        if not idle and len(self._open) >= SESSIONS_MAX:
            idle = [min(self._open.values(), key=lambda s: s.seen_ns)]
        for session in idle:
            await self.log_out(session)

    async def close(self) -> None:
        for session in list(self._open.values()):
            await self.log_out(session)
