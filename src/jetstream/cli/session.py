"""The one place where the command line meets the client.

A `Session` is a connection plus the JetStream API as it travels: subjects in, decoded JSON out, so
that `-j` can print exactly what the server said. Commands open one with `async with connect()`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from jetstream import __version__
from jetstream.cli.app import settings
from jetstream.cli.problems import Failure
from jetstream.cli.settings import Settings
from jetstream.errors import ApiError, Refusal

if TYPE_CHECKING:
    from jetstream.client.connection import Connection

Json = dict[str, Any]
INTERNAL_PREFIXES = ("KV_", "OBJ_", "MQTT_", "$MQTT_")


class Session:
    """A connected command."""

    def __init__(self, nc: "Connection", chosen: Settings) -> None:
        self.nc = nc
        self.settings = chosen
        self.prefix = chosen.api_prefix
        self.timeout = chosen.timeout

    # --- raw requests

    async def request(
        self,
        subject: str,
        body: bytes = b"",
        *,
        headers: dict[str, str] | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """One answer's payload; traced when asked for."""
        if self.settings.trace:
            click.echo(f">>> {subject}\n{body.decode('utf-8', 'replace')}\n", err=True)
        answer = await self.nc.request(
            subject, body, timeout=timeout or self.timeout, headers=headers
        )
        if self.settings.trace:
            click.echo(f"<<< {answer.data.decode('utf-8', 'replace')}\n", err=True)
        return bytes(answer.data)

    async def api(self, path: str, body: Json | None = None, timeout: float | None = None) -> Json:
        """A JetStream API request; what the server refuses is raised as `ApiError`."""
        payload = msgspec.json.encode(body) if body is not None else b""
        raw = await self.request(f"{self.prefix}.{path}", payload, timeout=timeout)
        answer: Json = msgspec.json.decode(raw)
        raise_refusal(answer)
        return answer

    async def extension(self, path: str, body: Json | None = None) -> Json | None:
        """A request to our own server's `$JSX.API`; None from servers that do not have it."""
        from jetstream.client.errors import ClientError

        payload = msgspec.json.encode(body) if body is not None else b""
        try:
            raw = await self.request(f"$JSX.API.{path}", payload, timeout=min(self.timeout, 5.0))
        except ClientError:
            return None
        answer: Json = msgspec.json.decode(raw)
        raise_refusal(answer)
        return answer

    async def pages(self, path: str, key: str, body: Json | None = None) -> list[Any]:
        """All pages of a list."""
        found: list[Any] = []
        while True:
            page = await self.api(path, {**(body or {}), "offset": len(found)})
            found += page.get(key) or []
            if len(found) >= page.get("total", 0) or not page.get(key):
                return found

    # --- streams

    async def stream_names(self, subject: str = "") -> list[str]:
        body = {"subject": subject} if subject else None
        return sorted(await self.pages("STREAM.NAMES", "streams", body))

    async def streams(self, subject: str = "") -> list[Json]:
        body = {"subject": subject} if subject else None
        return await self.pages("STREAM.LIST", "streams", body)

    async def stream_info(self, name: str, *, deleted: bool = False, subjects: str = "") -> Json:
        body: Json = {}
        if deleted:
            body["deleted_details"] = True
        if not subjects:
            return await self.api(f"STREAM.INFO.{name}", body or None)
        body["subjects_filter"] = subjects
        found: dict[str, int] = {}
        while True:
            info = await self.api(f"STREAM.INFO.{name}", {**body, "offset": len(found)})
            page = info["state"].get("subjects") or {}
            found.update(page)
            if len(found) >= info.get("total", 0) or not page:
                info["state"]["subjects"] = found
                return info

    async def create_stream(self, config: Json) -> Json:
        return await self.api(f"STREAM.CREATE.{config['name']}", config)

    async def update_stream(self, config: Json) -> Json:
        return await self.api(f"STREAM.UPDATE.{config['name']}", config)

    async def delete_stream(self, name: str) -> None:
        await self.api(f"STREAM.DELETE.{name}")

    async def purge(self, name: str, *, subject: str = "", seq: int = 0, keep: int = 0) -> Json:
        body: Json = {}
        if subject:
            body["filter"] = subject
        if seq:
            body["seq"] = seq
        if keep:
            body["keep"] = keep
        return await self.api(f"STREAM.PURGE.{name}", body or None)

    async def get_message(self, stream: str, *, seq: int = 0, last_for: str = "") -> Json:
        body: Json = {"last_by_subj": last_for} if last_for else {"seq": seq}
        return dict((await self.api(f"STREAM.MSG.GET.{stream}", body))["message"])

    async def next_message(self, stream: str, seq: int, subject: str = "") -> Json | None:
        """The first message at or after a sequence, optionally on a subject."""
        body: Json = {"seq": seq, "next_by_subj": subject or ">"}
        try:
            return dict((await self.api(f"STREAM.MSG.GET.{stream}", body))["message"])
        except ApiError as error:
            if error.err_code == 10037:
                return None
            raise

    # --- consumers

    async def consumer_names(self, stream: str) -> list[str]:
        return sorted(await self.pages(f"CONSUMER.NAMES.{stream}", "consumers"))

    async def consumers(self, stream: str) -> list[Json]:
        return await self.pages(f"CONSUMER.LIST.{stream}", "consumers")

    async def consumer_info(self, stream: str, name: str) -> Json:
        return await self.api(f"CONSUMER.INFO.{stream}.{name}")

    async def create_consumer(self, stream: str, config: Json, action: str = "") -> Json:
        """Create (or update) a consumer, on the subject that carries its name and filter."""
        name = config.get("durable_name") or config.get("name") or ""
        path = f"CONSUMER.CREATE.{stream}"
        if name:
            path += f".{name}"
            if single := config.get("filter_subject"):
                path += f".{single}"
        body: Json = {"stream_name": stream, "config": config}
        if action:
            body["action"] = action
        return await self.api(path, body)

    async def delete_consumer(self, stream: str, name: str) -> None:
        await self.api(f"CONSUMER.DELETE.{stream}.{name}")

    async def account_info(self) -> Json:
        return await self.api("INFO")

    def jetstream(self) -> Any:
        """The client's own JetStream, for what is more than a request."""
        return self.nc.jetstream(domain=self.settings.js_domain, prefix=self.settings.js_api_prefix)


