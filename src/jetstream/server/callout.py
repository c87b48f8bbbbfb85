"""Auth callout: a service behind the server decides who may come in.

The server signs a description of the log-in and asks on `$SYS.REQ.USER.AUTH` in the callout
account; the service answers with a response, signed by the configured issuer, that holds a user JWT
or an error. With an `xkey` both are sealed, so that nobody else can read passwords.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from jetstream.broker._broker import Subscription
from jetstream.broker.accounts_spec import GLOBAL_ACCOUNT
from jetstream.broker.permissions import Permissions
from jetstream.clock import SECOND
from jetstream.security.jwt import GenericClaims, InvalidToken, UserClaims, decode, encode
from jetstream.security.nkeys import InvalidKey, KeyKind, KeyPair
from jetstream.server.auth import Attempt, AuthError, Identity
from jetstream.server.operator import rules_of
from jetstream.server.options import VERSION, CalloutOptions
from jetstream.wire.headers import encode_headers

if TYPE_CHECKING:
    from jetstream.server.server import Server

SUBJECT = b"$SYS.REQ.USER.AUTH"
_AUDIENCE = "nats-authorization-request"


class Callout:
    """Asks, waits, and believes what the issuer signed."""

    def __init__(self, server: "Server", options: CalloutOptions) -> None:
        self.server = server
        self.options = options
        self._curve = KeyPair.create(KeyKind.CURVE)
        self._signer = server.key if server.key is not None else KeyPair.create(KeyKind.SERVER)

    async def ask(self, attempt: Attempt) -> Identity:
        """The identity the service gives; AuthError if it refuses or stays silent."""
        server = self.server
        account = server.accounts.find(self.options.account or GLOBAL_ACCOUNT)
        if account is None:
            raise AuthError("callout account not known")
        user = KeyPair.create(KeyKind.USER)
        inbox = f"_INBOX.{server.random.nuid()}".encode()
        answered: asyncio.Future[bytes] = server.loop.create_future()

        def on_answer(
            client: Any, subject: bytes, reply: bytes, headers: bytes, payload: bytes
        ) -> object:
            if not answered.done():
                answered.set_result(payload)
            return True

        sub = Subscription(None, account, inbox)
        sub.handler = on_answer
        account.subscribe(sub)
        try:
            body, headers = self._request(attempt, user.public_key)
            if not account.has_interest(SUBJECT):
                raise AuthError("nobody answers authorization requests")
            server.broker.publish(account, SUBJECT, body, inbox, headers)
            server.wake()
            timeout_s = server.options.auth_timeout / SECOND
            payload = await asyncio.wait_for(answered, timeout_s)
        except TimeoutError:
            raise AuthError("authorization service did not answer") from None
        finally:
            server.broker.drop(sub)
        return self._believe(payload, user.public_key)

    def _request(self, attempt: Attempt, user_key: str) -> tuple[bytes, bytes]:
        server, connect = self.server, attempt.connect
        said = {
            "jwt": connect.jwt,
            "nkey": connect.nkey,
            "sig": connect.sig,
            "auth_token": connect.auth_token,
            "user": connect.user,
            "pass": connect.password,
            "name": connect.name,
            "lang": connect.lang,
            "version": connect.version,
        }
        websocket = attempt.connection_type == "WEBSOCKET"
        info: dict[str, Any] = {
            "host": attempt.client_ip,
            "user": connect.user,
            "name": connect.name,
            "kind": "Client",
            "type": "websocket" if websocket else "nats",
            "nonce": attempt.nonce.decode(),
        }
        here = {"name": server.name, "host": server.host, "id": server.id, "version": VERSION}
        if self.options.xkey:
            here["xkey"] = self._curve.public_key
        nats: dict[str, Any] = {
            "server_id": here,
            "user_nkey": user_key,
            "client_info": {k: v for k, v in info.items() if v},
            "connect_opts": {k: v for k, v in said.items() if v} | {"protocol": connect.protocol},
            "type": "authorization_request",
            "version": 2,
        }
        if attempt.peer is not None:
            nats["client_tls"] = {
                "version": attempt.peer.version,
                "cipher": attempt.peer.cipher_suite,
            }
        claims = GenericClaims(aud=_AUDIENCE, sub=user_key, nats=nats)
        body = encode(claims, self._signer, server.clock.now() // SECOND).encode()
        if not self.options.xkey:
            return body, b""
        headers = encode_headers({"Nats-Server-Xkey": [self._curve.public_key]})
        return self._curve.seal(body, self.options.xkey), headers

    def _believe(self, payload: bytes, user_key: str) -> Identity:
        """Check the answer down to the user's own token."""
        try:
            if self.options.xkey and not payload.startswith(b"eyJ"):
                payload = self._curve.open(payload, self.options.xkey)
            response = decode(payload.decode("utf-8", "replace"), GenericClaims)
        except (InvalidToken, InvalidKey) as error:
            raise AuthError(f"authorization response not valid: {error}") from None
        if response.iss != self.options.issuer:
            raise AuthError("authorization response is not from the issuer")
        if response.sub != user_key or response.aud != self.server.id:
            raise AuthError("authorization response is for somebody else")
        problem = response.nats.get("error")
        if problem:
            raise AuthError(f"refused by the authorization service: {problem}")
        try:
            user = decode(str(response.nats.get("jwt", "")), UserClaims)
        except InvalidToken as error:
            raise AuthError(f"user JWT not valid: {error}") from None
        return self._identity(user, user_key)

    def _identity(self, user: UserClaims, user_key: str) -> Identity:
        now = self.server.clock.now()
        if user.iss != self.options.issuer or user.sub != user_key:
            raise AuthError("user JWT is not from the issuer")
        if user.exp and now >= user.exp * SECOND:
            raise AuthError("user JWT has expired")
        if self.server.accounts.find(user.aud) is None or not user.aud:
            raise AuthError("user JWT names no account of this server")
        allowed = self.options.allowed_accounts
        if allowed and "*" not in allowed and user.aud not in allowed:
            raise AuthError("account is not allowed")
        rules = rules_of(user.nats.pub, user.nats.sub, user.nats.resp)
        return Identity(
            account=user.aud,
            user=user.sub,
            user_name=user.name,
            permissions=None if rules.is_open else Permissions(rules),
            rules=rules,
            max_payload=user.nats.payload,
            max_subscriptions=user.nats.subs,
            max_data=user.nats.data,
            expires_ns=user.exp * SECOND,
            issuer_key=user.iss,
            name_tag=user.name,
            tags=tuple(user.nats.tags),
        )
