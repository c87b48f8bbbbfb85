"""What a reload accepts and what it answers; words of nats-server 2.15.1."""

import pytest

from jetstream.server.options_file import read_config_text
from jetstream.server.reload import ReloadError, check_reload, reload_lines

ALWAYS = ["Reloaded: authorization users", "Reloaded: accounts"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("port: 14320", "port: 14321", "Port: old=14320, new=14321"),
        ("", "server_name: x", "ServerName: old=, new=x"),
        ("", "max_pending: 1MB", "MaxPending: old=67108864, new=1048576"),
        ("", "max_subscriptions: 5", "MaxSubs: old=0, new=5"),
        ("", "max_sub_tokens: 4", "MaxSubTokens: old=0, new=4"),
        ("", "http_port: 1", "HTTPPort: old=0, new=1"),
        ("", 'http_base_path: "/x"', "HTTPBasePath: old=, new=/x"),
        ("", 'lame_duck_duration: "31s"', "LameDuckDuration: old=2m0s, new=31s"),
        ("", 'lame_duck_grace_period: "5s"', "LameDuckGracePeriod: old=10s, new=5s"),
        ("", "no_header_support: true", "NoHeaderSupport: old=false, new=true"),
        ("", "disable_sublist_cache: true", "NoSublistCache: old=false, new=true"),
        ("", "max_closed_clients: 5", "MaxClosedClients: old=10000, new=5"),
        ("", "write_timeout: retry", "WriteTimeout: old=, new=retry"),
        ("", "allow_non_tls: true", "AllowNonTLS: old=false, new=true"),
        ("", "logfile_size_limit: 400", "LogSizeLimit: old=0, new=400"),
        ("", "system_account: A, accounts {A {}}", "SystemAccount: old=, new=A"),
        ('jetstream {store_dir: "a"}', 'jetstream {store_dir: "b"}', "jetstream storage directory"),
        (
            'jetstream {store_dir: "a"}',
            'jetstream {store_dir: "a", max_mem: 1G}',
            "jetstream dynamic max memory and store",
        ),
    ],
)
def test_what_needs_a_restart(old: str, new: str, words: str) -> None:
    with pytest.raises(ReloadError) as caught:
        check_reload(read_config_text(old), read_config_text(new))
    assert str(caught.value) == f"config reload not supported for {words}"


@pytest.mark.parametrize(
    ("new", "lines"),
    [
        ("", ALWAYS),
        ("debug: true", ["Reloaded: debug = true", *ALWAYS]),
        ("max_connections: 5", ["Reloaded: max_connections = 5", *ALWAYS]),
        ("max_payload: 2MB", [*ALWAYS, "Reloaded: max_payload = 2097152"]),
        ("max_control_line: 8k", [*ALWAYS, "Reloaded: max_control_line = 8000"]),
        ('ping_interval: "1s"', [*ALWAYS, "Reloaded: ping_interval = 1s"]),
        ("ping_max: 5", [*ALWAYS, "Reloaded: ping_max = 5"]),
        ('write_deadline: "5s"', [*ALWAYS, "Reloaded: write_deadline = 5s"]),
        ("authorization {token: a}", [*ALWAYS, "Reloaded: authorization token"]),
        ("server_tags: [a]", [*ALWAYS, "Reloaded: tags"]),
        (
            "no_fast_producer_stall: true",
            [*ALWAYS, "Reloaded: fast producers will not be stalled"],
        ),
    ],
)
def test_what_applies_and_what_the_log_says(new: str, lines: list[str]) -> None:
    old, options = read_config_text(""), read_config_text(new)
    check_reload(old, options)
    assert reload_lines(old, options) == lines


def test_a_random_port_stays() -> None:
    check_reload(read_config_text("port: -1"), read_config_text("port: -1"))
