"""Fixtures and settings shared by all tests.

The process that hands out tests to others reads them too, so they import what they need.
"""

import gc
import os
import sys

import pytest
from hypothesis import settings

os.environ["MPLBACKEND"] = "Agg"
if "PYTEST_XDIST_WORKER" in os.environ:
    # Processes share the cores already: threads of one would wait for those of others.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Reproducible on every machine, and no failure because a machine is slow.
settings.register_profile("skcalib", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("skcalib")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Tests have no doctests, for which pytest would import and search each module."""
    return [c for c in (yield) if type(c).__name__ != "DoctestModule"]


def pytest_sessionstart():
    """Thousands of tests are collected, of which nothing is garbage."""
    gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Each process has files of its own as long as there are any, and imports what these need."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture(scope="session")
def digits():
    from skcalib.datasets import load_digits_logits

    return load_digits_logits()


@pytest.fixture
def logits3():
    """Over-confident logits of three classes with labels 0, 1, 2."""
    from skcalib.datasets import make_logits

    return make_logits(400, 3, temperature=2.0, random_state=0)


@pytest.fixture(autouse=True)
def _seed():
    """Estimators without ``random_state`` are the same in each run."""
    import numpy as np

    np.random.seed(0)  # noqa: NPY002 - what scikit-learn draws from


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def _quick_default(monkeypatch):
    """In comparisons the default calibrators have few candidates, which are fast."""
    import families

    for name in ("AutoCalibrator", "ConditionalCalibrator"):
        monkeypatch.setattr(f"skcalib.comparison._compare.{name}", getattr(families, name))


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(0)
