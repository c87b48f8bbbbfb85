"""Named connections, kept in the very files natscli keeps them in, so both tools share them.

    $XDG_CONFIG_HOME/nats/context/<name>.json     one connection
    $XDG_CONFIG_HOME/nats/context.txt             the selected name
    $XDG_CONFIG_HOME/nats/previous-context.txt    the one before

Keys we do not know are kept when a file is written again.
"""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jetstream.errors import JetStreamError

KEYS = [
    "description",
    "url",
    "socks_proxy",
    "token",
    "user",
    "password",
    "creds",
    "nkey",
    "cert",
    "key",
    "ca",
    "nsc",
    "jetstream_domain",
    "jetstream_api_prefix",
    "jetstream_event_prefix",
    "inbox_prefix",
    "user_jwt",
    "user_seed",
    "color_scheme",
    "tls_first",
]
SECRETS = frozenset({"password", "token", "user_jwt", "user_seed"})
_PATHS = frozenset({"creds", "nkey", "cert", "key", "ca"})


class ContextError(JetStreamError):
    """A context that is missing, badly named or unreadable."""


class Context:
    """One named connection: the decoded file, whatever is in it."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name = name
        self.fields = fields

    def value(self, key: str, env: Mapping[str, str] | None = None) -> Any:
        """A setting with `~`, `env://NAME` and `data:;base64,…` understood."""
        value = self.fields.get(key)
        if not isinstance(value, str):
            return value
        if value.startswith("env://"):
            return (os.environ if env is None else env).get(value[6:], "")
        if value.startswith("data:;base64,"):
            return base64.b64decode(value[13:]).decode()
        if key in _PATHS and value.startswith("~"):
            return str(Path(value).expanduser())
        return value

    @property
    def description(self) -> str:
        return str(self.fields.get("description") or "")

    def redacted(self) -> dict[str, Any]:
        """For eyes: secrets starred."""
        return {
            key: "*********" if key in SECRETS and value else value
            for key, value in self.fields.items()
        }


class ContextStore:
    """The directory of contexts."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def default(cls, env: Mapping[str, str] | None = None) -> "ContextStore":
        env = os.environ if env is None else env
        base = env.get("XDG_CONFIG_HOME") or str(
            Path(env.get("HOME", "~")).expanduser() / ".config"
        )
        return cls(Path(base) / "nats")

    def path(self, name: str) -> Path:
        check_name(name)
        return self.root / "context" / f"{name}.json"

    def names(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "context").glob("*.json"))

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def load(self, name: str) -> Context:
        """By name, or by the path of a `.json` file that exists."""
        import msgspec

        direct = Path(name)
        path = direct if name.endswith(".json") and direct.is_file() else self.path(name)
        try:
            fields = msgspec.json.decode(path.read_bytes())
        except FileNotFoundError:
            raise ContextError(f"unknown context {name!r}") from None
        except msgspec.DecodeError as error:
            raise ContextError(f"context file {path} is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ContextError(f"context file {path} does not hold an object")
        return Context(path.stem, fields)

    def save(self, name: str, fields: dict[str, Any]) -> Path:
        import msgspec

        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = msgspec.json.format(msgspec.json.encode(fields), indent=2)
        # Written beside and renamed: a full disk cannot leave half of it. 0600, it has secrets.
        beside = path.with_suffix(".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text + b"\n")
        beside.replace(path)
        return path

    def remove(self, name: str) -> None:
        try:
            self.path(name).unlink()
        except FileNotFoundError:
            raise ContextError(f"unknown context {name!r}") from None

    def selected_name(self) -> str:
        return self._read("context.txt")

    def previous_name(self) -> str:
        return self._read("previous-context.txt")

    def selected(self) -> Context | None:
        name = self.selected_name()
        if not name or not self.exists(name):
            return None
        return self.load(name)

    def select(self, name: str) -> None:
        if not self.exists(name):
            raise ContextError(f"unknown context {name!r}")
        current = self.selected_name()
        if current and current != name:
            self._write("previous-context.txt", current)
        self._write("context.txt", name)

    def unselect(self) -> None:
        if current := self.selected_name():
            self._write("previous-context.txt", current)
        (self.root / "context.txt").unlink(missing_ok=True)

    def _read(self, file: str) -> str:
        try:
            return (self.root / file).read_text().strip()
        except OSError:
            return ""

    def _write(self, file: str, text: str) -> None:
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.root / file).write_text(text)


def check_name(name: str) -> None:
    if not name or name.startswith(".") or any(c in name for c in "/\\\0") or ".." in name:
        raise ContextError(f"invalid context name {name!r}")
