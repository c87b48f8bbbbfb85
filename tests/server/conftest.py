"""What the door's tests share: the real server, a free port, certificates."""

import shutil
import socket
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def reference_server() -> str:
    """The path of the real nats-server."""
    found = Path(sys.executable).parent / "nats-server"
    path = str(found) if found.exists() else shutil.which("nats-server")
    if path is None:
        pytest.skip("nats-server is not installed")
    return path


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
