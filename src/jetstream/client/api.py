"""Requests to `$JS.API`: subjects, JSON both ways, errors as exceptions, pages as iterators."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from jetstream.client.errors import NoRespondersError, api_error
from jetstream.schema.addresses import API_PREFIX, domain_prefix

if TYPE_CHECKING:
    from jetstream.client.connection import Connection

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

NOT_ENABLED = "is JetStream enabled on the server and for this account?"


class Api:
    """The JetStream API of one account, seen through a prefix."""

    def __init__(
        self,
        connection: "Connection",
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float = 5.0,
    ) -> None:
        if domain and prefix:
            raise ValueError("give a domain or a prefix, not both")
        self.connection = connection
        self.prefix = (prefix or domain_prefix(domain or "")).rstrip(".")
        self.timeout = timeout

    @property
    def is_default(self) -> bool:
        return self.prefix == API_PREFIX

    def subject(self, name: str) -> str:
        return f"{self.prefix}.{name}"

    async def request_bytes(
        self, name: str, body: Any = None, timeout: float | None = None
    ) -> bytes:
        """One request, the answer as it came."""
        payload = body if isinstance(body, bytes) else b"" if body is None else _encode(body)
        wait = self.timeout if timeout is None else timeout
        try:
            answer = await self.connection.request(self.subject(name), payload, timeout=wait)
        except NoRespondersError as error:
            error.hint = NOT_ENABLED
            raise
        return answer.data

    async def request(
        self, name: str, body: Any = None, timeout: float | None = None
    ) -> dict[str, Any]:
        """One request, the answer as a dict; what the server refuses is raised."""
        answer: dict[str, Any] = _decode(await self.request_bytes(name, body, timeout))
        raise_error(answer)
        return answer

    async def pages(
        self, name: str, key: str, body: dict[str, Any] | None = None
    ) -> AsyncIterator[Any]:
        """All entries of a paged list, page by page."""
        offset = 0
        while True:
            answer = await self.request(name, {**(body or {}), "offset": offset})
            entries = answer.get(key) or []
            for entry in entries:
                yield entry
            offset += len(entries)
            if not entries or offset >= answer.get("total", 0):
                return


def raise_error(answer: dict[str, Any]) -> None:
    """The `error` of an answer, if there is one, as an exception."""
    error = answer.get("error")
    if error:
        raise api_error(
            error.get("code", 0), error.get("err_code", 0), error.get("description", "")
        )