def raise_refusal(answer: Json) -> None:
    """Turn the `error` of an answer into an exception."""
    error = answer.get("error")
    if error:
        raise ApiError(
            Refusal(
                int(error.get("code", 0)),
                int(error.get("err_code", 0)),
                str(error.get("description", "")),
            )
        )


def is_internal(name: str) -> bool:
    """A stream behind a bucket or MQTT, hidden unless asked for."""
    return name.startswith(INTERNAL_PREFIXES)


@asynccontextmanager
async def connect(**options: Any) -> AsyncIterator[Session]:
    """A session by the flags, environment and context of this command line."""
    chosen = settings()
    nc = await open_connection(chosen, **options)
    try:
        yield Session(nc, chosen)
    finally:
        await nc.close()


async def open_connection(chosen: Settings, **options: Any) -> "Connection":
    from jetstream.client.connect import connect as dial

    user, password, token = chosen.user, chosen.password, chosen.token
    if user and not password and not token:
        user, token = None, user
    arguments: dict[str, Any] = {
        "user": user,
        "password": password,
        "token": token,
        "nkey_seed": chosen.nkey,
        "creds": _creds(chosen),
        "tls": _tls(chosen),
        "tls_first": bool(chosen.tlsfirst),
        "name": chosen.connection_name or f"JetStream CLI {__version__}",
        "connect_timeout": chosen.timeout,
        "request_timeout": chosen.timeout,
        **options,
    }
    if chosen.inbox_prefix:
        arguments["inbox_prefix"] = chosen.inbox_prefix
    return await dial(chosen.url, **arguments)


def _creds(chosen: Settings) -> str | None:
    if chosen.jwt and chosen.seed:
        return (
            f"-----BEGIN NATS USER JWT-----\n{chosen.jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{chosen.seed}\n------END USER NKEY SEED------\n"
        )
    return str(chosen.creds) if chosen.creds else None


def _tls(chosen: Settings) -> Any:
    if not (chosen.tlsca or chosen.tlscert or chosen.tlsfirst):
        return None
    import ssl

    try:
        made = ssl.create_default_context(cafile=chosen.tlsca or None)
        if chosen.tlscert:
            made.load_cert_chain(chosen.tlscert, chosen.tlskey or None)
    except OSError as error:
        raise Failure(f"TLS files could not be loaded: {error}") from error
    return made
