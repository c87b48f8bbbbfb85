"""Carries decisions out: owns streams and consumers, moves messages between them and the broker.

Once per loop turn (`turn`): streams settle what was published, consumers hand out what is due,
everything written goes to the disk, and answers that promise durability wait for it. Time comes in
through `tick`; nobody in here owns a timer, a task or a thread except the sync pool.
"""

import logging
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetstream.broker._broker import Account, Client, Subscription
from jetstream.clock import MILLISECOND, SECOND, Random
from jetstream.engine._acks import parse_acks
from jetstream.engine._direct import answer_run
from jetstream.engine.account import JetStreamAccount
from jetstream.engine.commit import Commits
from jetstream.engine.deliveries import Deliveries
from jetstream.engine.desk import StreamDesk
from jetstream.engine.flush import SyncPool
from jetstream.engine.timers import Timers
from jetstream.errors import StoreError
from jetstream.store.files import Files
from jetstream.store.vault import Vault
from jetstream.wire._parser import Batch

if TYPE_CHECKING:
    from jetstream.server.server import Server

BACKGROUND_NS = 20 * MILLISECOND
BACKGROUND_SLICE_NS = 2 * MILLISECOND
TROUBLE_LOG_NS = 10 * SECOND
COMMIT_SOON_S = 0.005

ApiHandler = Callable[["Engine", Account, Any, Client | None, bytes, bytes, bytes, bytes], object]


