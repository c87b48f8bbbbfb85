"""A server as a process: start-up lines, signals, pid and ports files, reload, the way out."""

import asyncio
import gc
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetstream.errors import JetStreamError
from jetstream.server import log as log_file
from jetstream.server.options import VERSION, ConfigError, Options
from jetstream.server.signals import GO_NAMES

if TYPE_CHECKING:
    from jetstream.server.server import Server

PAYLOAD_DISCOURAGED = 8 * 1024 * 1024
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class StartError(JetStreamError):
    """The doors could not be opened; the text is the last line of the log."""


class Process:
    """Runs one server until a signal ends it."""

    def __init__(
        self, options: Options, read_again: Callable[[], Options], log: logging.Logger
    ) -> None:
        self.options = options
        self.read_again = read_again
        self.log = log
        self.server: Server | None = None
        self._done = asyncio.Event()
        self._ports_files: list[Path] = []
        self._working: set[asyncio.Task[Any]] = set()

    async def run(self) -> int:
        """Exit code 0 after an orderly end, 1 if the start failed."""
        loop = asyncio.get_running_loop()
        from jetstream.server.server import Server

        try:
            self.server = Server(self.options, log=self.log)
        except (JetStreamError, ValueError) as error:
            sys.stderr.write(f"nats-server: {error}\n")
            return 1
        self.server.reload_again = self.reload
        self._say_hello(self.server)
        for number in SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            await self.server.start()
        except (JetStreamError, OSError) as error:
            self.log.critical("%s", error)
            return 1
        # What is here now stays: the collector need not look at it again.
        gc.freeze()
        gc.enable()
        if not self._write_files() or not await self._open_console():
            await self.server.stop()
            return 1
        waits = [
            asyncio.ensure_future(self._done.wait()),
            asyncio.ensure_future(self.server.wait_stopped()),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self.server.running:
            self.log.info("Initiating Shutdown...")
            await self.server.stop()
        self._remove_files()
        self.log.info("Server Exiting..")
        return 0

    def _say_hello(self, server: "Server") -> None:
        log = self.log
        log.info("Starting nats-server")
        log.info("  Version:  %s", VERSION)
        log.info("  Git:      [not set]")
        log.debug("  Python:   %s", sys.version.split()[0])
        log.info("  Name:     %s", server.name)
        log.info("  ID:       %s", server.id)
        if self.options.config_file:
            log.info(
                "Using configuration file: %s (%s)",
                self.options.config_file,
                self.options.config_digest,
            )
        for name in self.options.without_effect:
            log.warning("%s is known and has no effect in this server", name)
        from jetstream.server.auth import has_plaintext_passwords

        if self.options.max_payload > PAYLOAD_DISCOURAGED:
            log.warning(
                "Maximum payloads over 8.00 MB are generally discouraged "
                "and could lead to poor performance"
            )
        if has_plaintext_passwords(self.options):
            log.warning("Plaintext passwords detected, use nkeys or bcrypt")

    async def _open_console(self) -> bool:
        """The web page, if it was asked for."""
        port, server = self.options.console_port, self.server
        if not port:
            return True
        assert server is not None
        # The console stands on top of the house and is an extra: it is looked up by name.
        try:
            serve = importlib.import_module("jetstream.console.serve")
        except ImportError as error:
            self.log.critical(
                "Can't start the console: pip install 'jetstream-py[console]' (%s)", error
            )
            return False
        console = serve.ConsoleServer(server.url, port=port, needs_login=self.options.needs_auth)
        try:
            await console.start()
        except OSError as error:
            self.log.critical("Can't start the console: %s", error)
            return False
        server.services.append(console)
        self.log.info("Console on %s", console.url)
        return True

    # --- signals ---

    def _on_signal(self, number: int) -> None:
        self.log.info('Trapped "%s" signal', GO_NAMES[signal.Signals(number)])
        match number:
            case signal.SIGINT | signal.SIGTERM:
                if self._done.is_set():
                    os._exit(0)  # asked twice: do not wait any more
                self._done.set()
            case signal.SIGHUP:
                self._start(self.reload())
            case signal.SIGUSR1:
                if log_file.reopen():
                    self.log.info("File log re-opened")
                else:
                    self.log.info("File log re-open ignored, not a file logger")
            case signal.SIGUSR2:
                self._start(self._lame_duck())

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _lame_duck(self) -> None:
        assert self.server is not None
        await self.server.lame_duck()
        self._done.set()

    async def reload(self) -> str:
        """Read the file again; a mistake in it changes nothing. Returns what went wrong."""
        assert self.server is not None
        from jetstream.server.reload import ReloadError

        if not self.options.config_file:
            text = "can only reload config when a file is provided using -c or --config"
            self.log.error("Failed to reload server configuration: %s", text)
            return text
        try:
            options = self.read_again()
            from jetstream.server.options_check import check_start

            check_start(options)
            lines = await self.server.reload(options)
        except (ConfigError, ReloadError) as error:
            text = str(error).rstrip("\n")
            self.log.error("Failed to reload server configuration: %s", text)
            return text
        except Exception as problem:
            # A reload must never take the server down with it.
            self.log.error("Failed to reload server configuration", exc_info=problem)
            return repr(problem)
        self.options = options
        for line in lines:
            self.log.info("%s", line)
        log_file.set_up(options)
        self.log.info("Reloaded server configuration (%s)", options.config_digest)
        return ""

    # --- files that others look for ---

    def _write_files(self) -> bool:
        """The pid file has to be written, the ports file would only be nice."""
        options = self.options
        if options.pid_file:
            try:
                Path(options.pid_file).write_text(str(os.getpid()))
            except OSError as error:
                why = f"open {options.pid_file}: {str(error.strerror).lower()}"
                self.log.critical("Could not write pidfile: %s", why)
                return False
        if options.ports_file_dir:
            name = Path(sys.argv[0] or "nats-server").name
            import json

            text = json.dumps(self._ports(), separators=(",", ":"))
            # Test suites of NATS clients look for the reference's own name.
            for base in dict.fromkeys((name, "nats-server")):
                path = Path(options.ports_file_dir) / f"{base}_{os.getpid()}.ports"
                try:
                    path.write_text(text)
                    self._ports_files.append(path)
                except OSError as error:
                    why = f"open {path}: {str(error.strerror).lower()}"
                    self.log.error("Error writing ports file (%s): %s", path, why)
        return True

    def _ports(self) -> dict[str, list[str]]:
        server = self.server
        assert server is not None
        scheme = "tls" if self.options.tls is not None else "nats"
        found = {"nats": _urls(scheme, server.host, server.port)}
        for name, door in server.open_ports.items():
            found[name] = _urls(*door)
        return found

    def _remove_files(self) -> None:
        for path in self._ports_files:
            path.unlink(missing_ok=True)


def _urls(scheme: str, host: str, port: int) -> list[str]:
    if host in ("", "0.0.0.0", "::"):
        return [f"{scheme}://127.0.0.1:{port}", f"{scheme}://[::1]:{port}"]
    shown = f"[{host}]" if ":" in host else host
    return [f"{scheme}://{shown}:{port}"]
