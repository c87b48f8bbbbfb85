"""Settings are read and refused with the words of nats-server 2.15.1.

`config_words.json` holds some 350 small files and what `nats-server -t` said about each.
"""

import json
import random
import subprocess
from pathlib import Path

import pytest

from jetstream.broker.accounts_spec import ImportSpec, service_transform, stream_transform
from jetstream.broker.permissions import ResponseRule
from jetstream.clock import MILLISECOND, MINUTE, SECOND
from jetstream.server.options import ConfigError, Options
from jetstream.server.options_check import check_start
from jetstream.server.options_file import read_config, read_config_text

WORDS: list[tuple[str, str]] = [
    tuple(row) for row in json.loads((Path(__file__).parent / "config_words.json").read_text())
]


def ours(text: str, path: Path) -> str:
    path.write_text(text)
    try:
        options = read_config(str(path), pedantic=True)
    except ConfigError as error:
        return str(error)
    return f"configuration file {path} is valid ({options.config_digest})"


def test_every_small_file_gets_the_reference_answer(tmp_path: Path) -> None:
    path = tmp_path / "x.conf"
    wrong = []
    for text, expected in WORDS:
        found = ours(text, path).replace(str(path), "FILE").rstrip("\n")
        if found != expected:
            wrong.append((text, expected, found))
    assert wrong == []


@pytest.mark.reference
def test_the_recorded_words_are_those_of_the_real_server(
    tmp_path: Path, reference_server: str
) -> None:
    path = tmp_path / "x.conf"
    for text, expected in random.Random(1).sample(WORDS, 12):
        path.write_text(text)
        answer = subprocess.run(
            [reference_server, "-t", "-c", str(path)], capture_output=True, text=True, check=False
        )
        found = answer.stderr.removeprefix("nats-server: ").rstrip("\n")
        assert found.replace(str(path), "FILE") == expected


def test_a_whole_file(tmp_path: Path) -> None:
    options = read_config_text(
        """
        listen: 127.0.0.1:4333, server_name: hub
        http: 8222
        max_payload: 2MB, ping_interval: "30s", write_deadline: "5s", debug: yes
        jetstream { store_dir: "/data", max_mem: 1G, max_file: 10G, domain: hub, sync: always
                    limits { duplicate_window: "1m", max_ack_pending: 10 } }
        websocket { listen: "0.0.0.0:9222", no_tls: true, compression: true }
        accounts {
          A { users: [ {user: a, password: a} ], jetstream: {max_mem: 1M, max_streams: 3}
              exports: [ {stream: "s.>"}, {service: "q.*", response: stream, accounts: [B]} ] }
          B { users: [ {user: b, password: b, allowed_connection_types: [websocket]} ]
              imports: [ {stream: {account: A, subject: "s.>"}, prefix: "from.a"}
                         {service: {account: A, subject: "q.*"}, to: "ask.$1"} ]
              mappings: { "x.*": [ {dest: "y.$1", weight: 20%}, {dest: "z.$1", weight: 80} ] }
              limits: { max_connections: 5 } }
        }
        system_account: B
        """.replace('"}\n                         {', '"}, {')
    )
    assert (options.host, options.port, options.http_port) == ("127.0.0.1", 4333, 8222)
    assert options.max_payload == 2 * 1024 * 1024
    assert (options.ping_interval_ns, options.write_deadline_ns) == (30 * SECOND, 5 * SECOND)
    js = options.jetstream
    assert js.enabled and js.sync_always and js.domain == "hub" and js.max_store == 10**10
    assert js.limits.duplicate_window_ns == MINUTE
    ws = options.websocket
    assert (ws.host, ws.port, ws.compression) == ("0.0.0.0", 9222, True)
    a, b = options.accounts
    assert a.jetstream is not None and a.jetstream.max_streams == 3
    assert a.exports[1].response == "Stream" and a.exports[1].accounts == ("B",)
    assert b.imports[0].to == "from.a.s.>" and b.max_connections == 5
    assert [d.weight for d in b.mappings[0].destinations] == [20, 80]
    assert [(u.user, u.account) for u in options.users] == [("a", "A"), ("b", "B")]
    assert options.users[1].allowed_connection_types == ("WEBSOCKET",)


def test_default_permissions_apply_to_users_without_their_own() -> None:
    options = read_config_text(
        "authorization { default_permissions { publish: a, allow_responses: {max: 5} }\n"
        " users: [ {user: x, password: y}, {user: z, password: y, permissions: {publish: b}} ] }"
    )
    first, second = (user.permissions for user in options.users)
    assert first is not None and first.publish.allow == ("a",)
    assert first.responses == ResponseRule(5, 2 * MINUTE)
    assert second is not None and second.publish.allow == ("b",) and second.responses is None


def test_a_number_where_a_duration_belongs_is_a_warning_only_when_running() -> None:
    assert read_config_text("ping_interval: 5").ping_interval_ns == 5 * SECOND


def test_handshake_first_words(tmp_path: Path) -> None:
    assert read_config_text("tls {handshake_first: auto}").tls is not None
    tls = read_config_text('tls {handshake_first: "300ms"}').tls
    assert tls is not None and tls.handshake_first
    assert tls.handshake_first_fallback_ns == 300 * MILLISECOND


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no_auth_user: joe", 'no_auth_user: "joe" present, but users/nkeys are not defined'),
        ("max_payload: 65MB", "cannot be higher than"),
        ('lame_duck_grace_period: "31s", lame_duck_duration: "30s"', "strictly lower"),
        ("websocket { port: -1 }", "websocket requires TLS configuration"),
        ("websocket { port: -1, no_tls: true, jwt_cookie: y }", 'via cookie "y"'),
        (
            "websocket { port: -1, no_tls: true, origins: [x] }",
            'parse "x": missing protocol scheme',
        ),
        (
            "websocket { port: -1, no_tls: true, authorization {user: a, password: b} }\n"
            "authorization { users: [ {user: x, password: y} ] }",
            "username not compatible with presence of users/nkeys",
        ),
        ("system_account: A", "error resolving system account: account missing"),
        ('jetstream { domain: "a.b" }', "invalid domain name: may not contain"),
        ('jetstream { domain: "a b" }', "is not a valid subject"),
        ("default_js_domain: {A: b}", 'references non existing account "A"'),
    ],
)
def test_what_only_a_start_refuses(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_start(read_config_text(text))


def test_cluster_settings_are_refused_with_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^:1:0: cluster is not supported.*\n$"):
        read_config_text("cluster { name: x, listen: 127.0.0.1:6222 }")


def test_passwords_do_not_show() -> None:
    options = read_config_text("authorization {users: [{user: x, password: topsecret}]}")
    assert "topsecret" not in repr(options) and "topsecret" not in repr(options.users)


def test_defaults() -> None:
    options = Options()
    assert options.auth_timeout == 2 * SECOND
    assert not options.needs_auth and not options.needs_nonce


def test_imports_become_transforms() -> None:
    service = ImportSpec("service", "A", "a.*.*", "b.$2.$1")
    assert service_transform(service) == ("b.*.*", "a.$2.$1")
    assert service_transform(ImportSpec("service", "A", "a.*", "b.*")) == ("b.*", "a.$1")
    assert stream_transform(ImportSpec("stream", "A", "a.*.>", "p.a.*.>")) == ("a.*.>", "p.a.$1.>")
