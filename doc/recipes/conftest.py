"""How the recipes are run: as slow tests, page by page, where their libraries are installed."""

import doctest
from importlib.util import find_spec

import matplotlib as mpl
import pytest

# What a page needs beside the dependencies of skcalib.
LIBRARIES = {
    "catboost": ["catboost"],
    "conformal": ["mapie", "crepes"],
    "lightgbm": ["lightgbm"],
    "pytorch": ["torch"],
    "serving_onnx": ["onnx", "onnxruntime", "skl2onnx"],
    "xgboost": ["xgboost"],
}

mpl.use("Agg")
# Figures of trained models vary with versions and machines: as far as they are printed.
NUMBER = doctest.register_optionflag("NUMBER")


def pytest_itemcollected(item):
    """Mark the page, which is one test."""
    item.runner.optionflags |= NUMBER
    item.add_marker(pytest.mark.slow)
    page = item.path.stem
    if missing := [name for name in LIBRARIES.get(page, ()) if find_spec(name) is None]:
        item.add_marker(pytest.mark.skip(reason=f"{', '.join(missing)} is not installed"))


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Each page writes to an empty folder, and its settings of matplotlib end with it."""
    monkeypatch.chdir(tmp_path)
    with mpl.rc_context():
        yield
