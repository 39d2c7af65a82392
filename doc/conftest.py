"""Mark pages with examples that take seconds as slow tests."""

import pytest

SLOW = {
    "classifiers", "clinical", "coming_from", "conditional", "default", "diagrams", "export",
    "fusion", "groups", "index", "llms", "methods", "multilabel", "prior_shift", "start",
    "uncertainty",
}  # fmt: skip


def pytest_itemcollected(item):
    if item.path.stem in SLOW:
        item.add_marker(pytest.mark.slow)
