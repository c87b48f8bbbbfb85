"""Mirrors and sources are fed here: straight from store to store inside one process.

The reference lets an internal consumer carry the messages; the observable results are the same, a
copy is simply cheaper. A feed follows its origin as soon as that exists, moves a bounded number of
messages per turn, and remembers its position through the messages it stored.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from jetstream.engine.interest import no_longer_needed
from jetstream.errors import ApiError, StoreError
from jetstream.schema.addresses import domain_prefix
from jetstream.schema.api_errors import STREAM_NOT_FOUND
from jetstream.schema.requests import error_detail
from jetstream.schema.stream import SourceInfo, StreamConfig, StreamSource
from jetstream.schema.times import parse_rfc3339
from jetstream.stream import counters
from jetstream.stream.headers import policy_headers
from jetstream.stream.sources import Takeover, short_hash
from jetstream.stream.sources_config import source_identity
from jetstream.subjects.match import is_subset, overlaps

if TYPE_CHECKING:
    from jetstream.engine.account import JetStreamAccount, StreamAsset

SLICE: Final = 2_000
HEARTBEAT_NS: Final = 1_000_000_000
RETRY_NS: Final = 2_000_000_000
FIRST_TRY_NS: Final = 100_000_000
POSITION_SCAN_MAX: Final = 1_000_000


class Feed:
    """One mirror or source of one stream."""

    def __init__(
        self, feeds: Feeds, target: StreamAsset, source: StreamSource, mirror: bool
    ) -> None:
        self.feeds = feeds
        self.target = target
        self.takeover = Takeover(source)
        self.mirror = mirror
        self.origin: StreamAsset | None = None
        self.next_seq = 0
        self.last_seq = 0
        self.heard_ns = 0
        self.missing = False
        self.closed = False
        # Taken over but not yet acknowledged to the origin: (our sequence, the origin's).
        self._owed: list[tuple[int, array[int]]] = []
        self._identity = ""
        self._filter: Any = None

    # -- following ----------------------------------------------------------------------------

    def attach(self, origin: StreamAsset) -> None:
        """The origin is there: find where to go on, and start."""
        self.origin = origin
        self.missing = False
        self._identity = short_hash(f"{origin.name} {origin.created_ns}")
        filters = self.takeover.filters
        self._filter = origin.store.filter(filters) if filters else None
        if not self.next_seq:
            self.next_seq = self._position() or self._start()
        origin.followers.append(self)
        _tell_followers(origin)
        self.heard_ns = self.feeds.js.host.now()
        self.pump()

    def detach(self) -> None:
        if self.origin is not None and self in self.origin.followers:
            self.origin.followers.remove(self)
            _tell_followers(self.origin)
        self.origin = None

    def _position(self) -> int:
        """The sequence after the last one taken over before a restart, 0 if there is none."""
        store = self.target.store
        if self.mirror:
            return store.last_seq + 1 if store.last_seq else 0
        seq, seen = store.last_seq, 0
        while seq >= store.first_seq and seq > 0 and seen < POSITION_SCAN_MAX:
            message = store.get(seq)
            if message is not None:
                found = self.takeover.position_in(message.headers)
                if found:
                    self.last_seq = found
                    return found + 1
            seq -= 1
            seen += 1
        return 0

    def _start(self) -> int:
        source = self.takeover.source
        assert self.origin is not None
        if source.opt_start_seq:
            return source.opt_start_seq
        if source.opt_start_time:
            try:
                return int(self.origin.store.seq_at_time(parse_rfc3339(source.opt_start_time)))
            except ValueError:
                return 1
        return 1

    # -- moving -------------------------------------------------------------------------------

    def pump(self) -> None:
        """Take over what is new, a slice at a time."""
        origin = self.origin
        if origin is None or self.closed:
            return
        host = self.feeds.js.host
        now = host.now()
        self.heard_ns = now
        seqs = origin.store.next_seqs(self.next_seq, SLICE, self._filter)
        more = len(seqs) == SLICE
        # What the origin could still lose in a power cut must not be found in its copies.
        safe = self._safe_seq(origin)
        while seqs and seqs[-1] > safe:
            seqs.pop()
            more = False
        if not seqs:
            return
        try:
            for seq in seqs:
                self._take(origin, seq, now)
        except (StoreError, ApiError):
            host.schedule(now + RETRY_NS, self.pump)
            host.wake(self.target)
            return
        if origin.config.retention != "limits":
            self._owed.append((self.target.store.last_seq, seqs))
            self.settle()
        host.wake(self.target)
        if more:
            host.schedule(now, self.pump)

    def _take(self, origin: StreamAsset, seq: int, now: int) -> None:
        message = origin.store.get(seq)
        if message is not None:
            subject = self.takeover.subject(message.subject)
            stream = self.target.stream
            if self.mirror:
                block = self.takeover.mirrored_headers(message.headers)
                if seq > stream.store.last_seq:
                    stream.keep_mirrored(seq, subject, block, message.payload, message.time_ns)
            else:
                self._take_sourced(message, subject, now)
        self.last_seq = seq
        self.next_seq = seq + 1

    def _take_sourced(self, message: Any, subject: bytes, now: int) -> None:
        stream = self.target.stream
        block = self.takeover.sourced_headers(
            message.headers, message.seq, message.subject, self._identity
        )
        payload = message.payload
        if stream.config.allow_msg_counter and b"Nats-Incr" in policy_headers(message.headers):
            last = stream.ledger.last_message(subject)
            change, block = counters.sourced_increment(
                block,
                payload,
                self.takeover.source.name,
                message.subject.decode("utf-8", "replace"),
                last,
            )
            payload = counters.body_of(counters.value_of(last[1] if last else None) + change)
        stream.keep_sourced(subject, block, payload, now)

    def settle(self) -> None:
        """To a workqueue or interest stream we are a consumer: it acknowledges what is on disk."""
        origin = self.origin
        if origin is None or not self._owed:
            return
        safe = self._safe_seq(self.target)
        going = array("Q")
        while self._owed and self._owed[0][0] <= safe:
            going.extend(self._owed.pop(0)[1])
        going = no_longer_needed(origin, going)
        if going:
            origin.stream.on_consumed(going)
            self.feeds.js.host.wake(origin)

    def _safe_seq(self, asset: StreamAsset) -> int:
        """Up to where a stream's messages survive whatever happens."""
        promises = getattr(self.feeds.js.host, "syncs_before_ack", None)
        if promises is None or asset.config.storage != "file" or not promises(asset):
            return int(asset.store.last_seq)
        return int(asset.store.synced_seq)

    def _silent_for(self, now: int) -> int:
        """Nanoseconds since last heard; an origin in the same process is heard every second."""
        if not self.heard_ns:
            return -1
        silent = max(now - self.heard_ns, 0)
        return silent % HEARTBEAT_NS if self.origin is not None else silent

    # -- telling ------------------------------------------------------------------------------

    def info(self, now: int) -> SourceInfo:
        source = self.takeover.source
        lag = 0
        if self.origin is not None and self.next_seq:
            lag = self.origin.store.count_from(self.next_seq, self._filter)
        return SourceInfo(
            name=source.name,
            external=source.external,
            lag=lag,
            seq=0 if self.mirror else self.last_seq,
            active=self._silent_for(now),
            error=error_detail(ApiError(STREAM_NOT_FOUND)) if self.missing else None,
            filter_subject=source.filter_subject,
            subject_transforms=source.subject_transforms,
        )


