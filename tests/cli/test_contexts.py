"""Saved connections and where settings come from."""

from pathlib import Path

import pytest

from jetstream.cli.contexts import Context, ContextError, ContextStore
from jetstream.cli.settings import resolve
from tests.cli.runner import Cli


def a_store(tmp_path: Path) -> ContextStore:
    store = ContextStore(tmp_path / "nats")
    store.save("prod", {"url": "nats://prod:4222", "user": "bob", "unknown": [1], "creds": "~/x"})
    store.save("test", {"url": "nats://test:4222"})
    return store


def test_a_context_is_kept_with_fields_nobody_knows(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    assert store.load("prod").fields["unknown"] == [1]
    assert store.names() == ["prod", "test"]
    assert (store.path("prod").stat().st_mode & 0o777) == 0o600


def test_the_one_before_is_remembered(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.select("prod")
    store.select("test")
    assert (store.selected_name(), store.previous_name()) == ("test", "prod")
    assert (tmp_path / "nats" / "context.txt").read_text() == "test"
    store.unselect()
    assert store.selected() is None


def test_values_may_live_elsewhere() -> None:
    context = Context(
        "x", {"password": "env://SECRET", "token": "data:;base64,aGk=", "creds": "~/c"}
    )
    assert context.value("password", {"SECRET": "s"}) == "s"
    assert context.value("token") == "hi"
    assert not context.value("creds").startswith("~")
    assert context.redacted()["password"] == "*********"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden"])
def test_names_stay_in_their_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ContextError):
        ContextStore(tmp_path).path(name)


def test_flag_before_environment_before_context_before_default(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    assert resolve({}, {}, store).url == "nats://127.0.0.1:4222"
    store.select("prod")
    found = resolve({}, {}, store)
    assert (found.url, found.url_origin) == ("nats://prod:4222", "context prod")
    assert found.user == "bob"
    found = resolve({}, {"NATS_URL": "nats://env:1"}, store)
    assert (found.url, found.url_origin) == ("nats://env:1", "environment NATS_URL")
    found = resolve({}, {"NATS_URL": "nats://env:1", "JETSTREAM_URL": "nats://own:1"}, store)
    assert found.url == "nats://own:1"
    found = resolve({"server": "nats://flag:1"}, {"NATS_URL": "nats://env:1"}, store)
    assert (found.url, found.url_origin) == ("nats://flag:1", "flag --server")
    assert resolve({"no_context": True}, {}, store).user is None
    assert resolve({"context": "test"}, {}, store).url == "nats://test:4222"


def test_domains_and_prefixes_become_the_api_prefix() -> None:
    empty = ContextStore(Path("/nonexistent"))
    assert resolve({"js_domain": "hub"}, {}, empty).api_prefix == "$JS.hub.API"
    assert resolve({"js_api_prefix": "my.api."}, {}, empty).api_prefix == "my.api"
    assert resolve({"timeout": "250ms"}, {}, empty).timeout == 0.25


def test_contexts_from_the_command_line(alone: Cli) -> None:
    alone.ok(
        "context", "add", "local", "-s", "nats://h:1", "--user", "u", "--password", "p", "--select"
    )
    shown = alone.ok("context", "info", "local").out
    assert "nats://h:1" in shown
    assert "*********" in shown
    alone.ok("context", "add", "other", "--description", "the other one")
    assert [c["selected"] for c in alone.ok("context", "ls", "-j").json] == [True, False]
    alone.ok("context", "select", "other")
    alone.ok("context", "select", "-")
    alone.ok("ctx", "copy", "local", "third")
    assert alone.ok("context", "ls", "-n").lines == ["local", "other", "third"]
    assert alone("context", "rm", "local", "-f").code == 1
    alone.ok("context", "rm", "third", "-f")
    missing = alone("context", "select", "otter")
    assert missing.code == 1
    assert "did you mean other?" in missing.err
