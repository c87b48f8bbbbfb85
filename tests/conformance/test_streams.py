"""Streams: the same conversations with the reference and with us, compared line by line."""

import pytest

from .retention_scenarios import SCENARIOS
from .talk import hold

pytestmark = [pytest.mark.reference, pytest.mark.timeout(120)]


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_we_answer_as_the_reference_does(name: str, peers: tuple[int, int]) -> None:
    reference, ours = (hold(port, SCENARIOS[name]) for port in peers)
    different = [(a, b) for a, b in zip(reference, ours, strict=False) if a != b]
    shown = "\n".join(f"  reference {a[:1500]}\n  ours      {b[:1500]}" for a, b in different[:40])
    assert not different, f"{len(different)} of {len(reference)} lines differ:\n{shown}"
    assert len(reference) == len(ours)
