"""What can go wrong on the application's side of the wire.

All of them are `JetStreamError`s; those that mean "it took too long" are `TimeoutError`s as well,
those about the connection `ConnectionError`s, so that code which knows only Python's own families
catches them too. What a server refused is an `ApiError` with its number.
"""

from typing import TYPE_CHECKING

from jetstream.errors import ApiError, JetStreamError, Refusal

if TYPE_CHECKING:
    from jetstream.client.kv import Entry

__all__ = [
    "ApiError",
    "AuthorizationError",
    "BadRequestError",
    "BadSubjectError",
    "BatchAbandonedError",
    "BucketExistsError",
    "BucketNotFoundError",
    "ConnectionClosedError",
    "ConsumerDeletedError",
    "ConsumerNotFoundError",
    "ConsumerSequenceError",
    "DigestMismatchError",
    "DisconnectedError",
    "InvalidBucketError",
    "InvalidKeyError",
    "JetStreamError",
    "KeyDeletedError",
    "KeyExistsError",
    "KeyNotFoundError",
    "LinkError",
    "MaxPayloadError",
    "MissingHeartbeatError",
    "NoMessageError",
    "NoRespondersError",
    "NoServersError",
    "NotJetStreamMessageError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OutboundBufferError",
    "PermissionsError",
    "PublishWindowError",
    "RequestTimeoutError",
    "ServerError",
    "SlowConsumerError",
    "StaleConnectionError",
    "StatusError",
    "StreamNotFoundError",
    "WrongLastRevisionError",
]


class ClientError(JetStreamError):
    """The root of what this client raises by itself."""


class ClientConnectionError(ClientError, ConnectionError):
    """Something about the connection."""


class NoServersError(ClientConnectionError):
    """No server of the list could be reached."""


class ConnectionClosedError(ClientConnectionError):
    """The connection was closed, by us or for good."""


class DisconnectedError(ClientConnectionError):
    """The connection was lost while waiting; it is being restored."""


class StaleConnectionError(ClientConnectionError):
    """The server no longer answers our pings."""


class AuthorizationError(ClientConnectionError):
    """The server refused our credentials."""


class ServerError(ClientError):
    """An -ERR the server sent; the connection may live on."""


class PermissionsError(ServerError):
    """This user may not publish or subscribe there."""


class OutboundBufferError(ClientError):
    """More was published while disconnected than the reconnect buffer holds."""


class MaxPayloadError(ClientError, ValueError):
    """A message is larger than the server accepts."""


class BadSubjectError(ClientError, ValueError):
    """A subject with blanks, empty tokens or misplaced wildcards."""


class RequestTimeoutError(ClientError, TimeoutError):
    """Nobody answered in time."""


class NoRespondersError(ClientError):
    """Nobody listens on that subject."""

    def __init__(self, subject: str, hint: str | None = None) -> None:
        super().__init__(f"no responders available for request on {subject!r}")
        self.subject = subject
        self.hint = hint

    def __str__(self) -> str:
        text = str(self.args[0])
        return f"{text} ({self.hint})" if self.hint else text


class SlowConsumerError(ClientError):
    """A subscription got more than it may hold; messages were dropped."""

    def __init__(self, subject: str, dropped: int) -> None:
        super().__init__(f"slow consumer on {subject!r}: {dropped} messages dropped")
        self.subject = subject
        self.dropped = dropped


class NotJetStreamMessageError(ClientError):
    """The message did not come from a stream, so it cannot be acknowledged."""


class StatusError(ClientError):
    """A pull request or direct get ended with a status instead of messages."""

    def __init__(self, status: int, description: str) -> None:
        super().__init__(f"{status} {description}".strip())
        self.status = status
        self.description = description


class BadRequestError(StatusError):
    """400: the server did not understand the pull request."""


class ConsumerDeletedError(StatusError):
    """409: the consumer was deleted while we waited on it."""


class MissingHeartbeatError(ClientError):
    """Two heartbeats in a row did not come: the consumer or its server may be gone."""


class ConsumerSequenceError(ClientError):
    """An ordered consumer could not be put back in order."""


class PublishWindowError(ClientError, TimeoutError):
    """Too many publishes wait for their acknowledgement."""


class BatchAbandonedError(ClientError):
    """An atomic batch was given up, so it cannot be used any more."""


class StreamNotFoundError(ApiError):
    """404/10059."""


class ConsumerNotFoundError(ApiError):
    """404/10014."""


class NoMessageError(ApiError):
    """404/10037: no message with that sequence or subject."""


class BucketNotFoundError(ClientError):
    """There is no such key-value or object bucket."""


class BucketExistsError(ClientError):
    """The bucket exists with other settings."""


class InvalidBucketError(ClientError, ValueError):
    """Bucket names are letters, digits, `_` and `-`."""


class InvalidKeyError(ClientError, ValueError):
    """Keys are letters, digits and `-/_=.` without an empty token."""


class KeyNotFoundError(ClientError, KeyError):
    """The key has no value."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "key not found"


class KeyDeletedError(KeyNotFoundError):
    """The key had a value, its last entry is a delete marker; `entry` holds it."""

    entry: "Entry"


class KeyExistsError(ClientError):
    """create() found a value."""


class WrongLastRevisionError(ClientError):
    """Somebody else changed the key first."""

    def __init__(self, text: str, revision: int | None = None) -> None:
        super().__init__(text)
        self.revision = revision


class ObjectNotFoundError(ClientError, KeyError):
    """There is no such object."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "object not found"


class ObjectExistsError(ClientError):
    """An object of that name is in the way."""


class LinkError(ClientError):
    """A link that leads nowhere, to another link, or to a whole bucket."""


class DigestMismatchError(ClientError):
    """What arrived is not what was stored."""


_KINDS: dict[int, type[ApiError]] = {
    10059: StreamNotFoundError,
    10014: ConsumerNotFoundError,
    10037: NoMessageError,
}


def api_error(code: int, err_code: int, description: str) -> ApiError:
    """The error object of an answer as the exception to raise, with a hint where we know one."""
    from jetstream.client.hints import hint_for

    kind = _KINDS.get(err_code, ApiError)
    error = kind(Refusal(code, err_code, description))
    error.hint = hint_for(err_code, description)
    return error
