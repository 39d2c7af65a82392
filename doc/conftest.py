"""Mark pages with examples that take seconds as slow tests."""

import pytest

SLOW = {
    "classifiers", "clinical", "default", "diagrams", "export", "groups", "index", "methods",
    "multilabel", "prior_shift", "start",
}  # fmt: skip


def pytest_itemcollected(item):
    if item.path.stem in SLOW:
        item.add_marker(pytest.mark.slow)
