"""Every JSON answer and advisory we send fits the published schemas."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .talk import JETSTREAM, OURS, a_server

VALIDATOR = Path(__file__).parents[2] / "spec" / "schemas" / "validate.py"


@pytest.mark.timeout(90)
def test_our_answers_fit_the_schemas() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monitor = probe.getsockname()[1]
    with a_server(OURS, JETSTREAM + f'http: "127.0.0.1:{monitor}"\n') as port:
        command = [sys.executable, str(VALIDATOR), "127.0.0.1", str(port), str(monitor)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=80, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "stream_snapshot_response" in done.stdout
