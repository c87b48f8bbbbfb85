"""Dead letters, counters, keys, completion, the shell: the smaller groups."""

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.runner import Cli
from tests.conformance.servers import ServerProcess


def test_dead_letters_are_listed_shown_redriven_and_dropped(ours: ServerProcess) -> None:
    cli = Cli(f"nats://127.0.0.1:{ours.port}")
    assert "No dead-letter streams" in cli.ok("dlq", "ls").out
    cli.ok("stream", "add", "ORDERS", "--subjects", "orders.*")
    cli.ok(
        "consumer", "add", "ORDERS", "work", "--pull", "--max-deliver", "3", "--defaults",
        "--metadata", "jsx.dead_letter.stream=DEAD",
    )  # fmt: skip
    for i in range(3):
        cli.ok("pub", "orders.eu", "-J", "-H", "K:v", f"poison {i}")
        cli.ok("consumer", "next", "ORDERS", "work", "--term")
    assert cli.ok("dlq", "ls", "-j").json == ["DEAD"]
    letters = cli.ok("dlq", "ls", "DEAD", "-j").json
    assert [(x["reason"], x["subject"], x["stream_seq"]) for x in letters] == [
        ("terminated", "orders.eu", 1),
        ("terminated", "orders.eu", 2),
        ("terminated", "orders.eu", 3),
    ]
    assert "terminated" in cli.ok("dlq", "ls", "DEAD", "--reason", "terminated").out
    shown = cli.ok("dlq", "show", "DEAD", "1").out
    assert "Consumer: ORDERS > work" in shown
    assert "K: v" in shown
    assert cli.ok("dlq", "show", "DEAD", "1", "--raw").out == "poison 0\n"
    assert "Redrove 1 of 1 dead letter" in cli.ok("dlq", "redrive", "DEAD", "1", "-f").out
    assert cli.ok("stream", "get", "ORDERS", "4", "-r").out == "poison 0\n"
    assert (
        "Dropped 2 dead letters" in cli.ok("dlq", "drop", "DEAD", "--subject", "orders.*", "-f").out
    )
    assert cli.ok("dlq", "ls", "DEAD").out == "No dead letters in DEAD\n"
    told = cli.ok("consumer", "explain", "ORDERS", "work", "1").out
    assert "message 1 on orders.eu" in told
    for name in ("ORDERS", "DEAD"):
        cli.ok("stream", "rm", name, "-f")


def test_counters_count(cli: Cli) -> None:
    cli.ok("stream", "add", "HITS", "--subjects", "hits.>", "--allow-counter", "--defaults")
    assert cli.ok("counter", "incr", "hits.home", "5").out == "5\n"
    assert cli.ok("counter", "decr", "hits.home", "2").out == "3\n"
    assert cli.ok("ctr", "incr", "hits.other").out == "1\n"
    assert cli.ok("counter", "get", "hits.home").out == "3\n"
    assert cli.ok("counter", "ls", "HITS", "-j").json == {"hits.home": 3, "hits.other": 1}
    assert "Value: 3" in cli.ok("counter", "view", "hits.home").out
    cli.ok("stream", "rm", "HITS", "-f")


def test_keys_are_made_and_used(alone: Cli, tmp_path: Path) -> None:
    key, data, signed = tmp_path / "u.nk", tmp_path / "data", tmp_path / "sig"
    public = alone.ok("auth", "nkey", "gen", "user", "--output", str(key)).out.strip()
    assert public.startswith("U")
    assert alone.ok("auth", "nkey", "show", str(key)).out.strip() == public
    data.write_text("hello")
    signed.write_text(alone.ok("auth", "nkey", "sign", str(data), str(key)).out)
    assert "valid" in alone.ok("auth", "nkey", "verify", str(data), str(signed), public).out
    data.write_text("other")
    assert alone("auth", "nkey", "verify", str(data), str(signed), public).code == 1


def test_names_are_completed_from_the_server(
    server: ServerProcess, cli: Cli, tmp_path: Path
) -> None:
    cli.ok("stream", "add", "ALPHA", "--subjects", "alpha")
    cli.ok("consumer", "add", "ALPHA", "work", "--pull", "--defaults")

    def complete(words: str, port: int = server.port) -> list[str]:
        env = os.environ | {
            "_JETSTREAM_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
            "NATS_URL": f"nats://127.0.0.1:{port}",
            "XDG_CONFIG_HOME": str(tmp_path),
        }
        done = subprocess.run(
            [str(Path(sys.executable).parent / "jetstream")],
            env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    assert complete("jetstream stream info AL") == ["ALPHA"]
    assert complete("jetstream consumer next ALPHA ") == ["work"]
    assert "stream" in complete("jetstream str")
    assert "add" in complete("jetstream stream ")
    assert complete("jetstream stream info AL", port=1) == []
    cli.ok("stream", "rm", "ALPHA", "-f")


def test_the_shell_takes_one_command_per_line(cli: Cli) -> None:
    done = cli.ok(
        "shell", stdin="stream ls\n# nothing\njetstream stream ls -j\nstrem\nexit\nnever\n"
    )
    assert done.out == "No Streams defined\n[]\n"
    assert "did you mean" in done.err


def test_services_that_are_not_there(cli: Cli) -> None:
    done = cli("service", "ls")
    assert done.code == 1
    assert "no service answers" in done.err
