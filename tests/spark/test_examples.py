"""The example pipelines pass their own check, and the reference page is up to date."""

from pathlib import Path

import pytest

from jetstream.spark.options import describe
from jetstream.spark.spec import check

HOUSE = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "path", sorted((HOUSE / "examples" / "pipelines").glob("*.*")), ids=lambda p: p.name
)
def test_an_example_passes_its_check(path: Path) -> None:
    assert check(path).sinks


def test_the_reference_page_names_every_option() -> None:
    page = (HOUSE / "docs" / "reference" / "spark-options.md").read_text()
    for known in describe().values():
        for option in known:
            assert f"| `{option.name}` |" in page, option.name
