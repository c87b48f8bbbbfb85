"""Where the messages of one stream are handed in, and where its answers wait for the disk.

The broker hands over runs of a batch (`capture`). The stream decides, the store keeps, and the desk
remembers who is owed an answer. Once per turn `settle` carries out what the stream wants done,
and writes; when a sync has covered it, `finish` lets the answers go.
"""

from typing import TYPE_CHECKING, Any

from jetstream.broker._broker import Account, Client, Subscription
from jetstream.engine._held import HeldAcks
from jetstream.engine.flush import Flusher
from jetstream.errors import StoreError
from jetstream.schema.api_errors import STREAM_STORE_FAILED
from jetstream.schema.encoding import to_json
from jetstream.stream.values import Stored
from jetstream.wire._parser import Batch

if TYPE_CHECKING:
    from jetstream.engine.engine import Engine

# A publisher that runs ahead of the disk by more than this is held back until the next sync.
UNSYNCED_BYTES_MAX = 64 * 1024 * 1024
# What nobody was promised is synced a moment later, unless it is as much as this.
UNPROMISED_BYTES_MAX = 1024 * 1024


class StreamDesk:
    """The engine's side of one stream."""

    def __init__(self, engine: "Engine", account: Account, js: Any, asset: Any) -> None:
        self.engine = engine
        self.account = account
        self.js = js
        self.asset = asset
        head = f'{{"stream":{_quoted(asset.config.name)},'
        if engine.domain:
            head += f'"domain":{_quoted(engine.domain)},'
        self.filling = HeldAcks((head + '"seq":').encode())
        self.syncing = HeldAcks((head + '"seq":').encode())
        self.waiting: list[tuple[bytes, bytes]] = []  # confirmations: (to, payload)
        self.waiting_sync: list[tuple[bytes, bytes]] = []
        self.held_clients: list[Any] = []
        self.unsynced_bytes = 0
        self.touched = False
        self.fresh = False  # messages were appended since consumers last looked
        self.closed = False
        self.subscriptions: list[Subscription] = []
        self.listening: dict[str, Any] = {}  # consumers somebody waits on
        self.seq_syncing = 0
        self.in_flight = False  # a sync that covers this stream is running
        self.again = False  # and another one is due after it
        self.flusher = Flusher(engine.pool, self._sync, self.finish)

    # --- subjects -----------------------------------------------------------------------------

    def listen(self) -> None:
        """Capture the stream's subjects (again, after they changed)."""
        self.stop_listening()
        for subject in self.asset.config.subjects or ():
            sub = Subscription(None, self.account, subject.encode())
            sub.sink = self
            self.account.subscribe(sub)
            self.subscriptions.append(sub)

    def stop_listening(self) -> None:
        for sub in self.subscriptions:
            self.account.unsubscribe(sub)
        self.subscriptions = []

    # --- in -----------------------------------------------------------------------------------

    def capture(self, client: Client | None, batch: Batch, start: int, stop: int) -> None:
        """These messages belong to this stream."""
        if self.closed:
            return
        stream = self.asset.stream
        try:
            outcomes = stream.publish(batch, start, stop, self.engine.now())
        except StoreError as problem:
            self._refuse(batch, start, stop, problem)
            return
        no_ack = stream.config.no_ack
        for outcome in outcomes:
            if type(outcome) is Stored:
                if not no_ack:
                    self.filling.add_run(batch, outcome.start, outcome.stop, outcome.first_seq)
            elif outcome.ack is not None and not no_ack:
                reply = batch.reply(outcome.index)
                if reply:
                    self.filling.add(reply, outcome.ack)
        self.touch()
        self.fresh = True
        self.unsynced_bytes += batch.sizes(start, stop)
        if client is not None and self.unsynced_bytes > UNSYNCED_BYTES_MAX and self.is_durable:
            client.hold()  # type: ignore[attr-defined]
            self.held_clients.append(client)

    def touch(self) -> None:
        if not self.touched:
            self.touched = True
            self.engine.touched.append(self)
            self.engine.wake_turn()

    def confirm(self, to: bytes, payload: bytes, after_sync: bool) -> None:
        """Answer on `to`; after the disk if the answer promises something."""
        if after_sync and self.is_durable:
            self.waiting.append((to, payload))
            self.touch()
        else:
            self.engine.send(self.account, to, payload)

    # --- out ----------------------------------------------------------------------------------

    @property
    def is_durable(self) -> bool:
        """Do answers wait for the disk?"""
        return bool(
            self.asset.config.storage == "file" and self.engine.syncs_before_ack(self.asset)
        )

    def settle(self, now: int) -> None:
        """End of a turn: carry out what the stream wants done."""
        self.touched = False
        if self.closed:
            return
        self.carry_out(now)
        if self.fresh:
            self.fresh = False
            for consumer in self.listening.values():
                consumer.consumer.on_new_messages(now)
                self.engine.deliveries.ready[id(consumer)] = (self, consumer)
            for feed in list(self.asset.followers):
                feed.pump()
        deadline = self.asset.stream.next_deadline()
        self.engine.timers.set(("stream", id(self)), deadline, self.on_deadline)

    def carry_out(self, now: int) -> None:
        effects = self.asset.stream.take_effects()
        if not effects:
            return
        if effects.evicted:
            self.engine.removed(self, effects.evicted, now)
        if effects.purged:
            self.engine.purged(self, now)
        if effects.appended:
            self.fresh = True
        for subject, headers, payload in effects.republish:
            self.engine.broker.publish(self.account, subject, payload, b"", headers)
        for subject, payload in effects.advisories:
            self.js.advise(subject, payload)
        for reply, payload in effects.answers:
            self.filling.add(reply, payload)

    def on_deadline(self) -> None:
        """Something in the stream is due: age, TTL, a schedule, a batch left behind."""
        now = self.engine.now()
        try:
            self.asset.stream.expire(now)
        except StoreError as problem:
            self.engine.log_trouble(self, problem)
        self.touch()

    def write(self) -> None:
        """Hand what was appended to the OS and see to it that it is synced."""
        if self.closed:
            return
        try:
            wrote = self.asset.store.write()
            journal = self.asset.journal
            if journal is not None:
                wrote = journal.write() or wrote
        except (StoreError, OSError) as problem:
            self.fail(problem, self.filling)
            return
        if not self.is_durable:
            self.unsynced_bytes = 0
            self.filling.release(self.engine.broker, self.account)
            if wrote:
                self.engine.sync_later(self)
            return
        if len(self.filling) or self.waiting or self.unsynced_bytes > UNPROMISED_BYTES_MAX:
            self.engine.uncommitted.append(self)
        elif wrote:
            self.engine.commit_soon(self)

    @property
    def answers(self) -> int:
        """How many wait for the sync that is about to start, or running."""
        return len(self.syncing) + len(self.waiting_sync)

    def begin(self) -> None:
        """A sync starts: those who waited so far wait for this one."""
        self.in_flight = True
        self.again = False
        self.filling, self.syncing = self.syncing, self.filling
        self.waiting, self.waiting_sync = [], self.waiting
        self.seq_syncing = self.asset.store.last_seq

    def take_unsynced(self) -> "list[tuple[str, int, bytes]]":
        """What the shared journal has to hold for this stream."""
        changes: list[tuple[str, int, bytes]] = self.asset.store.take_unsynced()
        if self.asset.journal is not None:
            changes += self.asset.journal.take_unsynced()
        return changes

    def _sync(self) -> None:
        """In a worker thread."""
        self.asset.store.sync()
        journal = self.asset.journal
        if journal is not None:
            journal.sync()

    def finish(self, problem: BaseException | None) -> None:
        """The sync is over: let the answers go, or say why not."""
        self.in_flight = False
        self.unsynced_bytes = 0
        if problem is not None:
            self.fail(problem, self.syncing)
        else:
            if not self.closed:
                self.asset.store.mark_synced(self.seq_syncing)
                self.js.feeds.synced(self.asset)
            self.syncing.release(self.engine.broker, self.account)
            for to, payload in self.waiting_sync:
                self.engine.send(self.account, to, payload)
        self.waiting_sync = []
        held, self.held_clients = self.held_clients, []
        for client in held:
            client.unhold()
        if not self.closed and (len(self.filling) or self.waiting or self.again):
            self.engine.commits.commit([self])

    def fail(self, problem: BaseException, held: HeldAcks) -> None:
        """What could not be made durable is not acknowledged: the publishers hear why."""
        self.engine.log_trouble(self, problem)
        body = self._error(str(problem))
        for reply, _, _ in held.replies():
            self.engine.send(self.account, reply, body)
        held.clear()
        self.waiting_sync = []

    def _refuse(self, batch: Batch, start: int, stop: int, problem: StoreError) -> None:
        self.engine.log_trouble(self, problem)
        body = self._error(str(problem))
        for i in range(start, stop):
            reply = batch.reply(i)
            if reply:
                self.engine.send(self.account, reply, body)

    def _error(self, text: str) -> bytes:
        refusal = STREAM_STORE_FAILED
        error = {"code": refusal.code, "err_code": refusal.err_code, "description": text}
        return to_json({"error": error, "stream": self.asset.config.name, "seq": 0})

    def close(self) -> None:
        self.closed = True
        self.stop_listening()
        self.engine.timers.drop(("stream", id(self)))


def _quoted(text: str) -> str:
    return to_json(text).decode()
