"""Who may come in, and as whom.

The first mechanism that is configured decides: operator JWTs, nkeys, users (by certificate or by
password), token, single user. Nothing configured: everyone is welcome in the global account.

`authenticate` answers at once wherever it can. Bcrypt takes its time on purpose, so that answer is
an awaitable whose work runs in a thread; so is a refusal of somebody who was refused too often.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from jetstream.broker.accounts_spec import GLOBAL_ACCOUNT
from jetstream.broker.permissions import PermissionRules, Permissions
from jetstream.clock import SECOND, Clock, SystemClock
from jetstream.errors import JetStreamError
from jetstream.security.nkeys import InvalidKey, PublicKey, decode_signature
from jetstream.server.closed import Reason
from jetstream.server.options import Options, UserOptions
from jetstream.server.tls import TlsPeer, is_pinned, same_name
from jetstream.wire.operations import Connect

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from jetstream.server.operator import Operator

BCRYPT_PREFIXES = ("$2a$", "$2b$", "$2x$", "$2y$")
BCRYPT_THREADS = 2
PASSWORD_BYTES_MAX = 72  # bcrypt looks no further
FAILURES_FREE = 20  # refusals per address and window that are answered at once
FAILURES_WINDOW_NS = 10 * SECOND
FAILURE_DELAY_S = 0.25
ADDRESSES_MAX = 4096
REDACTED = "[REDACTED]"


class AuthError(JetStreamError):
    """Not let in. `text` goes to the client, `who` to the log, `why` to the system account."""

    def __init__(
        self,
        why: str = "",
        who: str = "",
        text: str = "Authorization Violation",
        reason: str = Reason.AUTHENTICATION_FAILURE,
    ) -> None:
        super().__init__(why or text)
        self.why = why
        self.who = who
        self.text = text
        self.reason = reason


class Identity(Struct):
    """Who came in. Limits: -1 is unlimited."""

    account: str = GLOBAL_ACCOUNT
    user: str = ""  # as monitoring shows it
    permissions: Permissions | None = None
    rules: PermissionRules | None = None
    max_payload: int = -1
    max_subscriptions: int = -1
    max_data: int = -1
    expires_ns: int = 0  # wall time; 0 = never
    # Where the identity comes from, for monitoring:
    user_name: str = ""
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str = ""
    tags: tuple[str, ...] = ()
    claims_id: str = ""


Accept = Callable[[], Identity]


class Attempt(Struct):
    """Everything a decision may look at."""

    connect: Connect
    nonce: bytes
    peer: TlsPeer | None
    client_ip: str
    connection_type: str


class Authenticator:
    """Checks credentials against the options of a server."""

    def __init__(self, options: Options, clock: Clock | None = None) -> None:
        self.options = options
        self.clock: Clock = clock if clock is not None else SystemClock()
        self._users = {user.user: user for user in options.users if user.user}
        self._nkeys = {user.nkey: user for user in options.users if user.nkey}
        self._failures: dict[str, list[int]] = {}
        self._threads: ThreadPoolExecutor | None = None
        self.ask_callout: Callable[[Attempt], Awaitable[Identity]] | None = None
        self.operator: Operator | None = None
        if options.is_operator_mode:
            from jetstream.server import operator

            self.operator = operator.Operator(options, self.clock)

    def authenticate(
        self,
        connect: Connect,
        *,
        nonce: bytes = b"",
        tls_peer: TlsPeer | None = None,
        client_ip: str = "",
        connection_type: str = "STANDARD",
    ) -> Identity | Awaitable[Identity]:
        """The identity, or an awaitable of it; AuthError (at once, or when awaited) if refused."""
        attempt = Attempt(connect, nonce, tls_peer, client_ip, connection_type)
        try:
            found = self._decide(attempt)
        except AuthError as refused:
            if self._fails_too_often(client_ip):
                return self._refuse_later(refused)
            raise
        if isinstance(found, Identity):
            return found
        return self._with_penalty(found, client_ip)

    # --- the decision ---

    def _decide(self, attempt: Attempt) -> Identity | Awaitable[Identity]:
        options, connect = self.options, attempt.connect
        if connect.account or connect.new_account:
            raise AuthError("account or new account was given", self._who(connect))
        self._check_pinned(attempt)
        callout = options.callout
        if callout is not None and self.ask_callout is not None:
            name = connect.nkey or connect.user or ""
            if name not in callout.auth_users:
                return self.ask_callout(attempt)
        if self.operator is not None:
            return self.operator.authenticate(attempt)
        websocket = options.websocket
        if attempt.connection_type == "WEBSOCKET" and (websocket.username or websocket.token):
            return self._single(attempt, websocket.username, websocket.password, websocket.token)
        if options.users or _maps_certificates(options):
            return self._user(attempt)
        if options.username or options.token:
            return self._single(attempt, options.username, options.password, options.token)
        return Identity()

    def _check_pinned(self, attempt: Attempt) -> None:
        tls = self.options.tls
        if attempt.connection_type == "WEBSOCKET":
            tls = self.options.websocket.tls
        if tls is None or attempt.peer is None:
            return
        if not is_pinned(attempt.peer, tls.pinned_certs):
            raise AuthError("certificate not pinned")

    def _user(self, attempt: Attempt) -> Identity | Awaitable[Identity]:
        connect = attempt.connect
        if connect.nkey and self._nkeys:
            return self._nkey_user(attempt)
        if _maps_certificates(self.options):
            return self._mapped_user(attempt)
        if not (connect.user or connect.password or connect.auth_token or connect.nkey):
            default = self.options.no_auth_user
            if attempt.connection_type == "WEBSOCKET":
                default = self.options.websocket.no_auth_user or default
            chosen = self._users.get(default) or self._nkeys.get(default)
            if chosen is None:
                raise AuthError("no credentials", self._who(connect))
            return self._accepted(chosen, attempt)
        user = self._users.get(connect.user or "")
        if user is None:
            # A stranger takes as long as a wrong password would.
            hmac.compare_digest(b"x" * 32, (connect.password or "").encode()[:32])
            raise AuthError("unknown user", self._who(connect))
        return self._with_password(
            user.password, connect.password or "", connect, lambda: self._accepted(user, attempt)
        )

    def _nkey_user(self, attempt: Attempt) -> Identity:
        connect = attempt.connect
        user = self._nkeys.get(connect.nkey or "")
        if user is None:
            raise AuthError("unknown nkey", self._who(connect))
        check_signature(user.nkey, connect.sig, attempt.nonce, self._who(connect))
        return self._accepted(user, attempt)

    def _mapped_user(self, attempt: Attempt) -> Identity:
        """The user whose name stands in the client's certificate."""
        peer = attempt.peer
        if peer is not None:
            for name in peer.names:
                if name in self._users:
                    return self._accepted(self._users[name], attempt)
            for name, user in self._users.items():
                if peer.subject and same_name(name, peer.subject):
                    return self._accepted(user, attempt)
        raise AuthError("no user for this certificate", self._who(attempt.connect))

    def _single(
        self, attempt: Attempt, username: str, password: str, token: str
    ) -> Identity | Awaitable[Identity]:
        connect = attempt.connect
        if token:
            return self._with_password(
                token, connect.auth_token or "", connect, lambda: Identity(user=REDACTED)
            )
        if not equal(username, connect.user or ""):
            raise AuthError("unknown user", self._who(connect))
        return self._with_password(
            password,
            connect.password or "",
            connect,
            lambda: Identity(user=username, user_name=username),
        )

    def _accepted(self, user: UserOptions, attempt: Attempt) -> Identity:
        allowed = user.allowed_connection_types
        if allowed and attempt.connection_type not in allowed:
            raise AuthError("connection type not allowed", self._who(attempt.connect))
        rules = user.permissions
        return Identity(
            account=user.account or GLOBAL_ACCOUNT,
            user=user.name,
            user_name=user.user,
            permissions=Permissions(rules) if rules is not None and not rules.is_open else None,
            rules=rules,
        )

    def _who(self, connect: Connect) -> str:
        """What the log may know about somebody who was turned away."""
        if self.operator is not None:
            return ""
        if self._nkeys:
            return f' - Nkey "{connect.nkey or ""}"'
        if self._users or self.options.username:
            return f' - User "{connect.user or ""}"'
        return ""

    # --- passwords ---

    def _with_password(
        self, expected: str, given: str, connect: Connect, accept: Accept
    ) -> Identity | Awaitable[Identity]:
        if expected.startswith(BCRYPT_PREFIXES):
            return self._with_bcrypt(expected, given, connect, accept)
        if not equal(expected, given):
            raise AuthError("wrong password", self._who(connect))
        return accept()

    async def _with_bcrypt(
        self, expected: str, given: str, connect: Connect, accept: Accept
    ) -> Identity:
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(BCRYPT_THREADS, thread_name_prefix="bcrypt")
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(self._threads, check_bcrypt, expected, given):
            raise AuthError("wrong password", self._who(connect))
        return accept()

    # --- failing too often ---

    def _fails_too_often(self, client_ip: str) -> bool:
        """Note a refusal; True if this address should wait for its answer."""
        now = self.clock.monotonic()
        entry = self._failures.get(client_ip)
        if entry is None or now - entry[0] > FAILURES_WINDOW_NS:
            if len(self._failures) >= ADDRESSES_MAX:
                self._failures.clear()
            self._failures[client_ip] = [now, 1]
            return False
        entry[1] += 1
        return entry[1] > FAILURES_FREE

    async def _refuse_later(self, refused: AuthError) -> Identity:
        await asyncio.sleep(FAILURE_DELAY_S)
        raise refused

    async def _with_penalty(self, found: Awaitable[Identity], client_ip: str) -> Identity:
        try:
            return await found
        except AuthError:
            if self._fails_too_often(client_ip):
                await asyncio.sleep(FAILURE_DELAY_S)
            raise

    def close(self) -> None:
        """Let the bcrypt threads go."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def equal(expected: str, given: str) -> bool:
    """Compare secrets in a time that does not depend on where they differ."""
    return hmac.compare_digest(expected.encode(), given.encode())


def check_bcrypt(expected: str, given: str) -> bool:
    import bcrypt

    # Older hashes carry the $2x$ mark; the check is the same.
    hashed = expected.replace("$2x$", "$2b$", 1).encode()
    try:
        return bcrypt.checkpw(given.encode()[:PASSWORD_BYTES_MAX], hashed)
    except ValueError:
        return False


def check_signature(public_key: str, signature: str | None, nonce: bytes, who: str = "") -> None:
    """Raise AuthError unless the nonce was signed by the key."""
    if not signature:
        raise AuthError("signature missing", who)
    try:
        good = PublicKey(public_key).verify(nonce, decode_signature(signature))
    except InvalidKey:
        good = False
    if not good:
        raise AuthError("signature not verified", who)


def has_plaintext_passwords(options: Options) -> bool:
    """True if a secret stands readable in the configuration: worth a warning."""
    secrets = [user.password for user in options.users] + [options.password]
    return any(secret and not secret.startswith(BCRYPT_PREFIXES) for secret in secrets)


def _maps_certificates(options: Options) -> bool:
    return options.tls is not None and options.tls.verify_and_map
