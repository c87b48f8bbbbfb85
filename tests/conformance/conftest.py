"""Both servers, once per test session: scenarios use streams of their own names."""

from collections.abc import Iterator

import pytest

from .talk import JETSTREAM, OURS, REFERENCE, a_server


@pytest.fixture(scope="session")
def peers() -> Iterator[tuple[int, int]]:
    """Ports of (the reference, ours)."""
    if not REFERENCE.exists():
        pytest.skip("nats-server is not installed")
    with a_server([str(REFERENCE)], JETSTREAM) as reference, a_server(OURS, JETSTREAM) as ours:
        yield reference, ours
