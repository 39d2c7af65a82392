"""TemperatureScaling: its own numbers, its oracles, and data without an optimum."""

import numpy as np
import pytest
from families import quiet, warnings_of
from hypothesis import assume, given, strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning

from skcalib import TemperatureScaling, VectorScaling
from skcalib.datasets import make_logits


def literal_loss(T, Z, y, w=None):
    """Log loss at temperature T, as the paper has it."""
    return -np.average(log_softmax(Z / T, axis=1)[np.arange(len(y)), y], weights=w)


def smoothed_loss(T, Z, y, w=None):
    """Log loss at temperature T for targets smoothed by 1/(N + 1) over the finite logits."""
    N = len(y) if w is None else np.sum(w)
    finite = np.isfinite(Z)
    targets = finite / finite.sum(axis=1, keepdims=True) / (N + 1)
    targets[np.arange(len(y)), y] += N / (N + 1)
    logs = np.where(finite, log_softmax(Z / T, axis=1), 0)
    return -np.average((targets * logs).sum(axis=1), weights=w)


def smoothed_targets(Z, y, w=None):
    return brute_force(Z, y, w, loss=smoothed_loss)


def brute_force(Z, y, w=None, loss=literal_loss):
    """Minimum of the loss over log T: a grid, then a search around the best cell."""
    grid = np.linspace(-30, 30, 601)
    best = grid[np.argmin([loss(np.exp(u), Z, y, w) for u in grid])]
    found = minimize_scalar(
        lambda u: loss(np.exp(u), Z, y, w),
        bounds=(best - 0.1, best + 0.1),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return np.exp(found.x)


@pytest.mark.slow
@given(
    n_samples=st.integers(30, 200),
    n_classes=st.integers(2, 8),
    temperature=st.floats(0.1, 10),
    scale=st.sampled_from([1e-8, 1e-3, 1.0, 1e4]),
    weighted=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_temperature_matches_brute_force(n_samples, n_classes, temperature, scale, weighted, seed):
    Z, y = make_logits(n_samples, n_classes, temperature=temperature, random_state=seed)
    w = np.random.default_rng(seed).uniform(0.1, 3, n_samples) if weighted else None
    plain = TemperatureScaling(smoothing=0, classes=range(n_classes))
    assume(not warnings_of(plain.fit, scale * Z, y, w))  # by chance there is no optimum
    # The search by values of the loss can do no better than the root of the rounding error.
    assert plain.temperature_ == pytest.approx(scale * brute_force(Z, y, w), rel=1e-6)


@pytest.mark.parametrize("n_samples", [300, 40_000])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_the_slope_of_the_loss_vanishes(n_samples, n_classes):
    Z, y = make_logits(n_samples, n_classes, random_state=0)
    T = TemperatureScaling().fit(Z, y).temperature_
    P = softmax(Z / T, axis=1)
    P[np.arange(n_samples), y] -= 1
    assert abs((P * Z).sum(axis=1).mean()) < 1e-9


# --------------------------------------------------------------------------------------
# No optimum: a warning with a remedy, and sensible probabilities.


def fit_warned(Z, y, message, **params):
    with pytest.warns(ConvergenceWarning, match=message):
        return TemperatureScaling(**params).fit(Z, y)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_separable(scale):
    Z = scale * np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]])
    y = np.array([0, 1, 0])
    calibrator = fit_warned(Z, y, "separable rows.*not trained on", smoothing=0)
    assert calibrator.temperature_ == pytest.approx(smoothed_targets(Z, y), rel=1e-6)
    # The mean distance to the other class, 5/3, is an expectation under the probabilities.
    wrong = calibrator.predict_proba(Z)[np.arange(3), 1 - y]
    assert wrong @ [2, 1, 2] == pytest.approx(5 * 1 / 4 / 2, rel=1e-9)


def test_separable_rows_with_a_tie():
    Z = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    calibrator = fit_warned(Z, [0, 1, 0], "separable rows")
    assert calibrator.temperature_ == pytest.approx(smoothed_targets(Z, [0, 1, 0]), rel=1e-6)


@pytest.mark.parametrize("n_samples", [50, 10_000])
@pytest.mark.filterwarnings("ignore::families.ColumnOrderWarning")
def test_no_better_than_chance(n_samples):
    Z, y = make_logits(n_samples, 3, random_state=0)
    calibrator = fit_warned(-Z, y, "no better than chance.*order of the classes")
    assert np.isfinite(calibrator.temperature_)
    np.testing.assert_allclose(calibrator.predict_proba(Z), 1 / 3, atol=1e-5)


def test_logits_that_underflow_count_as_constant():
    Z = np.random.default_rng(0).normal(size=(60, 3))
    fit_warned(1e-310 * Z, Z.argmax(axis=1), "logits of each row are all equal")


def test_constant_logits():
    """Constant logits carry no information; other libraries give T = -69, 2e4 or 9e6."""
    calibrator = fit_warned(np.full((6, 3), 5.0), [0, 1, 2] * 2, "logits of each row are all equal")
    assert calibrator.temperature_ == 1
    np.testing.assert_allclose(calibrator.predict_proba([[5.0, 5.0, 5.0]]), 1 / 3)


@pytest.mark.parametrize("kind", [TemperatureScaling, VectorScaling])
def test_slope_at_zero_that_only_rounding_makes_negative(kind):
    """Ten rows are tied. The slopes of the other four cancel up to rounding at scale 0."""
    Z = np.zeros((14, 3))
    Z[6, 2] = Z[10, 0] = Z[13, 2] = -1e4
    y = np.array([0, 1, 2] * 2 + [0] * 8)
    calibrator = quiet(kind(classes=[0, 1, 2]), Z, y)
    assert 1e5 < calibrator.temperature_ < np.inf
    assert np.isfinite(calibrator.predict_log_proba(Z)).all()


@pytest.mark.parametrize("weight", [1, 2, 3, 7])
@pytest.mark.parametrize(("scale", "n_classes"), [(0.1, 11), (0.3, 7), (0.7, 9), (3.0, 9)])
def test_temperature_matches_no_better_than_chance_where_only_rounding_tells(
    scale, n_classes, weight
):
    """One row of each class, and each class is predicted once: the slope at 0 is 0."""
    Z = scale * np.eye(n_classes)[::-1]
    weights = np.full(n_classes, weight)
    with pytest.warns(ConvergenceWarning, match="no better than chance"):
        calibrator = TemperatureScaling().fit(Z, range(n_classes), weights)
    assert calibrator.temperature_ == pytest.approx(1e6 * scale)
