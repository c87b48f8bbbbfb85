"""What the log says when JetStream starts: its limits and where it keeps things."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from jetstream.errors import JetStreamError
from jetstream.schema.times import go_duration

if TYPE_CHECKING:
    from jetstream.server.server import Server

API_LEVEL = 5


class StorageError(JetStreamError):
    """JetStream cannot use its directory; the text is the last line of the log."""


def friendly_bytes(size: float) -> str:
    """`17.65 GB`: powers of 1024, two decimals above bytes."""
    if size < 1024:
        return f"{int(size)} B"
    units = ("KB", "MB", "GB", "TB", "PB", "EB")
    for unit in units:
        size /= 1024
        if size < 1024 or unit == units[-1]:
            break
    return f"{size:.2f} {unit}"


class JetStreamStart:
    """Around the start of the engine: check the place, then tell about it."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self._began = time.monotonic_ns()

    def check(self) -> None:
        """Raise StorageError if the store directory is not one."""
        self.server.log.info("Starting JetStream")
        configured = self.server.options.jetstream.store_dir
        for place in (Path(configured), Path(configured) / "jetstream") if configured else ():
            if place.exists() and not place.is_dir():
                raise StorageError("Can't start JetStream: storage directory is not a directory")
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                why = f"mkdir {place}: {str(error.strerror).lower()}"
                raise StorageError(
                    f"Can't start JetStream: could not create storage directory - {why}"
                ) from None
        system = self.server.accounts.system
        if system.spec is not None and system.spec.jetstream is not None:
            raise StorageError("Not allowed to enable JetStream on the system account")

    def tell(self) -> None:
        from jetstream.server import monitor_js

        server, log = self.server, self.server.log
        options, config = server.options.jetstream, monitor_js.config(self.server)
        log.info("---------------- JETSTREAM ----------------")
        log.info("  Strict:          %s", "true" if options.strict else "false")
        log.info("  Max Memory:      %s", friendly_bytes(config["max_memory"]))
        log.info("  Max Storage:     %s", friendly_bytes(config["max_storage"]))
        log.info('  Store Directory: "%s"', config["store_dir"])
        if options.domain:
            log.info("  Domain:          %s", options.domain)
        log.info("  API Level:       %d", API_LEVEL)
        log.info("-------------------------------------------")
        assert server.engine is not None
        for js in server.engine.accounts.values():
            if not js.streams:
                continue
            log.info("  Streams of account %r:", js.name)
            for asset in js.sorted_streams():
                store = asset.store
                log.info(
                    "    %s: %d messages, %s, %d consumers",
                    asset.name,
                    store.msgs,
                    friendly_bytes(store.bytes),
                    len(asset.consumers),
                )
        took = time.monotonic_ns() - self._began
        log.info("Took %s to start JetStream", go_duration(took - took % 1000))
