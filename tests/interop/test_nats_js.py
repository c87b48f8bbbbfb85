"""nats.js, unmodified, against our server; the conversations are in scenarios.mjs."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.servers import Ours, free_port
from tests.interop.keys import operator_mode, user_seed
from tests.server.conftest import Certificates

HERE = Path(__file__).parent
LIMIT_S = 40

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(
        shutil.which("node") is None or not (HERE / "node_modules").exists(),
        reason="no Node.js or nats.js here (make setup)",
    ),
]


def start(scenario: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["node", "scenarios.mjs", scenario, json.dumps({"timeout": 5000, **options})],
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(node: subprocess.Popen[str]) -> None:
    try:
        said, _ = node.communicate(timeout=LIMIT_S)
    finally:
        node.kill()
    assert node.returncode == 0, said


def run(scenario: str, **options: object) -> None:
    finish(start(scenario, **options))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    with Ours("-js", "-sd", str(tmp_path_factory.mktemp("store"))) as ours:
        yield ours


@pytest.mark.parametrize(
    "scenario", ["pubsub", "queue", "request", "drain", "jetstream", "kv", "obj"]
)
def test_nats_js(server: Ours, scenario: str) -> None:
    run(scenario, port=server.port)


def test_a_client_comes_back_after_a_restart() -> None:
    port = free_port()
    with Ours(port=port) as first:
        node = start("reconnect", port=port, reconnectTimeWait=50, maxReconnectAttempts=-1)
        assert node.stdout is not None
        assert node.stdout.readline() == "ready\n"
        first.stop()
        with Ours(port=port):
            finish(node)


def test_tls(certificates: Certificates) -> None:
    files = certificates
    config = f'tls {{ cert_file: "{files.server}", key_file: "{files.server_key}" }}'
    with Ours(config=config) as server:
        run("hello", port=server.port, ca=files.ca)


def test_websocket() -> None:
    port = free_port()
    config = f'websocket {{ listen: "127.0.0.1:{port}", no_tls: true, compression: true }}'
    with Ours(config=config):
        run("hello", servers=f"ws://127.0.0.1:{port}", ws=True)


def test_nkey_log_in() -> None:
    seed, public = user_seed()
    with Ours(config=f"authorization {{ users: [ {{ nkey: {public} }} ] }}") as server:
        run("hello", port=server.port, seed=seed)


def test_creds_log_in(tmp_path: Path) -> None:
    config, creds = operator_mode()
    file = tmp_path / "user.creds"
    file.write_text(creds)
    with Ours(config=config) as server:
        run("hello", port=server.port, creds=str(file))
