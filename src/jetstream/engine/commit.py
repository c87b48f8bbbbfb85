"""Which sync a stream's answers wait for: its own, or one that many streams share.

A few streams written in the same turn are synced each on their own, in parallel. When there are
more, what they wrote goes into the vault's shared journal first and one sync covers all of them
(decision 0004). While such a sync runs, streams that are written meanwhile gather for the next one.
"""

from typing import TYPE_CHECKING

from jetstream.errors import StoreError

if TYPE_CHECKING:
    from jetstream.engine.desk import StreamDesk
    from jetstream.engine.engine import Engine

# With up to this many streams in a turn, syncing each segment is quicker than writing twice.
SYNCED_ALONE_MAX = 3


class Commits:
    """Decides how written streams become durable, and sees to it."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._gathering: dict[int, StreamDesk] = {}
        self._flying: list[StreamDesk] = []
        self._landing = False
        self._checkpointing = False

    def commit(self, desks: "list[StreamDesk]", alone: bool = False) -> None:
        """These have something that is not on disk yet."""
        idle = []
        for desk in desks:
            if desk.in_flight:
                desk.again = True
            else:
                idle.append(desk)
        busy = self._flying or self._landing
        if not busy and len(idle) + len(self._gathering) <= SYNCED_ALONE_MAX:
            for desk in idle:
                desk.begin()
                desk.flusher.start(alone and 1 <= desk.answers <= 2)
            return
        for desk in idle:
            self._gathering[id(desk)] = desk
        if not busy:
            self._start()

    def _start(self) -> None:
        """Everybody who waits, in one sync."""
        assert not self._flying
        self._flying = list(self._gathering.values())
        self._gathering.clear()
        journal = self._engine.vault.journal
        try:
            changes = []
            for desk in self._flying:
                desk.begin()
                changes += desk.take_unsynced()
            journal.append(changes)
        except (StoreError, OSError) as problem:
            self._done(problem)
            return
        self._engine.pool.submit(journal.sync, self._done)

    def _done(self, problem: BaseException | None) -> None:
        landed, self._flying = self._flying, []
        # Streams with more to sync come back while we are at it; they go together afterwards.
        self._landing = True
        for desk in landed:
            if problem is None:
                desk.finish(None)
            else:
                # The journal refuses; the streams' own files may not.
                desk.flusher.start()
        self._landing = False
        self._checkpoint()
        if self._gathering:
            self._start()

    def _checkpoint(self) -> None:
        """Bring the segments up to date when the journal has grown large."""
        journal = self._engine.vault.journal
        if self._checkpointing or journal.trouble or not journal.is_full:
            return
        self._checkpointing = True
        epoch = journal.switch()
        self._engine.pool.submit(lambda: journal.checkpoint(epoch), self._checkpointed)

    def _checkpointed(self, problem: BaseException | None) -> None:
        self._checkpointing = False
        if problem is not None:
            self._engine.log.error("JetStream shared journal: %s", problem)
