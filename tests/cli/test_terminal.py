"""Prompts in a pseudo-terminal: their order, their defaults, saying no, and Ctrl-C."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.cli.runner import Cli
from tests.conformance.servers import ServerProcess

ENTER = "\r"


@pytest.fixture(scope="module")
def server(ours: ServerProcess) -> ServerProcess:
    """What is asked does not depend on the server, so one is enough here."""
    return ours


@pytest.fixture
def env(server: ServerProcess, tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NATS_", "JETSTREAM_"))}
    return kept | {
        "NATS_URL": f"nats://127.0.0.1:{server.port}",
        "XDG_CONFIG_HOME": str(tmp_path),
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "TERM": "xterm",
        "NO_COLOR": "1",
    }


@contextmanager
def typing_in(env: dict[str, str], *words: str) -> Iterator[Any]:
    """A person at `jetstream WORDS`."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "jetstream", *words],
        env=env,
        timeout=20,
        dimensions=(40, 120),
        encoding="utf-8",
    )
    try:
        yield child
    finally:
        child.close(force=True)


def answer(child: Any, question: str, text: str = "") -> None:
    child.expect_exact(question)
    child.send(text + ENTER)


def finish(child: Any) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus)


def test_stream_add_asks_in_the_usual_order(env: dict[str, str], cli: Cli) -> None:
    with typing_in(env, "stream", "add") as child:
        answer(child, "Stream Name", "ASKED")
        answer(child, "Subjects", "asked.> other.*")
        answer(child, "Storage")
        answer(child, "Replication")
        answer(child, "Retention Policy")
        answer(child, "Discard Policy")
        answer(child, "Stream Messages Limit", "1000")
        answer(child, "Per Subject Messages Limit")
        answer(child, "Total Stream Size", "1MB")
        answer(child, "Message TTL", "1d")
        answer(child, "Max Message Size")
        answer(child, "Duplicate tracking time window")
        answer(child, "Allow message Roll-ups", "n")
        answer(child, "Allow message deletion", "y")
        answer(child, "Allow purging subjects or the entire stream", "y")
        child.expect_exact("Stream ASKED was created")
        assert finish(child) == 0
    config = cli.ok("stream", "info", "ASKED", "-j").json["config"]
    assert config["subjects"] == ["asked.>", "other.*"]
    assert (config["max_msgs"], config["max_bytes"]) == (1000, 1 << 20)
    assert config["max_age"] == 86_400 * 10**9
    assert config["storage"] == "file"
    cli.ok("stream", "rm", "ASKED", "-f")


def test_a_flag_takes_its_question_away_and_a_wrong_answer_is_asked_again(
    env: dict[str, str], cli: Cli
) -> None:
    flags = [
        "--subjects",
        "x.>",
        "--storage",
        "memory",
        "--replicas",
        "1",
        "--retention",
        "limits",
        "--discard",
        "old",
        "--max-msgs=-1",
        "--max-msgs-per-subject=-1",
        "--max-bytes=-1",
        "--max-msg-size=-1",
        "--dupe-window",
        "2m",
        "--no-allow-rollup",
        "--no-deny-delete",
        "--no-deny-purge",
    ]
    with typing_in(env, "stream", "add", "FLAGGED", *flags) as child:
        answer(child, "Message TTL", "soon")
        child.expect_exact("invalid duration")
        answer(child, "Message TTL", "?")
        child.expect_exact("--max-age")
        answer(child, "Message TTL")
        child.expect_exact("Stream FLAGGED was created")
        assert finish(child) == 0
    cli.ok("stream", "rm", "FLAGGED", "-f")


def test_removing_asks_and_no_means_no(env: dict[str, str], cli: Cli) -> None:
    cli.ok("stream", "add", "KEEP", "--subjects", "keep")
    with typing_in(env, "stream", "rm", "KEEP") as child:
        answer(child, "Really delete Stream KEEP", "n")
        assert finish(child) == 1
    assert "KEEP" in cli.ok("stream", "ls", "-n").lines
    with typing_in(env, "stream", "rm", "KEEP") as child:
        answer(child, "Really delete Stream KEEP", "y")
        assert finish(child) == 0
    assert "KEEP" not in cli.ok("stream", "ls", "-n").lines


def test_a_missing_name_offers_a_list(env: dict[str, str], cli: Cli) -> None:
    for name in ("ONE", "TWO"):
        cli.ok("stream", "add", name, "--subjects", name.lower())
    with typing_in(env, "stream", "info") as child:
        child.expect_exact("Select a Stream")
        child.expect_exact("TWO")
        child.send("\x1b[B" + ENTER)
        child.expect_exact("Information for Stream TWO")
        assert finish(child) == 0
    for name in ("ONE", "TWO"):
        cli.ok("stream", "rm", name, "-f")


