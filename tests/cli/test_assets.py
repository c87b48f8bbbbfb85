"""Streams, consumers, buckets through whole commands, against both servers."""

from pathlib import Path

import pytest

from tests.cli.runner import Cli
from tests.conformance.servers import ServerProcess

FILE = """
streams:
  - name: ORDERS
    subjects: [orders.*]
    max_age: 7d
    consumers:
      - name: work
        ack_wait: 30s
kv:
  - bucket: profiles
    history: 5
objects:
  - bucket: files
"""


def clean(cli: Cli) -> None:
    for name in cli.ok("stream", "ls", "-n", "-a").lines:
        if not name.startswith("No "):
            cli.ok("stream", "rm", name, "-f")


def test_apply_is_idempotent_and_sees_drift(cli: Cli, tmp_path: Path) -> None:
    clean(cli)
    file = tmp_path / "streams.yaml"
    file.write_text(FILE)
    planned = cli("plan", "-f", str(file))
    assert planned.code == 1
    assert "4 to create" in planned.out
    assert "Applied 4 changes" in cli.ok("apply", "-f", str(tmp_path)).out
    again = cli.ok("apply", "-f", str(file))
    assert "No changes" in again.out
    assert cli.ok("plan", str(file)).code == 0
    cli.ok("stream", "edit", "ORDERS", "--max-age", "1d", "-f")
    drift = cli("diff", str(file))
    assert drift.code == 1
    assert "168h0m0s" in drift.out
    cli.ok("apply", str(file))
    cli.ok("stream", "add", "EXTRA", "--subjects", "extra")
    assert "EXTRA" in cli.ok("plan", str(file)).err
    assert cli("apply", str(file), "--prune").code == 2  # removing needs a confirmation
    cli.ok("apply", str(file), "--prune", "--yes")
    assert cli.ok("stream", "ls", "-n").lines == ["ORDERS"]
    exported = cli.ok("export").out
    (tmp_path / "again.yaml").write_text(exported)
    assert "No changes" in cli.ok("apply", str(tmp_path / "again.yaml")).out
    clean(cli)


def test_a_stream_survives_the_round_trip_through_a_file(cli: Cli, tmp_path: Path) -> None:
    clean(cli)
    file = tmp_path / "LOGS.json"
    cli.ok("stream", "add", "LOGS", "--subjects", "logs.>", "--max-age", "1d")
    before = cli.ok("stream", "info", "LOGS", "-j").out
    file.write_text(before)
    cli.ok("stream", "rm", "LOGS", "-f")
    cli.ok("stream", "add", "--config", str(file))
    assert "No difference" in cli.ok("stream", "edit", "LOGS", "--config", str(file)).out
    assert cli("stream", "edit", "LOGS", "--max-age", "2d", "--dry-run").code == 1
    assert (
        cli.ok("stream", "add", "X", "--subjects", "x", "--validate").out
        == "Configuration is valid\n"
    )
    cli.ok("stream", "add", "X", "--subjects", "x", "--output", str(tmp_path / "x.json"))
    assert (tmp_path / "x.json").exists()
    assert cli.ok("stream", "ls", "-j").json == ["LOGS"]
    clean(cli)


def test_a_backup_comes_back_with_messages_and_consumers(cli: Cli, tmp_path: Path) -> None:
    clean(cli)
    cli.ok("stream", "add", "SAVE", "--subjects", "save.*")
    cli.ok("pub", "save.a", "--count", "50", "message {{Count}}")
    cli.ok("consumer", "add", "SAVE", "work", "--pull", "--defaults")
    cli.ok("consumer", "next", "SAVE", "work", "--count", "3", "-r")
    done = cli.ok("stream", "backup", "SAVE", str(tmp_path / "b"))
    assert "Received" in done.out
    assert {p.name for p in (tmp_path / "b").iterdir()} == {"backup.json", "stream.tar.s2"}
    refused = cli("stream", "restore", str(tmp_path / "b"))
    assert refused.code == 1
    assert "exists already" in refused.err
    cli.ok("stream", "rm", "SAVE", "-f")
    assert "Restored stream 'SAVE'" in cli.ok("stream", "restore", str(tmp_path / "b")).out
    assert cli.ok("stream", "state", "SAVE", "-j").json["messages"] == 50
    info = cli.ok("consumer", "info", "SAVE", "work", "-j").json
    assert info["ack_floor"]["stream_seq"] == 3
    cli.ok("account", "backup", str(tmp_path / "all"))
    cli.ok("stream", "rm", "SAVE", "-f")
    assert "Restored SAVE: 50 messages" in cli.ok("account", "restore", str(tmp_path / "all")).out
    clean(cli)


