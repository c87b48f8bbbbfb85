"""What consumers are due, handed out at the end of a turn.

A consumer is *ready* when something happened to it (a pull, acks, new messages, a deadline). Once
per turn each ready consumer is asked what should be delivered; the kernel encodes it, and what the
consumer wants done besides is carried out. A consumer nobody waits on costs nothing.
"""

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jetstream.broker._broker import Account, Subscription
from jetstream.clock import MILLISECOND
from jetstream.consumer.acks import AckRun, parse_ack
from jetstream.consumer.values import PullRequest
from jetstream.engine import consumers as control
from jetstream.engine._deliver import deliver, waiting_bytes
from jetstream.subjects.match import matches
from jetstream.subjects.tokens import has_wildcard

if TYPE_CHECKING:
    from jetstream.engine.desk import StreamDesk
    from jetstream.engine.engine import Engine

# Messages one consumer hands out before the others get their turn.
TURN_BUDGET = 4096
# A push consumer waits when its receiver has this much unread.
PUSH_BYTES_AHEAD = 4 * 1024 * 1024
PUSH_RETRY_NS = 2 * MILLISECOND

Ready = tuple["StreamDesk", Any]


class Deliveries:
    """Runs the consumers of all streams."""

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        self.ready: dict[int, Ready] = {}
        self._push: dict[str, dict[bytes, list[Ready]]] = {}
        self._asks: dict[str, Callable[[bytes], bool]] = {}

    @property
    def has_work(self) -> bool:
        return bool(self.ready)

    # --- coming and going ---------------------------------------------------------------------

    def add(self, desk: "StreamDesk", asset: Any) -> None:
        """A consumer exists from now on."""
        subject = (asset.config.deliver_subject or "").encode()
        if subject:
            self._push.setdefault(desk.account.name, {}).setdefault(subject, []).append(
                (desk, asset)
            )
            self._bind(desk, asset)
        asset.ack_prefix = f"$JS.ACK.{desk.asset.config.name}.{asset.name}.".encode()
        desk.listening[asset.name] = asset
        self.mark(desk, asset)

    def change(self, desk: "StreamDesk", asset: Any) -> None:
        """Its configuration changed; the delivery subject may have."""
        self._unlist(desk, asset)
        self.add(desk, asset)

    def remove(self, desk: "StreamDesk", asset: Any) -> None:
        self._unlist(desk, asset)
        self.ready.pop(id(asset), None)
        self.engine.timers.drop(("consumer", id(asset)))
        self._effects(desk, asset, self.engine.now(), control_too=False)

    def _unlist(self, desk: "StreamDesk", asset: Any) -> None:
        desk.listening.pop(asset.name, None)
        by_subject = self._push.get(desk.account.name, {})
        for subject, waiting in list(by_subject.items()):
            by_subject[subject] = [pair for pair in waiting if pair[1] is not asset]
            if not by_subject[subject]:
                del by_subject[subject]

    def mark(self, desk: "StreamDesk", asset: Any) -> None:
        """Something happened to this consumer."""
        self.ready[id(asset)] = (desk, asset)
        self.engine.wake_turn()

    # --- what happens to consumers ------------------------------------------------------------

    def find(self, js: Any, stream: str, consumer: str) -> Ready | None:
        if js is None:
            return None
        asset = js.streams.get(stream)
        found = asset.consumers.get(consumer) if asset is not None else None
        if asset is None or found is None:
            return None
        desk = self.engine.desks.get(id(asset))
        return (desk, found) if desk is not None else None

    def pull(self, js: Any, stream: str, consumer: str, request: PullRequest) -> bool:
        """A client asks for messages. False: there is no such consumer."""
        found = self.find(js, stream, consumer)
        if found is None:
            return False
        desk, asset = found
        asset.consumer.on_pull(request, request.received_ns)
        desk.listening[asset.name] = asset
        self.mark(desk, asset)
        return True

    def acked(self, js: Any, stream: str, consumer: str, run: AckRun, now: int) -> bool:
        found = self.find(js, stream, consumer)
        if found is None:
            return False
        desk, asset = found
        if not asset.consumer.tracks:
            return False  # without acks nobody listens for them
        asset.consumer.on_acks(run, now)
        self.mark(desk, asset)
        return True

    def odd_ack(self, js: Any, subject: bytes, payload: bytes, reply: bytes, now: int) -> bool:
        """An ack in one of the rarer forms."""
        ack = parse_ack(subject, payload)
        if ack is None and subject.count(b".") == 8:
            # The consumer listens on nine tokens; what it can not read it passes over.
            tokens = subject.decode("utf-8", "replace").split(".")
            return self.find(js, tokens[2], tokens[3]) is not None
        if ack is None or (ack.account_hash and js is not None and ack.account_hash != js.hash):
            return False
        run = AckRun()
        run.add(ack, reply)
        return self.acked(js, ack.stream, ack.consumer, run, now)

    def flow_control(self, js: Any, stream: str, consumer: str, subject: bytes) -> bool:
        found = self.find(js, stream, consumer)
        if found is None:
            return False
        found[1].consumer.on_flow_control(subject, self.engine.now())
        self.mark(*found)
        return True

    def removed(self, desk: "StreamDesk", seqs: "array[int]", now: int) -> None:
        for asset in list(desk.asset.consumers.values()):
            if asset.consumer.on_removed(seqs, now):
                self.mark(desk, asset)

    def purged(self, desk: "StreamDesk", now: int) -> None:
        for asset in list(desk.asset.consumers.values()):
            asset.consumer.on_purged(now)
            self.mark(desk, asset)

    # --- interest -----------------------------------------------------------------------------

    def interest_of(self, account: Account) -> Callable[[Subscription, bool], None]:
        """The broker says that somebody came to listen, or left."""
        by_subject = self._push.setdefault(account.name, {})

        def changed(sub: Subscription, added: bool) -> None:
            if not by_subject or sub.client is None:
                return
            if has_wildcard(sub.subject):
                pairs = [
                    p for s, found in by_subject.items() if matches(sub.subject, s) for p in found
                ]
            else:
                pairs = by_subject.get(sub.subject, [])
            for desk, asset in pairs:
                self._bind(desk, asset)
                self.mark(desk, asset)

        return changed

    def _bind(self, desk: "StreamDesk", asset: Any) -> None:
        config = asset.config
        subject = (config.deliver_subject or "").encode()
        group = (config.deliver_group or "").encode() or None
        bound = desk.account.has_interest(subject, group)
        asset.consumer.on_interest(bound, self.engine.now())
        if bound:
            desk.listening[asset.name] = asset

    def _asker(self, account: Account) -> Callable[[bytes], bool]:
        ask = self._asks.get(account.name)
        if ask is None:
            ask = self._asks[account.name] = account.has_interest
        return ask

    # --- the turn -----------------------------------------------------------------------------

    def run(self, now: int) -> list["StreamDesk"]:
        """Ask every ready consumer once; returns the streams that have something to write."""
        ready, self.ready = self.ready, {}
        busy: dict[int, StreamDesk] = {}
        for desk, asset in ready.values():
            if desk.closed or desk.asset.consumers.get(asset.name) is not asset:
                continue
            self._run(desk, asset, now)
            busy[id(desk)] = desk
        return list(busy.values())

    def _run(self, desk: "StreamDesk", asset: Any, now: int) -> None:
        consumer = asset.consumer
        account = desk.account
        sent = 0
        if not self._is_choked(desk, asset, now):
            deliveries = consumer.deliver(now, self._asker(account), TURN_BUDGET)
            if deliveries:
                sent = sum(len(delivery.seqs) for delivery in deliveries)
                deliver(self.engine.broker, account, desk.asset.store, deliveries, asset.ack_prefix)
        self._effects(desk, asset, now)
        if desk.asset.consumers.get(asset.name) is not asset:
            return
        if sent > TURN_BUDGET // 2:
            # The budget ended it, or nearly so: there may be more.
            self.mark(desk, asset)
        if not consumer.is_waiting:
            desk.listening.pop(asset.name, None)
        self.engine.timers.set(
            ("consumer", id(asset)), consumer.next_deadline(), lambda: self._due(desk, asset)
        )

    def _is_choked(self, desk: "StreamDesk", asset: Any, now: int) -> bool:
        """Does the receiver of a push consumer have so much unread that we wait for it?"""
        subject = asset.config.deliver_subject
        if not subject or waiting_bytes(desk.account, subject.encode()) < PUSH_BYTES_AHEAD:
            return False
        self.engine.schedule(now + PUSH_RETRY_NS, lambda: self.mark(desk, asset))
        return True

    def _due(self, desk: "StreamDesk", asset: Any) -> None:
        asset.consumer.expire(self.engine.now())
        self.mark(desk, asset)

    def _effects(self, desk: "StreamDesk", asset: Any, now: int, control_too: bool = True) -> None:
        effects = asset.consumer.take_effects()
        broker = self.engine.broker
        for status in effects.statuses:
            broker.publish(desk.account, status.to, b"", status.reply, status.headers)
        if control_too:
            control.carry_out(self.engine, desk.js, desk.asset, asset, effects, now)
        for confirm in effects.replies:
            desk.confirm(confirm.to, b"", confirm.after_sync)
