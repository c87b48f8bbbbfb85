from jetstream.broker._broker import Account, Broker
from jetstream.consumer.values import Delivery

def deliver(
    broker: Broker, account: Account, log: object, deliveries: list[Delivery], ack_prefix: bytes
) -> None: ...
def waiting_bytes(account: Account, to: bytes) -> int: ...