def test_copying_takes_the_messages_along_when_asked(cli: Cli) -> None:
    clean(cli)
    cli.ok("stream", "add", "SRC", "--subjects", "src.*")
    cli.ok("pub", "src.a", "--count", "10", "{{Count}}")
    cli.ok("stream", "cp", "SRC", "DST", "--subjects", "dst.>", "--data")
    assert cli.ok("stream", "subjects", "DST", "-j").json == {"dst.src.a": 10}
    clean(cli)


def test_reading_a_stream_with_sub(cli: Cli) -> None:
    clean(cli)
    cli.ok("stream", "add", "S", "--subjects", "s.*")
    cli.ok("pub", "s.a", "--count", "3", "-H", "K:{{Count}}", "body {{Count}}")
    lines = cli.ok("sub", "--stream", "S", "--all", "-T", "-r").lines
    assert lines == ["body 1", "body 2", "body 3"]
    done = cli.ok("sub", "s.*", "--last", "-T")
    assert "Received JetStream message: stream: S seq: 3" in done.out
    assert "K: 3" in done.out
    assert (
        cli.ok("sub", "s.*", "--start-sequence", "2", "-T", "-j")
        .lines[0]
        .startswith('{"subject": "s.a", "seq": 2')
    )
    assert cli.ok("sub", "--stream", "S", "-T", "--format", "%s=%v\\n").lines[0] == "s.a=body 1"
    cli.ok("consumer", "add", "S", "c", "--pull", "--defaults")
    assert cli.ok("consumer", "sub", "S", "c", "--count", "2", "-r").lines == ["body 1", "body 2"]
    assert cli.ok(
        "sub", "--stream", "S", "--durable", "c", "--count", "1", "-r", "--ack"
    ).lines == ["body 3"]
    push = cli.ok("consumer", "add", "S", "p", "--target", "out.p", "--ack", "none")
    assert "Delivery Subject: out.p" in push.out
    refused = cli("consumer", "next", "S", "p")
    assert "is a push consumer" in refused.err
    clean(cli)


def test_consumer_conveniences(cli: Cli) -> None:
    clean(cli)
    cli.ok("stream", "add", "S", "--subjects", "s.*")
    cli.ok("consumer", "add", "S", "a", "--pull", "--filter", "s.x", "--defaults")
    assert "stream is empty" in cli.ok("consumer", "explain", "S", "a").out
    none = cli("consumer", "next", "S", "a", "--timeout", "200ms")
    assert none.code == 1
    assert "no message is available" in none.err
    cli.ok("consumer", "copy", "S", "a", "b", "--filter", "s.y")
    assert cli.ok("consumer", "info", "S", "b", "-j").json["config"]["filter_subject"] == "s.y"
    assert cli.ok("consumer", "find", "S", "--pull", "-n").lines == ["a", "b"]
    cli.ok("pub", "s.x", "--count", "2", "hi")
    cli.ok("consumer", "next", "S", "a", "--term")
    cli.ok("consumer", "next", "S", "a", "--nak")
    assert cli.ok("consumer", "state", "S", "a", "-j").json["num_redelivered"] >= 0
    cli.ok("consumer", "reset", "S", "a", "-f")
    twice = cli("consumer", "add", "S", "a", "--pull", "--filter", "s.z", "--defaults")
    assert twice.code == 1
    assert "Differences (-old +new):" in twice.out
    clean(cli)


