"""Times in answers look like everywhere else."""

from hypothesis import given
from hypothesis import strategies as st

from jetstream.engine._direct import format_time
from jetstream.schema.times import rfc3339


@given(st.integers(1, 2**62))
def test_the_kernel_writes_times_like_the_rest_of_the_house(ns: int) -> None:
    assert format_time(ns).decode() == rfc3339(ns)
