"""Bringing an account's streams back after a restart."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from jetstream.errors import JetStreamError
from jetstream.schema.stream import StreamConfig

# On disk while a stream is being filled from a backup: after a crash it is not taken for a stream.
RESTORING_KEY = "_jetstream.restoring"

if TYPE_CHECKING:
    from jetstream.engine.account import JetStreamAccount

log = logging.getLogger("jetstream")


def recover_account(js: JetStreamAccount) -> None:
    """Open every stream of the account; what cannot be opened is reported and left alone."""
    from jetstream.engine import consumers

    assets = []
    for home in js.host.vault.streams(js.name):
        try:
            asset = _open(js, home)
            if asset is not None:
                assets.append(asset)
        except (JetStreamError, OSError, msgspec.MsgspecError) as error:
            log.error(
                "JetStream stream '%s > %s' could not be opened: %s", js.name, home.name, error
            )
    for line in js.host.vault.report:
        log.warning("JetStream store: %s", line)
    js.host.vault.report.clear()
    for asset in assets:
        js._add(asset)
    for asset in assets:
        consumers.recover(js.host, js, asset)
    for asset in assets:
        js.feeds.start(asset)


def _open(js: JetStreamAccount, home: Any) -> Any:
    config = msgspec.json.decode(home.config, type=StreamConfig)
    if RESTORING_KEY in config.metadata:
        log.warning("JetStream restore of '%s > %s' never ended: dropped", js.name, home.name)
        home.destroy()
        return None
    asset = js._asset(config, home.open(), home.created_ns, home)
    asset.stream.recover(js.host.now())
    for line in asset.store.report:
        log.warning("JetStream stream '%s > %s': %s", js.name, config.name, line)
    return asset
