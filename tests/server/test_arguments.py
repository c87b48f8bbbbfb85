"""The command line means what nats-server's means."""

import pytest

from jetstream.server.arguments import UsageError, apply, parse_arguments
from jetstream.server.main import main
from jetstream.server.options import Options
from jetstream.server.options_file import read_config_text


def options_of(*argv: str, base: Options | None = None) -> Options:
    return apply(parse_arguments(argv), base or Options())


@pytest.mark.parametrize(
    "argv",
    [
        ("-p", "4333"),
        ("-p=4333"),
        ("--p", "4333"),
        ("-port", "4333"),
        ("--port=4333"),
        ("--port", "4333"),
    ],
)
def test_one_dash_or_two_with_or_without_equals(argv: tuple[str, ...] | str) -> None:
    words = (argv,) if isinstance(argv, str) else argv
    assert options_of(*words).port == 4333


def test_every_flag_reaches_its_option() -> None:
    line = (
        "-a 1.2.3.4 -p -1 -n hub -P pid -m 8222 --client_advertise h:1 --ports_file_dir d "
        "-l log --logtime=false --logtime_utc -D -V --log_size_limit 5 -js -sd dir "
        "--max_traced_msg_len 7 --user u --pass p --console 9 --log-format json"
    )
    found = options_of(*line.split())
    assert (found.host, found.port, found.server_name, found.pid_file) == (
        "1.2.3.4",
        -1,
        "hub",
        "pid",
    )
    assert (found.http_port, found.client_advertise, found.ports_file_dir) == (8222, "h:1", "d")
    assert (found.log_file, found.logtime, found.logtime_utc) == ("log", False, True)
    assert found.debug and found.trace and found.log_size_limit == 5
    assert found.jetstream.enabled and found.jetstream.store_dir == "dir"
    assert (found.username, found.password, found.max_traced_msg_len) == ("u", "p", 7)
    assert (found.console_port, found.log_format) == (9, "json")


def test_combined_trace_flags() -> None:
    assert options_of("-DV").trace and options_of("-DV").debug
    both = options_of("-DVV")
    assert both.trace and both.debug and both.trace_verbose
    assert options_of("-VV").trace_verbose


def test_console_takes_a_port_only_if_one_follows() -> None:
    assert options_of("--console").console_port == 8280
    assert options_of("--console", "-D").console_port == 8280
    assert options_of("--console", "9000").console_port == 9000


def test_memory_and_ephemeral_switch_jetstream_on() -> None:
    memory = options_of("--memory")
    assert memory.jetstream.memory_only and memory.jetstream.enabled
    assert options_of("--ephemeral").ephemeral


def test_flags_beat_the_file() -> None:
    base = read_config_text("port: 5000, debug: true\nauthorization { token: a }")
    found = options_of("-p", "6000", "-D=false", "--auth", "b", base=base)
    assert (found.port, found.debug, found.token) == (6000, False, "b")


@pytest.mark.parametrize(
    ("argv", "words", "code"),
    [
        (["--foo"], "flag provided but not defined: -foo", 0),
        (["-p", "abc"], 'invalid value "abc" for flag -p: parse error', 0),
        (["-p"], "flag needs an argument: -p", 0),
        (["-D=maybe"], 'invalid boolean value "maybe" for -D: parse error', 0),
        (["foo"], 'nats-server: unrecognized command: "foo"', 1),
        (["-p", "1", "extra"], 'nats-server: unrecognized command: "extra"', 1),
        (["-c", "/no/such/file"], "nats-server: open /no/such/file: no such file or directory", 1),
        (["-t"], "nats-server: must specify [-c, --config] option", 1),
        (["--tls"], "nats-server: TLS Server certificate must be present and valid", 1),
        (["--tlscert", "x"], "nats-server: TLS Server private key must be present and valid", 1),
        (["--cluster", "nats://x:1"], "nats-server: --cluster is not supported", 1),
        (["--log-format", "xml"], 'nats-server: log format "xml"', 1),
        (["--signal", "reload=999999999"], 'signal "reload" 999999999: no such process', 1),
        (["--signal", "foo=999999999"], 'nats-server: unknown signal "foo"', 1),
        (["--signal", "reload=/no/such"], "nats-server: invalid pid: /no/such", 1),
    ],
)
def test_words_and_exit_codes_of_mistakes(
    argv: list[str], words: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["-v"], ["--version"], ["version"]])
def test_version_is_one_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    assert capsys.readouterr().out == "nats-server: v2.15.1\n"


@pytest.mark.parametrize("argv", [["-h"], ["--help"], ["help"], ["--help_tls"]])
def test_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    assert "jetstream-server" in capsys.readouterr().out


def test_a_dash_alone_is_no_flag() -> None:
    with pytest.raises(UsageError, match="bad flag syntax"):
        parse_arguments(["---x"])
