"""The command line: flags → values, then values over the file's options.

Flags work as those of Go programs do: one dash or two, `-flag value` or `-flag=value`, and a
boolean flag takes its value only after `=`. The first bare word ends the flags.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from jetstream.errors import JetStreamError
from jetstream.server.options import Options, TlsOptions

USAGE = """
Usage: jetstream-server [flags]          (every flag takes one dash or two)

Server
  -a, --addr, --net HOST       address to listen on (0.0.0.0)
  -p, --port PORT              port for clients (4222; -1 takes a free one)
  -n, --name, --server_name N  name of this server
  -P, --pid FILE               write the process id here
  -m, --http_port PORT         monitoring over HTTP
  -ms, --https_port PORT       monitoring over HTTPS
  -c, --config FILE            read settings from a file; flags win over it
  -t                           check the file and stop
  -sl, --signal SIG[=PID]      tell a running server: stop quit term reopen reload ldm
      --client_advertise H:P   address that clients are told
      --ports_file_dir DIR     write the ports that were taken into a file in DIR
Log
  -l, --log FILE               log into a file instead of stderr
  -T, --logtime                times in front of lines (true)
      --logtime_utc            in UTC
  -s, --syslog                 log to syslog
  -r, --remote_syslog ADDR     log to a syslog server (udp://localhost:514)
  -D, --debug                  more to read
  -V, --trace                  every protocol line; -VV also those of the system account
  -DV, -DVV                    both
      --log_size_limit BYTES   roll the log file at this size
      --max_traced_msg_len N   cut traced messages
      --log-format text|json   one line of text, or one JSON object, per event
JetStream
  -js, --jetstream             keep streams
  -sd, --store_dir DIR         where to keep them
      --memory                 keep every stream in memory only
      --ephemeral              keep them in a directory that goes away with the server
      --console [PORT]         a web page to look at the server (8280)
Who may come in
      --user NAME, --pass PW   one user
      --auth TOKEN             one token
TLS
      --tls                    require TLS
      --tlscert FILE           certificate of this server
      --tlskey FILE            its key
      --tlsverify              require certificates of clients
      --tlscacert FILE         who signs those
Others
  -h, --help                   this text
  -v, --version                the version of NATS that this server speaks
      --help_tls               how to set up TLS
"""

HELP_TLS = """
TLS from the command line needs a certificate and its key:

  jetstream-server --tls --tlscert server-cert.pem --tlskey server-key.pem

Clients have to show a certificate of their own, signed by the given authority, with:

  jetstream-server --tlsverify --tlscert … --tlskey … --tlscacert ca.pem

Everything else (cipher suites, versions, handshake_first, pinned_certs, mapping certificates to
users) is set in the `tls` block of the configuration file.
"""

CONSOLE_PORT = 8280
_TRUE = {"1", "t", "T", "true", "TRUE", "True"}
_FALSE = {"0", "f", "F", "false", "FALSE", "False"}


class UsageError(JetStreamError):
    """The command line cannot be understood. `show_usage`: the list of flags helps."""

    def __init__(self, text: str, *, show_usage: bool = False) -> None:
        super().__init__(text)
        self.show_usage = show_usage


class Arguments(Struct):
    """What the command line said; None = nothing."""

    values: dict[str, Any] = {}
    command: str = ""

    def get(self, name: str) -> Any:
        return self.values.get(name)


_TEXT = {
    **dict.fromkeys(("a", "addr", "net"), "host"),
    **dict.fromkeys(("n", "name", "server_name"), "server_name"),
    **dict.fromkeys(("P", "pid"), "pid_file"),
    **dict.fromkeys(("c", "config"), "config"),
    **dict.fromkeys(("sl", "signal"), "signal"),
    **dict.fromkeys(("l", "log"), "log_file"),
    **dict.fromkeys(("r", "remote_syslog"), "remote_syslog"),
    **dict.fromkeys(("sd", "store_dir"), "store_dir"),
    "client_advertise": "client_advertise",
    "ports_file_dir": "ports_file_dir",
    **dict.fromkeys(("log-format", "log_format"), "log_format"),
    "user": "user",
    "pass": "pass",
    "auth": "auth",
    "tlscert": "tlscert",
    "tlskey": "tlskey",
    "tlscacert": "tlscacert",
    "routes": "routes",
    **dict.fromkeys(("cluster", "cluster_listen"), "cluster"),
    "cluster_name": "cluster_name",
    "cluster_advertise": "cluster_advertise",
}
_NUMBER = {
    **dict.fromkeys(("p", "port"), "port"),
    **dict.fromkeys(("m", "http_port"), "http_port"),
    **dict.fromkeys(("ms", "https_port"), "https_port"),
    "profile": "profile",
    "log_size_limit": "log_size_limit",
    "max_traced_msg_len": "max_traced_msg_len",
    "connect_retries": "connect_retries",
}
_FLAG = {
    "t": "check",
    **dict.fromkeys(("T", "logtime"), "logtime"),
    "logtime_utc": "logtime_utc",
    **dict.fromkeys(("s", "syslog"), "syslog"),
    **dict.fromkeys(("D", "debug"), "debug"),
    **dict.fromkeys(("V", "trace"), "trace"),
    "VV": "trace_verbose",
    "DV": "debug_trace",
    "DVV": "debug_trace_verbose",
    **dict.fromkeys(("js", "jetstream"), "jetstream"),
    "memory": "memory",
    "ephemeral": "ephemeral",
    "tls": "tls",
    "tlsverify": "tlsverify",
    "no_advertise": "no_advertise",
    **dict.fromkeys(("h", "help"), "help"),
    **dict.fromkeys(("v", "version"), "version"),
    "help_tls": "help_tls",
}


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Raises UsageError."""
    found = Arguments()
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            words.insert(0, word)
            break
        body = word[2:] if word.startswith("--") else word[1:]
        if not body or body[0] in "-=":
            raise UsageError(f"bad flag syntax: {word}", show_usage=True)
        name, equals, value = body.partition("=")
        _take(found, name, value if equals else None, words)
    _take_command(found, words)
    return found


def _take(found: Arguments, name: str, value: str | None, words: list[str]) -> None:
    if name == "console":
        if value is None and words and words[0].lstrip("-").isdigit():
            value = words.pop(0)
        found.values["console"] = _number(name, value) if value else CONSOLE_PORT
        return
    if name in _FLAG:
        if value is not None and value not in _TRUE and value not in _FALSE:
            text = f'invalid boolean value "{value}" for -{name}: parse error'
            raise UsageError(text, show_usage=True)
        found.values[_FLAG[name]] = value is None or value in _TRUE
        return
    convert: Callable[[str, str], Any]
    if name in _TEXT:
        key, convert = _TEXT[name], _text
    elif name in _NUMBER:
        key, convert = _NUMBER[name], _number
    else:
        raise UsageError(f"flag provided but not defined: -{name}", show_usage=True)
    if value is None:
        if not words:
            raise UsageError(f"flag needs an argument: -{name}", show_usage=True)
        value = words.pop(0)
    found.values[key] = convert(name, value)


def _text(name: str, value: str) -> str:
    return value


def _number(name: str, value: str) -> int:
    try:
        return int(value, 0)
    except ValueError:
        text = f'invalid value "{value}" for flag -{name}: parse error'
        raise UsageError(text, show_usage=True) from None


def _take_command(found: Arguments, words: list[str]) -> None:
    """Bare words: `version` and `help` are commands, anything else a mistake."""
    if not words:
        return
    word = words[0].lower()
    if word not in ("version", "help"):
        raise UsageError(f'unrecognized command: "{words[0]}"')
    found.command = word


def apply(arguments: Arguments, options: Options) -> Options:
    """Flags beat the file. Raises UsageError."""
    values = arguments.values
    for key in ("cluster", "routes", "cluster_name", "cluster_advertise", "no_advertise"):
        if values.get(key):
            raise UsageError(f"--{key} is not supported: this server runs alone")
    for key in _SAME_NAME:
        if key in values:
            setattr(options, key, values[key])
    if values.get("trace_verbose"):
        options.trace = True
    if values.get("debug_trace") or values.get("debug_trace_verbose"):
        options.debug = options.trace = True
    if values.get("debug_trace_verbose"):
        options.trace_verbose = True
    if "jetstream" in values:
        options.jetstream.enabled = values["jetstream"]
    if "store_dir" in values:
        options.jetstream.store_dir = values["store_dir"]
    if values.get("memory"):
        # What little reaches the disk (metadata of nothing) goes away with the server too.
        options.jetstream.memory_only = options.jetstream.enabled = options.ephemeral = True
    if values.get("ephemeral"):
        options.ephemeral = options.jetstream.enabled = True
    if "console" in values:
        options.console_port = values["console"]
    if options.log_format not in ("text", "json"):
        raise UsageError(f'log format "{options.log_format}" is neither text nor json')
    _apply_authorization(values, options)
    _apply_tls(values, options)
    return options


_SAME_NAME = (
    "host",
    "port",
    "server_name",
    "pid_file",
    "http_port",
    "https_port",
    "client_advertise",
    "ports_file_dir",
    "log_file",
    "log_format",
    "remote_syslog",
    "log_size_limit",
    "max_traced_msg_len",
    "logtime",
    "logtime_utc",
    "syslog",
    "debug",
    "trace",
    "trace_verbose",
)


def _apply_authorization(values: dict[str, Any], options: Options) -> None:
    if not any(key in values for key in ("user", "pass", "auth")):
        return
    # A user or token on the command line replaces whatever the file says about log-ins.
    if "auth" in values:
        options.token = values["auth"]
        options.username = options.password = ""
    if "user" in values:
        options.username = values["user"]
    if "pass" in values:
        options.password = values["pass"]
    options.users = [user for user in options.users if user.account]


def _apply_tls(values: dict[str, Any], options: Options) -> None:
    names = ("tls", "tlsverify", "tlscert", "tlskey", "tlscacert")
    if not any(values.get(name) for name in names):
        return
    tls = options.tls if options.tls is not None else TlsOptions()
    tls.cert_file = values.get("tlscert") or tls.cert_file
    tls.key_file = values.get("tlskey") or tls.key_file
    tls.ca_file = values.get("tlscacert") or tls.ca_file
    tls.verify = values.get("tlsverify") or tls.verify
    if not (tls.cert_file or tls.certs):
        raise UsageError("TLS Server certificate must be present and valid")
    if not (tls.key_file or tls.certs):
        raise UsageError("TLS Server private key must be present and valid")
    from jetstream.server.tls import TlsError, server_context

    try:
        server_context(tls)
    except TlsError as error:
        raise UsageError(str(error)) from None
    options.tls = tls
