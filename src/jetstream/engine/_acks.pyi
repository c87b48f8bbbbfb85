from jetstream.consumer.acks import AckRun
from jetstream.wire._parser import Batch

def parse_acks(
    batch: Batch, start: int, stop: int
) -> tuple[list[tuple[str, str, AckRun]], list[int]]: ...
