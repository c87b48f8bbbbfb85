from jetstream.client.columns import ACK as ACK
from jetstream.client.columns import DIRECT as DIRECT
from jetstream.client.columns import FULL as FULL
from jetstream.client.columns import NEED_MORE as NEED_MORE
from jetstream.client.columns import OTHER as OTHER
from jetstream.client.columns import PAST_END as PAST_END
from jetstream.client.columns import PureAcks as Acks
from jetstream.client.columns import PureColumns as Columns
from jetstream.client.columns import pure_publishes as publishes

class Block:
    def __init__(self, room: int = 4096) -> None: ...
    def __len__(self) -> int: ...

__all__ = [
    "ACK",
    "DIRECT",
    "FULL",
    "NEED_MORE",
    "OTHER",
    "PAST_END",
    "Acks",
    "Block",
    "Columns",
    "publishes",
]