class Engine:
    """JetStream for all accounts of a server."""

    def __init__(self, server: "Server", api: ApiHandler, files: Files | None = None) -> None:
        self.server = server
        self.api = api
        self.broker = server.broker
        self.log: logging.Logger = server.log
        self.random: Random = server.random
        self.options = server.options.jetstream
        self.domain = self.options.domain
        self.max_payload = server.options.max_payload
        self.server_name = server.name
        self.server_id = server.id
        base = Path(self.options.store_dir or Path(tempfile.gettempdir()) / "nats")
        self.store_dir = str(base / "jetstream")
        self.files = files if files is not None else Files()
        self.timers = Timers()
        self.touched: list[StreamDesk] = []
        self._written: dict[int, StreamDesk] = {}  # touched this turn, not yet handed to the OS
        self._soon: dict[int, StreamDesk] = {}
        self.uncommitted: list[StreamDesk] = []
        self.commits = Commits(self)
        self.desks: dict[int, StreamDesk] = {}
        self.accounts: dict[str, JetStreamAccount] = {}
        self.deliveries = Deliveries(self)
        self._troubled: dict[int, int] = {}
        self._unsynced: dict[int, StreamDesk] = {}
        self._callbacks = 0
        self._timer_ns = 0

    # --- opening and closing ------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store and bring back what it holds."""
        self.vault = Vault(self.store_dir, self.files)
        self.pool = SyncPool(self.server.loop.call_soon_threadsafe, self.server.turn)
        for account in list(self.server.accounts):
            self.enable(account)
        self._background()

    def enable(self, account: Account) -> None:
        """Switch JetStream on for an account, if its configuration says so."""
        spec = account.spec
        self._answer_api(account)
        if account is self.server.accounts.system or spec is None:
            return
        if spec.jetstream is None and not self.server.accounts.jetstream_by_default(account):
            return
        js = JetStreamAccount(account.name, self, spec.jetstream)
        account.jetstream = js
        self.accounts[account.name] = js
        account.on_acks = self._acks_of(account)
        account.on_direct_gets = self._direct_gets_of(account)
        account.on_interest = self.deliveries.interest_of(account)
        js.recover()

    def _answer_api(self, account: Account) -> None:
        for pattern in (b"$JS.API.>", *self._more_api_subjects()):
            sub = Subscription(None, account, pattern)
            sub.handler = self._api_of(account)
            account.subscribe(sub)

    def _more_api_subjects(self) -> tuple[bytes, ...]:
        legacy = (
            b"$JS.ENABLED",
            b"$JS.INFO",
            b"$JS.STREAM.>",
            b"$JS.RN.>",
            b"$JS.A.>",
            b"$JSX.API.>",
        )
        own = (b"$JS.FC.>", b"$JS.SNAPSHOT.>")
        domain = (f"$JS.{self.domain}.API.>".encode(),) if self.domain else ()
        return legacy + own + domain

    async def stop(self) -> None:
        """Write and sync everything, then close."""
        self.turn()
        self.write_out()
        for desk in list(self.desks.values()):
            desk.close()
        self.pool.stop()
        for js in self.accounts.values():
            js.close()
        self.vault.close()

    # --- the turn -----------------------------------------------------------------------------

    def now(self) -> int:
        return self.server.clock.now()

    def wake_turn(self) -> None:
        self.server.wake()

    def turn(self) -> None:
        """Everything that this loop turn brought, carried out."""
        now = self.now()
        written: dict[int, StreamDesk] = {}
        for _ in range(8):
            touched, self.touched = self.touched, []
            for desk in touched:
                desk.settle(now)
                written[id(desk)] = desk
            busy = self.deliveries.run(now)
            for desk in busy:
                written[id(desk)] = desk
            if not self.touched:
                break
        self._written |= written
        if self.touched or self.deliveries.has_work:
            self.server.wake()
        self._set_timer()

    def write_out(self) -> None:
        """To the disk, what this turn appended; what was delivered is on its way already."""
        if not self._written:
            return
        written, self._written = self._written, {}
        for desk in written.values():
            desk.write()
        if self.uncommitted:
            desks, self.uncommitted = self.uncommitted, []
            self.commits.commit(desks, alone=len(written) == 1 and self.server.reads <= 1)

    def commit_soon(self, desk: StreamDesk) -> None:
        """Nobody waits for this to be on disk: gather a little before the disk is asked."""
        self._soon[id(desk)] = desk
        if len(self._soon) == 1:
            self.server.loop.call_later(COMMIT_SOON_S, self._commit_soon)

    def _commit_soon(self) -> None:
        desks, self._soon = [d for d in self._soon.values() if not d.closed], {}
        if desks and self.server.running:
            self.commits.commit(desks)

    def tick(self) -> None:
        """Time has passed: call everybody whose deadline has come."""
        for callback in self.timers.take_due(self.now()):
            callback()
        self._timer_ns = 0
        self._set_timer()

    def _set_timer(self) -> None:
        deadline = self.timers.next_deadline()
        if deadline and deadline != self._timer_ns:
            self._timer_ns = deadline
            self.server.set_timer(deadline)

    def schedule(self, deadline_ns: int, callback: Callable[[], None]) -> None:
        self._callbacks += 1
        self.timers.set(("callback", self._callbacks), deadline_ns, callback)
        self._set_timer()

    def wake(self, asset: Any) -> None:
        desk = self.desks.get(id(asset))
        if desk is not None:
            desk.touch()

    def _background(self) -> None:
        """Compaction and sealing, in small slices between other work."""
        more = False
        for desk in list(self.desks.values()):
            if not desk.closed and desk.asset.store.work(BACKGROUND_SLICE_NS):
                more = True
        if self.server.running:
            delay = BACKGROUND_NS / SECOND if more else 0.5
            self.server.loop.call_later(delay, self._background)

    def syncs_before_ack(self, asset: Any) -> bool:
        """The promise, unless the operator or the stream chose the relaxed mode."""
        if asset.config.persist_mode == "async":
            return False
        return self.options.sync_always or not self.options.sync_set

    def sync_later(self, desk: StreamDesk) -> None:
        """Relaxed mode: sync once per interval."""
        if id(desk) in self._unsynced or desk.asset.config.storage != "file":
            return
        self._unsynced[id(desk)] = desk

        def due() -> None:
            self._unsynced.pop(id(desk), None)
            if not desk.closed:
                self.commits.commit([desk])

        self.schedule(self.now() + self.options.sync_interval_ns, due)

    def free_bytes(self) -> int | None:
        """What the store's volume has left."""
        return self.files.free_bytes(self.store_dir)

    # --- what the rooms ask of the whole ------------------------------------------------------

    def account(self, name: str) -> Account:
        found = self.server.accounts.find(name)
        assert found is not None
        return found

    def publish(
        self, account: str, subject: bytes, headers: bytes, payload: bytes, reply: bytes = b""
    ) -> int:
        return self.broker.publish(self.account(account), subject, payload, reply, headers)

    def send(self, account: Account, subject: bytes, payload: bytes, headers: bytes = b"") -> None:
        """An answer: to whoever listens there."""
        self.broker.publish(account, subject, payload, b"", headers)

    def has_interest(self, account: str, subject: bytes, queue: bytes = b"") -> bool:
        return self.account(account).has_interest(subject, queue or None)

    def stream_added(self, js: JetStreamAccount, asset: Any) -> None:
        desk = StreamDesk(self, self.account(js.name), js, asset)
        self.desks[id(asset)] = desk
        desk.listen()
        desk.touch()

    def stream_changed(self, js: JetStreamAccount, asset: Any) -> None:
        desk = self.desks[id(asset)]
        desk.listen()
        desk.touch()

    def stream_removed(self, js: JetStreamAccount, asset: Any) -> None:
        desk = self.desks.pop(id(asset), None)
        if desk is not None:
            desk.close()

    def consumer_added(self, js: JetStreamAccount, asset: Any, consumer: Any) -> None:
        self.deliveries.add(self.desks[id(asset)], consumer)

    def consumer_changed(self, js: JetStreamAccount, asset: Any, consumer: Any) -> None:
        self.deliveries.change(self.desks[id(asset)], consumer)

    def consumer_removed(self, js: JetStreamAccount, asset: Any, consumer: Any) -> None:
        desk = self.desks.get(id(asset))
        if desk is not None:
            self.deliveries.remove(desk, consumer)

    def removed(self, desk: StreamDesk, seqs: "array[int]", now: int) -> None:
        """Messages left the stream by limits, age or a delete: consumers forget them."""
        self.deliveries.removed(desk, seqs, now)

    def purged(self, desk: StreamDesk, now: int) -> None:
        self.deliveries.purged(desk, now)

    def log_trouble(self, desk: StreamDesk, problem: BaseException) -> None:
        """Say it, but not a thousand times a second."""
        now = self.now()
        if now - self._troubled.get(id(desk), 0) < TROUBLE_LOG_NS:
            return
        self._troubled[id(desk)] = now
        name = f"{desk.account.name} > {desk.asset.config.name}"
        self.log.error("JetStream storage trouble on stream '%s': %s", name, problem)
        trouble = getattr(desk.js, "storage_trouble", None)
        if trouble is not None:
            trouble(desk.asset, problem)

    # --- what comes from clients --------------------------------------------------------------

    def _api_of(self, account: Account) -> Callable[..., object]:
        def handler(
            client: Client | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
        ) -> object:
            if self.server.accounts.imports_service(account, subject):
                return False  # that account asked for another one's JetStream
            return self.api(
                self, account, account.jetstream, client, subject, reply, headers, payload
            )

        return handler

    def _acks_of(self, account: Account) -> Callable[[Client, Batch, int, int], None]:
        def handler(client: Client, batch: Batch, start: int, stop: int) -> None:
            runs, odd = parse_acks(batch, start, stop)
            now = self.now()
            js = account.jetstream
            for stream, consumer, run in runs:
                if not self.deliveries.acked(js, stream, consumer, run, now):
                    for reply in run.replies.values():
                        self.broker.no_responders(client, batch.subject(start), reply)
            for i in odd:
                if not self.deliveries.odd_ack(
                    js, batch.subject(i), batch.payload(i), batch.reply(i), now
                ):
                    self.broker.no_responders(client, batch.subject(i), batch.reply(i))

        return handler

    def _direct_gets_of(self, account: Account) -> Callable[[Client, Batch, int, int], None]:
        """Direct gets come in runs; what the kernel cannot answer goes the ordinary way."""

        def handler(client: Client, batch: Batch, start: int, stop: int) -> None:
            js = account.jetstream
            answering: dict[bytes, tuple[object, bytes]] = {}
            for name in {self._stream_of(batch.subject(i)) for i in {start, stop - 1}}:
                asset = js.direct(name.decode("utf-8", "replace"))
                if asset is not None:
                    answering[name] = (asset.store, asset.config.name.encode())
            for i in answer_run(self.broker, account, answering, batch, start, stop):
                subject, reply = batch.subject(i), batch.reply(i)
                headers, payload = batch.headers(i), batch.payload(i)
                if self.api(self, account, js, client, subject, reply, headers, payload) is False:
                    self.broker.no_responders(client, subject, reply)

        return handler

    @staticmethod
    def _stream_of(subject: bytes) -> bytes:
        return subject.split(b".", 5)[4]

    def ack(self, account: Account, subject: bytes, payload: bytes, reply: bytes) -> bool:
        """One ack on a subject that the kernel does not know (the 2019 form)."""
        return self.deliveries.odd_ack(account.jetstream, subject, payload, reply, self.now())

    def storage_problem(self, problem: Exception) -> StoreError:
        return problem if isinstance(problem, StoreError) else StoreError(str(problem))
