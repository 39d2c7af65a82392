"""Calibrators that learn from a stream: laws of partial_fit over all that have it."""

import json
from copy import deepcopy
from functools import cache

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from families import fitted_state, of_case
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skcalib import AutoCalibrator, IsotonicCalibration, TemperatureScaling, VectorScaling
from skcalib.datasets import make_logits
from skcalib.export import from_json, to_json

FAST = {
    "temperature": TemperatureScaling(smoothing="auto"),
    "vector": VectorScaling(),
    "isotonic": IsotonicCalibration(pseudo_rows=0),  # some of whose probabilities are zero
}
LEARNERS = [AutoCalibrator(FAST), AutoCalibrator(FAST, forget=0.1)]
Z, Y = make_logits(200, 3, temperature=2.0, random_state=0)
Z = Z * [1, 1.5, 2] + [0, 1, 2]  # of which fit keeps several candidates
FIRST, LATER = slice(100), slice(100, None)
each = pytest.mark.parametrize(
    "learner", LEARNERS, ids=lambda c: f"{type(c).__name__}-{getattr(c, 'forget', 0)}"
)
starts = pytest.mark.parametrize("start", ["fit", "partial_fit"])


@cache
def begun(learner, start):
    return getattr(clone(learner), start)(Z[FIRST], Y[FIRST])


def started(learner, start, X=Z, y=Y):
    if X is Z:
        return deepcopy(begun(learner, start))
    return getattr(clone(learner), start)(X[FIRST], y[FIRST])


def same(one, other):
    """Whether all that was fitted is equal."""
    of_one, of_other = fitted_state(one), fitted_state(other)
    assert of_one.keys() == of_other.keys()
    for name, value in of_one.items():
        with of_case(name):
            parts = value if isinstance(value, list) else [value]
            others = of_other[name] if isinstance(value, list) else [of_other[name]]
            for part, of_part in zip(parts, others, strict=True):
                if np.asarray(part).dtype.kind == "f":
                    assert_allclose(part, of_part, rtol=1e-9, atol=1e-12)
                else:
                    assert_array_equal(part, of_part)


@each
@starts
def test_batches_are_their_rows_one_by_one(learner, start):
    at_once, one_by_one = (started(learner, start) for _ in range(2))
    before = at_once.predict_proba(Z)
    at_once.partial_fit(Z[LATER], Y[LATER])
    for i in range(100, 200):
        one_by_one.partial_fit(Z[i : i + 1], Y[i : i + 1])  # of one class each
    same(at_once, one_by_one)
    assert abs(at_once.predict_proba(Z) - before).max() > 1e-3


@each
@starts
def test_a_weight_of_two_is_the_row_twice(learner, start):
    w = np.arange(100) % 4 + 0.0
    repeated, weighted = (started(learner, start) for _ in range(2))
    weighted.partial_fit(Z[LATER], Y[LATER], w)
    rows = np.repeat(np.arange(100, 200), w.astype(int))
    repeated.partial_fit(Z[rows], Y[rows])
    same(weighted, repeated)


@each
def test_weights_are_fractional_and_huge(learner):
    heavier = [started(learner, "fit") for _ in range(4)]
    losses = []
    for c, weight in zip(heavier, [1e-9, 0.5, 1.0, 1e90], strict=True):
        c.partial_fit(Z[100:101], Y[100:101], [weight])
        losses.append(-c.predict_log_proba(Z[100:101])[0, Y[100]])
    assert np.isfinite(losses).all()
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[-1] + 1e-6
    start = started(learner, "fit").partial_fit(Z[101:102], Y[101:102])
    before = start.predict_proba(Z)  # and hardly any weight changes hardly anything
    start.partial_fit(Z[100:101], Y[100:101], [1e-9])
    assert_allclose(start.predict_proba(Z), before, atol=1e-8)


@each
@starts
def test_fit_begins_anew(learner, start):
    used = started(learner, start).partial_fit(Z[LATER], Y[LATER])
    same(used.fit(Z[FIRST], Y[FIRST]), started(learner, "fit"))


