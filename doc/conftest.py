"""Pages whose examples take seconds are tested with the slow tests."""

import pytest

SLOW = {
    "choosing", "classifiers", "clinical", "default", "diagrams", "groups", "index", "multilabel",
    "start",
}  # fmt: skip


def pytest_itemcollected(item):
    if item.path.stem in SLOW:
        item.add_marker(pytest.mark.slow)
