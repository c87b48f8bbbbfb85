"""Services and streams cross accounts; nothing else does."""

from jetstream.broker._broker import Account, Broker, Client, Subscription
from jetstream.broker.accounts import Accounts
from jetstream.broker.accounts_spec import AccountSpec, ExportSpec, ImportSpec
from jetstream.clock import SECOND, Random
from jetstream.wire._parser import Batch, Parser


class Peer(Client):
    """A client without a socket."""

    def __init__(self, account: Account, broker: Broker) -> None:
        super().__init__()
        self.account = account
        self.broker = broker
        self.headers = True
        self.verbose = self.pedantic = False
        self.no_responders = True
        self.ready = True
        account.clients.add(self)

    def on_operation(self, kind: int, batch: Batch, i: int) -> bool:
        raise AssertionError("publishes only")

    def sub(self, accounts: Accounts, subject: bytes, sid: bytes = b"1") -> Subscription:
        sub = Subscription(self, self.account, subject, None, sid)
        self.subscriptions[sid] = sub
        self.account.subscribe(sub)
        accounts.add_shadows(self.account, sub)
        return sub

    def pub(self, subject: bytes, payload: bytes = b"", reply: bytes = b"") -> None:
        self.broker.walk(self, Batch.of([(subject, reply, b"", payload)]))

    def got(self) -> list[tuple[bytes, bytes, bytes]]:
        """(subject, reply, payload) of everything received since asked last."""
        parser = Parser(1)
        parser.feed(self.outbox.take())
        found = []
        while (batch := parser.next_batch()) is not None:
            found += [
                (batch.subject(i), batch.reply(i), batch.payload(i)) for i in range(len(batch))
            ]
        return found


class World:
    def __init__(self, exports: list[ExportSpec], imports: list[ImportSpec]) -> None:
        self.now = 0
        self.broker = Broker()
        self.specs = {
            "A": AccountSpec("A", exports=tuple(exports)),
            "B": AccountSpec("B", imports=tuple(imports)),
        }
        self.accounts = Accounts(self.broker, self.specs, now=lambda: self.now, random=Random(1))
        self.a = Peer(self.account("A"), self.broker)
        self.b = Peer(self.account("B"), self.broker)

    def account(self, name: str) -> Account:
        found = self.accounts.find(name)
        assert found is not None
        return found


def a_service(response: str = "Singleton", threshold_s: int = 120) -> World:
    export = ExportSpec("service", "svc", response=response, threshold_ns=threshold_s * SECOND)  # type: ignore[arg-type]
    return World([export], [ImportSpec("service", "A", "svc", "help")])


def a_request(world: World) -> bytes:
    world.a.sub(world.accounts, b"svc")
    world.b.sub(world.accounts, b"inbox")
    world.b.pub(b"help", b"?", b"inbox")
    ((subject, reply, payload),) = world.a.got()
    assert (subject, payload) == (b"svc", b"?")
    assert reply.startswith(b"_R_.")
    return reply


def test_a_request_reaches_the_exporter_and_one_answer_comes_back() -> None:
    world = a_service()
    reply = a_request(world)
    world.a.pub(reply, b"!")
    assert world.b.got() == [(b"inbox", b"", b"!")]
    world.a.pub(reply, b"again")
    assert world.b.got() == []


def test_a_streamed_answer_goes_on_until_it_is_empty() -> None:
    world = a_service("Stream")
    reply = a_request(world)
    for payload in (b"1", b"2", b"", b"3"):
        world.a.pub(reply, payload)
    assert [payload for _, _, payload in world.b.got()] == [b"1", b"2", b""]


def test_an_answer_that_comes_too_late_is_dropped() -> None:
    world = a_service(threshold_s=5)
    reply = a_request(world)
    world.now = 5 * SECOND
    world.a.pub(reply, b"!")
    assert world.b.got() == []


def test_a_streamed_answer_stays_open_while_answers_come() -> None:
    world = a_service("Stream", threshold_s=5)
    reply = a_request(world)
    for _ in range(3):
        world.now += 4 * SECOND
        world.a.pub(reply, b"still here")
    assert len(world.b.got()) == 3


def test_a_request_nobody_serves_is_answered_503() -> None:
    world = a_service()
    world.b.sub(world.accounts, b"inbox")
    world.b.pub(b"help", b"?", b"inbox")
    assert b"NATS/1.0 503\r\nNats-Subject: help\r\n" in world.b.outbox.take()


def test_forgotten_requests_do_not_pile_up() -> None:
    world = a_service(threshold_s=1)
    world.a.sub(world.accounts, b"svc")
    for _ in range(100):
        world.b.pub(b"help", b"?", b"inbox")
        world.now += SECOND // 10
    world.a.outbox.clear()
    assert len(world.accounts._responses["A"]) <= 10


def test_a_stream_is_renamed_and_narrowed_on_its_way() -> None:
    world = World(
        [ExportSpec("stream", "tick.*.*")], [ImportSpec("stream", "A", "tick.*.*", "tock.$2.$1")]
    )
    world.b.sub(world.accounts, b"tock.x.*")
    world.a.pub(b"tick.1.x", b"yes")
    world.a.pub(b"tick.1.y", b"no")
    assert world.b.got() == [(b"tock.x.1", b"", b"yes")]


def test_a_shadow_counts_with_its_subscription_and_ends_with_it() -> None:
    world = World([ExportSpec("stream", "ev.>")], [ImportSpec("stream", "A", "ev.>", "ev.>")])
    sub = world.b.sub(world.accounts, b"ev.a")
    sub.limit = 3
    world.b.pub(b"ev.a", b"own")
    for _ in range(4):
        world.a.pub(b"ev.a", b"theirs")
    assert len(world.b.got()) == 3
    assert sub.closed
    assert not world.account("A").has_interest(b"ev.a")


def test_accounts_can_be_linked_anew_while_clients_stay() -> None:
    world = World([ExportSpec("stream", "ev.>")], [ImportSpec("stream", "A", "ev.>", "ev.>")])
    world.b.sub(world.accounts, b"ev.a")
    world.accounts.update({**world.specs, "B": AccountSpec("B")})
    world.a.pub(b"ev.a", b"1")
    assert world.b.got() == []
    world.accounts.update(world.specs)
    world.a.pub(b"ev.a", b"2")
    assert [payload for _, _, payload in world.b.got()] == [b"2"]


def test_what_is_not_exported_to_everybody_stays_with_those_named() -> None:
    world = World(
        [ExportSpec("stream", "ev.>", accounts=("C",))], [ImportSpec("stream", "A", "ev.>", "ev.>")]
    )
    world.b.sub(world.accounts, b"ev.a")
    world.a.pub(b"ev.a", b"1")
    assert world.b.got() == []
