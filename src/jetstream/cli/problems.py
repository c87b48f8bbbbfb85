"""What went wrong, why, and what to try next.

    jetstream: error: stream not found (404, 10059)
    hint: did you mean ORDERS? `jetstream stream ls` lists them

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream.errors import ApiError, JetStreamError

if TYPE_CHECKING:
    from jetstream.cli.settings import Settings

FAILED = 1
USAGE = 2
INTERRUPTED = 130


class Failure(Exception):
    """A command could not do what was asked; `hint` says what to try."""

    def __init__(self, text: str, hint: str | None = None, code: int = FAILED) -> None:
        super().__init__(text)
        self.hint = hint
        self.code = code


class Quit(Exception):
    """End with this exit code; everything worth saying has been said."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


HINTS: dict[int, str] = {
    10002: "the account's limits are reached: `jetstream account info` shows usage against them",
    10013: "the consumer exists with another configuration: `jetstream consumer edit` changes it",
    10014: "`jetstream consumer ls STREAM` lists the consumers of a stream",
    10023: "the server has no resources left for this: `jetstream account info` shows usage",
    10025: "the request is not valid JSON or has a field this server does not know",
    10026: "the limit of consumers is reached: remove one, or raise --max-consumers",
    10027: "the account may not hold more streams: `jetstream stream ls` lists them",
    10028: "not enough memory for this: use --storage file, or lower --max-bytes",
    10037: "no such message: `jetstream stream info STREAM` shows first and last sequence",
    10039: "JetStream is not enabled for this account: enable it in the server's configuration, "
    "or check --js-domain and the user",
    10047: "not enough storage for this: purge something (`jetstream stream purge --keep N`), "
    "or lower --max-bytes",
    10052: "the server explains above what is wrong with the configuration",
    10054: "the message is larger than the stream allows: `jetstream stream edit --max-msg-size`",
    10058: "a stream of that name has another configuration: `jetstream stream edit` changes it",
    10059: "`jetstream stream ls` lists the streams",
    10065: "`jetstream stream ls --subject SUBJECT` shows which stream owns it",
    10071: "somebody wrote first: read the current sequence and try again",
    10074: "this server is alone: use --replicas 1",
    10076: "JetStream is not enabled on this server: start it with -js",
    10077: "the stream is full: `jetstream stream purge STREAM --keep N`, or "
    "`jetstream stream edit STREAM --max-bytes …`",
    10104: "the same sequence cannot be used by rollups here",
    10109: "the stream is sealed: nothing can be changed in it any more",
    10110: "deleting messages is switched off for this stream (--deny-delete)",
    10130: "remove the stream first, or restore under another name with --config",
    10148: "the consumer exists: `jetstream consumer info` shows it, `consumer edit` changes it",
    10164: "somebody wrote first: read the current sequence and try again",
}


def api_text(error: ApiError) -> str:
    return f"{error.description} ({error.code}, {error.err_code})"


def explain(error: BaseException, settings: Settings) -> tuple[str, str | None, int]:
    """Text, hint and exit code for whatever ended a command."""
    if isinstance(error, Failure):
        return str(error), error.hint, error.code
    if isinstance(error, ApiError):
        return api_text(error), error.hint or HINTS.get(error.err_code), FAILED
    from jetstream.client import errors as client

    if isinstance(error, client.AuthorizationError):
        return (
            f"the server at {settings.url} refused us: {error}",
            f"used {settings.credential_origin}; give --user/--password or --creds, "
            "or save them with `jetstream context add`",
            FAILED,
        )
    if isinstance(error, client.NoServersError | ConnectionRefusedError):
        return _unreachable(error, settings)
    if isinstance(error, client.NoRespondersError):
        return _nobody(error, settings)
    if isinstance(error, TimeoutError):
        return (
            f"no answer within {settings.timeout:g}s: {error}",
            "allow more with --timeout 10s; `jetstream rtt` measures the way to the server",
            FAILED,
        )
    if isinstance(error, JetStreamError | OSError | ValueError):
        return str(error) or type(error).__name__, getattr(error, "hint", None), FAILED
    return (
        f"{type(error).__name__}: {error}",
        "this is a bug in jetstream: please report it",
        FAILED,
    )


def _unreachable(error: BaseException, settings: Settings) -> tuple[str, str | None, int]:
    text = str(error)
    low = text.lower()
    if "authorization" in low or "authentication" in low:
        return (
            f"the server at {settings.url} refused us: {text}",
            f"used {settings.credential_origin}; give --user/--password or --creds",
            FAILED,
        )
    hint = (
        f"the address came from {settings.url_origin}; start a server with `jetstream server -js`"
    )
    if settings.context is not None:
        hint += f", or choose another context than {settings.context.name!r} with --context"
    return f"no server could be reached at {settings.url}: {text}", hint, FAILED


def _nobody(error: BaseException, settings: Settings) -> tuple[str, str | None, int]:
    subject = str(getattr(error, "subject", ""))
    if subject.startswith((settings.api_prefix, "$JS.")):
        return (
            "JetStream is not enabled on this server or for this account",
            "start the server with -js; if it runs in a domain, name it with --js-domain",
            FAILED,
        )
    if subject.startswith("$SYS."):
        return (
            f"nobody answers {subject}",
            "server commands need a user of the system account: give --user or --creds of one",
            FAILED,
        )
    return f"no responders are available on {subject!r}", None, FAILED


def missing_part(name: str, module: str, error: ModuleNotFoundError) -> Failure:
    """A command whose module, or a library it needs, is not installed."""
    extras = {
        "pyspark": "spark",
        "pyarrow": "spark",
        "starlette": "console",
        "uvicorn": "console",
        "textual": "tui",
        "rich": "tui",
        "deltalake": "lakehouse",
        "pyiceberg": "lakehouse",
    }
    missing = (error.name or "").split(".")[0]
    if missing in extras:
        return Failure(
            f"`jetstream {name}` needs the package {missing}",
            f"install it with `pip install 'jetstream-py[{extras[missing]}]'`",
        )
    return Failure(f"`jetstream {name}` is not part of this installation ({error})")
