from array import array

from jetstream.broker._broker import Account, Broker

def deliver(
    broker: Broker,
    account: Account,
    log: object,
    to: bytes,
    seqs: array[int],
    deliveries: array[int] | None,
    consumer_seq: int,
    step: int,
    pending: int,
    countdown: int,
    ack_prefix: bytes,
    extra_headers: bytes,
    headers_only: bool,
) -> tuple[int, int]: ...
def waiting_bytes(account: Account, to: bytes) -> int: ...
