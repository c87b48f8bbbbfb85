"""What a check of the file lets pass and a start does not."""

from jetstream.broker.accounts_spec import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT
from jetstream.schema.times import go_duration
from jetstream.server.options import ConfigError, Options
from jetstream.subjects.tokens import is_valid_subject


def check_start(options: Options) -> None:
    """Raise ConfigError, in the reference's words, for settings that do not go together."""
    _check_users(options)
    _check_limits(options)
    _check_accounts(options)
    _check_domain(options)
    if options.websocket.port:
        _check_websocket(options)


def _check_users(options: Options) -> None:
    users = {user.name for user in options.users}
    for who in (options.no_auth_user, options.websocket.no_auth_user):
        if not who or options.is_operator_mode:
            continue
        if not users:
            raise ConfigError(f'no_auth_user: "{who}" present, but users/nkeys are not defined')
        if who not in users:
            raise ConfigError(
                f'no_auth_user: "{who}" not present as user or nkey in authorization block '
                "or account configuration"
            )


def _check_limits(options: Options) -> None:
    if options.max_payload > options.max_pending:
        raise ConfigError(
            f"max_payload ({options.max_payload}) cannot be higher than "
            f"max_pending ({options.max_pending})"
        )
    if options.lame_duck_grace_ns >= options.lame_duck_duration_ns:
        grace, duration = options.lame_duck_grace_ns, options.lame_duck_duration_ns
        raise ConfigError(
            f"lame duck grace period ({go_duration(grace)}) should be strictly lower than "
            f"lame duck duration ({go_duration(duration)})"
        )


def _check_accounts(options: Options) -> None:
    names = {spec.name for spec in options.accounts} | {GLOBAL_ACCOUNT, SYSTEM_ACCOUNT}
    if options.system_account and options.system_account not in names:
        raise ConfigError("error resolving system account: account missing")
    if options.is_operator_mode:
        return
    for name in options.default_js_domain:
        if name not in names:
            raise ConfigError(
                "in non operator mode, `default_js_domain` references non existing account "
                f'"{name}"'
            )


def _check_domain(options: Options) -> None:
    domain = options.jetstream.domain
    if any(mark in domain for mark in ".*>"):
        raise ConfigError("invalid domain name: may not contain ., * or >")
    if domain and not is_valid_subject(f"$JS.{domain}.API.>"):
        raise ConfigError(
            f'invalid domain name: derived "$JS.{domain}.API.>" is not a valid subject'
        )


def _check_websocket(options: Options) -> None:
    from urllib.parse import urlsplit

    websocket = options.websocket
    if not websocket.no_tls and websocket.tls is None:
        raise ConfigError("websocket requires TLS configuration")
    for origin in websocket.allowed_origins:
        if not urlsplit(origin).scheme:
            raise ConfigError(
                f'unable to parse allowed origin: parse "{origin}": missing protocol scheme'
            )
    for what, value in (("username", websocket.username), ("token", websocket.token)):
        if value and options.users:
            raise ConfigError(
                f"websocket authentication {what} not compatible with presence of users/nkeys"
            )
    if websocket.jwt_cookie and not options.is_operator_mode:
        raise ConfigError(
            "trusted operators or trusted keys configuration is required for JWT authentication "
            f'via cookie "{websocket.jwt_cookie}"'
        )
