"""Which messages of an interest or work-queue stream nobody needs any more.

A message may go when every consumer that wants it has settled it. A consumer has settled what it
delivered and does not wait for; it wants what is still to come if its filters match.
"""

from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetstream.engine.account import StreamAsset


def set_interest(asset: "StreamAsset") -> None:
    """Tell an interest stream what its consumers want."""
    if asset.config.retention == "interest":
        asset.stream.set_interest(
            [[each.encode() for each in c.config.filters] for c in asset.consumers.values()]
        )


def no_longer_needed(asset: "StreamAsset", seqs: "array[int]") -> "array[int]":
    """Of these, those that every consumer of the stream has settled or does not want."""
    left = seqs
    if asset.config.retention == "workqueue":
        return left
    for other in asset.consumers.values():
        if not left:
            return left
        needed = other.consumer.needs(left)
        if needed:
            kept = set(needed)
            left = array("Q", (seq for seq in left if seq not in kept))
    return left


def without(asset: "StreamAsset", gone: Any) -> None:
    """A consumer of an interest stream was deleted: remove what only it still needed."""
    store = asset.store
    if not asset.consumers:
        stored = store.next_seqs(store.first_seq, store.msgs)
    else:
        stored = gone.consumer.needs(store.next_seqs(store.first_seq, store.msgs))
    going = no_longer_needed(asset, stored)
    if going:
        asset.stream.on_consumed(going)
