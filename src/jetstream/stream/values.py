"""What goes out of a stream: what happened to each publish, and what must be done because of it."""

from array import array

from msgspec import Struct, field


class Stored(Struct, frozen=True, gc=False):
    """Messages [start, stop) of the batch were appended from `first_seq` on, one by one."""

    start: int
    stop: int
    first_seq: int


class Answered(Struct, frozen=True, gc=False):
    """One message with an answer of its own; `durable` answers wait for the disk.

    An empty `ack` is still an answer (batches); None means silence.
    """

    index: int
    ack: bytes | None
    durable: bool = True


Outcome = Stored | Answered


def no_seqs() -> "array[int]":
    return array("Q")


class Effects(Struct):
    """What the engine has to carry out after a call into a stream."""

    # Removed by limits, age, TTL or a message delete: consumers terminate what was pending.
    evicted: "array[int]" = field(default_factory=no_seqs)
    # A purge or rollup happened: consumers drop what is no longer in the store, silently.
    purged: bool = False
    # (subject, headers, payload) to publish inside the account.
    republish: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    advisories: list[tuple[str, bytes]] = field(default_factory=list)
    # Something was appended outside publish(): markers, schedules, mirrored messages.
    appended: bool = False
    # (reply, payload) answers that no message of a batch asked for: ended fast batches.
    answers: list[tuple[bytes, bytes]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(
            self.evicted
            or self.purged
            or self.republish
            or self.advisories
            or self.appended
            or self.answers
        )
