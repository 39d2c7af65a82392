"""Fixtures and settings shared by all tests.

Fixtures import skcalib themselves, so the controller process of pytest-xdist starts fast.
"""

import gc
import os
import sys
from collections import defaultdict

import pytest
from hypothesis import settings

os.environ["MPLBACKEND"] = "Agg"
if "PYTEST_XDIST_WORKER" in os.environ:
    # Worker processes already use all cores, so BLAS threads would only compete.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Reproducible on every machine, and no failure because a machine is slow.
settings.register_profile("skcalib", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("skcalib")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Skip doctest collection in tests, which would import every module."""
    return [c for c in (yield) if type(c).__name__ != "DoctestModule"]


def pytest_sessionstart():
    """Disable the garbage collector while pytest collects thousands of tests."""
    gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Measure coverage in a few cases of each test only, if their number is given.

    The cases are evenly spaced, and begin elsewhere in each test, so that they are of all classes.
    """
    n_covered = int(os.environ.get("COVERED_CASES", "0"))
    if n_covered and config.pluginmanager.hasplugin("_cov"):
        cases = defaultdict(list)
        for item in items:
            cases[item.nodeid.partition("[")[0]].append(item)
        for first, of_test in enumerate(cases.values()):
            n = len(of_test)
            covered = {(first + k * n // n_covered) % n for k in range(n_covered)}
            for k in set(range(n)) - covered:
                of_test[k].add_marker("no_cover")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give whole files to worker processes, so that each process imports few modules."""
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
    """Seed the global state for estimators without ``random_state``."""
    import numpy as np

    np.random.seed(0)  # noqa: NPY002 - scikit-learn draws from this state


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def _quick_default(monkeypatch):
    """Use the small, fast default calibrators in comparisons."""
    import families

    for name in ("AutoCalibrator", "ConditionalCalibrator"):
        monkeypatch.setattr(f"skcalib.comparison._compare.{name}", getattr(families, name))


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(0)


@pytest.fixture
def few_resamples(monkeypatch):
    """Reports resample 19 times, for tests that look at no interval."""
    from skcalib.report import _numbers

    monkeypatch.setattr(_numbers, "MOST_RESAMPLES", 19)
    monkeypatch.setattr(_numbers, "FEWEST_RESAMPLES", 19)
