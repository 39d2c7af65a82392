"""Every fit that minimises something is a call of scipy.optimize, which its notes name."""

import inspect
import re
from collections import Counter
from functools import wraps

import numpy as np
import pytest
from scipy import optimize

import skcalib
from skcalib import binning, scaling
from skcalib.datasets import make_logits

KINDS = [getattr(skcalib, name) for name in sorted(scaling.__all__ + binning.__all__)]

# Forms other than the default one, whose fits call other functions.
FORMS = {"EnsembleTemperatureScaling": {"loss": "brier"}}

# Fits that compare strengths, or a few starts, make more than one call of minimize.
SEVERAL = {"DirichletCalibration", "MatrixScaling", "SplineCalibration", "VectorScaling"}

# Functions of scipy.optimize that minimise or solve.
DRIVERS = (
    "minimize", "minimize_scalar", "root", "root_scalar", "lsq_linear", "nnls", "least_squares",
    "isotonic_regression", "brentq", "newton", "curve_fit", "linprog",
)  # fmt: skip


@pytest.fixture
def calls(monkeypatch):
    """Calls of scipy's functions, without those that they make themselves."""
    count, depth = Counter(), [0]

    def counted(name, function):
        @wraps(function)
        def call(*args, **kwargs):
            count[name] += depth[0] == 0
            depth[0] += 1
            try:
                return function(*args, **kwargs)
            finally:
                depth[0] -= 1

        return call

    for name in DRIVERS:
        monkeypatch.setattr(optimize, name, counted(name, getattr(optimize, name)))
    return count


def named(kind):
    """Functions of scipy.optimize that the notes name."""
    notes = re.search(r"Notes\n-----\n(.*?)(\n\n\w+\n---|\Z)", inspect.getdoc(kind), re.DOTALL)
    return set(re.findall(r":func:`scipy\.optimize\.(\w+)`", notes[1] if notes else ""))


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_the_notes_name_the_function_that_each_fit_calls(kind, K, calls):
    Z, y = make_logits(300, K, temperature=2.0, random_state=0)
    fitted = kind().fit(Z, y)
    by_default = Counter(calls)
    if kind.__name__ in FORMS:
        kind(**FORMS[kind.__name__]).fit(Z, y)
    # Most maps start from a temperature, which has its own page.
    around = {"root_scalar"}
    if kind is skcalib.TemperatureScaling:  # also of rows of which one is saturated, and wrong
        Z[0] = 1e8 * (np.arange(K) == (y[0] + 1) % K)
        kind().fit(Z, y)
        around = set()
    assert {name for name in calls if calls[name]} - around == named(kind)
    assert by_default["root_scalar"] == (1 if hasattr(fitted, "temperature_") else 0)
    if kind.__name__ not in SEVERAL:  # all classes at once
        assert by_default["minimize"] <= 1
    if "minimize" in named(kind):
        assert by_default["minimize"] >= 1


def test_isotonic_fits_are_one_call_for_each_class(calls):
    Z, y = make_logits(300, 4, random_state=0)
    skcalib.IsotonicCalibration().fit(Z, y)
    assert dict(calls) == {"isotonic_regression": 4}


def test_a_scale_that_halleys_method_does_not_find_is_bracketed(calls):
    """One row of many is wrong, by nearly nothing: the slope is flat but for a step."""
    Z = np.array([[10.0, 0.0], [0.0, 10.0], [1e-9, 0.0]])
    T = skcalib.TemperatureScaling().fit(Z, [0, 1, 1]).temperature_
    assert 1e-9 < T < 1
    assert calls["root_scalar"] == 2
