"""pytest fixtures: a JetStream server per test, in this process, within milliseconds.

    def test_my_worker(js, jetstream_server):
        js.create_stream(name="JOBS", subjects=["jobs.>"])
        …
        jetstream_server.advance(31)      # the ack wait is over
        jetstream_server.crash()          # power cut and restart

`js` is the blocking client. Async tests connect with `jetstream.connect(jetstream_server.url)`.
The fixtures come with the package (entry point `pytest11`); nothing needs to be configured.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jetstream.testing.server import BlockingServer


@pytest.fixture
def jetstream_server() -> "Iterator[BlockingServer]":
    """A server for this test alone, its store on a disk in memory that can crash."""
    from jetstream.testing.server import BlockingServer

    with BlockingServer(disk="memory") as server:
        yield server


@pytest.fixture
def nats_connection(jetstream_server: "BlockingServer") -> Iterator[Any]:
    """A blocking connection to `jetstream_server`."""
    with jetstream_server.connect() as connection:
        yield connection


@pytest.fixture
def js(nats_connection: Any) -> Any:
    """The JetStream of a blocking connection to `jetstream_server`."""
    return nats_connection.jetstream()
