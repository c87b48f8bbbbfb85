"""An account's subject mappings: what is published there may end up under another subject.

    mappings { "orders.*": "v2.orders.$1" }
    mappings { "svc": [ {destination: "svc.a", weight: 90%}, {destination: "svc.b", weight: 10%} ] }

The narrowest source decides. Shares are drawn by chance; a share missing to 100 % keeps the
subject, unless the source itself is listed as a destination: then it is lost, on purpose.
"""

from collections.abc import Callable, Sequence

from jetstream.broker.accounts_spec import MappingSpec
from jetstream.subjects.match import matches
from jetstream.subjects.tokens import has_wildcard
from jetstream.subjects.transform import SubjectTransform

UNMAPPED_MAX = 8192

Draw = Callable[[int], int]


class _Mapping:
    """One source with its destinations; `shares` are cumulative percentages."""

    __slots__ = ("is_lossy", "pattern", "shares", "source")

    def __init__(self, spec: MappingSpec) -> None:
        self.source = spec.source
        self.pattern = spec.source.encode()
        self.is_lossy = any(one.subject == spec.source for one in spec.destinations)
        self.shares: list[tuple[int, SubjectTransform]] = []
        total = 0
        for one in spec.destinations:
            total += one.weight
            if one.weight:
                self.shares.append((total, SubjectTransform(spec.source, one.subject)))

    def destination(self, subject: bytes, draw: Draw) -> bytes | None:
        if self.shares and self.shares[0][0] >= 100:
            chosen = self.shares[0][1]
        else:
            mark = draw(100)
            for up_to, transform in self.shares:
                if mark < up_to:
                    chosen = transform
                    break
            else:
                return None if self.is_lossy else subject
        made = chosen.transform(subject.decode("utf-8", "surrogateescape"))
        return subject if made is None else made.encode("utf-8", "surrogateescape")


class Mappings:
    """Call it with a subject: where the message goes, or None if it is to be lost."""

    __slots__ = ("_draw", "_literal", "_patterns", "_unmapped")

    def __init__(self, specs: Sequence[MappingSpec], draw: Draw) -> None:
        self._draw = draw
        self._literal: dict[bytes, _Mapping] = {}
        self._patterns: list[_Mapping] = []
        self._unmapped: set[bytes] = set()
        for spec in specs:
            mapping = _Mapping(spec)
            if has_wildcard(mapping.pattern):
                self._patterns.append(mapping)
            else:
                self._literal[mapping.pattern] = mapping
        self._patterns.sort(key=lambda one: _narrowness(one.source))

    def __call__(self, subject: bytes) -> bytes | None:
        if subject in self._unmapped:
            return subject
        mapping = self._literal.get(subject)
        if mapping is None:
            for candidate in self._patterns:
                if matches(candidate.pattern, subject):
                    mapping = candidate
                    break
            else:
                if len(self._unmapped) >= UNMAPPED_MAX:
                    self._unmapped.clear()
                self._unmapped.add(subject)
                return subject
        return mapping.destination(subject, self._draw)


def _narrowness(source: str) -> list[int]:
    """Sort key: words before `*` before `>`, token by token."""
    return [{"*": 1, ">": 2}.get(token, 0) for token in source.split(".")]
