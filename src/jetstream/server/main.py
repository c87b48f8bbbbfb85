"""`jetstream-server`: the process around a `Server`.

Reads the command line and the file, starts the server on a loop (uvloop where there is one),
answers signals, and ends with the exit codes and words that scripts around NATS servers know.
Only what every start needs is imported at the top: a server should be ready in a blink.
"""

import gc
import sys
from collections.abc import Sequence
from typing import TextIO

from jetstream.server.arguments import (
    HELP_TLS,
    USAGE,
    Arguments,
    UsageError,
    apply,
    parse_arguments,
)
from jetstream.server.options import VERSION, ConfigError, Options

PROGRAM = "nats-server"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        gc.disable()  # nothing is garbage while we start; the process switches it on again
    try:
        return _main(parse_arguments(arguments))
    except UsageError as error:
        if error.show_usage:
            _print(str(error), sys.stderr)
            _print(USAGE)
            return 0
        _print(f"{PROGRAM}: {error}", sys.stderr)
        return 1
    except ConfigError as error:
        _print(f"{PROGRAM}: {error}", sys.stderr)
        return 1


def run() -> None:
    """Entry point for scripts."""
    sys.exit(main())


def _print(text: str, stream: TextIO | None = None) -> None:
    (stream if stream is not None else sys.stdout).write(text + "\n")


def _main(arguments: Arguments) -> int:
    if arguments.get("version") or arguments.command == "version":
        _print(f"{PROGRAM}: v{VERSION}")
        return 0
    if arguments.get("help") or arguments.command == "help":
        _print(USAGE)
        return 0
    if arguments.get("help_tls"):
        _print(HELP_TLS)
        return 0
    if arguments.get("signal") is not None:
        from jetstream.server.signals import send_signal

        return send_signal(arguments.get("signal"), PROGRAM)
    config = arguments.get("config")
    if arguments.get("check"):
        if not config:
            raise UsageError(
                "must specify [-c, --config] option to check configuration file syntax"
            )
        options = read_options(arguments, pedantic=True)
        where = f"configuration file {config} is valid ({options.config_digest})"
        _print(f"{PROGRAM}: {where}", sys.stderr)
        return 0
    return serve(read_options(arguments), arguments)


def read_options(arguments: Arguments, *, pedantic: bool = False) -> Options:
    """The file, if there is one, and the flags over it."""
    config = arguments.get("config")
    options = Options()
    if config:
        from jetstream.server.options_file import read_config

        options = read_config(config, pedantic=pedantic)
    return apply(arguments, options)


def serve(options: Options, arguments: Arguments) -> int:
    """Start, wait, stop."""
    from jetstream.server.options_check import check_start

    check_start(options)
    from jetstream.server import log
    from jetstream.server.process import Process

    try:
        logger = log.set_up(options)
    except OSError as error:
        why = str(error.strerror).lower()
        _print(f"{PROGRAM}: error opening file: open {options.log_file}: {why}", sys.stderr)
        return 1
    for warning in options.warnings:
        _print(warning, sys.stderr)
    process = Process(options, lambda: read_options(arguments), logger)
    try:
        import uvloop

        return uvloop.run(process.run())
    except ImportError:
        import asyncio

        return asyncio.run(process.run())


if __name__ == "__main__":
    run()