def test_buckets_and_objects_beyond_the_session(cli: Cli, tmp_path: Path) -> None:
    clean(cli)
    cli.ok("kv", "add", "b", "--history", "3", "--ttl", "1h", "--description", "d")
    for value in ("1", "2"):
        cli.ok("kv", "put", "b", "k", value)
    cli.ok("kv", "revert", "b", "k", "1", "-f")
    assert cli.ok("kv", "get", "b", "k", "--raw").out == "1"
    assert cli.ok("kv", "get", "b", "k", "-j").json["revision"] == 3
    cli.ok("kv", "dump", "b", str(tmp_path / "b.json"))
    cli.ok("kv", "add", "c")
    cli.ok("kv", "load", "c", str(tmp_path / "b.json"))
    assert cli.ok("kv", "get", "c", "k", "--raw").out == "1"
    cli.ok("kv", "edit", "b", "--history", "7")
    assert "History Kept: 7" in cli.ok("kv", "info", "b").out
    assert set(cli.ok("kv", "ls", "-n").lines) == {"b", "c"}
    cli.ok("kv", "purge", "b", "k", "-f")
    cli.ok("kv", "compact", "b", "-f")
    blob = bytes(range(256)) * 2000
    (tmp_path / "blob").write_bytes(blob)
    cli.ok("object", "add", "files")
    cli.ok("object", "put", "files", str(tmp_path / "blob"), "--name", "a/b ü")
    cli.ok("object", "get", "files", "a/b ü", "-O", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == blob
    assert cli.ok("object", "ls", "files", "-n").lines == ["a/b ü"]
    assert (
        "PUT files > a/b ü: 512,000 bytes" in cli.ok("object", "watch", "files", "--count", "1").out
    )
    cli.ok("object", "seal", "files", "-f")
    assert cli("object", "put", "files", "--name", "x", stdin="x").code == 1
    clean(cli)


def test_requests_and_errors_as_people_meet_them(cli: Cli) -> None:
    clean(cli)
    assert (
        '"type":"io.nats.jetstream.api.v1.account_info_response"'
        in cli.ok("req", "$JS.API.INFO", "", "-r").out
    )
    nobody = cli("req", "nobody.here", "hi")
    assert nobody.code == 1
    assert "No responders are available" in nobody.err
    cli.ok("stream", "add", "FULL", "--subjects", "full", "--max-msgs", "1", "--discard", "new")
    cli.ok("pub", "full", "-J", "one")
    full = cli("pub", "full", "-J", "two")
    assert full.code == 1
    assert "maximum messages exceeded (503, 10077)" in full.err
    assert "purge" in full.err
    traced = cli.ok("stream", "ls", "--trace")
    assert ">>> $JS.API.STREAM.LIST" in traced.err
    assert "<<< {" in traced.err
    no_domain = cli("stream", "ls", "--js-domain", "nowhere")
    assert "JetStream is not enabled" in no_domain.err
    assert cli.ok("rtt", "2").out.startswith("nats://127.0.0.1")
    assert "Connected URL" in cli.ok("account", "info").out
    assert cli.ok("doctor", "-j").json
    clean(cli)


def test_tables_come_in_other_clothes(cli: Cli) -> None:
    clean(cli)
    cli.ok("stream", "add", "T", "--subjects", "t")
    assert cli.ok("stream", "ls", "-o", "csv").lines[0].startswith("Name,Description,Created")
    assert "╔" not in cli.ok("stream", "report", "--output", "table", NATS_COLOR="double").out
    assert cli.ok("stream", "ls", "-o", "md").lines[1].startswith("| ---")
    assert cli.ok("stream", "info", "T", "-o", "yaml").out.startswith("config:\n")
    assert cli.ok("stream", "ls", NATS_TABLE_FORMAT="tsv").lines[0].split("\t")[0] == "Name"
    clean(cli)


def test_quick_benchmarks_run(cli: Cli, tmp_path: Path) -> None:
    clean(cli)
    csv = str(tmp_path / "b.csv")
    assert "msgs/sec" in cli.ok("bench", "pub", "b", "--msgs", "2000", "--no-progress").out
    assert (
        "msgs/sec"
        in cli.ok(
            "bench",
            "js",
            "pub",
            "async",
            "b",
            "--create",
            "--msgs",
            "1000",
            "--csv",
            csv,
            "--no-progress",
        ).out
    )
    assert (
        "P99.9"
        in cli.ok(
            "bench", "js", "pub", "sync", "b", "--msgs", "20", "--clients", "2", "--no-progress"
        ).out
    )
    assert (
        cli.ok("bench", "js", "fetch", "--msgs", "500", "-j", "--no-progress").json["msgs"] == 500
    )
    for kind in ("consume", "ordered"):
        assert (
            cli.ok("bench", "js", kind, "--msgs", "200", "-j", "--no-progress").json["msgs"] == 200
        )
    assert cli.ok("bench", "kv", "put", "--msgs", "20", "-j", "--no-progress").json["msgs"] == 20
    assert cli.ok("bench", "kv", "get", "--msgs", "20", "-j", "--no-progress").json["msgs"] == 20
    assert len(Path(csv).read_text().splitlines()) == 2
    clean(cli)


@pytest.mark.reference
def test_a_backup_of_one_server_is_restored_on_the_other(
    reference: ServerProcess, ours: ServerProcess, tmp_path: Path
) -> None:
    there, here = (Cli(f"nats://127.0.0.1:{each.port}") for each in (reference, ours))
    for i, (source, target) in enumerate(((there, here), (here, there))):
        clean(source)
        clean(target)
        source.ok("stream", "add", "MOVE", "--subjects", "move.*")
        source.ok("pub", "move.a", "--count", "300", "-H", "N:{{Count}}", "message {{Count}} " * 20)
        source.ok("stream", "rmm", "MOVE", "7", "-f")
        source.ok("consumer", "add", "MOVE", "work", "--pull", "--defaults")
        source.ok("consumer", "next", "MOVE", "work", "--count", "2", "-r")
        source.ok("stream", "backup", "MOVE", str(tmp_path / str(i)))
        target.ok("stream", "restore", str(tmp_path / str(i)))
        for words in (
            ("stream", "state", "MOVE", "-j"),
            ("stream", "get", "MOVE", "299", "-j"),
            ("stream", "gaps", "MOVE", "-j"),
        ):
            assert target.ok(*words).json == source.ok(*words).json
        moved = target.ok("consumer", "info", "MOVE", "work", "-j").json
        assert moved["ack_floor"]["stream_seq"] == 2
        clean(source)
        clean(target)
