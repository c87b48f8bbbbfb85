"""Servers for the command line's tests: the real one and ours, each started once per module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import Cli
from tests.conformance.servers import Ours, Reference, ServerProcess, reference_binary


@pytest.fixture(scope="module")
def ours() -> Iterator[ServerProcess]:
    with Ours("-js", "-sd", "data") as server:
        yield server


@pytest.fixture(scope="module")
def reference() -> Iterator[ServerProcess]:
    if reference_binary() is None:
        pytest.skip("nats-server is not installed")
    with Reference("-js", "-sd", "data") as server:
        yield server


@pytest.fixture(scope="module", params=["reference", "ours"])
def server(request: pytest.FixtureRequest) -> ServerProcess:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, ServerProcess)
    return found


@pytest.fixture
def cli(server: ServerProcess, tmp_path: Path) -> Cli:
    """The command line against each of the two servers in turn."""
    return Cli(f"nats://127.0.0.1:{server.port}", str(tmp_path / "config"))


@pytest.fixture
def alone(tmp_path: Path) -> Cli:
    """The command line without a server."""
    return Cli(config_home=str(tmp_path / "config"))
