"""Who may come in. (First slice: everybody, into the global account.)"""

from typing import Any

from msgspec import Struct

from jetstream.errors import JetStreamError


class AuthError(JetStreamError):
    text = "Authorization Violation"
    reason = "Authentication Failure"
    who = ""


class Identity(Struct):
    account: str = "$G"
    user: str = ""
    permissions: Any = None
    max_payload: int = -1
    max_subscriptions: int = -1
    expires_ns: int = 0


class Authenticator:
    def __init__(self, options: Any) -> None:
        self.options = options

    def authenticate(self, connect: Any, **where: Any) -> Identity:
        return Identity()
