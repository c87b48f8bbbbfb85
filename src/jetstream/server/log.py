"""The server's log: the line format that operators and test suites of NATS know.

    [4711] 2026/11/15 17:56:39.232712 [INF] Server is ready

Lines go to stderr or to a file that is reopened on SIGUSR1 and rolled at a size limit; with
`log_format: json` each line is an object. Everything logs through the logger `jetstream.server`.
"""

import logging
import os
import sys
import time
from pathlib import Path
from typing import TextIO

from jetstream.server.options import Options

TRACE = 5
FATAL = logging.CRITICAL
LOGGER = "jetstream.server"
_LABELS = {
    TRACE: "TRC",
    logging.DEBUG: "DBG",
    logging.INFO: "INF",
    logging.WARNING: "WRN",
    logging.ERROR: "ERR",
    logging.CRITICAL: "FTL",
}
_WORDS = {
    "TRC": "trace",
    "DBG": "debug",
    "INF": "info",
    "WRN": "warn",
    "ERR": "error",
    "FTL": "fatal",
}


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127) if code != 9}
_CONTROLS |= {10: "\\n", 13: "\\r"}


class LineFormat(logging.Formatter):
    """`[pid] time [LVL] text`, or the same facts as JSON."""

    def __init__(self, *, times: bool = True, utc: bool = False, as_json: bool = False) -> None:
        super().__init__()
        self.times = times
        self.clock = time.gmtime if utc else time.localtime
        self.as_json = as_json
        self.pid = os.getpid()

    def format(self, record: logging.LogRecord) -> str:
        # Names come from clients: a line break in one must not forge a line of ours.
        text = record.getMessage().translate(_CONTROLS)
        if record.exc_info and record.exc_info[0] is not None:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        label = _LABELS.get(record.levelno, "INF")
        if self.as_json:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            micros = int(record.created % 1 * 1_000_000)
            facts = {
                "time": f"{stamp}.{micros:06d}Z",
                "level": _WORDS[label],
                "pid": self.pid,
                "msg": text,
            }
            import json

            return json.dumps(facts, ensure_ascii=False)
        if not self.times:
            return f"[{self.pid}] [{label}] {text}"
        stamp = time.strftime("%Y/%m/%d %H:%M:%S", self.clock(record.created))
        micros = int(record.created % 1 * 1_000_000)
        return f"[{self.pid}] {stamp}.{micros:06d} [{label}] {text}"


class LogFile(logging.Handler):
    """A file that can be reopened and is rolled when it grows over `size_limit` bytes."""

    def __init__(self, path: str, size_limit: int = 0, keep: int = 0) -> None:
        super().__init__()
        self.path = Path(path)
        self.size_limit = size_limit
        self.keep = keep
        self._file: TextIO = self._open()
        self._size = self._file.tell()

    def _open(self) -> TextIO:
        return self.path.open("a", encoding="utf-8", errors="backslashreplace")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
            self._file.write(line)
            self._file.flush()
            self._size += len(line)
            if 0 < self.size_limit < self._size:
                self._roll()
        except (OSError, ValueError):
            # A full disk must not take the server down; there is nobody to tell either.
            self.handleError(record)

    def _roll(self) -> None:
        """Put the full file aside under its time and go on with a new one."""
        self._file.close()
        stamp = time.strftime("%Y.%m.%d.%H.%M.%S") + f".{time.time_ns() % 10**9:09d}"
        self.path.rename(self.path.with_name(f"{self.path.name}.{stamp}"))
        self._file = self._open()
        self._size = 0
        if self.keep > 1:
            old = sorted(self.path.parent.glob(f"{self.path.name}.[0-9]*"))
            for extra in old[: max(0, len(old) - (self.keep - 1))]:
                extra.unlink(missing_ok=True)

    def reopen(self) -> None:
        """Somebody moved the file away: write to a new one under the old name."""
        self._file.close()
        self._file = self._open()
        self._size = self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


class _Stderr(logging.StreamHandler[TextIO]):
    """Looks stderr up for every line, so that a captured one is used."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)


def logger() -> logging.Logger:
    return logging.getLogger(LOGGER)


def set_up(options: Options) -> logging.Logger:
    """Log as the options say; called again on reload."""
    log = logger()
    for old in list(log.handlers):
        log.removeHandler(old)
        old.close()
    handler: logging.Handler
    if options.log_file:
        handler = LogFile(options.log_file, options.log_size_limit, options.log_max_num)
    elif options.syslog or options.remote_syslog:
        handler = _syslog(options.remote_syslog)
    else:
        handler = _Stderr()
    handler.setFormatter(
        LineFormat(
            times=options.logtime and not options.syslog,
            utc=options.logtime_utc,
            as_json=options.log_format == "json",
        )
    )
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(TRACE if options.trace else logging.DEBUG if options.debug else logging.INFO)
    if options.trace and not options.debug:
        handler.addFilter(lambda record: record.levelno != logging.DEBUG)
    return log


def _syslog(remote: str) -> logging.Handler:
    from logging.handlers import SysLogHandler
    from urllib.parse import urlsplit

    if not remote:
        return SysLogHandler("/dev/log")
    where = urlsplit(remote if "://" in remote else f"udp://{remote}")
    return SysLogHandler((where.hostname or "localhost", where.port or 514))


def reopen() -> bool:
    """Reopen the log file; False when the log is not a file."""
    files = [handler for handler in logger().handlers if isinstance(handler, LogFile)]
    for handler in files:
        handler.reopen()
    return bool(files)
