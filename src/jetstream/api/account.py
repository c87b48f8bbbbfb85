"""INFO: what the account uses and may use."""

from collections.abc import Sequence
from typing import Any, Final

from jetstream.api.route import ApiRequest, Route
from jetstream.schema.account import AccountInfo


def info(js: Any, request: ApiRequest, names: Sequence[str]) -> list[AccountInfo]:
    return [js.info()]


ROUTES: Final = {"INFO": Route("account_info_response", "O", info, names=0)}