@each
def test_a_stream_goes_on_after_saving(learner):
    c = started(learner, "fit").partial_fit(Z[100:150], Y[100:150])
    loaded = from_json(to_json(c))
    assert json.loads(to_json(loaded)) == json.loads(to_json(c))
    for calibrator in (c, loaded):
        calibrator.partial_fit(Z[150:], Y[150:])
    assert_allclose(loaded.predict_proba(Z), c.predict_proba(Z), rtol=1e-9)


@each
def test_classes_are_those_of_the_first_call(learner):
    labels = np.array(["b", "c", "a"])
    c = clone(learner).partial_fit(Z[FIRST], labels[Y[FIRST]], classes=labels)
    assert_array_equal(c.classes_, labels)  # in the order of the columns
    c.partial_fit(Z[LATER], labels[Y[LATER]], classes=["a", "b", "c"])
    numbered = started(learner, "partial_fit").partial_fit(Z[LATER], Y[LATER])
    assert_allclose(c.predict_proba(Z), numbered.predict_proba(Z))
    named = clone(learner).set_params(classes=labels).partial_fit(Z[FIRST], labels[Y[FIRST]])
    named.partial_fit(Z[LATER], labels[Y[LATER]])
    assert_array_equal(named.predict_proba(Z), c.predict_proba(Z))


@each
@starts
def test_invalid_batches_change_nothing(learner, start):
    c, unchanged = started(learner, start), started(learner, start)
    for change, message in (
        ({"y": np.full(100, 7)}, "y must hold only labels named in classes, got 7"),
        ({"X": Z[LATER, :2]}, "X has 2 features, but .* is expecting 3"),
        ({"X": np.where(Z[LATER] > 0, np.nan, Z[LATER])}, "X must hold finite logits"),
        ({"X": da.from_array(Z[LATER])}, "in memory, got a Dask collection"),
        ({"X": pd.DataFrame(Z[LATER], columns=[2, 1, 0])}, "in the order of the classes"),
        ({"sample_weight": np.zeros(100)}, "must not be all zero"),
        ({"sample_weight": np.full(100, -1.0)}, "must not be negative"),
        ({"classes": [0, 1, 5]}, "y must hold only labels named in classes, got 5"),
    ):
        with of_case(message), pytest.raises(ValueError, match=message):
            c.partial_fit(**{"X": Z[LATER], "y": Y[LATER]} | change)
        assert_array_equal(c.predict_proba(Z), unchanged.predict_proba(Z))
        same(c, unchanged)


@each
def test_a_first_batch_of_one_class(learner):
    c, y = clone(learner), np.zeros(100, int)
    with pytest.raises(ValueError, match="at least two classes"):
        c.partial_fit(Z[FIRST], y)
    if isinstance(c, AutoCalibrator):  # whose candidates are fitted to it
        with pytest.raises(ValueError, match=r"first batch, .* at least two classes, got one"):
            c.partial_fit(Z[FIRST], y, classes=[0, 1, 2])
        assert not hasattr(c, "classes_")
    else:
        c.partial_fit(Z[FIRST], y, classes=[0, 1, 2])
        assert (c.predict_proba(Z).argmax(axis=1) == 0).mean() > 0.9


@each
@starts
def test_masked_classes(learner, start):
    X = Z.copy()
    X[np.arange(200), (Y + 1) % 3] = np.where(np.arange(200) % 3 == 0, -np.inf, Z[:, 0])
    c = started(learner, start, X)
    c.partial_fit(X[LATER], Y[LATER])
    P = c.predict_proba(X)
    assert np.isfinite(P).all()
    assert_array_equal(P == 0, np.isneginf(X))


@each
def test_two_classes_and_one_column(learner):
    X, y = make_logits(200, 2, temperature=2.0, random_state=1)
    of_two = started(learner, "fit", X, y).partial_fit(X[LATER], y[LATER])
    M = X[:, 1:] - X[:, :1]
    of_one = started(learner, "fit", M, y).partial_fit(M[LATER], y[LATER])
    assert_allclose(of_one.predict_proba(M), of_two.predict_proba(X), rtol=1e-6)
