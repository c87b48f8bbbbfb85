"""Account tokens that arrive while the server runs: pushed, looked up, listed, deleted.

`nsc push` and friends talk to these services in the system account. Tokens live in the options'
preload table; a directory resolver (`type: full` or `cache`) also keeps them as files.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetstream.errors import JetStreamError
from jetstream.schema.encoding import to_json
from jetstream.security.jwt import AccountClaims, GenericClaims, InvalidToken, decode
from jetstream.security.nkeys import KeyKind, is_public
from jetstream.server.options import Options

if TYPE_CHECKING:
    from jetstream.server.operator import Operator
    from jetstream.server.server import Server

Handler = Callable[[Any, bytes, bytes, bytes, bytes], object]


class ClaimsError(JetStreamError):
    """A request about tokens that cannot be granted."""


def load_directory(options: Options) -> None:
    """Take tokens kept by a directory resolver into the options; the newer one wins."""
    resolver = options.resolver
    if resolver is None or not resolver.directory:
        return
    folder = Path(resolver.directory)
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.glob("*.jwt")):
        token = path.read_text().strip()
        known = options.resolver_preload.get(path.stem)
        if known is None or _issued_at(token) >= _issued_at(known):
            options.resolver_preload[path.stem] = token
    for key, token in options.resolver_preload.items():
        path = folder / f"{key}.jwt"
        if not path.exists():
            path.write_text(token)


def _issued_at(token: str) -> int:
    try:
        return decode(token, AccountClaims).iat
    except InvalidToken:
        return -1


class ClaimsServices:
    """Answers requests about account tokens."""

    def __init__(self, server: "Server", info: Callable[[], dict[str, Any]]) -> None:
        self.server = server
        self._info = info

    def services(self) -> dict[str, Handler]:
        offered: dict[str, Handler] = {"$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE": self._on_update}
        resolver = self.server.options.resolver
        if resolver is not None and resolver.directory:
            offered |= {
                "$SYS.REQ.CLAIMS.UPDATE": self._on_update,
                "$SYS.REQ.CLAIMS.LIST": self._on_list,
                "$SYS.REQ.CLAIMS.PACK": self._on_pack,
                "$SYS.REQ.CLAIMS.DELETE": self._on_delete,
                "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP": self._on_lookup,
            }
        return offered

    @property
    def _operator(self) -> "Operator":
        operator = self.server.authenticator.operator
        assert operator is not None
        return operator

    @property
    def _tokens(self) -> dict[str, str]:
        return self.server.options.resolver_preload

    def _on_update(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        tokens = subject.decode("utf-8", "replace").split(".")
        wanted = tokens[3] if tokens[2] == "ACCOUNT" else ""
        try:
            key = self._update(payload.decode("utf-8", "replace").strip(), wanted)
        except (ClaimsError, InvalidToken, OSError) as error:
            self.server.log.error("account update failed: %s", error)
            self._fail(reply, f"jwt update resulted in error: {error}")
            return True
        data = {"account": key, "code": 200, "message": "jwt updated"}
        self._send(reply, {"server": self._info(), "data": data})
        return True

    def _update(self, token: str, wanted: str) -> str:
        claims = self._operator.check_account(token)
        key = claims.sub
        if wanted and key != wanted:
            raise ClaimsError("subject does not match jwt content")
        if not is_public(key, KeyKind.ACCOUNT):
            raise ClaimsError("subject is not an account")
        resolver = self.server.options.resolver
        if resolver is not None and resolver.directory:
            (Path(resolver.directory) / f"{key}.jwt").write_text(token)
        self._tokens[key] = token
        self._operator.accounts[key] = claims
        self._apply()
        return key

    def _apply(self) -> None:
        from jetstream.server.lifecycle import accounts_changed

        self.server.spawn(accounts_changed(self.server))

    def _on_lookup(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        token = self._tokens.get(subject.decode("utf-8", "replace").split(".")[3])
        if token is not None and reply:
            self.server.broker.publish(self.server.accounts.system, reply, token.encode())
        return True

    def _on_list(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        self._send(reply, {"data": list(self._tokens), "server": self._info()})
        return True

    def _on_pack(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        """One message per account, an empty one at the end."""
        system, broker = self.server.accounts.system, self.server.broker
        for key, token in list(self._tokens.items()):
            broker.publish(system, reply, f"{key}|{token}".encode())
        broker.publish(system, reply, b"")
        return True

    def _on_delete(
        self, client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> object:
        """A token signed by the operator names the accounts that are to go."""
        resolver = self.server.options.resolver
        assert resolver is not None
        who = ""
        try:
            claims = decode(payload.decode("utf-8", "replace"), GenericClaims)
            who = claims.iss
            if who not in self._operator.trusted:
                raise ClaimsError("not trusted")
            if not resolver.allow_delete:
                raise ClaimsError("delete is disabled in this server")
            names = claims.nats.get("accounts") or claims.nats.get("data", {}).get("accounts", [])
            for key in names:
                self._tokens.pop(key, None)
                self._operator.accounts.pop(key, None)
                path = Path(resolver.directory) / f"{key}.jwt"
                if resolver.hard_delete:
                    path.unlink(missing_ok=True)
                elif path.exists():
                    path.rename(path.with_suffix(".jwt.deleted"))
        except (ClaimsError, InvalidToken, OSError) as error:
            self._fail(reply, f"delete accounts request by {who} failed - {error}")
            return True
        self._apply()
        message = f"deleted {len(names)} accounts"
        self._send(reply, {"server": self._info(), "data": {"code": 200, "message": message}})
        return True

    def _fail(self, reply: bytes, text: str) -> None:
        error = {"code": 500, "description": text}
        self._send(reply, {"server": self._info(), "error": error})

    def _send(self, reply: bytes, value: Any) -> None:
        if reply:
            self.server.broker.publish(self.server.accounts.system, reply, to_json(value))
