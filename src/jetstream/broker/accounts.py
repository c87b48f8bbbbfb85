"""The accounts of a server: each a world of subjects, joined only by exports and imports."""

from typing import Any

from jetstream.broker._broker import Account, Broker, Subscription
from jetstream.broker.accounts_spec import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT, AccountSpec
from jetstream.security.nkeys import KeyKind, KeyPair


class Accounts:
    """Finds accounts by name and keeps them in step with the configuration."""

    def __init__(self, broker: Broker, options: Any) -> None:
        self.broker = broker
        self.by_name: dict[str, Account] = {}
        self.xkey = KeyPair.create(KeyKind.CURVE).public_key
        self.default = self._add(GLOBAL_ACCOUNT, AccountSpec(GLOBAL_ACCOUNT))
        self.system = self._add(options.system_account or SYSTEM_ACCOUNT, None)
        for spec in options.accounts:
            self._add(spec.name, spec)

    def _add(self, name: str, spec: AccountSpec | None) -> Account:
        account = self.by_name.get(name)
        if account is None:
            account = self.by_name[name] = Account(name)
        account.spec = spec if spec is not None else AccountSpec(name)
        return account

    def find(self, name: str) -> Account | None:
        return self.by_name.get(name or GLOBAL_ACCOUNT)

    def __iter__(self) -> Any:
        return iter(self.by_name.values())

    def jetstream_by_default(self, account: Account) -> bool:
        """Without configured accounts the global one has JetStream; otherwise each has to ask."""
        return account is self.default and all(
            other in (self.default, self.system) for other in self.by_name.values()
        )

    def add_shadows(self, account: Account, sub: Subscription) -> None:
        """Repeat a subscription in the accounts whose streams are imported here."""
