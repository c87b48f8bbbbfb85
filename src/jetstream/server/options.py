"""Every setting of the server as a typed value, with the defaults of the reference.

The file (`options_file.py`) and the command line (`arguments.py`) fill them; the server reads them.
Durations are integer nanoseconds, sizes are bytes, -1 means unlimited unless said otherwise.
"""

from msgspec import Struct, field

from jetstream.broker.accounts_spec import AccountSpec, MappingSpec
from jetstream.broker.permissions import PermissionRules
from jetstream.clock import MINUTE, SECOND
from jetstream.errors import JetStreamError

VERSION = "2.15.1"


class ConfigError(JetStreamError):
    """The settings cannot be used; the text is what the user sees."""


DEFAULT_PORT = 4222
DEFAULT_HOST = "0.0.0.0"
RANDOM_PORT = -1
TLS_TIMEOUT_NS = 2 * SECOND
AUTH_TIMEOUT_NS = 2 * SECOND
HANDSHAKE_FIRST_FALLBACK_NS = 50_000_000
CONNECTION_TYPES = (
    "STANDARD",
    "WEBSOCKET",
    "LEAFNODE",
    "LEAFNODE_WS",
    "MQTT",
    "MQTT_WS",
    "IN_PROCESS",
)


class TlsOptions(Struct):
    """A `tls` block."""

    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    certs: list[tuple[str, str]] = []
    verify: bool = False
    verify_and_map: bool = False
    timeout_ns: int = TLS_TIMEOUT_NS
    min_version: str = "1.2"
    cipher_suites: list[str] = []
    curve_preferences: list[str] = []
    connection_rate_limit: int = 0
    pinned_certs: list[str] = []
    handshake_first: bool = False
    handshake_first_fallback_ns: int = 0  # 0: no fallback to a clear INFO
    insecure: bool = False


class UserOptions(Struct):
    """Someone who may log in: a user name and password, or an nkey."""

    user: str = ""
    password: str = ""
    nkey: str = ""
    account: str = ""  # "" is the global account
    permissions: PermissionRules | None = None
    allowed_connection_types: tuple[str, ...] = ()
    proxy_required: bool = False

    @property
    def name(self) -> str:
        return self.user or self.nkey

    def __repr__(self) -> str:
        return f"UserOptions({self.name!r})"


class CalloutOptions(Struct):
    """`auth_callout`: somebody else decides who may log in."""

    issuer: str = ""
    account: str = ""
    auth_users: list[str] = []
    xkey: str = ""
    allowed_accounts: list[str] = []


class WebsocketOptions(Struct):
    """A `websocket` block; off while `port` is 0."""

    host: str = ""
    port: int = 0
    advertise: str = ""
    no_tls: bool = False
    tls: TlsOptions | None = None
    same_origin: bool = False
    allowed_origins: list[str] = []
    handshake_timeout_ns: int = 2 * SECOND
    compression: bool = False
    username: str = ""
    password: str = ""
    token: str = ""
    auth_timeout_ns: int = 0
    no_auth_user: str = ""
    jwt_cookie: str = ""
    user_cookie: str = ""
    pass_cookie: str = ""
    token_cookie: str = ""
    headers: dict[str, str] = {}
    ping_interval_ns: int = 0


class JetStreamLimitOptions(Struct):
    """`jetstream { limits { … } }`; 0 means the built-in limit."""

    max_request_batch: int = 0
    max_ack_pending: int = 0
    max_ha_assets: int = 0
    duplicate_window_ns: int = 0
    default_max_consumers: int = 0
    batch_max_inflight_per_stream: int = 0
    batch_max_inflight_total: int = 0
    batch_max_msgs: int = 0
    batch_timeout_ns: int = 0


class JetStreamOptions(Struct):
    """A `jetstream` block."""

    enabled: bool = False
    store_dir: str = ""
    max_memory: int = -1  # -1: 75 % of what the machine has
    max_store: int = -1
    sync_interval_ns: int = 2 * MINUTE
    sync_always: bool = False
    sync_set: bool = False
    domain: str = ""
    strict: bool = True
    unique_tag: str = ""
    extension_hint: str = ""
    memory_only: bool = False  # every stream in memory, whatever it asks for
    request_queue_limit: int = 0
    info_queue_limit: int = 0
    max_buffered_msgs: int = 0
    max_buffered_size: int = 0
    max_concurrent_io: int = 0
    limits: JetStreamLimitOptions = field(default_factory=JetStreamLimitOptions)


