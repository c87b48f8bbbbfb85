"""Many patterns against one subject, said plainly: the readable twin of `_tree.pyx`.

    SUB a.b   SUB a.*   SUB a.>      root ── a ─┬─ b      (plain, queues)
                                                ├─ *      (plain, queues)
                                                └─ >      tail of a

A match walks down the subject once and looks, on each level, at the child of that name, at `*` and
at `>`; patterns that have nothing to do with the subject are never looked at. The kernel adds a
memory of the last prefix. The oracle of both is `match.matches`, pattern by pattern.

`JETSTREAM_PURE=1` makes `jetstream.subjects` offer this tree instead of the compiled one.
"""

from collections.abc import Iterator
from typing import Any


class Node:
    """What ends here, and what goes on below."""

    __slots__ = ("children", "plain", "queues", "star", "tail", "tail_queues")

    def __init__(self) -> None:
        self.children: dict[bytes, Node] = {}
        self.star: Node | None = None
        self.plain: list[Any] = []
        self.queues: dict[bytes, list[Any]] = {}
        self.tail: list[Any] = []
        self.tail_queues: dict[bytes, list[Any]] = {}

    def is_empty(self) -> bool:
        return not (
            self.children or self.star or self.plain or self.queues or self.tail or self.tail_queues
        )

    def holders(self, tail: bool) -> tuple[list[Any], dict[bytes, list[Any]]]:
        return (self.tail, self.tail_queues) if tail else (self.plain, self.queues)

    def child(self, token: bytes) -> "Node | None":
        return self.star if token == b"*" else self.children.get(token)

    def child_or_new(self, token: bytes) -> "Node":
        if token == b"*":
            self.star = self.star or Node()
            return self.star
        return self.children.setdefault(token, Node())

    def forget(self, token: bytes) -> None:
        if token == b"*":
            self.star = None
        else:
            del self.children[token]


class Found:
    """What a subject led to: plain values, and one list per queue group."""

    def __init__(self) -> None:
        self.plain: list[Any] = []
        self._by_queue: dict[bytes, list[Any]] = {}

    @property
    def groups(self) -> list[list[Any]]:
        return list(self._by_queue.values())

    def by_queue(self) -> dict[bytes, list[Any]]:
        return dict(self._by_queue)

    def take(self, plain: list[Any], queues: dict[bytes, list[Any]]) -> None:
        self.plain += plain
        for queue, values in queues.items():
            self._by_queue.setdefault(queue, []).extend(values)


def _path(pattern: bytes) -> tuple[list[bytes], bool]:
    """The tokens to walk, and whether the pattern ends in `>`."""
    tokens = pattern.split(b".")
    if tokens[-1] == b">":
        return tokens[:-1], True
    return tokens, False


class SubjectTree:
    """Values under subject patterns, each with an optional queue group."""

    def __init__(self) -> None:
        self._root = Node()
        self.generation = 1  # changes with every change
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def insert(self, pattern: bytes, value: object, queue: bytes | None = None) -> None:
        """Put a value under a (valid) pattern."""
        node = self._root
        tokens, tail = _path(pattern)
        for token in tokens:
            node = node.child_or_new(token)
        plain, queues = node.holders(tail)
        (plain if queue is None else queues.setdefault(queue, [])).append(value)
        self.generation += 1
        self.count += 1

    def remove(self, pattern: bytes, value: object, queue: bytes | None = None) -> bool:
        """Take one value away again; False if it was not there. Empty branches go with it."""
        tokens, tail = _path(pattern)
        path = [self._root]
        for token in tokens:
            below = path[-1].child(token)
            if below is None:
                return False
            path.append(below)
        plain, queues = path[-1].holders(tail)
        values = plain if queue is None else queues.get(queue, [])
        # Newest first, and the very same value: equal ones may be somebody else's.
        for i in reversed(range(len(values))):
            if values[i] is value:
                del values[i]
                break
        else:
            return False
        if queue is not None and not values:
            del queues[queue]
        while tokens and path.pop().is_empty():
            path[-1].forget(tokens.pop())
        self.generation += 1
        self.count -= 1
        return True

    def match(self, subject: bytes) -> Found:
        """Everything whose pattern takes in this literal subject."""
        found = Found()
        tokens = subject.split(b".")
        if all(tokens):  # a subject with an empty token names nothing
            for plain, queues in self._walk(self._root, tokens):
                found.take(plain, queues)
        return found

    def _walk(
        self, node: Node, tokens: list[bytes]
    ) -> Iterator[tuple[list[Any], dict[bytes, list[Any]]]]:
        if not tokens:
            yield node.plain, node.queues
            return
        yield node.tail, node.tail_queues
        below = node.children.get(tokens[0])
        if below is not None:
            yield from self._walk(below, tokens[1:])
        if node.star is not None:
            yield from self._walk(node.star, tokens[1:])

    def has_match(self, subject: bytes) -> bool:
        """Is anybody there?"""
        found = self.match(subject)
        return bool(found.plain or found.groups)
