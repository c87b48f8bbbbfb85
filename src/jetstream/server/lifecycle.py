"""Changes in a running server: a new configuration, and leaving gently (lame duck)."""

import asyncio
from typing import TYPE_CHECKING

from jetstream.clock import SECOND
from jetstream.server.accounts import specs_of
from jetstream.server.auth import Authenticator, AuthError, Identity
from jetstream.server.closed import Reason
from jetstream.server.connection import Connection, subscription_violation
from jetstream.server.doors import connect_callout
from jetstream.server.options import Options
from jetstream.server.reload import check_reload, reload_lines

if TYPE_CHECKING:
    from jetstream.server.server import Server


async def reload(server: "Server", options: Options) -> list[str]:
    """Apply what may change; raises ReloadError, and then nothing has changed.

    Returns the lines for the log.
    """
    old = server.options
    check_reload(old, options)
    authenticator = Authenticator(options, server.clock)
    lines = reload_lines(old, options)
    server.options = options
    server.tracing = options.trace
    server.authenticator.close()
    server.authenticator = authenticator
    connect_callout(server)
    _reload_tls(server, options)
    server.config_loaded_ns = server.clock.now()
    for connection in list(server.connections.values()):
        connection.parser.control_line_max = options.max_control_line
    await accounts_changed(server)
    _drop_excess(server, options)
    server.wake()
    return lines


async def accounts_changed(server: "Server") -> None:
    """Bring accounts and the rights of connected clients in line with the options."""
    server.accounts.update(specs_of(server.options))
    if server.engine is not None:
        for account in server.accounts:
            if account.jetstream is None and account.spec.jetstream is not None:
                server.engine.enable(account)
            elif account.jetstream is not None and account.spec.jetstream is not None:
                account.jetstream.configure(account.spec.jetstream)
    for service in server.services:
        hook = getattr(service, "on_accounts_changed", None)
        if hook is not None:
            hook()
    for connection in list(server.connections.values()):
        if connection.ready:
            await _check_again(server, connection)
    server.wake()


def _reload_tls(server: "Server", options: Options) -> None:
    if options.tls is None:
        return
    for listener in server.listeners:
        renew = getattr(listener, "reload", None)
        if renew is not None:
            renew(options.tls)


async def _check_again(server: "Server", connection: Connection) -> None:
    """Somebody who would not be let in any more has to go; others get their new rights."""
    if connection.kind == "IN_PROCESS":
        return
    try:
        outcome = server.authenticator.authenticate(
            connection.connect,
            nonce=connection.nonce,
            tls_peer=connection.tls_peer,
            client_ip=connection.host,
            connection_type=connection.kind,
        )
        identity = outcome if isinstance(outcome, Identity) else await outcome
    except AuthError as refused:
        if "revoked" in refused.why:
            refused.text, refused.reason = "User Authentication Revoked", Reason.REVOKED
        server.turn_away(connection, refused)
        return
    if connection.gone:
        return
    if server.accounts.find(identity.account) is not connection.account:
        # The account is another one now: what was subscribed to belongs to the old world.
        for sub in list(connection.subscriptions.values()):
            server.broker.drop(sub)
    server.let_in(connection, identity, again=True)
    if not connection.gone:
        _drop_forbidden(server, connection)


def _drop_forbidden(server: "Server", connection: Connection) -> None:
    permissions = connection.permissions
    if permissions is None:
        return
    for sub in list(connection.subscriptions.values()):
        if permissions.can_subscribe(sub.subject, sub.queue):
            sub.filtered = permissions.has_delivery_filter and permissions.needs_filter(sub.subject)
            continue
        server.broker.drop(sub)
        text = subscription_violation(sub.subject, sub.queue)
        connection.complain(f'{text} (sid "{sub.sid.decode("utf-8", "replace")}")')


def _drop_excess(server: "Server", options: Options) -> None:
    """Fewer connections are allowed now: the youngest have to go."""
    limit = options.max_connections
    if limit < 0:
        return
    for connection in list(server.connections.values())[limit:]:
        connection.close(Reason.MAX_CONNECTIONS, "maximum connections exceeded")


async def lame_duck(server: "Server") -> None:
    """Take no new clients, tell the others, and send them away one by one."""
    if server.lame_duck_mode:
        return
    server.log.info("Entering lame duck mode, stop accepting new clients")
    server.lame_duck_mode = True
    for listener in server.listeners:
        listener.close()
    for service in server.services:
        hook = getattr(service, "on_lame_duck", None)
        if hook is not None:
            hook()
    if server.engine is not None:
        server.log.info("Initiating JetStream Shutdown...")
        server.turn()
    for connection in list(server.connections.values()):
        if connection.connected and connection.connect.protocol >= 1:
            connection.say(server.info_line(connection, after_connect=True))
    server.wake()
    options = server.options
    clients = [c for c in server.connections.values() if c.connected]
    if clients:
        await asyncio.sleep(options.lame_duck_grace_ns / SECOND)
        server.log.info("Closing existing clients")
        span_s = max(0.0, (options.lame_duck_duration_ns - options.lame_duck_grace_ns) / SECOND)
        clients = list(server.connections.values())
        gap_s = min(1.0, span_s / len(clients)) if clients else 0.0
        for number, connection in enumerate(clients):
            if not connection.gone:
                connection.close(Reason.SHUTDOWN)
            if number + 1 < len(clients):
                await asyncio.sleep(gap_s * server.random.random())
    server.log.info("Initiating Shutdown...")
    await server.stop()
