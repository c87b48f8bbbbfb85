"""The accounts of a server: each a world of subjects, joined only by exports and imports."""

from collections.abc import Iterator, Mapping

from jetstream.broker._broker import Account, Broker, Client, Subscription
from jetstream.broker.accounts_spec import (
    GLOBAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    AccountSpec,
    export_for,
    may_import,
)
from jetstream.broker.imports import Describe, Now, Responses, ServiceImport, StreamImport
from jetstream.broker.mappings import Mappings
from jetstream.clock import Random
from jetstream.security.nkeys import KeyKind, encode_public
from jetstream.subjects.match import matches


def _nothing_to_say(client: Client, share: bool) -> bytes:
    return b"{}"


class Accounts:
    """Finds accounts by name and keeps them in step with the configuration."""

    def __init__(
        self,
        broker: Broker,
        specs: Mapping[str, AccountSpec],
        system: str = SYSTEM_ACCOUNT,
        *,
        now: Now,
        random: Random,
    ) -> None:
        self.broker = broker
        self.by_name: dict[str, Account] = {}
        # Every 32 bytes are a public curve key; nobody seals anything for it.
        self.xkey = encode_public(KeyKind.CURVE, Random().bytes(32))
        # What a request that crosses accounts tells about its sender; the server knows better.
        self.describe: Describe = _nothing_to_say
        self._now = now
        self._random = random
        self._responses: dict[str, Responses] = {}
        self._services: list[ServiceImport] = []
        self._streams: dict[str, list[StreamImport]] = {}
        self.default = self._add(GLOBAL_ACCOUNT, AccountSpec(GLOBAL_ACCOUNT))
        self.system = self._add(system or SYSTEM_ACCOUNT, AccountSpec(system or SYSTEM_ACCOUNT))
        self.update(specs)

    def _add(self, name: str, spec: AccountSpec) -> Account:
        account = self.by_name.get(name)
        if account is None:
            account = self.by_name[name] = Account(name)
        account.spec = spec
        return account

    def update(self, specs: Mapping[str, AccountSpec]) -> None:
        """Live by these from now on. Accounts that stay keep their clients and subscriptions."""
        for name in [*self.by_name]:
            account = self.by_name[name]
            if name not in specs and account not in (self.default, self.system):
                del self.by_name[name]
        for name, spec in specs.items():
            self._add(name, spec)
        self._link()

    def _link(self) -> None:
        """Make all imports and mappings anew."""
        for service in self._services:
            service.close()
        self._services = []
        self._streams = {}
        for account in self.by_name.values():
            mappings = account.spec.mappings
            account.mapping = Mappings(mappings, self._random.below) if mappings else None
            for wanted in account.spec.imports:
                exporter = self.by_name.get(wanted.account)
                export = export_for(wanted, exporter.spec.exports) if exporter is not None else None
                if exporter is None or export is None:
                    continue
                if not may_import(export, account.name, wanted.subject):
                    continue
                if wanted.kind == "stream":
                    streams = self._streams.setdefault(account.name, [])
                    streams.append(StreamImport(wanted, exporter))
                    continue
                self._services.append(
                    ServiceImport(
                        wanted,
                        export,
                        account,
                        exporter,
                        self._responses_of(exporter),
                        self.broker,
                        self._describe,
                    )
                )
        for account in self.by_name.values():
            for client in account.clients:
                for sub in client.subscriptions.values():
                    self._drop_shadows(sub)
                    self.add_shadows(account, sub)

    def _responses_of(self, account: Account) -> Responses:
        found = self._responses.get(account.name)
        if found is None:
            found = Responses(account, self.broker, self._random, self._now, self._responses_of)
            self._responses[account.name] = found
        return found

    def _describe(self, client: Client, share: bool) -> bytes:
        return self.describe(client, share)

    def find(self, name: str) -> Account | None:
        return self.by_name.get(name or GLOBAL_ACCOUNT)

    def __iter__(self) -> Iterator[Account]:
        return iter(self.by_name.values())

    def jetstream_by_default(self, account: Account) -> bool:
        """Without configured accounts the global one has JetStream; otherwise each has to ask."""
        return account is self.default and all(
            other in (self.default, self.system) for other in self.by_name.values()
        )

    def imports_service(self, account: Account, subject: bytes) -> bool:
        """Does another account answer requests on this subject?"""
        return any(
            service.subscription.account is account
            and matches(service.subscription.subject, subject)
            for service in self._services
        )

    # --- stream imports -----------------------------------------------------------------------

    def add_shadows(self, account: Account, sub: Subscription) -> None:
        """Repeat a subscription in the accounts whose streams are imported here."""
        imports = self._streams.get(account.name)
        if not imports:
            return
        shadows = [shadow for one in imports if (shadow := one.shadow(sub)) is not None]
        if shadows:
            sub.shadows = shadows
            for shadow in shadows:
                shadow.account.subscribe(shadow)

    def _drop_shadows(self, sub: Subscription) -> None:
        for shadow in sub.shadows or ():
            shadow.closed = True
            shadow.account.unsubscribe(shadow)
        sub.shadows = None
