"""Published subjects are rewritten by the account's mappings."""

from collections import Counter

from jetstream.broker.accounts_spec import MappingDestination, MappingSpec
from jetstream.broker.mappings import Mappings
from jetstream.clock import Random


def mappings(*specs: MappingSpec) -> Mappings:
    return Mappings(specs, Random(7).below)


def to(source: str, *destinations: tuple[str, int]) -> MappingSpec:
    return MappingSpec(source, tuple(MappingDestination(s, w) for s, w in destinations))


def test_a_subject_is_rewritten_and_others_are_left_alone() -> None:
    map_ = mappings(to("a.*", ("b.$1", 100)))
    assert map_(b"a.x") == b"b.x"
    assert map_(b"a.x.y") == b"a.x.y"
    assert map_(b"c") == b"c"
    assert map_(b"c") == b"c"


def test_the_narrowest_source_decides() -> None:
    map_ = mappings(to("a.>", ("t.>", 100)), to("a.*.b", ("s.$1", 100)), to("a.x.b", ("l", 100)))
    assert map_(b"a.x.b") == b"l"
    assert map_(b"a.y.b") == b"s.y"
    assert map_(b"a.y.c") == b"t.y.c"


def test_shares_are_drawn_and_the_rest_keeps_its_subject() -> None:
    map_ = mappings(to("a", ("b", 20), ("c", 30)))
    seen = Counter(map_(b"a") for _ in range(10_000))
    assert set(seen) == {b"a", b"b", b"c"}
    assert abs(seen[b"b"] - 2000) < 200
    assert abs(seen[b"c"] - 3000) < 200


def test_a_source_that_is_its_own_destination_loses_the_missing_share() -> None:
    map_ = mappings(to("a", ("a", 50)))
    seen = Counter(map_(b"a") for _ in range(10_000))
    assert set(seen) == {b"a", None}
    assert abs(seen[None] - 5000) < 300
