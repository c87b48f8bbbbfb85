"""The frame: aliases, global flags anywhere, did you mean, exit codes, examples everywhere."""

import os
import subprocess
import sys

import click
import pytest

from jetstream.cli.app import Group, Helpful, LazyGroup
from jetstream.cli.main import ENTRIES, root
from jetstream.cli.problems import Failure
from tests.cli.runner import Cli

OTHERS = {"pipeline", "archive", "spark", "demo", "console"}


def all_commands(group: Group, context: click.Context) -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name in group.list_commands(context):
        if isinstance(group, LazyGroup) and (name in OTHERS or group.entries[name].hidden):
            continue
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, name)
        found.append((inner.command_path, command))
        if isinstance(command, Group):
            found += all_commands(command, inner)
    return found


COMMANDS = all_commands(root, click.Context(root, info_name="jetstream"))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
def test_every_command_explains_itself_with_an_example(path: str, command: click.Command) -> None:
    assert command.help
    assert isinstance(command, Helpful)
    assert "jetstream" in command.examples


def test_there_are_about_as_many_commands_as_people_expect() -> None:
    assert len(COMMANDS) > 120


def test_a_wrong_word_is_answered_with_near_ones(alone: Cli) -> None:
    done = alone("strem", "ls")
    assert (done.code, done.out) == (2, "")
    assert "did you mean `jetstream stream`" in done.err
    done = alone("stream", "lst")
    assert done.code == 2
    assert "`jetstream stream ls`" in done.err
    assert alone("stream", "ls", "--subjct", "x").code == 2


def test_global_flags_work_anywhere(alone: Cli) -> None:
    for words in (
        ("-s", "nats://127.0.0.1:2", "stream", "ls"),
        ("stream", "-s", "nats://127.0.0.1:2", "ls"),
        ("stream", "ls", "-s", "nats://127.0.0.1:2"),
        ("stream", "ls", "--server=nats://127.0.0.1:2"),
    ):
        done = alone(*words)
        assert done.code == 1
        assert "nats://127.0.0.1:2" in done.err
        assert "flag --server" in done.err


def test_no_server_says_where_the_address_came_from(alone: Cli) -> None:
    done = alone("stream", "ls")
    assert done.code == 1
    assert done.err.startswith("jetstream: error: no server could be reached at nats://127.0.0.1:1")
    assert "hint: the address came from environment NATS_URL" in done.err
    assert "`jetstream server -js`" in done.err


def test_wrong_values_are_refused_before_connecting(alone: Cli) -> None:
    for words, complaint in (
        (("stream", "add", "X", "--max-age", "1x"), "invalid duration"),
        (("stream", "add", "X", "--max-bytes", "lots"), "invalid size"),
        (("stream", "add", "X.Y", "--subjects", "x"), "invalid stream name"),
        (("stream", "add"), "Stream Name is missing"),
        (("stream", "add", "X"), "captures nothing"),
        (("stream", "purge", "X", "--seq", "1", "--keep", "1"), "cannot be combined"),
        (("stream", "ls", "-o", "xml"), "unknown output format"),
    ):
        done = alone(*words)
        assert done.code == 2, words
        assert complaint in done.err


def test_version_and_help(alone: Cli) -> None:
    assert alone.ok("--version").out.startswith("jetstream ")
    assert "Streams and messages:" in alone.ok("--help").out
    text = alone.ok("stream", "add", "-h").out
    assert "--max-bytes" in text
    assert "Examples:" in text
    assert "Also called: create, new" in text


def test_the_top_level_loads_nothing_heavy() -> None:
    code = (
        "import sys; from jetstream.cli.main import run; run(['--help']); "
        "print(sorted(m for m in ('rich', 'questionary', 'textual', 'starlette', 'pyspark', "
        "'yaml', 'msgspec', 'asyncio') if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_listing_streams_loads_no_drawing_library() -> None:
    code = (
        "import sys; from jetstream.cli.main import run; run(['stream', 'ls', '-j']); "
        "print(sorted(m for m in ('rich', 'questionary', 'textual', 'starlette', 'pyspark', "
        "'yaml') if m in sys.modules), file=sys.stderr)"
    )
    env = {**os.environ, "NATS_URL": "nats://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_aliases_lead_to_the_same_place() -> None:
    context = click.Context(root, info_name="jetstream")
    for name, entry in ENTRIES.items():
        if name in OTHERS:
            continue
        for alias in entry.aliases:
            assert root.get_command(context, alias) is root.get_command(context, name)


def test_a_part_that_is_not_installed_says_which_extra_has_it() -> None:
    from jetstream.cli.problems import missing_part

    failure = missing_part("spark", "jetstream.cli.spark", ModuleNotFoundError(name="pyspark"))
    assert isinstance(failure, Failure)
    assert "jetstream-py[spark]" in str(failure.hint)


def test_small_commands_without_a_server(alone: Cli) -> None:
    assert "stream not found" in alone.ok("errors", "lookup", "10059").out
    assert alone("errors", "lookup", "99").code == 1
    assert len(alone.ok("errors", "ls", "-j").json) > 150
    assert "io.nats.jetstream.api.v1.stream_configuration" in alone.ok("schema", "ls").lines
    assert alone.ok("schema", "info", "stream_configuration").json["$id"].endswith("configuration")
    assert alone.ok("server", "mappings", "a.*", "b.{{wildcard(1)}}", "a.7").out == "b.7\n"
    assert alone.ok("server", "passwd", "-g", "-c", "4").lines[1].startswith("$2a$04$")
    assert alone("server", "passwd", "-p", "short").code == 1
    assert "jetstream stream add" in alone.ok("cheat", "stream").out
    for shell in ("bash", "zsh", "fish"):
        assert "_JETSTREAM_COMPLETE" in alone.ok("completion", shell).out
