"""`jetstream server …`: started through the command line, asked and checked; both servers."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import Cli
from tests.conformance.servers import Ours, Reference, ServerProcess, free_port, reference_binary

ADMIN = ("--user", "admin", "--password", "secret")
APP = ("--user", "app", "--password", "secret")
CONFIG = """
server_name: one
http: "127.0.0.1:{http}"
jetstream {{ store_dir: data }}
accounts {{
  SYS {{ users: [ {{ user: admin, password: secret }} ] }}
  APP {{ jetstream: enabled, users: [ {{ user: app, password: secret }} ] }}
}}
system_account: SYS
"""


class Running:
    def __init__(self, server: ServerProcess, http: int) -> None:
        self.cli = Cli(f"nats://127.0.0.1:{server.port}")
        self.http = f"http://127.0.0.1:{http}"


@pytest.fixture(scope="module", params=["reference", "ours"])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    if request.param == "reference" and reference_binary() is None:
        pytest.skip("nats-server is not installed")
    http = free_port()
    kind = Reference if request.param == "reference" else Ours
    with kind(config=CONFIG.format(http=http)) as server:
        yield Running(server, http)


def test_servers_answer_the_system_account(running: Running) -> None:
    cli = running.cli
    assert "rtt=" in cli.ok("server", "ping", *ADMIN).out
    listed = cli.ok("server", "ls", *ADMIN, "-j").json
    assert [each["server"]["name"] for each in listed] == ["one"]
    assert "one" in cli.ok("server", "ls", *ADMIN).out
    page = cli.ok("server", "info", *ADMIN).out
    assert page.startswith("Server information for one")
    assert "JetStream:" in page
    assert "Max Payload: 1.0 MiB" in page
    assert cli.ok("server", "info", "one", *ADMIN, "-j").json["server_name"] == "one"
    assert cli("server", "info", "two", *ADMIN).code == 1


def test_others_are_told_what_they_need(running: Running) -> None:
    done = running.cli("server", "ping", *APP)
    assert done.code == 1
    assert "system account" in done.err
    wrong = running.cli("stream", "ls", "--user", "app", "--password", "wrong")
    assert wrong.code == 1
    assert "refused us" in wrong.err
    assert "user from flag --user" in wrong.err


def test_raw_requests_and_reports(running: Running) -> None:
    cli = running.cli
    cli.ok("stream", "add", "S", "--subjects", "s", *APP)
    cli.ok("pub", "s", "x", "-J", *APP)
    assert cli.ok("server", "request", "variables", *ADMIN).json["data"]["server_name"] == "one"
    assert cli.ok("server", "req", "jsz", *ADMIN).json["data"]["streams"] == 1
    assert cli.ok("server", "request", "connections", *ADMIN).json["data"]["num_connections"] >= 1
    assert cli("server", "request", "conections", *ADMIN).code == 2
    report = cli.ok("server", "report", "connections", *ADMIN, "-j").json
    assert any(row.get("authorized_user") == "admin" for row in report)
    assert "admin" in cli.ok("server", "report", "conns", *ADMIN, "--account", "SYS").out
    js = cli.ok("server", "report", "jetstream", *ADMIN).out
    assert js.splitlines()[1].split()[:3] == ["one", "1", "0"]
    assert "APP" in cli.ok("server", "report", "accounts", *ADMIN).out
    assert "ok" in cli.ok("server", "report", "health", *ADMIN).out
    for what in ("cpu", "mem"):
        assert "one" in cli.ok("server", "report", what, *ADMIN).out
    cli.ok("stream", "rm", "S", "-f", *APP)


def test_the_http_monitor_is_a_way_without_the_system_account(running: Running) -> None:
    assert (
        "Server information for one" in running.cli.ok("server", "info", "--http", running.http).out
    )
    assert "one" not in running.cli("server", "info", "--http", "http://127.0.0.1:1").out
    assert running.cli.ok("server", "report", "jetstream", "--http", running.http).out


def test_checks_end_with_their_verdict(running: Running) -> None:
    cli = running.cli
    cli.ok("stream", "add", "C", "--subjects", "c", *APP)
    cli.ok("pub", "c", "hello", "-J", *APP)
    cli.ok("consumer", "add", "C", "work", "--pull", "--defaults", *APP)
    assert cli.ok("server", "check", "connection", *APP).out.startswith(
        "Connection OK OK:connected"
    )
    assert cli("server", "check", "stream", "--stream", "C", "--msgs-warn", "1", *APP).code == 1
    assert cli("server", "check", "stream", "--stream", "C", "--msgs-critical", "1", *APP).code == 2
    assert cli("server", "check", "stream", "--stream", "NOPE", *APP).code == 2
    done = cli(
        "server",
        "check",
        "consumer",
        "--stream",
        "C",
        "--consumer",
        "work",
        "--unprocessed-critical",
        "1",
        "--format",
        "json",
        *APP,
    )
    assert (done.code, done.json["status"]) == (2, "CRITICAL")
    words = ("server", "check", "message", "--stream", "C", "--subject", "c", "--content", "hello")
    assert cli(*words, *APP).code == 0
    assert cli(*words[:-1], "bye", *APP).code == 2
    metrics = cli.ok("server", "check", "jetstream", "--format", "prometheus", *APP).out
    assert 'nats_server_check_jetstream_status_code{item="JetStream",status="OK"} 0' in metrics
    assert cli("server", "check", "server", "--name", "one", "--js-required", *ADMIN).code == 0
    assert cli("server", "check", "request", "--subject", "nobody", *APP).code == 2
    cli.ok("kv", "add", "b", *APP)
    assert cli("server", "check", "kv", "--bucket", "b", "--key", "k", *APP).code == 2
    cli.ok("kv", "del", "b", "-f", *APP)
    cli.ok("stream", "rm", "C", "-f", *APP)


def test_events_are_shown_as_they_happen(running: Running, tmp_path: Path) -> None:
    import threading

    def busy() -> None:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "jetstream",
                "stream",
                "add",
                "E",
                "--subjects",
                "e",
                *APP,
                "-s",
                running.cli.url,
            ],
            capture_output=True,
            check=True,
        )

    worker = threading.Timer(0.7, busy)
    worker.start()
    done = running.cli.ok(
        "events", "--no-srv-advisory", "--filter", "stream_action", "--count", "1", "--short", *APP
    )
    worker.join()
    assert "[Stream Action]" in done.out
    assert "stream: E" in done.out
    running.cli.ok("stream", "rm", "E", "-f", *APP)


def test_the_command_line_starts_a_server(tmp_path: Path) -> None:
    port = free_port()
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jetstream",
            "server",
            "-js",
            "-sd",
            str(tmp_path),
            "-p",
            str(port),
            "-a",
            "127.0.0.1",
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        cli = Cli(f"nats://127.0.0.1:{port}")
        assert cli.ok("stream", "ls").out == "No Streams defined\n"
    finally:
        child.send_signal(signal.SIGINT)
        _, log = child.communicate(timeout=20)
    assert "Server is ready" in log
    assert child.returncode == 0


def test_a_stopped_servers_store_can_be_verified(tmp_path: Path) -> None:
    with Ours("-js", "-sd", str(tmp_path)) as server:
        cli = Cli(f"nats://127.0.0.1:{server.port}")
        cli.ok("stream", "add", "V", "--subjects", "v")
        cli.ok("pub", "v", "--count", "30", "x {{Count}}")
    done = cli("store", "verify", str(tmp_path))
    assert done.code == 0, done.err


@pytest.mark.parametrize("kind", [Reference, Ours])
def test_a_server_without_jetstream_says_so(kind: type[Reference] | type[Ours]) -> None:
    if kind is Reference and reference_binary() is None:
        pytest.skip("nats-server is not installed")
    with kind() as server:
        cli = Cli(f"nats://127.0.0.1:{server.port}")
        for words in (("stream", "ls"), ("stream", "info", "X"), ("kv", "ls")):
            done = cli(*words)
            assert done.code == 1
            assert "JetStream is not enabled" in done.err or "not enabled" in done.err
            assert "-js" in done.err
        assert "not supported in this account" in cli.ok("account", "info").out
        assert 'Published 2 bytes to "x"' in cli.ok("pub", "x", "hi").err
