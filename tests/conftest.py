"""The order of test files: those that take longest first, so that two workers finish together."""

import pytest

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
