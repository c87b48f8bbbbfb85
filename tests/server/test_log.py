"""Log lines, files that roll, files that are reopened."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetstream.server import log
from jetstream.server.options import Options


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    logger = log.logger()
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield
    for handler in logger.handlers:
        handler.close()
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_line_has_pid_time_label_and_text(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    logger = log.set_up(Options(log_file=str(path), trace=True, debug=True))
    logger.info("Server is %s", "ready")
    logger.log(log.TRACE, "t")
    logger.debug("d")
    logger.warning("w")
    logger.error("e")
    logger.critical("f")
    found = lines_of(path)
    assert re.fullmatch(
        r"\[\d+\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6} \[INF\] Server is ready", found[0]
    )
    assert [line.split("[")[2][:3] for line in found] == ["INF", "TRC", "DBG", "WRN", "ERR", "FTL"]


def test_times_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log.set_up(Options(log_file=str(path), logtime=False)).info("hello")
    assert re.fullmatch(r"\[\d+\] \[INF\] hello", lines_of(path)[0])


def test_levels(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    logger = log.set_up(Options(log_file=str(path)))
    logger.debug("no")
    logger = log.set_up(Options(log_file=str(path), trace=True))
    logger.debug("no")
    logger.log(log.TRACE, "yes")
    assert len(lines_of(path)) == 1


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log.set_up(Options(log_file=str(path), log_format="json")).error('say "%s"', "x")
    found = json.loads(lines_of(path)[0])
    assert found["level"] == "error" and found["msg"] == 'say "x"' and found["time"].endswith("Z")


def test_a_file_is_rolled_at_its_limit_and_old_ones_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    logger = log.set_up(Options(log_file=str(path), log_size_limit=200, log_max_num=3))
    for _ in range(40):
        logger.info("a line of some length")
    files = list(tmp_path.iterdir())
    assert 1 < len(files) <= 3
    assert all(file.stat().st_size < 400 for file in files)


def test_reopening_goes_on_in_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    logger = log.set_up(Options(log_file=str(path)))
    logger.info("one")
    path.rename(tmp_path / "old.log")
    logger.info("two")
    assert log.reopen()
    logger.info("three")
    assert len(lines_of(tmp_path / "old.log")) == 2 and len(lines_of(path)) == 1


def test_stderr_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up(Options()).info("to stderr")
    assert "to stderr" in capsys.readouterr().err
    assert not log.reopen()


def test_a_line_break_in_a_name_forges_no_line(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log.set_up(Options(log_file=str(path))).error('User "%s"', "a\n[1] [INF] fine\x1b[31m")
    (line,) = lines_of(path)
    assert line.endswith('User "a\\n[1] [INF] fine\\x1b[31m"')


def test_problems_keep_their_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    logger = log.set_up(Options(log_file=str(path)))
    try:
        raise ValueError("inner")
    except ValueError:
        logger.error("outer", exc_info=True)
    assert "ValueError: inner" in path.read_text()
    assert logging.getLogger(log.LOGGER) is logger
