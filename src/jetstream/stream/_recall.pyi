from array import array

from jetstream.store.base import StreamStore
from jetstream.stream._dedupe import Window

def recall(log: StreamStore, window: Window, seqs: array[int]) -> None: ...
