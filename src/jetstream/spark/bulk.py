"""Whole records in large frames: the bulk read of our own server. Other servers do not have it."""

from jetstream.client.pipe import NoResponders, RequestTimeout, lease
from jetstream.errors import JetStreamError
from jetstream.spark.control import Control


def has_bulk(control: Control, stream: str) -> bool:
    """Does this server answer our extension requests?"""
    try:
        with lease(control.target) as pipe:
            pipe.api(f"$JSX.API.SEGMENTS.{stream}", timeout=2.0)
        return True
    except (NoResponders, RequestTimeout, JetStreamError):
        return False
