"""The demo's orders and their checksum."""

import random

import msgspec

from jetstream.demo.orders import Checksum, Order, Orders


def test_the_same_seed_makes_the_same_orders() -> None:
    one, two = Orders(3), Orders(3)
    assert [one.next("t") for _ in range(50)] == [two.next("t") for _ in range(50)]


def test_good_orders_are_orders_and_bad_ones_are_not() -> None:
    orders = Orders(1)
    bad = 0
    for _ in range(2000):
        subject, data, number = orders.next("2026-01-01T00:00:00Z")
        if number is None:
            bad += 1
            continue
        order = msgspec.json.decode(data, type=Order)
        assert order.id == number
        assert order.amount > 0
        assert subject == f"orders.{order.region}"
    assert 10 < bad < 100


def test_a_checksum_does_not_depend_on_the_order_but_on_every_message() -> None:
    numbers = list(range(1, 200))
    shuffled = random.Random(1).sample(numbers, len(numbers))
    assert Checksum(numbers) == Checksum(shuffled)
    assert Checksum(numbers) != Checksum(numbers[:-1])
    assert Checksum(numbers) != Checksum([*numbers, 7])
    assert Checksum([*numbers[:-1], 500]) != Checksum(numbers)
