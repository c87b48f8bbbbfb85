"""Help for tests, ours and our users: an in-process server, a clock to turn, a disk that fails.

`LocalServer` and `BlockingServer` are servers inside the test, `ManualClock` turns their time,
`FaultyProxy` is a bad network, `TestDisk` a bad disk. The pytest fixtures are in `plugin.py`.
"""

from typing import TYPE_CHECKING, Any

_WHERE = {
    "BlockingServer": "server",
    "LocalServer": "server",
    "TestDisk": "server",
    "ManualClock": "clock",
    "FaultyProxy": "proxy",
    "FaultyDisk": "disk",
}

if TYPE_CHECKING:
    from jetstream.testing.clock import ManualClock as ManualClock
    from jetstream.testing.disk import FaultyDisk as FaultyDisk
    from jetstream.testing.proxy import FaultyProxy as FaultyProxy
    from jetstream.testing.server import BlockingServer as BlockingServer
    from jetstream.testing.server import LocalServer as LocalServer
    from jetstream.testing.server import TestDisk as TestDisk


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _WHERE:
        raise AttributeError(f"module 'jetstream.testing' has no attribute {name!r}")
    return getattr(import_module(f"jetstream.testing.{_WHERE[name]}"), name)
