"""Where a command connects to and how: flags, then environment, then context, then defaults.

Every value remembers where it came from, because the first question after "connection refused" is
which of the four places named that server.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jetstream.cli.contexts import Context, ContextStore

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_TIMEOUT_NS = 5_000_000_000
FORMATS = ("table", "plain", "json", "jsonl", "yaml", "csv", "tsv", "md", "markdown")


class Flag(NamedTuple):
    """One global flag: its spellings, its environment variable, its key in a context."""

    name: str
    names: tuple[str, ...]
    help: str
    metavar: str = "TEXT"
    env: str = ""
    context_key: str = ""
    switch: bool = False
    hidden: bool = False


GLOBAL_FLAGS: tuple[Flag, ...] = (
    Flag("server", ("-s", "--server"), "servers to connect to", "URLS", "URL", "url"),
    Flag("user", ("--user",), "user name, or a token", "USER", "USER", "user"),
    Flag("password", ("--password",), "password", "PASS", "PASSWORD", "password"),
    Flag("token", ("--token",), "token", "TOKEN", "TOKEN", "token"),
    Flag("creds", ("--creds",), "user credentials file", "FILE", "CREDS", "creds"),
    Flag("nkey", ("--nkey",), "nkey seed file", "FILE", "NKEY", "nkey"),
    Flag("jwt", ("--jwt",), "user JWT", "JWT", "JWT", "user_jwt", hidden=True),
    Flag("seed", ("--seed",), "user seed", "SEED", "SEED", "user_seed", hidden=True),
    Flag("tlscert", ("--tlscert",), "TLS client certificate", "FILE", "CERT", "cert"),
    Flag("tlskey", ("--tlskey",), "TLS private key", "FILE", "KEY", "key"),
    Flag("tlsca", ("--tlsca",), "TLS certificate authorities", "FILE", "CA", "ca"),
    Flag(
        "tlsfirst",
        ("--tlsfirst", "--tls-first"),
        "TLS before the server speaks",
        context_key="tls_first",
        switch=True,
    ),
    Flag("timeout", ("--timeout",), "time allowed for answers (5s)", "DURATION", "TIMEOUT"),
    Flag(
        "js_domain",
        ("--js-domain", "--domain"),
        "JetStream domain",
        "DOMAIN",
        context_key="jetstream_domain",
    ),
    Flag(
        "js_api_prefix",
        ("--js-api-prefix",),
        "JetStream API prefix",
        "PREFIX",
        context_key="jetstream_api_prefix",
        hidden=True,
    ),
    Flag(
        "js_event_prefix",
        ("--js-event-prefix",),
        "JetStream advisory prefix",
        "PREFIX",
        context_key="jetstream_event_prefix",
        hidden=True,
    ),
    Flag(
        "inbox_prefix",
        ("--inbox-prefix",),
        "prefix of reply subjects",
        "PREFIX",
        context_key="inbox_prefix",
        hidden=True,
    ),
    Flag("connection_name", ("--connection-name",), "name of the connection", "NAME", hidden=True),
    Flag("context", ("--context",), "saved context to use", "NAME", "CONTEXT"),
    Flag("no_context", ("--no-context",), "ignore the selected context", switch=True),
    Flag("colors", ("--colors",), "colour of borders", "NAME", "COLOR", "color_scheme"),
    Flag("trace", ("--trace",), "show every API request and answer", switch=True),
    Flag("yes", ("-y", "--yes"), "answer every confirmation with yes", switch=True, env="YES"),
    Flag("no_input", ("--no-input",), "never ask, fail instead", switch=True, env="NO_INPUT"),
    Flag(
        "output",
        ("-o", "--output"),
        "table, json, jsonl, yaml, csv, tsv or md",
        "FORMAT",
        "TABLE_FORMAT",
    ),
    Flag("json", ("-j", "--json"), "the server's own JSON", switch=True),
    Flag("quiet", ("-q", "--quiet"), "only the result", switch=True),
)


class Settings:
    """The answers, each with its origin."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origin: dict[str, str] = {}
        self.context: Context | None = None

    def __getattr__(self, name: str) -> Any:
        return self.values.get(name)

    @property
    def url(self) -> str:
        return str(self.values.get("server") or DEFAULT_URL)

    @property
    def url_origin(self) -> str:
        return self.origin.get("server", "the default")

    @property
    def timeout(self) -> float:
        """Seconds to wait for answers."""
        from jetstream.cli.values import parse_duration

        text = self.values.get("timeout")
        return (parse_duration(str(text)) if text else DEFAULT_TIMEOUT_NS) / 1e9

    @property
    def api_prefix(self) -> str:
        if prefix := self.values.get("js_api_prefix"):
            return str(prefix).rstrip(".")
        if domain := self.values.get("js_domain"):
            return f"$JS.{domain}.API"
        return "$JS.API"

    @property
    def event_prefix(self) -> str:
        return str(self.values.get("js_event_prefix") or "$JS.EVENT").rstrip(".")

    @property
    def credential_origin(self) -> str:
        """Which credential was used and who gave it, in words for a hint."""
        for name in ("creds", "nkey", "jwt", "token", "user"):
            if self.values.get(name):
                return f"{name} from {self.origin[name]}"
        return "no credentials"


def resolve(
    flags: Mapping[str, Any],
    env: Mapping[str, str] | None = None,
    store: ContextStore | None = None,
) -> Settings:
    """Flag, environment (JETSTREAM_ before NATS_), context, default: the first that speaks."""
    env = os.environ if env is None else env
    made = Settings()
    for flag in GLOBAL_FLAGS:
        if flag.name in flags:
            _put(made, flag.name, flags[flag.name], f"flag {flag.names[-1]}")
        elif flag.env:
            for prefix in ("JETSTREAM_", "NATS_"):
                if value := env.get(prefix + flag.env):
                    _put(made, flag.name, value, f"environment {prefix}{flag.env}")
                    break
    if not made.no_context:
        # Loaded here, so that `--help` does not pay for it.
        from jetstream.cli.contexts import ContextStore

        _from_context(made, store or ContextStore.default(env))
    return made


def _from_context(made: Settings, store: ContextStore) -> None:
    name = made.context_name
    chosen = store.load(str(name)) if name else store.selected()
    if chosen is None:
        return
    made.context = chosen
    for flag in GLOBAL_FLAGS:
        if flag.context_key and flag.name not in made.values:
            value = chosen.value(flag.context_key)
            if value:
                _put(made, flag.name, value, f"context {chosen.name}")


def _put(made: Settings, name: str, value: Any, origin: str) -> None:
    # `context` is also the loaded object, so its name is kept under another word.
    key = "context_name" if name == "context" else name
    made.values[key] = value
    made.origin[name] = origin
