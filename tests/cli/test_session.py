"""The examples of the seeds as one scripted session, with the same results on both servers."""

from pathlib import Path

import pytest

from tests.cli.runner import Cli, plain
from tests.conformance.servers import ServerProcess

LOGS = """{
  "name": "LOGS", "subjects": ["logs.>"], "retention": "limits", "max_consumers": -1,
  "max_msgs": -1, "max_bytes": -1, "max_age": 86400000000000, "max_msg_size": -1,
  "storage": "file", "num_replicas": 1
}"""
TAIL = """{
  "stream_name": "LOGS",
  "config": {
    "delivery_subject": "out.tail", "durable_name": "TAIL",
    "start_time": "0001-01-01T00:00:00Z", "deliver_all": true, "ack_policy": "none",
    "max_deliver": -1, "replay_policy": "instant"
  }
}"""

# Each line: the words, and what stdin holds.
SESSION: list[tuple[list[str], str]] = [
    (["stream", "info"], ""),
    (["stream", "ls"], ""),
    (["stream", "add", "ORDERS", "--subjects", "orders.*"], ""),
    (["stream", "ls", "-j"], ""),
    (["pub", "orders.us", "--count=3", "--sleep=1ms", "US Order #  {{Count}}"], ""),
    (["pub", "orders.eu", "-J", "-H", "Kind:test", "EU Order"], ""),
    (["pub", "orders.eu", "-J", "--expect-last-seq", "99", "EU Order"], ""),
    (["pub", "nobody.listens", "-J", "x"], ""),
    (["stream", "state", "ORDERS"], ""),
    (["stream", "subjects", "ORDERS"], ""),
    (["stream", "get", "ORDERS", "2"], ""),
    (["stream", "get", "ORDERS", "-S", "orders.eu"], ""),
    (["stream", "get", "ORDERS", "77"], ""),
    (["stream", "view", "ORDERS", "--raw"], ""),
    (["stream", "view", "ORDERS", "--subject", "orders.eu", "-j"], ""),
    (["consumer", "add", "ORDERS", "my-consumer-1", "--pull", "--defaults"], ""),
    (["consumers", "ls", "ORDERS"], ""),
    (["consumer", "next", "ORDERS", "my-consumer-1", "--count", "2"], ""),
    (["consumer", "next", "ORDERS", "my-consumer-1", "--no-ack", "-r"], ""),
    (["consumer", "info", "ORDERS", "my-consumer-1"], ""),
    (["consumer", "report", "ORDERS"], ""),
    (["consumer", "edit", "ORDERS", "my-consumer-1", "--max-deliver", "7", "-f"], ""),
    (["consumer", "edit", "ORDERS", "my-consumer-1", "--max-deliver", "7", "--dry-run"], ""),
    (["consumer", "pause", "ORDERS", "my-consumer-1", "1h", "-f", "-q"], ""),
    (["consumer", "resume", "ORDERS", "my-consumer-1", "-f"], ""),
    (["consumer", "info", "ORDERS", "my-consumr-1"], ""),
    (["consumer", "rm", "ORDERS", "my-consumer-1", "-f"], ""),
    (["consumer", "ls", "ORDERS"], ""),
    (["stream", "rmm", "ORDERS", "2", "-f"], ""),
    (["stream", "gaps", "ORDERS"], ""),
    (["stream", "purge", "ORDERS", "--keep", "1", "-f"], ""),
    (["stream", "find", "--empty"], ""),
    (["stream", "report"], ""),
    (["stream", "add", "OTHER", "--subjects", "orders.us"], ""),
    (["stream", "add", "ORDERS", "--subjects", "other"], ""),
    (["stream", "info", "ORDER"], ""),
    (["stream", "rm", "ORDERS", "-f"], ""),
    (["req", "$JS.API.STREAM.CREATE.LOGS", "-r"], LOGS),
    (["stream", "edit", "LOGS", "--max-bytes", "10GB", "-f"], ""),
    (["stream", "edit", "LOGS", "--max-bytes", "10GB", "-f"], ""),
    (["stream", "info", "LOGS", "-j"], ""),
    (["con", "add", "LOGS", "--config", "-"], TAIL),
    (["con", "ls", "LOGS", "-n"], ""),
    (["kv", "add", "profiles", "--history", "5"], ""),
    (["kv", "put", "profiles", "sue.color", "blue"], ""),
    (["kv", "put", "profiles", "sue.color"], "green"),
    (["kv", "get", "profiles", "sue.color"], ""),
    (["kv", "get", "profiles", "sue.color", "--raw", "--revision", "1"], ""),
    (["kv", "create", "profiles", "sue.color", "purple"], ""),
    (["kv", "update", "profiles", "sue.color", "red", "2"], ""),
    (["kv", "history", "profiles", "sue.color"], ""),
    (["kv", "ls", "profiles"], ""),
    (["kv", "del", "profiles", "sue.color", "-f"], ""),
    (["kv", "get", "profiles", "sue.color"], ""),
    (["kv", "watch", "profiles", "--count", "1"], ""),
    (["kv", "info", "profiles"], ""),
    (["kv", "del", "profiles", "-f"], ""),
    (["object", "add", "configs"], ""),
    (["object", "put", "configs", "--name", "config-1"], "first config"),
    (["object", "get", "configs", "config-1", "-O", "-"], ""),
    (["object", "ls", "configs"], ""),
    (["object", "info", "configs", "config-1"], ""),
    (["object", "get", "configs", "config-2", "-O", "-"], ""),
    (["object", "del", "configs", "config-1", "-f"], ""),
    (["object", "del", "configs", "-f"], ""),
    (["stream", "rm", "LOGS", "-f"], ""),
    (["stream", "ls"], ""),
]


def tidy(text: str) -> str:
    kept = [
        line
        for line in plain(text).splitlines()
        if not any(word in line for word in ("_nats.ver", "_nats.level", "Published"))
    ]
    return "\n".join(kept)


def play(server: ServerProcess, home: Path) -> list[str]:
    cli = Cli(f"nats://127.0.0.1:{server.port}", str(home))
    told = []
    for words, stdin in SESSION:
        done = cli(*words, stdin=stdin)
        told.append(
            f"$ jetstream {' '.join(words)}\n[{done.code}]\n{tidy(done.out)}\n{tidy(done.err)}"
        )
    return told


@pytest.mark.reference
def test_the_seeds_session_goes_the_same_way_on_both_servers(
    reference: ServerProcess, ours: ServerProcess, tmp_path: Path
) -> None:
    expected = play(reference, tmp_path / "a")
    actual = play(ours, tmp_path / "b")
    for there, here in zip(expected, actual, strict=True):
        assert here == there


def test_every_line_of_the_session_ends_as_it_should(cli: Cli) -> None:
    """Which of them fail, and only those."""
    failing = {
        "stream info",
        "pub orders.eu -J --expect-last-seq 99 EU Order",
        "pub nobody.listens -J x",
        "stream get ORDERS 77",
        "consumer info ORDERS my-consumr-1",
        "stream add OTHER --subjects orders.us",
        "stream add ORDERS --subjects other",
        "stream info ORDER",
        "kv create profiles sue.color purple",
        "object get configs config-2 -O -",
    }
    codes: dict[str, list[tuple[int, str]]] = {}
    for words, stdin in SESSION:
        done = cli(*words, stdin=stdin)
        codes.setdefault(" ".join(words), []).append((done.code, done.err))
    wrong = {
        line: ends
        for line, ends in codes.items()
        if (ends[0][0] != 0) != (line in failing) and "kv get profiles sue.color" not in line
    }
    assert not wrong
