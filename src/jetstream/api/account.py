"""INFO: what the account uses and may use."""

from collections.abc import Sequence
from typing import Any, Final

from jetstream.api.route import ApiRequest, Route
from jetstream.schema.account import AccountInfo, AccountLimits, ApiStats
from jetstream.schema.requests import API_LEVEL


def info(js: Any, request: ApiRequest, names: Sequence[str]) -> list[AccountInfo]:
    return [js.info()]


def _nothing() -> AccountInfo:
    empty = AccountLimits(0, 0, 0, 0, 0, 0, 0, False)
    return AccountInfo(limits=empty, api=ApiStats(API_LEVEL))


ROUTES: Final = {"INFO": Route("account_info_response", "O", info, names=0, zero=_nothing)}