class ResolverOptions(Struct):
    """Where account JWTs come from."""

    kind: str = "MEM"  # MEM, URL, full, cache
    url: str = ""
    directory: str = ""
    allow_delete: bool = False
    hard_delete: bool = False
    limit: int = 0
    interval_ns: int = 0
    ttl_ns: int = 0
    timeout_ns: int = 0


class Options(Struct):
    """All settings of one server."""

    # who and where
    config_file: str = ""
    config_digest: str = ""
    warnings: list[str] = []
    without_effect: list[str] = []  # settings that are known and do nothing here
    server_name: str = ""
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    client_advertise: str = ""
    server_tags: list[str] = []
    server_metadata: dict[str, str] = {}
    feature_flags: dict[str, bool] = {}
    # logging and files
    debug: bool = False
    trace: bool = False
    trace_verbose: bool = False
    trace_headers: bool = False
    logtime: bool = True
    logtime_utc: bool = False
    log_file: str = ""
    log_size_limit: int = 0
    log_max_num: int = 0
    log_format: str = "text"
    syslog: bool = False
    remote_syslog: str = ""
    max_traced_msg_len: int = 0
    pid_file: str = ""
    ports_file_dir: str = ""
    # monitoring
    http_host: str = ""
    http_port: int = 0
    https_port: int = 0
    http_base_path: str = ""
    console_port: int = 0
    # limits
    max_control_line: int = 4096
    max_payload: int = 1024 * 1024
    max_pending: int = 64 * 1024 * 1024
    max_connections: int = 65_536
    max_subscriptions: int = 0
    max_sub_tokens: int = 0
    max_closed_clients: int = 10_000
    ping_interval_ns: int = 2 * MINUTE
    ping_max: int = 2
    write_deadline_ns: int = 10 * SECOND
    write_timeout: str = "default"
    lame_duck_duration_ns: int = 2 * MINUTE
    lame_duck_grace_ns: int = 10 * SECOND
    no_header_support: bool = False
    no_fast_producer_stall: bool = False
    disable_sublist_cache: bool = False
    connect_error_reports: int = 3600
    reconnect_error_reports: int = 1
    # who may come in
    tls: TlsOptions | None = None
    allow_non_tls: bool = False
    username: str = ""
    password: str = ""
    token: str = ""
    auth_timeout_ns: int = 0  # 0: 2 s, or the TLS timeout and one second more
    users: list[UserOptions] = []
    no_auth_user: str = ""
    default_permissions: PermissionRules | None = None
    callout: CalloutOptions | None = None
    accounts: list[AccountSpec] = []
    mappings: list[MappingSpec] = []
    system_account: str = ""
    no_system_account: bool = False
    # operator mode
    operators: list[str] = []  # JWTs
    trusted_keys: list[str] = []
    resolver: ResolverOptions | None = None
    resolver_preload: dict[str, str] = {}
    resolver_pinned_accounts: list[str] = []
    default_sentinel: str = ""
    # the rest of the house
    websocket: WebsocketOptions = field(default_factory=WebsocketOptions)
    jetstream: JetStreamOptions = field(default_factory=JetStreamOptions)
    default_js_domain: dict[str, str] = {}
    ephemeral: bool = False
    dont_listen: bool = False  # embedded: clients come in-process only

    def __repr__(self) -> str:
        # Options hold passwords and end up in tracebacks.
        return f"Options(config_file={self.config_file!r}, host={self.host!r}, port={self.port})"

    @property
    def auth_timeout(self) -> int:
        """The time a client has to log in, in nanoseconds."""
        if self.auth_timeout_ns:
            return self.auth_timeout_ns
        return self.tls.timeout_ns + SECOND if self.tls is not None else AUTH_TIMEOUT_NS

    @property
    def is_operator_mode(self) -> bool:
        return bool(self.operators or self.trusted_keys)

    @property
    def needs_auth(self) -> bool:
        """True if a client has to say who it is."""
        return bool(
            self.is_operator_mode
            or self.users
            or self.username
            or self.token
            or self.callout is not None
            or (self.tls is not None and self.tls.verify_and_map)
        )

    def needs_auth_for(self, connection_type: str) -> bool:
        """The same for one kind of connection: WebSocket may have a user of its own."""
        websocket = self.websocket
        if connection_type == "WEBSOCKET" and (websocket.username or websocket.token):
            return True
        return self.needs_auth

    @property
    def needs_nonce(self) -> bool:
        """True if somebody may want to sign: then INFO carries a nonce."""
        return bool(
            self.is_operator_mode
            or self.callout is not None
            or any(user.nkey for user in self.users)
        )
