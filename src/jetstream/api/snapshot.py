"""SNAPSHOT and RESTORE."""

from typing import Any, Final

from jetstream.api.route import ApiRequest, Route

ROUTES: Final[dict[str, Route]] = {}


def on_chunk(engine: Any, account: Any, js: Any, request: ApiRequest) -> object:
    return False
