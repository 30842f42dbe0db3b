"""How tests run: the longest files first, so that two workers finish together, and with the same
invented examples every time."""

import pytest
from hypothesis import settings

settings.register_profile(
    "reproducible", derandomize=True, deadline=None, database=None, max_examples=150
)
settings.load_profile("reproducible")

LONGEST_FIRST = (
    "recipes",
    "system",
    "benchmarks",
)  # folders; pytest-xdist keeps the order of files


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        folder = item.path.parent.name
        return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=rank)
