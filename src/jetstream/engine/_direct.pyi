from array import array

from jetstream.broker._broker import Account, Broker
from jetstream.wire._parser import Batch

def format_time(ns: int) -> bytes: ...
def answer_direct(
    broker: Broker, account: Account, log: object, seq: int, reply: bytes, stream: bytes
) -> bool: ...
def answer_run(
    broker: Broker,
    account: Account,
    answering: dict[bytes, tuple[object, bytes]],
    batch: Batch,
    start: int,
    stop: int,
) -> list[int]: ...
def answer_row(
    broker: Broker,
    account: Account,
    log: object,
    seqs: array[int],
    pending: int,
    room: int,
    reply: bytes,
    stream: bytes,
) -> tuple[int, int, int]: ...
