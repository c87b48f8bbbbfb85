"""The `$SYS` services and events: what the `nats` tool asks servers, and what it listens to.

Requests of the system account may ask about everything; users of other accounts may ask a few
questions, and the answers are about their own account only.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from jetstream.broker._broker import Account, Subscription
from jetstream.clock import SECOND
from jetstream.schema.encoding import to_json
from jetstream.server import events, monitor, monitor_connz, monitor_js
from jetstream.server.closed import Reason
from jetstream.server.monitor import PAGE, Bad
from jetstream.server.monitor_connz import ConnzOptions
from jetstream.server.monitor_js import HealthzOptions, JszOptions

if TYPE_CHECKING:
    from jetstream.server.auth import AuthError
    from jetstream.server.connection import Connection
    from jetstream.server.server import Server

STATSZ_S = 10.0
FIRST_STATSZ_S = 1.0
CONNS_S = 30.0

T = TypeVar("T")


class Filter(Struct):
    """Which servers should answer."""

    server_name: str = ""
    server_id: str = ""
    cluster: str = ""
    host: str = ""
    domain: str = ""
    exact_match: bool = False
    tags: list[str] | None = None


class SubszOptions(Struct):
    offset: int = 0
    limit: int = PAGE
    subscriptions: bool = False
    account: str = ""
    test: str = ""


class AccountzOptions(Struct):
    account: str = ""


class AccstatzOptions(Struct):
    accounts: list[str] | None = None
    include_unused: bool = False


class TargetOptions(Struct):
    cid: int = 0
    id: int = 0


class SystemServices:
    """Subscribes inside the accounts of a server and answers."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.sequence = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._subscriptions: dict[str, list[Subscription]] = {}
        self._views: dict[str, Callable[[bytes], Any]] = {
            "VARZ": lambda p: monitor.varz(server, server.http_requests),
            "SUBSZ": self._subsz,
            "CONNZ": lambda p: monitor_connz.connz(server, _asked(p, ConnzOptions)),
            "ROUTEZ": lambda p: monitor.routez(server),
            "GATEWAYZ": lambda p: monitor.gatewayz(server),
            "LEAFZ": lambda p: monitor.leafz(server),
            "ACCOUNTZ": lambda p: monitor.accountz(server, _asked(p, AccountzOptions).account),
            "JSZ": lambda p: monitor_js.jsz(server, _asked(p, JszOptions)),
            "HEALTHZ": self._healthz,
            "PROFILEZ": lambda p: {"profile": None, "error": "Profile name not specified"},
            "EXPVARZ": lambda p: {},
            "IPQUEUESZ": lambda p: {},
            "RAFTZ": lambda p: {},
        }

    # --- opening and closing ---

    def start(self) -> None:
        self.on_accounts_changed()
        loop = self.server.loop
        self._timers = [
            loop.call_later(FIRST_STATSZ_S, self._beat_statsz),
            loop.call_later(CONNS_S, self._beat_conns),
        ]

    def on_accounts_changed(self) -> None:
        """Offer the services in accounts that have none yet."""
        system = self.server.accounts.system
        for account in self.server.accounts:
            if account.name in self._subscriptions:
                continue
            offered = self._system_services() if account is system else {}
            offered |= self._services_of(account)
            found = []
            for pattern, handler in offered.items():
                sub = Subscription(None, account, pattern.encode())
                sub.handler = handler
                account.subscribe(sub)
                found.append(sub)
            self._subscriptions[account.name] = found

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self.announce(f"$SYS.SERVER.{self.server.id}.SHUTDOWN", self._server_event)

    # --- requests ---

    def _system_services(self) -> dict[str, Callable[..., object]]:
        own = self.server.id
        offered: dict[str, Callable[..., object]] = {
            "$SYS.REQ.SERVER.PING": self._on_server_request,
            "$SYS.REQ.SERVER.PING.*": self._on_server_request,
            f"$SYS.REQ.SERVER.{own}.*": self._on_server_request,
            "$SYS.REQ.ACCOUNT.*.*": self._on_account_request,
            "$SYS.DEBUG.SUBSCRIBERS": self._on_subscribers,
        }
        if self.server.options.is_operator_mode:
            from jetstream.server.claims import ClaimsServices

            offered |= ClaimsServices(self.server, self._info).services()
        return offered

    def _services_of(self, account: Account) -> dict[str, Callable[..., object]]:
        offered: dict[str, Callable[..., object]] = {"$SYS.REQ.USER.INFO": self._on_user_info}
        if account is not self.server.accounts.system:
            offered |= {
                "$SYS.REQ.SERVER.PING.CONNZ": self._own_connz,
                "$SYS.REQ.ACCOUNT.PING.CONNZ": self._own_connz,
                "$SYS.REQ.ACCOUNT.PING.STATZ": self._own_statz,
            }
        return offered

    def _on_server_request(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        """`$SYS.REQ.SERVER.PING[.X]` and `$SYS.REQ.SERVER.<id>.X`."""
        tokens = subject.decode("utf-8", "replace").split(".")
        name = tokens[4] if len(tokens) > 4 else "STATSZ"
        system = self.server.accounts.system
        if name == "IDZ":
            if self._is_meant(payload):
                server = self.server
                self._send(
                    system, reply, {"name": server.name, "host": server.host, "id": server.id}
                )
            return True
        if name == "STATSZ":
            if self._is_meant(payload):
                self._send(
                    system, reply, {"server": self._info(), "statsz": events.statsz(self.server)}
                )
            return True
        direct = tokens[3] != "PING"
        if direct and name in ("RELOAD", "KICK", "LDM"):
            return self._on_command(name, reply, payload)
        view = self._views.get(name)
        if view is None:
            return False
        self._answer(system, reply, payload, view)
        return True

    def _on_account_request(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        """`$SYS.REQ.ACCOUNT.<account>.X`; `PING` stands for all accounts."""
        _, _, _, account, name = subject.decode("utf-8", "replace").split(".")
        server, system = self.server, self.server.accounts.system
        if account == "PING":
            if name == "STATZ":
                self._answer(system, reply, payload, self._accstatz)
            elif name == "CONNZ":
                self._answer(system, reply, payload, self._views["CONNZ"])
            else:
                return False
            return True

        def connz(body: bytes) -> Any:
            asked = _asked(body, ConnzOptions)
            asked.acc = account
            return monitor_connz.connz(server, asked)

        def subsz(body: bytes) -> Any:
            asked = _asked(body, SubszOptions)
            return monitor.subsz(
                server,
                subs=True,
                offset=asked.offset,
                limit=asked.limit,
                account=account,
                test=asked.test,
            )

        def jsz(body: bytes) -> Any:
            js = server.engine.accounts.get(account) if server.engine is not None else None
            if js is None:
                raise Bad(f'account "{account}" not found')
            return monitor_js.account_info(server, js, _asked(body, JszOptions))

        def info(body: bytes) -> Any:
            found = server.accounts.find(account)
            if found is None:
                raise Bad(f"Account {account} does not exist")
            return monitor.account_detail(server, found)

        views: dict[str, Callable[[bytes], Any]] = {
            "CONNZ": connz,
            "SUBSZ": subsz,
            "JSZ": jsz,
            "INFO": info,
            "LEAFZ": lambda body: monitor.leafz(server),
            "STATZ": lambda body: monitor.accstatz(server, unused=True, accounts=[account]),
        }
        if name == "CONNS":
            known = server.accounts.find(account)
            if known is not None:
                self._send(system, reply, events.account_connections(server, known, self._next()))
            return True
        if name not in views:
            return False
        self._answer(system, reply, payload, views[name])
        return True

    def _on_command(self, name: str, reply: bytes, payload: bytes) -> object:
        server, system = self.server, self.server.accounts.system
        if name == "RELOAD":
            task = server.reload_again
            if task is None:
                self._fail(system, reply, "server was started without a configuration file")
            else:
                server.spawn(self._reload(task, reply))
            return True
        asked = _asked(payload, TargetOptions)
        wanted = asked.cid or asked.id
        connection = server.connections.get(wanted)
        if connection is None:
            self._fail(system, reply, "no such client id")
            return True
        if name == "KICK":
            connection.close(Reason.KICKED)
        else:
            info = server.info(connection, after_connect=True) | {"ldm": True}
            connection.say(b"INFO " + msgspec.json.encode(info) + b" \r\n")
        self._send(system, reply, {"server": self._info()})
        return True

    async def _reload(self, task: Any, reply: bytes) -> None:
        system = self.server.accounts.system
        problem = await task()
        if problem:
            self._fail(system, reply, problem)
        else:
            self._send(system, reply, {"server": self._info()})

    def _on_subscribers(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        """How many listen to a subject: an answer from before this service had JSON."""
        account = client.account if client is not None else self.server.accounts.system
        wanted = payload.split(b" ")[0]
        found = account.tree.match(wanted) if wanted else None
        count = len(found.plain) + sum(len(g) for g in found.groups) if found is not None else 0
        self.server.broker.publish(account, reply, str(count).encode())
        return True

    def _on_user_info(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        if client is None or not reply:
            return True
        identity, account = client.identity, client.account
        data: dict[str, Any] = {
            "user": (identity.user if identity is not None else "") or "",
            "account": account.name,
            "account_name": account.spec.name_tag or account.name,
        }
        if identity is not None:
            if identity.user_name and identity.user_name != identity.user:
                data["user_name"] = identity.user_name
            if identity.rules is not None and not identity.rules.is_open:
                data["permissions"] = _shown_rules(identity.rules)
            if identity.expires_ns:
                left = identity.expires_ns - self.server.clock.now()
                data["expires"] = left - left % SECOND
        self._send(account, reply, {"server": self._info(), "data": data})
        return True

    def _own_connz(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        if client is None:
            return True
        account = client.account

        def view(body: bytes) -> Any:
            asked = _asked(body, ConnzOptions)
            asked.acc = account.name
            return monitor_connz.connz(self.server, asked)

        self._answer(account, reply, payload, view)
        return True

    def _own_statz(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        if client is None:
            return True
        account = client.account

        def view(body: bytes) -> Any:
            return monitor.accstatz(self.server, unused=True, accounts=[account.name])

        self._answer(account, reply, payload, view)
        return True

    # --- views with options of their own ---

    def _subsz(self, payload: bytes) -> Any:
        asked = _asked(payload, SubszOptions)
        return monitor.subsz(
            self.server,
            subs=asked.subscriptions,
            offset=asked.offset,
            limit=asked.limit,
            account=asked.account,
            test=asked.test,
        )

    def _healthz(self, payload: bytes) -> Any:
        status, found = monitor_js.healthz(self.server, _asked(payload, HealthzOptions))
        return {"status": found["status"], "status_code": status} | found

    def _accstatz(self, payload: bytes) -> Any:
        asked = _asked(payload, AccstatzOptions)
        return monitor.accstatz(
            self.server, unused=asked.include_unused or not payload, accounts=asked.accounts
        )

    # --- answering ---

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    def _info(self) -> dict[str, Any]:
        return events.server_info(self.server, self._next())

    def _is_meant(self, payload: bytes) -> bool:
        """Does the filter of a request fit this server? Text matches in part, unless exact."""
        if not payload:
            return True
        try:
            wanted = msgspec.json.decode(payload, type=Filter)
        except msgspec.DecodeError:
            return True
        server = self.server

        def fits(have: str, want: str) -> bool:
            return not want or (have == want if wanted.exact_match else want in have)

        if wanted.cluster or not (
            fits(server.name, wanted.server_name)
            and fits(server.host, wanted.host)
            and (not wanted.server_id or wanted.server_id == server.id)
            and (not wanted.domain or wanted.domain == server.options.jetstream.domain)
        ):
            return False
        return all(tag in server.options.server_tags for tag in wanted.tags or ())

    def _answer(
        self, account: Account, reply: bytes, payload: bytes, view: Callable[[bytes], Any]
    ) -> None:
        if not reply or not self._is_meant(payload):
            return
        try:
            data = view(payload)
        except Bad as bad:
            code = 400 if isinstance(bad.__cause__, msgspec.DecodeError) else 500
            self._fail(account, reply, bad.text, code)
            return
        self._send(account, reply, {"server": self._info(), "data": data})

    def _fail(self, account: Account, reply: bytes, text: str, code: int = 500) -> None:
        error = {"code": code, "description": text}
        self._send(account, reply, {"server": self._info(), "data": None, "error": error})

    def _send(self, account: Account, reply: bytes, value: Any) -> None:
        if reply:
            self.server.broker.publish(account, reply, to_json(value))

    # --- events ---

    def announce(self, subject: str, make: Callable[[], Any]) -> None:
        """Publish in the system account, if anybody listens there."""
        system = self.server.accounts.system
        address = subject.encode()
        if system.has_interest(address):
            self.server.broker.publish(system, address, to_json(make()))

    def _server_event(self) -> Any:
        return {"server": self._info()}

    def on_connected(self, connection: "Connection") -> None:
        account = connection.account
        self._announce_conns(account)
        self.announce(
            f"$SYS.ACCOUNT.{account.name}.CONNECT",
            lambda: events.connected(self.server, connection, self._next()),
        )

    def on_disconnected(self, connection: "Connection") -> None:
        if not connection.connected:
            return
        account = connection.account
        self._announce_conns(account)
        self.announce(
            f"$SYS.ACCOUNT.{account.name}.DISCONNECT",
            lambda: events.disconnected(self.server, connection, self._next()),
        )

    def on_auth_error(self, connection: "Connection", refused: "AuthError") -> None:
        def event() -> Any:
            found = events.disconnected(self.server, connection, self._next())
            return found | {"reason": refused.reason}

        self.announce(f"$SYS.SERVER.{self.server.id}.CLIENT.AUTH.ERR", event)

    def on_lame_duck(self) -> None:
        self.announce(f"$SYS.SERVER.{self.server.id}.LAMEDUCK", self._server_event)

    def _announce_conns(self, account: Account) -> None:
        for subject in (
            f"$SYS.ACCOUNT.{account.name}.SERVER.CONNS",
            f"$SYS.SERVER.ACCOUNT.{account.name}.CONNS",
        ):
            self.announce(
                subject, lambda: events.account_connections(self.server, account, self._next())
            )

    def _beat_statsz(self) -> None:
        self._timers[0] = self.server.loop.call_later(STATSZ_S, self._beat_statsz)
        self.announce(
            f"$SYS.SERVER.{self.server.id}.STATSZ",
            lambda: {"server": self._info(), "statsz": events.statsz(self.server)},
        )
        self.server.wake()

    def _beat_conns(self) -> None:
        self._timers[1] = self.server.loop.call_later(CONNS_S, self._beat_conns)
        for account in {c.account for c in self.server.connections.values() if c.connected}:
            self._announce_conns(account)
        self.server.wake()


def _asked(payload: bytes, kind: type[T]) -> T:
    """The options of a request; an empty body asks for the defaults."""
    if not payload.strip():
        return kind()
    try:
        return msgspec.json.decode(payload, type=kind, strict=False)
    except msgspec.DecodeError as error:
        raise Bad(str(error)) from error


def _shown_rules(rules: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("publish", "subscribe"):
        part = getattr(rules, name)
        shown: dict[str, Any] = {}
        if part.allow is not None:
            shown["allow"] = list(part.allow)
        if part.deny:
            shown["deny"] = list(part.deny)
        if shown:
            found[name] = shown
    if rules.responses is not None:
        found["responses"] = {
            "max": rules.responses.max_msgs,
            "ttl": rules.responses.expires_ns,
        }
    return found