def test_editing_shows_the_difference_then_asks(env: dict[str, str], cli: Cli) -> None:
    cli.ok("stream", "add", "EDIT", "--subjects", "edit")
    with typing_in(env, "stream", "edit", "EDIT", "--max-bytes", "10GB") as child:
        child.expect_exact("Differences (-old +new):")
        child.expect_exact("10 GiB")
        answer(child, "Really edit Stream EDIT", "y")
        child.expect_exact("Stream EDIT was updated")
        child.expect(r"Maximum Bytes: 10 GiB")
        assert finish(child) == 0
    cli.ok("stream", "rm", "EDIT", "-f")


def test_consumer_add_asks_in_the_usual_order(env: dict[str, str], cli: Cli) -> None:
    cli.ok("stream", "add", "CONS", "--subjects", "cons.>")
    with typing_in(env, "consumer", "add", "CONS") as child:
        answer(child, "Consumer name", "work")
        answer(child, "Delivery target (empty for Pull Consumers)")
        answer(child, "Start policy")
        answer(child, "Acknowledgment policy")
        answer(child, "Replay policy")
        answer(child, "Filter Stream by subjects")
        answer(child, "Maximum Allowed Deliveries", "5")
        answer(child, "Maximum Acknowledgments Pending")
        answer(child, "Deliver headers only without bodies", "n")
        answer(child, "Add a Retry Backoff Policy", "n")
        child.expect_exact("Information for Consumer CONS > work")
        assert finish(child) == 0
    config = cli.ok("consumer", "info", "CONS", "work", "-j").json["config"]
    assert (config["ack_policy"], config["max_deliver"]) == ("explicit", 5)
    cli.ok("stream", "rm", "CONS", "-f")


def test_the_walk_of_2019_has_the_same_questions_and_answers(env: dict[str, str], cli: Cli) -> None:
    with typing_in(env, "jsm", "add") as child:
        child.expect_exact("Enter the following information")
        answer(child, "Name: ", "wc")
        answer(child, "Subjects: ", "*")
        answer(child, "Limits (msgs, bytes, age): ")
        answer(child, "Storage: ", "file")
        child.expect_exact('Received response of "+OK"')
        assert finish(child) == 0
    for i in range(1, 6):
        cli.ok("pub", str(i), "hello")
    assert cli.ok("jsm", "info", "wc").out.splitlines()[1] == "Messages: 5"
    assert "1) wc" in cli.ok("jsm", "ls").out
    with typing_in(env, "jsm", "add-obs") as child:
        answer(child, "Message Set Name: ", "wc")
        answer(child, "Durable Name: ", "p1")
        answer(child, "Push or Pull: ", "pull")
        answer(child, "Deliver All? (Y|n): ")
        answer(child, "Replay Policy (Instant|original): ")
        child.expect_exact('Received response of "+OK"')
        assert finish(child) == 0
    with typing_in(env, "jsm", "next", "wc", "p1") as child:
        child.expect_exact("Received response of hello")
        child.expect_exact("Reply: $JS.ACK.")
        answer(child, "Ack? (Y|n)")
        assert finish(child) == 0
    shown = cli.ok("jsm", "info-obs", "wc", "p1").out
    assert shown.startswith("Received response of {")
    assert '"SetSeq": 2' in shown
    assert cli.ok("jsm", "rm-obs", "wc", "p1").out == 'Received response of "+OK"\n'
    assert cli.ok("jsm", "rm", "wc").out == 'Received response of "+OK"\n'


def test_without_a_terminal_nothing_is_asked(cli: Cli) -> None:
    cli.ok("stream", "add", "QUIET", "--subjects", "quiet")
    done = cli("stream", "rm", "QUIET")
    assert done.code == 2
    assert "no terminal to ask on" in done.err
    cli.ok("stream", "rm", "QUIET", "--yes")


def test_ctrl_c_ends_an_endless_publish_with_a_summary(env: dict[str, str]) -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jetstream",
            "pub",
            "orders.us",
            "--count=-1",
            "--sleep=20ms",
            "US Order # {{Count}} at {{TimeStamp}}",
        ],
        env=env,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    first = child.stderr.readline()
    assert 'bytes to "orders.us"' in first
    child.send_signal(signal.SIGINT)
    _, rest = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "Published" in rest


def test_a_reader_that_goes_away_is_no_error(env: dict[str, str], cli: Cli) -> None:
    line = f"{sys.executable} -m jetstream errors ls | head -1"
    done = subprocess.run(line, shell=True, env=env, capture_output=True, text=True, check=True)
    assert "NATS Code" in done.stdout
    assert done.stderr == ""


def test_the_live_screen_shows_streams_and_quits(env: dict[str, str], cli: Cli) -> None:
    cli.ok("stream", "add", "LIVE", "--subjects", "live")
    with typing_in(env, "top", "-d", "0.3") as child:
        child.expect_exact("LIVE")
        child.send("2")
        child.expect_exact("Unprocessed")
        child.send("q")
        assert finish(child) == 0
    assert "LIVE" in cli.ok("top").out
    cli.ok("stream", "rm", "LIVE", "-f")
