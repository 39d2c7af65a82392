"""How the recipes are run: as slow tests, page by page, up to a library that is not installed."""

import doctest
import re
from importlib.util import find_spec

import matplotlib as mpl
import pytest

mpl.use("Agg")
# Compare numbers to the printed digits, because trained models vary between machines.
NUMBER = doctest.register_optionflag("NUMBER")
# Optional libraries that pages import.
LIBRARIES = re.compile(
    "(?:from|import) (catboost|crepes|lightgbm|mapie|onnx|onnxruntime|skl2onnx|torch|xgboost)\\b"
)


def pytest_itemcollected(item):
    """Mark the page as a slow test, and skip it at the import of a missing library."""
    item.runner.optionflags |= NUMBER
    item.add_marker(pytest.mark.slow)
    for example in item.dtest.examples:
        found = LIBRARIES.match(example.source)
        if found and find_spec(found[1]) is None:
            example.source = f"import pytest; pytest.skip('{found[1]} is not installed')\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Each page writes to an empty folder, and its settings of matplotlib end with it."""
    monkeypatch.chdir(tmp_path)
    with mpl.rc_context():
        yield
