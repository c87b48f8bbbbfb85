"""Realistic orders, some of them broken, and a checksum that says which ones arrived.

Pure: everything comes from a seed. A checksum does not depend on the order of arrival, so both ends
of the pipeline can be compared whatever Spark does in between.
"""

import hashlib
import random
from collections.abc import Iterable

import msgspec
from msgspec import Struct

REGIONS = ("eu", "us", "apac", "latam")
PRODUCTS = (
    ("espresso", 2.8),
    ("filter", 3.4),
    ("beans 1 kg", 24.5),
    ("grinder", 189.0),
    ("mug", 12.0),
)
BAD_SHARE = 0.02
_MODULUS = 2**64


class Order(Struct):
    """What a good order looks like."""

    id: int
    region: str
    customer: str
    product: str
    quantity: int
    amount: float
    at: str


class Orders:
    """An endless row of orders."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._next = 1

    def next(self, now: str) -> tuple[str, bytes, int | None]:
        """Subject, payload, and the id (None for one that a validator must refuse)."""
        chance = self._random
        number, self._next = self._next, self._next + 1
        region = chance.choice(REGIONS)
        product, price = chance.choice(PRODUCTS)
        quantity = chance.randint(1, 5)
        order = Order(
            id=number,
            region=region,
            customer=f"c{chance.randint(1, 500):03d}",
            product=product,
            quantity=quantity,
            amount=round(price * quantity, 2),
            at=now,
        )
        if chance.random() < BAD_SHARE:
            return f"orders.{region}", self._broken(order), None
        return f"orders.{region}", msgspec.json.encode(order), number

    def _broken(self, order: Order) -> bytes:
        """Not JSON at all, or JSON that makes no sense."""
        if self._random.random() < 0.5:
            return b'{"id": ' + str(order.id).encode() + b', "region": "eu", "amount"'
        return msgspec.json.encode(msgspec.structs.replace(order, amount=-order.amount))


def fingerprint(number: int) -> int:
    """64 bits that stand for one order."""
    digest = hashlib.blake2b(number.to_bytes(8, "big"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


class Checksum:
    """How many orders, and which: a sum that any order of arrival gives."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self.count = 0
        self.sum = 0
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        self.count += 1
        self.sum = (self.sum + fingerprint(number)) % _MODULUS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checksum) and (self.count, self.sum) == (other.count, other.sum)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.count:,} orders, checksum {self.sum:016x}"
