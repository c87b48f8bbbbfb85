"""The configuration grammar: values, places, and the reference's words for mistakes."""

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetstream.server.conf import digest, parse_file, parse_text, plain
from jetstream.server.options import ConfigError


def read(text: str) -> object:
    return plain(parse_text(text, "x.conf"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", 1),
        ("a = -5", -5),
        ("a 1k", 1000),
        ("a 1Kb", 1024),
        ("a: 2MiB", 2 * 1024 * 1024),
        ("a: 1.5", 1.5),
        ("a: -1.5", -1.5),
        ("a: 127.0.0.1:4222", "127.0.0.1:4222"),
        ("a: yes", True),
        ("a: OFF", False),
        ("a: word", "word"),
        ("a: 3com", "3com"),
        ("a: '\\n raw'", "\\n raw"),
        ('a: "t\\tx\\x41"', "t\txA"),
        ("a: (\nline\nline\n)", "\nline\nline\n"),
        ("a: 2026-11-15T01:02:03Z", datetime.datetime(2026, 11, 15, 1, 2, 3, tzinfo=datetime.UTC)),
        ("a: [1, 2\n3 # c\n]", [1, 2, 3]),
        ("a { b: 1, c: 2; d: 3\ne 4 }", {"b": 1, "c": 2, "d": 3, "e": 4}),
        ("a\n{\n  b: [ {c: d} ] // comment\n}", {"b": [{"c": "d"}]}),
        ("a: $2a$11$abc", "$2a$11$abc"),
        ('"a": x', "x"),
    ],
)
def test_values(text: str, value: object) -> None:
    assert read(text) == {"a": value}


def test_variables_are_looked_up_outward_and_then_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_PORT", "4333")
    monkeypatch.setenv("SOME_LIST", "[a, b]")
    tree = parse_text("P: 5\nm { P: 6\n n { v: $P } }\nw: $P\ne: $SOME_PORT\nl: $SOME_LIST", "")
    assert plain(tree["m"]) == {"P": 6, "n": {"v": 6}}
    assert (plain(tree["w"]), plain(tree["e"]), plain(tree["l"])) == (5, 4333, ["a", "b"])
    assert tree["P"].is_variable


def test_an_environment_variable_that_names_itself_ends_in_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOOP", "$LOOP")
    with pytest.raises(ConfigError, match="LOOP"):
        read("a: $LOOP")


def test_includes_are_relative_to_the_including_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.conf").write_text("port: 4333\ninclude other.conf\n")
    (tmp_path / "sub" / "other.conf").write_text("host: $H\n")
    main = tmp_path / "main.conf"
    main.write_text('H: here\ninclude "sub/inner.conf"\nm { include sub/other.conf }\n')
    tree = plain(parse_file(str(main)))
    assert tree == {"H": "here", "port": 4333, "host": "here", "m": {"host": "here"}}


def test_a_missing_include_and_a_broken_one_are_named(tmp_path: Path) -> None:
    main = tmp_path / "main.conf"
    main.write_text("include nowhere.conf\n")
    with pytest.raises(ConfigError, match=r"error parsing include file 'nowhere.conf', open "):
        parse_file(str(main))
    (tmp_path / "nowhere.conf").write_text("a: [")
    with pytest.raises(ConfigError, match=r"'nowhere.conf', Parse error on line 1"):
        parse_file(str(main))


def test_a_file_that_includes_itself_ends_in_an_error(tmp_path: Path) -> None:
    main = tmp_path / "main.conf"
    main.write_text("include main.conf\n")
    with pytest.raises(ConfigError, match="nested too deep"):
        parse_file(str(main))


def test_deep_nesting_is_refused_instead_of_overflowing() -> None:
    with pytest.raises(ConfigError, match="nested too deep"):
        read("a: " + "[" * 5000)


def test_the_digest_depends_on_the_settings_only() -> None:
    assert digest(parse_text("port: 4222")) == digest(parse_text("# hello\n{ port = 4222 }"))
    assert digest(parse_text("port: 4222")) == (
        "sha256:797533ebd0dfba7d34a0f9337ecf147e442871f48ddfd07ed751575a5737267e"
    )


@given(st.text(alphabet="ab1.-{}[]()'\"\\,;:=#/$ \n\tx", max_size=60))
def test_garbage_is_read_or_refused_but_never_crashes(text: str) -> None:
    try:
        parse_text(text, "x")
    except ConfigError:
        pass