def _tell_followers(origin: StreamAsset) -> None:
    origin.stream.set_followers([feed.takeover.filters for feed in origin.followers])


class Feeds:
    """All feeds whose target is in one account."""

    def __init__(self, js: JetStreamAccount) -> None:
        self.js = js
        self._feeds: dict[str, list[Feed]] = {}
        self._closed = False

    def start(self, asset: StreamAsset) -> None:
        """A stream was added: feed it, and feed those that waited for it."""
        config = asset.config
        sources = [config.mirror] if config.mirror is not None else config.sources
        made = [Feed(self, asset, s, config.mirror is not None) for s in sources]
        if made:
            self._feeds[asset.name] = made
            # Not at once: whoever creates a mirror is first told that it exists.
            self.js.host.schedule(self.js.host.now(), lambda: self._connect_all(made))
        for js in self._everyone():
            js.feeds.connect_waiting(asset)

    def stop(self, asset: StreamAsset) -> None:
        for feed in self._feeds.pop(asset.name, ()):
            feed.closed = True
            feed.detach()
        for follower in list(asset.followers):
            follower.detach()

    def restart(self, asset: StreamAsset, old: StreamConfig) -> None:
        """The configuration changed; feeds that stay the same keep their place."""
        config = asset.config
        if (config.mirror, config.sources) == (old.mirror, old.sources):
            return
        before = self._feeds.get(asset.name, ())
        places = {source_identity(feed.takeover.source): feed.next_seq for feed in before}
        for feed in self._feeds.pop(asset.name, ()):
            feed.closed = True
            feed.detach()
        sources = [config.mirror] if config.mirror is not None else config.sources
        made = [Feed(self, asset, s, config.mirror is not None) for s in sources]
        for feed in made:
            feed.next_seq = places.get(source_identity(feed.takeover.source), 0)
        if made:
            self._feeds[asset.name] = made
            for feed in made:
                self._connect(feed, first=True)

    def close(self) -> None:
        self._closed = True
        for feeds in self._feeds.values():
            for feed in feeds:
                feed.closed = True

    def _connect_all(self, feeds: list[Feed]) -> None:
        for feed in feeds:
            self._connect(feed, first=True)

    def connect_waiting(self, origin: StreamAsset) -> None:
        """A stream appeared: feeds that waited for one of this name may start."""
        for feeds in list(self._feeds.values()):
            for feed in feeds:
                if feed.origin is None and feed.takeover.source.name == origin.name:
                    self._connect(feed)

    def synced(self, asset: StreamAsset) -> None:
        """The disk has caught up with a stream: its copies may, and what it owes can be paid."""
        for follower in list(asset.followers):
            follower.pump()
        for feed in self.of(asset):
            feed.settle()

    def of(self, asset: StreamAsset) -> list[Feed]:
        return self._feeds.get(asset.name, [])

    def infos(self, asset: StreamAsset) -> tuple[SourceInfo | None, list[SourceInfo]]:
        """(mirror, sources) for a stream info."""
        told = [feed.info(self.js.host.now()) for feed in self.of(asset)]
        if asset.config.mirror is not None:
            return (told[0] if told else None), []
        return None, told

    def _connect(self, feed: Feed, first: bool = False) -> None:
        if feed.closed or self._closed or feed.origin is not None:
            return
        js = self._account_of(feed.takeover.source)
        origin = js.streams.get(feed.takeover.source.name) if js is not None else None
        if origin is not None and origin is not feed.target:
            feed.attach(origin)
            return
        # Nobody home: an origin elsewhere may appear at any time; say so after the first look.
        host = self.js.host
        if first:
            host.schedule(host.now() + FIRST_TRY_NS, lambda: self._not_found(feed))

    def _not_found(self, feed: Feed) -> None:
        if feed.origin is None and self._account_of(feed.takeover.source) is not None:
            feed.missing = True

    def _account_of(self, source: StreamSource) -> JetStreamAccount | None:
        """Whose stream this is: ours, or that of the account the API prefix leads to."""
        if source.external is None or not source.external.api:
            return self.js
        prefix = source.external.api
        if self.js.domain and prefix == domain_prefix(self.js.domain):
            return self.js
        accounts = getattr(self.js.host, "accounts", {})
        find = getattr(self.js.host, "account", None)
        spec = find(self.js.name).spec if find is not None else None
        for imported in getattr(spec, "imports", ()):
            # The import must lead to the API that makes consumers, as the reference needs one.
            leads_there = overlaps(imported.subject, "$JS.API.CONSUMER.CREATE.*")
            if leads_there and is_subset(f"{prefix}.CONSUMER.CREATE.x", imported.to):
                found: JetStreamAccount | None = accounts.get(imported.account)
                return found
        return None

    def _everyone(self) -> list[JetStreamAccount]:
        accounts = getattr(self.js.host, "accounts", None)
        return list(accounts.values()) if accounts else [self.js]
